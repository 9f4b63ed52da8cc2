//! Bringing in a list in the browser: upload, preview, start, report; and files that cannot be one.

use axum::body::Body;
use axum::http::Method;
use fairlist::domain::ids::EventId;
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::import::{Importer, Progress, Tick};

use crate::harness::site::Site;
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::add_event;

const PRETIX_EXPORT: &[u8] = include_bytes!("../data/pretix-waitinglist.csv");
const BOUNDARY: &str = "----a-boundary-of-the-browser";

/// A site with an event, a manager at work, and where the import begins.
async fn at_work() -> (Site, Visitor, EventId, String) {
    let site = Site::new().await;
    let manager = site.staff("manager@example.org", Role::Manager).await;
    let organization =
        site.database.db().staff_member(manager).await.expect("asked").expect("the manager").organization;
    let waitlist = Waitlist::new(site.database.db().clone(), site.state.secret.clone());
    let event = add_event(&waitlist, organization, manager, "spring", Policy::first()).await;
    let visitor = site.signed_in("manager@example.org").await;
    (site, visitor, event, format!("/staff/events/{event}/import"))
}

/// What a browser sends before and after a file.
fn around(token: &str, name: &str) -> (String, String) {
    let before = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"form_token\"\r\n\r\n{token}\r\n--{BOUNDARY}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/csv\r\n\r\n"
    );
    (before, format!("\r\n--{BOUNDARY}--\r\n"))
}

async fn send(visitor: &mut Visitor, path: &str, body: Body) -> Answer {
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers = [("content-type", kind.as_str()), ("sec-fetch-site", "same-origin")];
    visitor.send(Method::POST, path, body, &headers).await
}

/// Chooses a file on the upload page.
async fn upload(visitor: &mut Visitor, path: &str, bytes: &[u8]) -> Answer {
    let page = visitor.get(path).await;
    let token = page.attribute("input[name=form_token]", "value").expect("a token");
    let (before, after) = around(&token, "my list.csv");
    let body = [before.as_bytes(), bytes, after.as_bytes()].concat();
    send(visitor, path, Body::from(body)).await
}

/// The worker carries imports to their end.
async fn carried_on(site: &Site) {
    let mut importer = Importer::new(site.database.db());
    while let Tick::Stepped(Progress { .. }) = importer.tick().await.expect("a tick") {}
}

async fn number(site: &Site, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(site.database.sql()).await.expect(sql)
}

/// The hidden fields of the form that starts the import, and more.
fn chosen<'a>(page: &Answer, more: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
    let fields = ["name", "email", "phone", "joined", "party", "status", "priority", "language"];
    let hidden = fields.iter().map(|field| {
        let value = page.attribute(&format!("input[type=hidden][name={field}]"), "value");
        ((*field).to_owned(), value.expect("a hidden field"))
    });
    hidden.chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect()
}

async fn start(visitor: &mut Visitor, preview: &str, page: &Answer, more: &[(&str, &str)]) -> Answer {
    let fields = chosen(page, more);
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    visitor.post(&format!("{preview}/start"), &fields).await
}

