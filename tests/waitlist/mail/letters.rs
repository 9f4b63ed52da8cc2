//! Every letter, word for word.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use fairlist::db::background::{Background, BackgroundCode, BackgroundEvent, BackgroundOffer};
use fairlist::domain::audit::anchor::Anchor;
use fairlist::domain::ids::{ContactId, EntryId, EventId, OfferId, PersonId};
use fairlist::domain::message::{Facts, Occasion};
use fairlist::domain::offer::OfferState;
use fairlist::messages::Show;
use fairlist::messages::letter::{self, Letter};
use uuid::Uuid;

use super::settings;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn around(zone: Tz) -> Background {
    Background {
        person: Some(PersonId(Uuid::from_u128(1))),
        person_name: "Žofia Ünlü".to_owned(),
        news_stopped: false,
        organization_name: "House of Music".to_owned(),
        organization_contact: "box-office@house.example".to_owned(),
        event: Some(BackgroundEvent {
            name: "Spring Concert".to_owned(),
            slug: "spring".to_owned(),
            venue: "Great Hall".to_owned(),
            zone,
            starts_at: Some(at("2027-03-28T17:00:00Z")),
        }),
        entry: Some(EntryId(Uuid::from_u128(2))),
        contact: Some((Some(ContactId(Uuid::from_u128(3))), "zofia@example.org".to_owned())),
        offer: Some(BackgroundOffer {
            id: OfferId(Uuid::from_u128(4)),
            state: OfferState::Pending,
            made_at: at("2027-03-27T22:30:00Z"),
            expires_at: at("2027-03-28T00:30:00Z"),
            reactivations: 0,
        }),
        code: Some(BackgroundCode { expires_at: at("2027-03-01T09:10:00Z"), used: false }),
    }
}

fn facts(occasion: Occasion) -> Facts {
    let reference = matches!(occasion, Occasion::Accepted | Occasion::BookingCancelled);
    let of = Some(EventId(Uuid::from_u128(6)).into());
    let anchor = Anchor { of, seq: 1_234, hash: [7; 32], at: Some(at("2027-03-01T09:00:00Z")) };
    Facts {
        entry: Some(Uuid::from_u128(2)),
        offer: Some(Uuid::from_u128(4)),
        party: Some(2),
        labels: vec!["B12".to_owned(), "B13".to_owned()],
        expires_at: Some(at("2027-03-28T00:30:00Z")),
        reference: reference.then(|| "K7Q-M2X".to_owned()),
        entry_state: None,
        position: Some(14),
        reason: None,
        open: Some(3),
        is_final: Some(true),
        reactivations: None,
        complaint: Some("I was first.\nBefore ten.".to_owned()),
        answer: Some("You were second: the first joined at nine.\u{2028}\nWe checked.".to_owned()),
        anchor: anchor.to_json(),
    }
}

fn write(occasion: Occasion, facts: &Facts, around: &Background, show: Show) -> Letter {
    let mut around = around.clone();
    if occasion == Occasion::Anchor {
        // To one of the staff, who is no customer.
        (around.person, around.entry) = (None, None);
    }
    letter::write(&settings(None), occasion, Uuid::from_u128(5), facts, &around, show).expect("a letter")
}

#[test]
fn every_occasion_says_what_it_should() {
    for occasion in Occasion::ALL {
        let letter = write(*occasion, &facts(*occasion), &around(chrono_tz::Europe::Berlin), Show::Revealed);
        insta::assert_snapshot!(
            format!("{occasion}_text"),
            format!("Subject: {}\n\n{}", letter.subject, letter.text)
        );
        insta::assert_snapshot!(format!("{occasion}_html"), letter.html);
    }
}

#[test]
fn who_stays_on_the_list_is_told_so() {
    for occasion in [Occasion::Declined, Occasion::Lapsed, Occasion::Revoked] {
        let stays = Facts { entry_state: Some("waiting".to_owned()), ..facts(occasion) };
        let letter = write(occasion, &stays, &around(chrono_tz::Europe::Berlin), Show::Revealed);
        insta::assert_snapshot!(format!("{occasion}_stays_text"), letter.text);
    }
    let booked = Facts { reference: Some("K7Q-M2X".to_owned()), ..facts(Occasion::EventCancelled) };
    let letter = write(Occasion::EventCancelled, &booked, &around(chrono_tz::Europe::Berlin), Show::Revealed);
    insta::assert_snapshot!("event_cancelled_booked_text", letter.text);
}

#[test]
fn staff_who_read_what_was_mailed_see_no_token_and_no_code() {
    let around = around(chrono_tz::Europe::Berlin);
    let settings = settings(None);
    let secrets = [
        settings.secret.offer_token(OfferId(Uuid::from_u128(4)), 0),
        settings.secret.code_digits(fairlist::domain::ids::CodeId(Uuid::from_u128(5))),
        settings.secret.unsubscribe_token(around.person.expect("a customer")),
    ];
    let mut seen = [false; 3];
    for occasion in Occasion::ALL {
        let revealed = write(*occasion, &facts(*occasion), &around, Show::Revealed);
        let masked = write(*occasion, &facts(*occasion), &around, Show::Masked);
        for (secret, seen) in secrets.iter().zip(&mut seen) {
            let holds = |letter: &Letter| {
                letter.text.contains(secret)
                    || letter.html.contains(secret)
                    || letter.subject.contains(secret)
                    || letter.unsubscribe.as_ref().is_some_and(|link| link.contains(secret))
            };
            *seen |= holds(&revealed);
            assert!(!holds(&masked), "{occasion}");
        }
    }
    assert_eq!(seen, [true; 3], "the mails themselves hold them");
}

