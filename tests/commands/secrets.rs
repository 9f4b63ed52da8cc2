//! What gives somebody a place, or opens a page of theirs, is in their mail and nowhere else.

use nix::sys::signal::{Signal, kill};
use regex_lite::Regex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use crate::harness::database::{SECRET, TestDatabase};
use crate::harness::smtp::SmtpServer;
use crate::harness::world::{World, two_hours};
use crate::program::{Running, fairlist};

/// Asks for an address as a browser does that comes from there, and gives the answer as it was sent.
async fn get(program: &Url, address: &str) -> String {
    let port = program.port().expect("a port");
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    let request = format!(
        "GET {address} HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost{address}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.expect("asked");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("answered");
    answer
}

#[tokio::test]
async fn no_token_and_no_code_is_in_the_log_however_much_is_logged() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let server = SmtpServer::start().await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    let mut command = fairlist(&["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]);
    command
        .env("DATABASE_URL", world.database.url())
        .env("FAIRLIST_SECRET", SECRET)
        .env("FAIRLIST_SMTP_URL", format!("smtp://{}", server.address()))
        .env("FAIRLIST_MAIL_FROM", "tickets@example.org");
    let mut program = Running::start(command);
    program.says("Fairlist is at").await;
    let (url, pid) = (program.url().parse().expect("a URL"), program.pid());
    let secret = world.waitlist.secret();

    // Ann is mailed an offer and a code; what her links open is opened.
    let story = async {
        while !server.next_mail().await.text().contains("/o/") {}
        let offer = world.live_offer(ann.id).await.id;
        let asked = world.waitlist.send_code(ann.person, Some(world.event)).await.expect("a code");
        let code = secret.code_digits(asked);
        while !server.next_mail().await.text().contains(&code) {}
        let tokens = [
            ("/o", secret.offer_token(offer, 0)),
            ("/unsubscribe", secret.unsubscribe_token(ann.person)),
            ("/staff/link", "5eed".repeat(16)),
        ];
        for (below, token) in &tokens {
            let answer = get(&url, &format!("{below}/{token}")).await;
            let right = answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 303");
            assert!(right, "{below}: {answer}");
        }
        kill(pid, Signal::SIGTERM).expect("told to stop");
        (tokens, code)
    };
    let (log, (tokens, code)) = tokio::join!(program.everything(), story);

    assert!(log.iter().any(|line| line.contains("/o/{token}")), "requests are logged by their route");
    assert!(log.iter().any(|line| line.contains("TRACE")), "everything is logged");
    for (below, token) in &tokens {
        let told: Vec<&String> = log.iter().filter(|line| line.contains(token)).collect();
        assert!(told.is_empty(), "the token of {below} in {told:#?}");
    }
    // An instant or an id may have the same digits.
    let code = Regex::new(&format!("(^|[^0-9a-z.]){code}([^0-9a-zZ.]|$)")).expect("a pattern");
    let told: Vec<&String> = log.iter().filter(|line| code.is_match(line)).collect();
    assert!(told.is_empty(), "{code} in {told:#?}");
}
