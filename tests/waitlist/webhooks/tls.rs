//! Endpoints behind TLS: what is believed, and that nothing is sent to whoever is not who they should be.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use fairlist::domain::transition::Kind;
use fairlist::domain::webhook::DeliveryState;
use fairlist::tls::Trust;
use fairlist::webhooks::Settings;

use super::{Told, Wire, sender};
use crate::harness::database::secret;
use crate::harness::tls::{Authority, Identity, TlsFront};

/// Somebody joins, and `https://shop.example`, which leads to the front, is to be told.
async fn told(wire: &mut Wire, shown: Identity, believed: Trust) -> (TlsFront, (DeliveryState, String)) {
    let front = TlsFront::before(wire.receiver.address(), shown).await;
    let names = Arc::new(Told { to: vec!["127.0.0.1".parse().unwrap()], asked: AtomicUsize::new(0) });
    let settings = Settings { names, ..Settings::new(secret()).private(true).trusting(believed) };
    wire.sender = sender(&wire.world, settings);
    let url = format!("https://shop.example:{}/hook", front.port());
    let id = wire.endpoint(&url, &[Kind::EntryWaiting]).await;
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    let (state, _, detail) = wire.newest(id).await;
    (front, (state, detail))
}

#[tokio::test]
async fn an_endpoint_whose_authority_is_trusted_is_sent_to() {
    let (mut wire, house) = (Wire::new().await, Authority::new());
    let (front, (state, _)) = told(&mut wire, house.identity("shop.example"), house.trust()).await;
    assert_eq!(state, DeliveryState::Delivered);
    assert_eq!((front.handshakes().good, front.handshakes().broken), (1, 0));
    assert_eq!(wire.receiver.received("/hook")[0].json()["type"], "entry.waiting");
}

#[tokio::test]
async fn to_whoever_is_not_who_they_should_be_nothing_is_sent() {
    let (house, namesake) = (Authority::new(), Authority::new());
    let another = Authority::called("Somebody Else");
    let cases = [
        (house.identity("shop.example"), Trust::default(), "not trusted (--extra-ca-certs adds one)"),
        (house.identity("shop.example"), another.trust(), "not trusted"),
        (house.identity("shop.example"), namesake.trust(), "not signed by"),
        (Identity::self_signed("shop.example"), Trust::default(), "signs itself"),
        (house.identity("elsewhere.example"), house.trust(), "for another name"),
        // The name counts, not where it leads.
        (house.identity("127.0.0.1"), house.trust(), "for another name"),
        (house.identity_until("shop.example", 2020), house.trust(), "expired"),
    ];
    for (shown, believed, why) in cases {
        let mut wire = Wire::new().await;
        let (front, (state, detail)) = told(&mut wire, shown, believed).await;
        assert_eq!(state, DeliveryState::Queued, "{why}: it is tried again");
        assert!(detail.starts_with("Nothing was sent: its certificate") && detail.contains(why), "{detail}");
        assert_eq!((front.handshakes().good, front.handshakes().broken), (0, 1), "{why}");
        assert!(wire.receiver.received("/hook").is_empty(), "{why}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_speak_tls_is_sent_nothing() {
    let mut wire = Wire::new().await;
    let url = format!("https://127.0.0.1:{}/hook", wire.receiver.port());
    let id = wire.endpoint(&url, &[Kind::EntryWaiting]).await;
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    assert!(wire.receiver.received("/hook").is_empty());
    let (_, _, detail) = wire.newest(id).await;
    assert!(detail.starts_with("Nothing was sent: TLS failed"), "{detail}");
}
