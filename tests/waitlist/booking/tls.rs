//! A booking service behind TLS: a key, a name and places go only to whoever can show that they are that service.

use fairlist::booking::Services;
use fairlist::domain::offer::OfferState;
use fairlist::domain::outside::ServiceUrl;
use fairlist::tls::Trust;
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};

use super::{Box_, patience};
use crate::harness::booking_service::KEY;
use crate::harness::tls::{Authority, Identity, TlsFront};

/// A box office whose service shows this, at `https://localhost`.
async fn behind(shown: Identity, believed: Trust) -> (Box_, TlsFront) {
    let mut office = Box_::new(1).await;
    let front = TlsFront::before(office.service.address, shown).await;
    office.world.waitlist = office.world.waitlist.clone().with_services(Services::new(patience(), believed));
    let url = ServiceUrl::parse(&format!("https://localhost:{}/", front.port())).expect("an address");
    let at = BookAt::Service { url, key: Some(KEY.to_owned()) };
    let world = &office.world;
    let saved = world.waitlist.set_booking(world.event, &at, world.actor()).await.expect("set");
    assert_eq!(saved, BookAtOutcome::Saved);
    (office, front)
}

#[tokio::test]
async fn a_service_whose_authority_is_trusted_books() {
    let house = Authority::new();
    let (office, front) = behind(house.identity("localhost"), house.trust()).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    let outcome = office.world.accept(offer.id, ann.person).await;
    assert_eq!(outcome, AcceptOutcome::Accepted { reference: "BOX-1".to_owned(), party: 1 });
    // Reserving and confirming went over one connection.
    assert_eq!((front.handshakes().good, front.handshakes().broken), (1, 0));
    assert_eq!((office.service.called("PUT"), office.service.called("confirm")), (1, 1));
    office.service.assert_equal(&office.world).await;
}

#[tokio::test]
async fn whoever_is_not_that_service_hears_nothing_and_the_offer_stays() {
    let (house, namesake) = (Authority::new(), Authority::new());
    let another = Authority::called("Somebody Else");
    let cases = [
        (house.identity("localhost"), Trust::default(), "not trusted (--extra-ca-certs adds one)"),
        (house.identity("localhost"), another.trust(), "not trusted"),
        (house.identity("localhost"), namesake.trust(), "not signed by"),
        (house.identity("booking.example"), house.trust(), "for another name"),
        (house.identity_until("localhost", 2020), house.trust(), "expired"),
    ];
    for (shown, believed, why) in cases {
        let (office, front) = behind(shown, believed).await;
        let (ann, offer) = office.offered("Ann", 1).await;
        let outcome = office.world.accept(offer.id, ann.person).await;
        assert_eq!(outcome, AcceptOutcome::ServiceUnavailable, "{why}");
        assert_eq!(office.world.live_offer(ann.id).await.state, OfferState::Pending, "{why}");
        // Another try would show the same.
        assert_eq!((front.handshakes().good, front.handshakes().broken), (0, 1), "{why}");
        assert_eq!(office.service.calls(), Vec::<String>::new(), "{why}");
        let db = office.world.waitlist.db();
        let service = db.booking_service(office.world.event).await.unwrap().unwrap();
        let circuit = db.circuit(service.organization, &service.url).await.unwrap();
        let (said, _) = circuit.last_error.expect("staff see why");
        assert!(
            said.starts_with("the service cannot be spoken to safely: its certificate") && said.contains(why),
            "{said}"
        );
    }
}
