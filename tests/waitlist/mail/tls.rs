//! A mail server behind TLS, from the first byte or by STARTTLS: passwords and mails go only to the server of that name.

use std::sync::Arc;

use fairlist::messages::Relay;
use fairlist::messages::smtp::Server;
use fairlist::tls::Trust;

use super::{Office, settings};
use crate::harness::tls::{Authority, Identity, TlsFront};

/// How TLS begins, in an address and in a server.
const WAYS: [&str; 2] = ["smtps", "smtp"];

/// An office whose server shows this, at `localhost`.
async fn behind(way: &str, shown: Identity, believed: Trust) -> (Office, TlsFront) {
    let mut office = Office::open().await;
    let upstream = office.server.address();
    let front = match way {
        "smtps" => TlsFront::before(upstream, shown).await,
        _ => TlsFront::before_mail(upstream, shown).await,
    };
    let address = format!("{way}://localhost:{}?tls=required", front.port());
    let relay = Relay {
        server: Server::parse(&address).expect("an address").trusting(believed),
        from: "waitlist@fairlist.example".parse().expect("a sender"),
    };
    office.settings = Arc::new(settings(Some(relay)));
    (office, front)
}

#[tokio::test]
async fn a_server_whose_authority_is_trusted_is_handed_the_mail() {
    for way in WAYS {
        let house = Authority::new();
        let (office, front) = behind(way, house.identity("localhost"), house.trust()).await;
        let (_, message) = office.told("Ann").await;
        office.drain().await;
        assert_eq!(office.outcomes(message).await, ["accepted"], "{way}");
        assert_eq!((front.handshakes().good, front.handshakes().broken), (1, 0), "{way}");
        assert_eq!(office.server.mails().len(), 1, "{way}");
    }
}

#[tokio::test]
async fn another_server_is_handed_nothing_and_the_trouble_is_named() {
    let (house, namesake) = (Authority::new(), Authority::new());
    let another = Authority::called("Somebody Else");
    let cases = [
        (house.identity("localhost"), Trust::default(), "not trusted (--extra-ca-certs adds one)"),
        (house.identity("localhost"), another.trust(), "not trusted"),
        (house.identity("localhost"), namesake.trust(), "not signed by"),
        (house.identity("mail.example"), house.trust(), "for another name"),
        (house.identity_until("localhost", 2020), house.trust(), "expired"),
    ];
    for way in WAYS {
        for (shown, believed, why) in cases.clone() {
            let (office, front) = behind(way, shown, believed).await;
            let (_, message) = office.told("Ann").await;
            office.drain().await;
            assert!(office.server.mails().is_empty(), "{way}, {why}");
            assert_eq!(front.handshakes().good, 0, "{way}, {why}");
            assert_eq!(office.row(message).await.attempts, 0, "{way}, {why}: the message is not at fault");
            let trouble =
                office.world.waitlist.db().channel_trouble().await.expect("asked").expect("trouble");
            let said = trouble.reason;
            assert!(said.contains("cannot be spoken to safely") && said.contains(why), "{way}: {said}");
        }
    }
}