/// The kind of fault in comlounge/camper#137: a waiter's mail that was the mail of somebody with a place. Whatever
/// facts a message carries, only the two occasions of a booking show its reference or its place.
#[test]
fn only_whoever_has_a_place_is_told_how_to_use_it() {
    let around = around(chrono_tz::Europe::Berlin);
    for occasion in Occasion::ALL {
        let everything = Facts { reference: Some("K7Q-M2X".to_owned()), ..facts(*occasion) };
        let letter = write(*occasion, &everything, &around, Show::Revealed);
        let says = |what: &str| letter.text.contains(what) || letter.html.contains(what);
        let has_place = *occasion == Occasion::Accepted;
        assert_eq!(says("Great Hall"), has_place, "{occasion}");
        let names_booking =
            has_place || matches!(occasion, Occasion::BookingCancelled | Occasion::EventCancelled);
        assert_eq!(says("K7Q-M2X"), names_booking, "{occasion}");
        let claimable =
            matches!(occasion, Occasion::Offer | Occasion::Call | Occasion::StartMoved | Occasion::Extended);
        assert_eq!(says("/o/"), claimable, "{occasion}");
    }
}

/// The kind of fault in pretix/pretix#837: mails without a way to leave.
#[test]
fn every_mail_has_a_link_to_see_and_to_leave() {
    let around = around(chrono_tz::Europe::Berlin);
    let link = format!("https://fairlist.example/me/entries/{}", Uuid::from_u128(2));
    for occasion in Occasion::ALL {
        let letter = write(*occasion, &facts(*occasion), &around, Show::Revealed);
        if *occasion == Occasion::Anchor {
            // Asked for by one of the staff: no list to leave.
            assert!(
                !letter.text.contains("/me") && !letter.html.contains("/me") && letter.unsubscribe.is_none()
            );
            continue;
        }
        assert!(letter.text.contains(&link) && letter.html.contains(&link), "{occasion}");
        assert_eq!(letter.unsubscribe.is_some(), !occasion.is_essential(), "{occasion}");
    }
}

#[test]
fn instants_have_the_offset_of_their_date_in_the_events_zone() {
    let subject = |zone, expires_at| {
        let mut around = around(zone);
        let offer = around.offer.as_mut().expect("an offer");
        offer.expires_at = at(expires_at);
        write(Occasion::Offer, &facts(Occasion::Offer), &around, Show::Revealed).subject
    };
    let berlin = chrono_tz::Europe::Berlin;
    for (zone, instant, written) in [
        (berlin, "2027-03-28T00:59:00Z", "Sun 28 Mar 2027, 01:59 (CET, UTC+01:00)"),
        (berlin, "2027-03-28T01:00:00Z", "Sun 28 Mar 2027, 03:00 (CEST, UTC+02:00)"),
        (berlin, "2027-10-31T00:30:00Z", "Sun 31 Oct 2027, 02:30 (CEST, UTC+02:00)"),
        (berlin, "2027-10-31T01:30:00Z", "Sun 31 Oct 2027, 02:30 (CET, UTC+01:00)"),
        (chrono_tz::Asia::Kathmandu, "2027-03-28T00:59:00Z", "Sun 28 Mar 2027, 06:44 (UTC+05:45)"),
    ] {
        assert_eq!(subject(zone, instant), format!("2 places at Spring Concert for you, until {written}"));
    }
}

#[test]
fn a_deadline_that_moved_is_told_as_it_is_now() {
    let mut around = around(chrono_tz::UTC);
    let stale = facts(Occasion::Offer);
    let offer = around.offer.as_mut().expect("an offer");
    offer.expires_at = at("2027-03-27T12:00:00Z");
    let letter = write(Occasion::Offer, &stale, &around, Show::Revealed);
    assert!(letter.text.contains("Sat 27 Mar 2027, 12:00 (UTC)"), "{}", letter.text);
}

#[test]
fn a_letter_about_the_past_is_no_longer_sent() {
    let now = at("2027-03-01T09:00:00Z");
    let still = |change: fn(&mut Background), occasion, facts: &Facts| {
        let mut around = around(chrono_tz::UTC);
        change(&mut around);
        letter::no_longer_true(occasion, facts, &around, now).is_none()
    };
    let plain = Facts::default();
    let again = Facts { reactivations: Some(1), ..Facts::default() };
    let offer = |around: &mut Background| around.offer.as_mut().expect("an offer").reactivations = 1;
    assert!(still(|_| (), Occasion::Offer, &plain));
    assert!(still(offer, Occasion::Offer, &again));
    assert!(!still(|_| (), Occasion::Offer, &again), "another message tells of it");
    assert!(!still(|around| around.offer = None, Occasion::Offer, &plain));
    for state in OfferState::ALL {
        let mut around = around(chrono_tz::UTC);
        around.offer.as_mut().expect("an offer").state = *state;
        let true_still = letter::no_longer_true(Occasion::Offer, &plain, &around, now).is_none();
        assert_eq!(true_still, *state == OfferState::Pending, "{state}");
    }
    let mut around = around(chrono_tz::UTC);
    let deadline = around.offer.as_ref().expect("an offer").expires_at;
    let one = chrono::Duration::microseconds(1);
    assert!(letter::no_longer_true(Occasion::Offer, &plain, &around, deadline - one).is_none());
    assert!(letter::no_longer_true(Occasion::Offer, &plain, &around, deadline).is_some());
    around.news_stopped = true;
    for occasion in Occasion::ALL {
        let quiet = letter::no_longer_true(*occasion, &plain, &around, now).is_some();
        assert_eq!(quiet, !occasion.is_essential(), "{occasion}");
    }
}
