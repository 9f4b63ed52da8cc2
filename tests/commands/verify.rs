//! `fairlist verify`: what it says of an audit as it was downloaded, and of one that somebody had in their hands.

use std::path::PathBuf;

use fairlist::domain::draw::file::{DrawFile, FORMAT};
use fairlist::domain::role::Role;
use fairlist::messages::smtp::Server;
use fairlist::messages::{self, Mailer, Outcome, Relay};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::harness::database::secret;
use crate::harness::desk::{Desk, says};
use crate::harness::smtp::SmtpServer;
use crate::harness::world::two_hours;
use crate::program::{Said, fairlist, run};

/// An audit with a note in it, as a viewer downloads it, and the head it had.
struct Download {
    directory: TempDir,
    text: String,
    records: i64,
    head: String,
}

impl Download {
    async fn new() -> Self {
        let desk = Desk::with(two_hours(), 2).await;
        let entries = desk.world.all_waiting(&["Otto", "Nina", "Paul"]).await;
        desk.world.settle().await;
        let mut agnes = desk.at_work("Agnes", Role::Agent).await;
        let offer = desk.world.live_offer(entries[0].id).await;
        let revoke = desk.path(&format!("/offers/{}/revoke", offer.id));
        agnes.get(&revoke).await;
        let note = "'=1+1;-2\n\"moved\", <b>away</b>";
        agnes.submit(&revoke, &[("after", "off_the_list"), ("reason", "other"), ("note", note)]).await;
        desk.world.settle().await;
        let mut viewer = desk.at_work("Viola", Role::Viewer).await;
        let answer = viewer.get(&desk.path("/audit.csv")).await;
        let (records, head) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");
        let directory = TempDir::new().expect("a directory");
        Self { directory, text: answer.body, records, head: hex::encode(head) }
    }

    fn lines(&self) -> Vec<&str> {
        self.text.split_inclusive('\n').collect()
    }

