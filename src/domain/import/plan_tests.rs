//! What a plan makes of a file, row by row.

use std::fmt::Write as _;

use chrono::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::domain::contact::{EmailError, NameError};

const PRETIX_EXPORT: &[u8] = include_bytes!("../../../tests/data/pretix-waitinglist.csv");

fn context() -> Context {
    Context {
        zone: chrono_tz::Europe::Berlin,
        largest_party: 10,
        now: Utc.with_ymd_and_hms(2026, 11, 20, 12, 0, 0).single().expect("an instant"),
    }
}

fn plan(file: &[u8], mapping: &[(Field, &str)]) -> Plan {
    let table = Table::open(file).expect("a table");
    let mapping = if mapping.is_empty() {
        Mapping::guess(&table)
    } else {
        let named: Vec<_> = mapping.iter().map(|(field, name)| (*field, (*name).to_owned())).collect();
        Mapping::name(&table, &named).expect("a mapping")
    };
    Plan::make(&table, &mapping, &context()).expect("a plan")
}

fn pretix() -> Plan {
    let table = Table::open(PRETIX_EXPORT).expect("a table");
    let mapping = Mapping::recognise(&table).expect("recognised");
    Plan::make(&table, &mapping, &context()).expect("a plan")
}

fn by_email<'p>(plan: &'p Plan, email: &str) -> &'p Planned {
    plan.people.iter().find(|person| person.email.value() == email).expect(email)
}

fn said<T: Clone>(reports: &[Reported<T>]) -> Vec<(usize, T)> {
    reports.iter().map(|report| (report.line, report.what.clone())).collect()
}

#[test]
fn the_real_export_is_taken_as_it_is() {
    let plan = pretix();
    assert_eq!(plan.rows, 1_200);
    assert_eq!(plan.count(PlannedState::Waiting), 1_158);
    assert_eq!(plan.count(PlannedState::Expired), 20);
    assert_eq!(
        counted(&plan.refused, Refusal::kind),
        [("already has a place elsewhere", 20), ("the same person again", 2)]
    );
    assert_eq!(
        counted(&plan.remarks, Remark::kind),
        [("voucher elsewhere", 20), ("line break in the name", 1)]
    );
    assert_eq!(plan.people.iter().filter(|person| person.phone.is_some()).count(), 399);
    assert_eq!(plan.people.iter().map(|person| person.priority).filter(|p| *p > 0).count(), 81);
    assert!(plan.people.iter().all(|person| person.party == 1));
    assert_eq!(plan.unused.len(), 10);
    assert!(plan.unused.contains(&"Date#2".to_owned()), "the second of two columns called Date");
}

#[test]
fn the_real_export_keeps_its_order_ties_by_place_in_the_file() {
    let plan = pretix();
    let key = |person: &Planned| (person.joined_at, person.line);
    assert!(plan.people.is_sorted_by(|a, b| key(a) < key(b)));
    assert!(plan.people.windows(2).any(|pair| pair[0].joined_at == pair[1].joined_at), "there are ties");
    let first: Vec<_> = plan.people.iter().take(3).map(|person| person.name.as_str()).collect();
    assert_eq!(first, ["王桂珍", "Cô Thảo Vũ", "Linda Baldwin-Allen"]);
    assert_eq!(
        plan.people[0].joined_at,
        Utc.with_ymd_and_hms(2026, 11, 2, 9, 0, 0).single(),
        "ten in Berlin in November"
    );
}

#[test]
fn the_real_export_counts_spellings_of_one_address_once() {
    let same: Vec<_> =
        pretix().refused.into_iter().filter(|r| matches!(r.what, Refusal::SamePerson { .. })).collect();
    // Line 68 holds a name of two lines, so that every row after it begins a line later.
    assert_eq!(
        said(&same),
        [(150, Refusal::SamePerson { line: 130 }), (190, Refusal::SamePerson { line: 170 })]
    );
    assert_eq!(same[0].who, "Anna Test <anna@gmail.com>");
    let plan = pretix();
    assert_eq!(by_email(&plan, "Mueller@Example.DE").name.as_str(), "MÜLLER");
    assert_eq!(by_email(&plan, "anna+concert@gmail.com").email.canonical(), "anna@gmail.com");
    let namesakes = plan.people.iter().filter(|person| person.name.as_str() == "John Smith").count();
    assert_eq!(namesakes, 2, "a name never identifies");
}

