//! What gives somebody a place, or opens a page of theirs, is in their mail and nowhere else.

use fairlist::domain::audit::Actor;
use fairlist::domain::complaint::{About, Words};
use nix::sys::signal::{Signal, kill};
use regex_lite::Regex;
use url::Url;

use crate::harness::database::{SECRET, TestDatabase};
use crate::harness::smtp::SmtpServer;
use crate::harness::world::{World, two_hours};
use crate::program::{Running, fairlist, get};

/// What operators read tells of the journey, knows every name that is watched for, and names nobody.
fn watched(metrics: &str, ids: &[String], tokens: &[(&str, String)]) {
    for line in [
        "fairlist_database_answers 1.0",
        "fairlist_release_to_offer_seconds_count 1",
        "fairlist_offer_delivery_seconds_count{channel=\"smtp\"} 1",
        "fairlist_waiting{event=\"spring\"} 1.0",
        "fairlist_complaints_open 1.0",
        "fairlist_complaints_lately{event=\"spring\"} 1.0",
        "fairlist_complaints_total{about=\"passed_over\"} 0",
        "fairlist_outbox_due 0.0",
        "fairlist_offers_overdue 0.0",
        "fairlist_audit_failures_total{how=\"written\"} 0",
    ] {
        assert!(metrics.lines().any(|served| served == line), "{line} is missing in {metrics}");
    }
    assert!(metrics.contains("fairlist_worker_silence_seconds{worker=\"passes\"}"), "{metrics}");
    assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
    let told = ids.iter().chain(tokens.iter().map(|(_, token)| token)).map(String::as_str);
    for secret in told.chain(["@example.org", "Ann", "Ben", "night"]) {
        assert!(!metrics.contains(secret), "{secret} in {metrics}");
    }

    let name = Regex::new("fairlist_[a-z_]+").expect("a pattern");
    for file in ["alerts.yml", "dashboard.json"] {
        let path = format!("{}/operations/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(file);
        let names: std::collections::BTreeSet<&str> =
            name.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(names.len() > 10, "{file} watches for {names:?}");
        for name in names {
            let served =
                |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert!(metrics.lines().any(served), "{file} watches for {name}, which is not served: {metrics}");
        }
    }
}

#[tokio::test]
async fn no_token_and_no_code_is_in_the_log_however_much_is_logged() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let server = SmtpServer::start().await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    let ben = world.waiting("Ben", 1).await;
    let words = Words::parse("I waited all night.").expect("words");
    let actor = Actor::Person(ben.person);
    world.waitlist.complain(world.event, ben.id, About::PassedOver, &words, actor).await.expect("written");
    let mut command = fairlist(&["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]);
    command.args(["--metrics-listen", "127.0.0.1:0"]);
    command
        .env("DATABASE_URL", world.database.url())
        .env("FAIRLIST_SECRET", SECRET)
        .env("FAIRLIST_SMTP_URL", format!("smtp://{}", server.address()))
        .env("FAIRLIST_MAIL_FROM", "tickets@example.org");
    let mut program = Running::start(command);
    let line = program.says("Metrics are at").await;
    let line: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    let metrics: Url = line["url"].as_str().expect("an address").parse().expect("a URL");
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
        let public = get(&url, "/metrics").await;
        assert!(public.starts_with("HTTP/1.1 404"), "metrics are for operators only: {public}");
        let metrics = get(&metrics, "/metrics").await;
        kill(pid, Signal::SIGTERM).expect("told to stop");
        (tokens, code, metrics)
    };
    let (log, (tokens, code, metrics)) = tokio::join!(program.everything(), story);
    watched(
        &metrics,
        &[ann.id.to_string(), ann.person.to_string(), ben.id.to_string(), code.clone()],
        &tokens,
    );

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