    /// The line on which that record begins; a note has two.
    fn line_of(&self, seq: i64) -> usize {
        let begins = format!("{seq},2027-");
        self.lines().iter().position(|line| line.starts_with(&begins)).expect("a record")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The command, where neither a database nor a data directory is to be had.
    async fn verify(&self, text: &str, more: &[&str]) -> Said {
        let path = self.file("audit.csv", text);
        let mut command = fairlist(&[&["verify", path.to_str().expect("a path")], more].concat());
        command.current_dir(self.directory.path());
        command.env("DATABASE_URL", "postgres://nobody:hidden@127.0.0.1:1/none");
        let said = run(command).await;
        assert!(!self.directory.path().join("data").exists(), "nothing is set up");
        assert!(!format!("{said:?}").contains("hidden"), "{said:?}");
        said
    }

    #[track_caller]
    fn unsound(said: &Said, parts: &[&str]) {
        assert_eq!(said.status.code(), Some(1), "{said:#?}");
        for part in parts {
            assert!(said.out.contains(part), "{part:?} is missing in {said:#?}");
        }
    }
}

#[tokio::test]
async fn a_sound_audit_is_said_to_be_so_with_what_only_an_anchor_can_tell() {
    let download = Download::new().await;
    let said = download.verify(&download.text, &[]).await.succeeded();
    for part in [
        format!("Sound: all {} records in the audit of event", download.records),
        format!("The last is record {}, written on 2027-03-01T09:00:00Z", download.records),
        format!("with the hash {}.", download.head),
        "Notes that are as they were written: 1.".to_owned(),
        "cut off at the end, or all of them written anew, a file alone cannot tell".to_owned(),
        "nothing seals them".to_owned(),
    ] {
        assert!(said.contains(&part), "{part:?} is missing in {said}");
    }
    let anchor = format!("{}:{}", download.records, download.head);
    let said = download.verify(&download.text, &["--anchor", &anchor]).await.succeeded();
    assert!(said.contains("It ends with the record of the anchor."), "{said}");
}

#[tokio::test]
async fn what_a_mailed_anchor_says_to_run_verifies_the_audit_and_finds_what_was_cut_off() {
    let desk = Desk::with(two_hours(), 2).await;
    desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let mut olga = desk.at_work("Olga", Role::Owner).await;
    let page = olga.get(&desk.path("/audit")).await;
    let mail = page.attribute("main form[action$='/audit/anchor']", "action").expect("a button");
    says(&olga.submit(&mail, &[]).await, "is being mailed to olga@staff.example.");
    // A real mail server takes it, beside those to customers.
    let server = SmtpServer::start().await;
    let relay = Relay {
        server: Server::parse(&format!("smtp://{}", server.address())).expect("an address"),
        from: "waitlist@fairlist.example".parse().expect("a sender"),
    };
    let settings = messages::Settings::new("http://localhost".parse().expect("a URL"), secret(), Some(relay));
    let mut mailer = Mailer::new(desk.world.database.db(), settings.into(), CancellationToken::new());
    while matches!(mailer.tick().await.expect("a tick"), Outcome::Worked(_)) {}
    let mail = server.next_mail_to("olga@staff.example").await;
    let text = mail.text();
    assert!(
        mail.header("subject").starts_with("Anchor of the audit of Spring Concert"),
        "{}",
        mail.header("subject")
    );
    assert!(mail.header("list-unsubscribe").is_empty() && !text.contains("/me"), "{text}");

    // Its command line, word for word, with its files.
    let line = text.lines().find(|line| line.starts_with("fairlist verify ")).expect("a command");
    let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let directory = TempDir::new().expect("a directory");
    let audit = olga.get(&desk.path("/audit.csv")).await.body;
    std::fs::write(directory.path().join(words[1]), &audit).expect("the audit");
    let verify = async |words: &[&str]| {
        let mut command = fairlist(words);
        command.current_dir(directory.path());
        run(command).await
    };
    let said = verify(&words).await.succeeded();
    assert!(said.contains("It ends with the record of the anchor."), "{said}");
    let file = &text[text.find('{').expect("a file")..=text.rfind('}').expect("its end")];
    std::fs::write(directory.path().join("spring-anchor.json"), file).expect("the anchor");
    let typed = std::mem::replace(&mut words[3], "spring-anchor.json");
    let said = verify(&words).await.succeeded();
    assert!(said.contains("the record of the anchor that was taken on 2027-03-01T09:00:00Z."), "{said}");
    let lines: Vec<&str> = audit.split_inclusive('\n').collect();
    std::fs::write(directory.path().join(words[1]), lines[..lines.len() - 1].concat()).expect("cut");
    for anchor in ["spring-anchor.json", typed] {
        words[3] = anchor;
        Download::unsound(&verify(&words).await, &["missing at the end"]);
    }
}

#[tokio::test]
async fn whatever_was_done_to_a_row_is_named_with_its_line() {
    let download = Download::new().await;
    let lines = download.lines();
    let fourth = download.line_of(4);
    let named = format!("Not sound. Line {}: ", fourth + 1);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut lines);
        lines.concat()
    };

    let altered = with(&|lines| lines[fourth] = lines[fourth].replace("place", "plane"));
    Download::unsound(
        &download.verify(&altered, &[]).await,
        &[&named, "Record 4 does not fit the one before it"],
    );
    let cell = with(&|lines| lines[fourth] = lines[fourth].replace("2027-", "2O27-"));
    Download::unsound(&download.verify(&cell, &[]).await, &[&named, "no record has such a “at”"]);
    let removed = with(&|lines| drop(lines.drain(fourth..fourth + 2)));
    Download::unsound(&download.verify(&removed, &[]).await, &[&named, "Records 4 to 5 are missing."]);
    let swapped = with(&|lines| lines.swap(fourth, fourth + 1));
    Download::unsound(&download.verify(&swapped, &[]).await, &[&named, "Record 5 comes before record 4"]);
    let doubled = with(&|lines| lines.insert(fourth, lines[fourth - 1].clone()));
    Download::unsound(&download.verify(&doubled, &[]).await, &[&named, "Record 3 is there twice."]);
    let note = download.text.replace("moved", "hated");
    Download::unsound(
        &download.verify(&note, &[]).await,
        &["The note of record", "is not the one that was written"],
    );
    let head = download.text.replace(&download.head, &download.head.chars().rev().collect::<String>());
    let last = format!("Record {} does not fit", download.records);
    Download::unsound(&download.verify(&head, &[]).await, &[&last]);
    let broken = &download.text[..download.text.len() - 40];
    Download::unsound(&download.verify(broken, &[]).await, &["or the file breaks off"]);
}