/// Names as in the export of pretix and in general CSV threads (frePPLe#385, helipad#55).
#[test]
fn the_real_export_has_strange_names_and_they_arrive_unchanged() {
    let plan = pretix();
    for (email, name) in [
        ("sheet@example.com", "=1+1"),
        ("cmd@example.org", "@cmd"),
        ("minus@example.org", "-2+3"),
        ("pat.obrien@example.com", "O'Brien, \"Pat\" Junior"),
        ("zofia.unlu@example.org", "Žofia Ünlü"),
        ("sqr348@example.org", "الدكتور ممتاز آل حسين"),
    ] {
        assert_eq!(by_email(&plan, email).name.as_str(), name);
    }
    let phone = by_email(&plan, "cgao0@example.org").phone.clone().expect("a number");
    assert_eq!(phone.value(), "+49 151 2215279");
    assert!(said(&plan.remarks).contains(&(68, Remark::LineBreakInName)));
}

#[test]
fn the_statuses_decide_what_becomes_of_a_row() {
    let plan = pretix();
    assert_eq!(by_email(&plan, "pnguyen1@example.org").state, PlannedState::Waiting, "assigned");
    assert!(said(&plan.remarks).contains(&(3, Remark::ForeignVoucher)));
    let file =
        b"name,email,status\nA,a@example.org,WAITING\nB,b@example.org,Expired\nC,c@example.org,redeemed\n\
        D,d@example.org,left\nE,e@example.org,who knows\nF,f@example.org,\n";
    let plan = plan_of(file);
    let states: Vec<_> = plan.people.iter().map(|person| (person.line, person.state)).collect();
    assert_eq!(states, [(2, PlannedState::Waiting), (3, PlannedState::Expired), (7, PlannedState::Waiting)]);
    assert_eq!(
        said(&plan.refused),
        [(4, Refusal::History), (5, Refusal::Gone), (6, Refusal::Status("who knows".to_owned()))]
    );
}

fn plan_of(file: &[u8]) -> Plan {
    plan(file, &[])
}

#[test]
fn any_other_file_is_read_by_naming_its_columns() {
    let file = "\u{FEFF}Wer;Adresse;Seit;Plätze\r\nŽofia;Z@Example.org;03.11.2026 09:00;2\r\n\
        李;li@example.org;02.11.2026 09:00;\r\n";
    let plan = plan(
        file.as_bytes(),
        &[(Field::Name, "wer"), (Field::Email, "Adresse"), (Field::Joined, "Seit"), (Field::Party, "Plätze")],
    );
    let people: Vec<_> =
        plan.people.iter().map(|person| (person.line, person.name.as_str(), person.party)).collect();
    assert_eq!(people, [(3, "李", 1), (2, "Žofia", 2)], "by time, not by place in the file");
}

#[test]
fn without_times_the_order_is_that_of_the_file() {
    let plan = plan_of(b"email,name\nz@example.org,Z\na@example.org,A\n");
    let lines: Vec<_> = plan.people.iter().map(|person| (person.line, person.joined_at)).collect();
    assert_eq!(lines, [(2, None), (3, None)]);
}