#[tokio::test]
async fn the_real_export_is_previewed_started_and_reported() {
    let (site, mut visitor, _, path) = at_work().await;
    let preview = upload(&mut visitor, &path, PRETIX_EXPORT).await.location().expect("on to the preview");

    let page = visitor.get(&preview).await;
    page.says("1,178 people of 1,200 rows would be taken: 1,158 in the line, 20 on record as expired.");
    page.says("recognised as a waiting list exported by pretix");
    // By which key they are in order is said before anything is written. (thewca/worldcubeassociation.org#10749)
    page.says("The list is empty: they would be its first. Among themselves they keep their order: by their time of joining");
    page.says("Not taken: 22");
    page.says("The same person as on line 130");
    page.says("The line break in the name became a space.");
    assert_eq!(page.text("table tbody th"), "王桂珍");
    assert_eq!(number(&site, "SELECT count(*) FROM entries").await, 0, "nothing is written by looking");
    assert_eq!(number(&site, "SELECT count(*) FROM persons").await, 0);

    let started = start(&mut visitor, &preview, &page, &[]).await;
    assert_eq!(started.location().as_deref(), Some(preview.as_str()));
    let page = visitor.get(&preview).await;
    page.says("0 of 1,178 people are seen to. You may close this page: it goes on.");
    assert_eq!(page.attribute("body", "data-live").as_deref(), Some("2"));

    carried_on(&site).await;
    let page = visitor.get(&preview).await;
    page.says("1,178 people of my list.csv joined the list.");
    page.says("Not taken: 22");
    assert_eq!(number(&site, "SELECT count(*) FROM entries WHERE state = 'waiting'").await, 1_158);
    assert_eq!(number(&site, "SELECT count(*) FROM messages").await, 0, "nobody was told");
    assert_eq!(
        number(&site, "SELECT count(*) FROM audit WHERE actor = 'staff' AND reason = 'imported'").await,
        1_179
    );

    // The report is a table, and the page before lists the import.
    let report = visitor.get(&format!("{preview}/report.csv")).await;
    assert_eq!(report.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(report.body.lines().count(), 1 + 22 + 21);
    visitor.get(&path).await.says("1,178 taken");
}

#[tokio::test]
async fn the_same_file_again_says_what_came_of_it_before() {
    let (site, mut visitor, _, path) = at_work().await;
    let file = b"name,email\nAnn,ann@example.org\n";
    let first = upload(&mut visitor, &path, file).await.location().expect("a preview");
    let page = visitor.get(&first).await;
    start(&mut visitor, &first, &page, &[("tell", "yes")]).await;
    // A second click does nothing more.
    assert_eq!(start(&mut visitor, &first, &page, &[]).await.location().as_deref(), Some(first.as_str()));
    carried_on(&site).await;
    assert_eq!(number(&site, "SELECT count(*) FROM messages WHERE occasion = 'joined'").await, 1);

    let again = upload(&mut visitor, &path, file).await.location().expect("a preview");
    let page = visitor.get(&again).await;
    page.says("Nobody would join the list: none of the file's 1 row can be taken.");
    page.says("Has an entry on this list already (waiting); it stays as it is.");
    let fields = [("name", "1"), ("email", "2")];
    let answer = visitor.submit(&format!("{again}/start"), &fields).await;
    answer.says("The same file was imported on");
    answer.says("1 person of my list.csv joined the list.");
    assert_eq!(number(&site, "SELECT count(*) FROM entries").await, 1);
    assert_eq!(visitor.get(&again).await.status, 404, "the second copy is gone");
}

#[tokio::test]
async fn another_file_is_read_by_choosing_its_columns() {
    let (site, mut visitor, _, path) = at_work().await;
    let file = "\u{FEFF}Wer;Adresse;Seit\r\nŽofia Ünlü;zofia@example.org;2026-11-02 10:00\r\n\
                李;li@example.org;2026-11-01 10:00\r\n";
    let preview = upload(&mut visitor, &path, file.as_bytes()).await.location().expect("a preview");

    let page = visitor.get(&preview).await;
    page.says("Say which column holds the name.");
    assert!(page.attribute("details#columns", "open").is_some());
    assert!(page.texts("form[action$=start]").is_empty(), "it cannot be started yet");
    let early = visitor.post(&format!("{preview}/start"), &[]).await;
    assert_eq!(early.status, 422);

    let asked = format!("{preview}?name=1&email=2&joined=3&phone=&party=&status=&priority=&language=");
    let page = visitor.get(&asked).await;
    page.says("2 people of 2 rows would be taken: 2 in the line.");
    assert_eq!(page.texts("table tbody th")[..2], ["李", "Žofia Ünlü"], "by time of joining");
    for wrong in ["?name=1&email=9", "?name=1&email=x", "?name=1&email=1", "?name=0&email=2"] {
        let page = visitor.get(&format!("{preview}{wrong}")).await;
        assert_eq!(page.status, 200);
        assert!(page.texts(".flash-error").len() == 1, "{wrong}");
    }

    let page = visitor.get(&asked).await;
    start(&mut visitor, &preview, &page, &[]).await;
    carried_on(&site).await;
    assert_eq!(number(&site, "SELECT count(*) FROM entries").await, 2);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_at_its_field() {
    let (site, mut visitor, _, path) = at_work().await;
    for (file, sentence) in [
        (&b"name,email\nAnn,ann@example.org\nM\xFCller,m@example.org\n"[..], "Line 3 is not valid UTF-8."),
        (b"\xFF\xFEn\0a\0", "The file is UTF-16."),
        (b"PK\x03\x04 a spreadsheet", "This is not a CSV file."),
        (b"\n\n", "The file is empty."),
    ] {
        let answer = upload(&mut visitor, &path, file).await;
        assert_eq!(answer.status, 422, "{sentence}");
        assert!(answer.text("#file-error").contains(sentence), "{}", answer.text("#file-error"));
    }
    let page = visitor.get(&path).await;
    let token = page.attribute("input[name=form_token]", "value").expect("a token");
    let (before, after) = around(&token, "");
    let nothing = send(&mut visitor, &path, Body::from(before + &after)).await;
    assert_eq!(nothing.status, 422);
    assert_eq!(nothing.text("#file-error"), "Choose a file.");
    assert_eq!(number(&site, "SELECT count(*) FROM imports").await, 0);
}

#[tokio::test]
async fn an_upload_of_100_megabytes_is_refused_as_a_page() {
    let (site, mut visitor, _, path) = at_work().await;
    let page = visitor.get(&path).await;
    let token = page.attribute("input[name=form_token]", "value").expect("a token");
    let (before, after) = around(&token, "huge.csv");
    let body = [before.as_bytes(), &vec![b'a'; 100_000_000], after.as_bytes()].concat();

    let answer = send(&mut visitor, &path, Body::from(body)).await;

    assert_eq!(answer.status, 413);
    assert!(answer.text("#file-error").contains("larger than 64 MiB"));
    assert_eq!(number(&site, "SELECT count(*) FROM imports").await, 0);

    let larger_than_a_form = vec![b'\n'; 1 << 20];
    assert_eq!(
        upload(&mut visitor, &path, &larger_than_a_form).await.status,
        422,
        "empty, but not too large"
    );
    // Elsewhere the limit of forms holds.
    let elsewhere = format!("{path}/00000000-0000-0000-0000-000000000000/start");
    let form = visitor.post(&elsewhere, &[("name", &"x".repeat(70_000))]).await;
    assert_eq!(form.status, 413);
}

#[tokio::test]
async fn only_managers_import_into_events_of_their_own_with_a_form_of_ours() {
    let (site, mut visitor, event, path) = at_work().await;
    let preview =
        upload(&mut visitor, &path, b"name,email\nAnn,ann@example.org\n").await.location().expect("kept");

    // Without the token, or with the file before it.
    visitor.get(&path).await;
    let (before, after) = around("0000", "list.csv");
    let foreign = send(&mut visitor, &path, Body::from(before + "name,email\n" + &after)).await;
    assert_eq!(foreign.status, 403);
    let file_first = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\nname,email\n\r\n\
         --{BOUNDARY}--\r\n"
    );
    assert_eq!(send(&mut visitor, &path, Body::from(file_first)).await.status, 403);
    let cut = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"form_token\"\r\n\r\n0");
    assert_eq!(send(&mut visitor, &path, Body::from(cut)).await.status, 400);

    site.staff("agent@example.org", Role::Agent).await;
    let mut agent = site.signed_in("agent@example.org").await;
    for page in [path.clone(), preview.clone(), format!("{preview}/report.csv")] {
        assert_eq!(agent.get(&page).await.status, 403, "{page}");
    }
    assert_eq!(agent.post(&format!("{preview}/start"), &[("name", "1"), ("email", "2")]).await.status, 403);
    assert_eq!(site.visitor().get(&path).await.status, 303, "to sign-in");

    // Another event's, another organization's, or nobody's.
    for gone in [
        format!("/staff/events/{event}/import/00000000-0000-0000-0000-000000000000"),
        format!("/staff/events/{event}/import/nonsense"),
        "/staff/events/00000000-0000-0000-0000-000000000000/import".to_owned(),
    ] {
        assert_eq!(visitor.get(&gone).await.status, 404, "{gone}");
    }
    assert_eq!(number(&site, "SELECT count(*) FROM entries").await, 0);
}
