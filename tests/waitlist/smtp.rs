//! The mail server of the harness: what lettre hands over is what a test reads, and it misbehaves as told.

use std::time::Duration;

use lettre::message::MultiPart;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};

use crate::harness::smtp::{Manner, SmtpServer};

async fn send(server: &SmtpServer) -> Result<(), lettre::transport::smtp::Error> {
    let message = Message::builder()
        .from("Konzerthaus <box-office@example.org>".parse().unwrap())
        .to("Žofie Nováková <zofie@example.org>".parse().unwrap())
        .subject("Ein Platz für dich — 見て")
        .multipart(MultiPart::alternative_plain_html(
            "Code 123456, see\n\n.http\nhttps://example.org/o/abc?x=1 für dich".to_owned(),
            "<p>für dich</p>".to_owned(),
        ))
        .unwrap();
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
        .port(server.address().port())
        .timeout(Some(Duration::from_secs(5)))
        .build();
    transport.send(message).await.map(drop)
}

#[tokio::test]
async fn a_mail_is_read_as_it_was_written() {
    let server = SmtpServer::start().await;
    send(&server).await.unwrap();
    let mail = server.next_mail_to("zofie@example.org").await;
    assert_eq!(mail.from, "box-office@example.org");
    assert_eq!(mail.header("subject"), "Ein Platz für dich — 見て");
    assert_eq!(mail.code(), "123456");
    assert_eq!(mail.link("https://example.org/o/"), "https://example.org/o/abc?x=1");
    assert!(mail.text().contains("\n.http\n") && mail.text().contains("für dich"));
    assert!(mail.html().contains("<p>für dich</p>"));
}

#[tokio::test]
async fn it_misbehaves_on_cue() {
    let server = SmtpServer::start().await;
    for (manner, code) in
        [(Manner::Greylist, 451), (Manner::RejectRecipient, 550), (Manner::Unavailable, 421)]
    {
        server.behave(manner);
        let error = send(&server).await.unwrap_err();
        assert_eq!(error.status().map(u16::from), Some(code), "{manner:?}: {error}");
    }
    for (manner, taken) in [(Manner::LoseAfterDot, 0), (Manner::CutAfterDot, 1)] {
        server.behave(manner);
        assert!(send(&server).await.is_err(), "{manner:?}");
        assert_eq!(server.mails().len(), taken, "{manner:?}");
    }
    for manner in [Manner::HangAtBanner, Manner::HangAtEhlo, Manner::HangAtData] {
        server.behave(manner);
        let (connections, before) = (server.connections(), server.mails().len());
        tokio::select! {
            result = send(&server) => panic!("{manner:?}: {result:?}"),
            () = server.misbehaved(connections + 1) => {}
        }
        assert_eq!(server.mails().len(), before);
    }
    server.behave(Manner::Willing);
    send(&server).await.unwrap();
}