#[test]
fn what_cannot_be_taken_is_said_row_by_row() {
    let file = "name,email,party,date\n\
        ,,,\n\
        Doe, Jane,jane@example.org,1,2026-11-02\n\
        \"Max\"x,max@example.org,1,2026-11-02\n\
        No address,nowhere,1,2026-11-02\n\
        Literal,user@[1.2.3.4],1,2026-11-02\n\
        Quote,\"\"\"a\"\"@example.org\",1,2026-11-02\n\
        \u{202E}gnp,rlo@example.org,1,2026-11-02\n\
        None,none@example.org,0,2026-11-02\n\
        Crowd,crowd@example.org,10000,2026-11-02\n\
        Eleven,eleven@example.org,11,2026-11-02\n\
        When,when@example.org,1,11/02/2026\n\
        Never,never@example.org,1,\n";
    let plan = plan_of(file.as_bytes());
    assert!(plan.people.is_empty());
    let party = |found: &str| Refusal::Party { found: found.to_owned(), most: 10 };
    assert_eq!(
        said(&plan.refused),
        [
            (2, Refusal::Empty),
            (3, Refusal::Width { found: 5, expected: 4 }),
            (4, Refusal::StrayQuote),
            (5, Refusal::Email(EmailError::NotOne)),
            (6, Refusal::Email(EmailError::Literal)),
            (7, Refusal::Email(EmailError::LocalPart)),
            (8, Refusal::Name(NameError::TurnsTextAround)),
            (9, party("0")),
            (10, party("10000")),
            (11, party("11")),
            (12, Refusal::Joined(TimeError::Unreadable)),
            (13, Refusal::Joined(TimeError::Missing)),
        ]
    );
    assert_eq!(plan.refused[6].who, "\u{FFFD}gnp <rlo@example.org>", "safe to print");
}

#[test]
fn what_is_changed_or_assumed_is_said_row_by_row() {
    let file = "name,email,phone,priority,date,language\n\
        ,first.last@example.org,call me,high,2027-10-31 02:30,de\n\
        B,b@example.org,,,2026-03-29 02:30,<script>\n";
    let plan = plan_of(file.as_bytes());
    assert_eq!(
        said(&plan.remarks),
        [
            (2, Remark::NoName),
            (2, Remark::TimeDoubled),
            (2, Remark::TimeToCome),
            (2, Remark::PhoneLeftOut("call me".to_owned())),
            (2, Remark::PriorityLeftOut("high".to_owned())),
            (3, Remark::TimeSkipped),
        ]
    );
    assert_eq!(by_email(&plan, "first.last@example.org").name.as_str(), "first.last");
    assert_eq!(by_email(&plan, "first.last@example.org").language.as_deref(), Some("de"));
    assert_eq!(by_email(&plan, "b@example.org").language, None);
}

#[test]
fn a_quote_is_taken_off_only_before_a_formula() {
    let file = "name,email\n'=1+1,a@example.org\n'+1,b@example.org\n'-1,c@example.org\n'@x,d@example.org\n\
        'Quoted',e@example.org\n''=x,f@example.org\nO'Brien,g@example.org\n";
    let plan = plan_of(file.as_bytes());
    let names: Vec<_> = plan.people.iter().map(|person| person.name.as_str()).collect();
    assert_eq!(names, ["=1+1", "+1", "-1", "@x", "'Quoted'", "''=x", "O'Brien"]);
}

#[test]
fn an_expired_row_does_not_cost_its_person_the_place_of_a_newer_one() {
    let file = b"name,email,date,status\nOld,a@example.org,2026-01-01,expired\n\
        New,A+again@example.org,2026-02-01,waiting\nThird,a@example.org,2026-03-01,waiting\n";
    let plan = plan_of(file);
    assert_eq!(plan.people.iter().map(|person| person.line).collect::<Vec<_>>(), [3]);
    let same = Refusal::SamePerson { line: 3 };
    assert_eq!(said(&plan.refused), [(2, same.clone()), (4, same)]);
}

