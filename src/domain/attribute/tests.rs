//! What is wanted and what is said, read from forms and told in words.

use super::*;

fn attributes() -> Vec<Attribute> {
    let area = Attribute::new("Area", Measure::Choice, "Stalls\nBalcony\n\nBox", &[]).expect("a choice");
    let price = Attribute::new("Price", Measure::Number, "", &[]).expect("a number");
    let day = Attribute::new("Day", Measure::Date, "", &[]).expect("a day");
    vec![area, price, day]
}

fn typed(fields: &[(&str, &str)]) -> Typed {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn said(area: &str, price: &str, day: &str) -> Said {
    let fields = typed(&[("said.area", area), ("said.price", price), ("said.day", day)]);
    Said::parse(&attributes(), &fields).expect("values")
}

fn wants(fields: &[(&str, &str)]) -> Wants {
    Wants::parse(&attributes(), &typed(fields)).expect("wants")
}

#[test]
fn any_of_at_most_and_between_are_met_by_what_lies_in_them() {
    let stalls = said("Stalls", "45", "2027-03-31");
    for (fields, met) in [
        (&[][..], true),
        (&[("want.area.Stalls", "on"), ("want.area.Box", "on")], true),
        (&[("want.area.Balcony", "on")], false),
        // All of them are as good as none, and a choice that does not exist says nothing.
        (&[("want.area.Balcony", "on"), ("want.area.Stalls", "on"), ("want.area.Box", "on")], true),
        (&[("want.area.Roof", "on")], true),
        (&[("want.price.max", "45")], true),
        (&[("want.price.max", "44.99")], false),
        (&[("want.price.min", "45.01")], false),
        (&[("want.price.min", "40"), ("want.price.max", "50")], true),
        (&[("want.day.from", "2027-03-31"), ("want.day.to", "2027-03-31")], true),
        (&[("want.day.from", "2027-04-01")], false),
        (&[("want.day.to", "2027-03-30")], false),
        (&[("want.price.max", "45"), ("want.area.Box", "on")], false),
    ] {
        assert_eq!(wants(fields).are_met_by(&stalls), met, "{fields:?}");
    }
    let silent = Said::default();
    assert!(Wants::default().are_met_by(&silent));
    assert!(!wants(&[("want.price.max", "45")]).are_met_by(&silent), "nothing is said of the price");
}

#[test]
fn what_was_typed_comes_back_and_reads_well() {
    let all = wants(&[
        ("want.area.Box", "on"),
        ("want.area.Stalls", "on"),
        ("want.price.max", "12,5"),
        ("want.day.from", "2027-03-31"),
    ]);
    assert_eq!(
        all.words(&attributes()),
        "Area: Stalls or Box; Price: at most 12.50; Day: from 31 March 2027 on"
    );
    assert_eq!(Wants::parse(&attributes(), &all.typed()), Ok(all));
    assert_eq!(Wants::default().words(&attributes()), "");
    let said = said("Box", "-7.05", "");
    assert_eq!(said.words(&attributes()), "Area: Box, Price: -7.05");
    assert_eq!(Said::parse(&attributes(), &said.typed()), Ok(said));
}

#[test]
fn what_cannot_be_read_is_named_at_its_field() {
    let problems = Wants::parse(
        &attributes(),
        &typed(&[
            ("want.price.min", "9"),
            ("want.price.max", "8"),
            ("want.day.from", "yesterday"),
            ("want.day.to", "2027-02-30"),
        ]),
    );
    let fields: Vec<String> = problems.expect_err("wrong").into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["want.price.max", "want.day.from", "want.day.to"]);
    for text in ["1.234", "ten", "1e3", "9999999999", ".5", "5.", "--1", "٣"] {
        let fields = typed(&[("said.price", text)]);
        assert_eq!(
            Said::parse(&attributes(), &fields),
            Err(vec![("said.price".to_owned(), NOT_A_NUMBER)]),
            "{text}"
        );
    }
    assert!(Said::parse(&attributes(), &typed(&[("said.area", "Roof")])).is_err());
}

#[test]
fn attributes_have_names_keys_of_their_own_and_choices_that_differ() {
    let taken = attributes();
    let again = Attribute::new("Área", Measure::Number, "x", &taken).expect("a number");
    assert_eq!((again.key.as_str(), again.choices.len()), ("area-2", 0));
    assert_eq!(Attribute::new(" ", Measure::Number, "", &[]), Err(AttributeError::Name));
    assert_eq!(Attribute::new(&"x".repeat(61), Measure::Date, "", &[]), Err(AttributeError::Name));
    for choices in ["", "One", "A\nA"] {
        assert_eq!(Attribute::new("Area", Measure::Choice, choices, &[]), Err(AttributeError::Choices));
    }
    let renamed = taken[0].renamed("Where", "Balcony\nStalls").expect("a choice");
    assert_eq!((renamed.key.as_str(), renamed.choices.len()), ("area", 2));
}