#[tokio::test]
async fn a_cut_end_is_found_against_an_anchor() {
    let download = Download::new().await;
    let cut = download.lines()[..download.line_of(download.records)].concat();
    download.verify(&cut, &[]).await.succeeded();
    let anchor = format!("{}:{}", download.records, download.head);
    let said = download.verify(&cut, &["--anchor", &anchor]).await;
    let missing = format!("record {} is missing at the end", download.records);
    Download::unsound(&said, &["Not sound. The file ends with record", &missing]);
    let other = format!("{}:{}", download.records - 1, download.head);
    let said = download.verify(&download.text, &["--anchor", &other]).await;
    Download::unsound(&said, &["is not the one of the anchor: the chain was written anew"]);
}

#[tokio::test]
async fn what_cannot_be_checked_ends_with_two() {
    let download = Download::new().await;
    let gone = run(fairlist(&["verify", "/no/such.csv"])).await;
    gone.failed(2, &["/no/such.csv: No such file"]);
    download.verify("name,email\nAnn,ann@example.org\n", &[]).await.failed(2, &["there is no column “seq”"]);
    download.verify("", &[]).await.failed(2, &["this is no audit as Fairlist writes it"]);
    download.verify("{\"x\": 1}", &[]).await.failed(2, &["neither an audit nor a draw"]);
    download
        .verify(&download.text, &["--anchor", "12:00"])
        .await
        .failed(2, &["a hash is 64 digits and letters"]);
    download.verify(&download.text, &["--anchor", "none.json"]).await.failed(2, &["none.json: No such file"]);
    let wrong = download.file("anchor.json", "{}");
    let wrong = ["--anchor", wrong.to_str().expect("a path")];
    download.verify(&download.text, &wrong).await.failed(2, &["this is not an anchor of the format"]);
}

/// Draw 2 of the vectors that a program of its own computed, as the page gives it.
fn draw() -> DrawFile {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../data/draws.json")).expect("the vectors");
    let vector = &vectors[1];
    let text = |name: &str| vector[name].as_str().expect("text").to_owned();
    let ids = |name: &str| serde_json::from_value(vector[name].clone()).expect("ids");
    DrawFile {
        format: FORMAT.to_owned(),
        event: "spring".to_owned(),
        draw: 1,
        cause: "need".to_owned(),
        pool: ids("pool"),
        pool_digest: text("pool_digest"),
        frozen_at: "2027-03-01T09:00:00Z".to_owned(),
        commitment: text("commitment"),
        link: 1,
        beacon: None,
        secret: Some(text("secret")),
        ranking: ids("ranking"),
        drawn_at: Some("2027-03-01T09:00:00Z".to_owned()),
    }
}

#[tokio::test]
async fn a_draw_is_known_by_its_content_and_drawn_again() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("file");
    let verify = async |draw: &DrawFile, more: &[&str]| {
        std::fs::write(&path, serde_json::to_string_pretty(draw).expect("JSON")).expect("a file");
        run(fairlist(&[&["verify", path.to_str().expect("a path")], more].concat())).await
    };
    let sound = draw();
    let said = verify(&sound, &[]).await.succeeded();
    for part in [
        "Sound: draw 1 of spring ranks the 12 entries of its pool by their tickets",
        &sound.pool_digest,
        &sound.commitment,
        "Without a beacon, whoever has the secrets could know the order",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }

    let mut swapped = sound.clone();
    swapped.ranking.swap(0, 1);
    Download::unsound(
        &verify(&swapped, &[]).await,
        &["Not sound: the order is not the one that was drawn: number 1 is"],
    );
    let mut smaller = sound.clone();
    smaller.pool.pop();
    Download::unsound(&verify(&smaller, &[]).await, &["the pool is not the one that was published"]);
    let waiting = DrawFile { secret: None, ranking: Vec::new(), ..sound.clone() };
    verify(&waiting, &[]).await.failed(2, &["nothing has been drawn yet"]);
    let pair = format!("1:{}", "00".repeat(32));
    verify(&sound, &["--anchor", &pair]).await.failed(2, &["An anchor is for an audit"]);
}