#[test]
fn whoever_is_on_the_list_is_left_out_and_named() {
    let mut plan = pretix();
    plan.leave_out(&[(3, EntryState::Withdrawn), (68, EntryState::Waiting)]);
    assert_eq!(plan.people.len(), 1_176);
    assert_eq!(counted(&plan.remarks, Remark::kind), [("voucher elsewhere", 19)]);
    assert_eq!(plan.refused[0].what, Refusal::Listed(EntryState::Withdrawn));
    assert_eq!(plan.people.len() + plan.refused.len(), plan.rows);
}

#[test]
fn two_events_in_one_export_are_refused() {
    let text = std::str::from_utf8(PRETIX_EXPORT).expect("text");
    let two = text.replacen("\"spring27\"", "\"autumn27\"", 1);
    let table = Table::open(two.as_bytes()).expect("a table");
    let mapping = Mapping::recognise(&table).expect("recognised");
    assert_eq!(
        Plan::make(&table, &mapping, &context()),
        Err(FileError::SeveralEvents { first: "autumn27".to_owned(), second: "spring27".to_owned() })
    );
}

#[test]
fn an_unclosed_quotation_mark_refuses_the_file_instead_of_swallowing_it() {
    let table =
        Table::open(b"name,email\nA,a@example.org\n\"B,b@example.org\nC,c@example.org\n").expect("a table");
    let mapping = Mapping::guess(&table);
    assert_eq!(Plan::make(&table, &mapping, &context()), Err(FileError::UnclosedQuote { line: 3 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every row is accounted for exactly once, nobody is taken twice, and remarks are about people taken.
    #[test]
    fn every_row_is_accounted_for_exactly_once(rows in prop::collection::vec((
        "[Aa李'=\u{202E} ]{0,3}",
        prop_oneof![4 => "[ab](\\+x)?@(example|Example)\\.org", 1 => "[a@. ]{0,5}"],
        prop_oneof![4 => "2026-1[01]-0[12]", 1 => "[0-9-]{0,8}"],
        prop_oneof![4 => "[0-3]", 1 => "[x9]{0,3}"],
        prop_oneof![3 => Just("waiting"), 1 => Just("expired"), 1 => Just("redeemed"), 1 => Just("?")],
        prop_oneof![9 => Just(""), 1 => Just(",more"), 1 => Just("\n")],
    ), 0..30)) {
        let mut file = "name,email,date,party,status\n".to_owned();
        for (name, email, date, party, status, more) in rows {
            writeln!(file, "\"{name}\",{email},{date},{party},{status}{more}").expect("a string");
        }
        let plan = plan_of(file.as_bytes());
        let table = Table::open(file.as_bytes()).expect("a table");
        let all: Vec<usize> = table.rows().map(|row| row.expect("a row").line).collect();
        let taken = plan.people.iter().map(|person| person.line);
        let mut accounted: Vec<usize> = taken.clone().chain(plan.refused.iter().map(|r| r.line)).collect();
        accounted.sort_unstable();
        prop_assert_eq!(&accounted, &all);
        prop_assert_eq!(plan.rows, all.len());
        let mut people: Vec<_> = plan.people.iter().map(|person| person.email.canonical()).collect();
        people.sort_unstable();
        prop_assert!(people.is_sorted_by(|a, b| a < b));
        prop_assert!(plan.remarks.iter().all(|remark| taken.clone().any(|line| line == remark.line)));
        let key = |person: &Planned| (person.joined_at, person.line);
        prop_assert!(plan.people.is_sorted_by(|a, b| key(a) < key(b)));
    }

    /// Whatever bytes are uploaded, with whatever columns named, planning ends without a panic.
    #[test]
    fn any_bytes_are_planned_or_refused(bytes in prop::collection::vec(prop_oneof![
        6 => prop::sample::select(b"\",;\r\n a@.b'=\xC3\xBC1".to_vec()), 1 => any::<u8>()], 0..300)) {
        let mut file = b"name,email,date,party,status,phone,priority,language\n".to_vec();
        file.extend(bytes);
        if let Ok(table) = Table::open(&file) {
            let _ = Plan::make(&table, &Mapping::guess(&table), &context());
        }
    }
}
