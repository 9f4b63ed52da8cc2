//! Who is on a list is nobody else's business, and a public form is not a megaphone.

use axum::http::StatusCode;

use super::Booth;
use crate::harness::visitor::Answer;
use crate::harness::world::two_hours;

/// What a stranger could compare: the words of a page, without the form's own token and addresses.
fn words(answer: &Answer) -> (StatusCode, String) {
    (answer.status, answer.text("main"))
}

/// Joining with an address that is listed looks the same as with one that is not. (thunderbird/thunderbolt PR 341;
/// iamlogand/republic-of-rome-online#131)
#[tokio::test]
async fn joining_twice_tells_nobody_who_is_on_the_list() {
    let booth = Booth::with(two_hours(), 0).await;
    booth.world.waiting("Ann", 1).await;
    let mut pages = Vec::new();
    for email in ["ann@example.org", "abe@example.org", "ANN+x@example.org", "abe@example.org"] {
        let mut stranger = booth.visitor();
        let answer = booth.fill_in(&mut stranger, "Somebody", email, "1").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER);
        let page = stranger.get(&answer.location().expect("the code page")).await;
        pages.push(words(&page));
        let guess = stranger.post(&answer.location().expect("the code page"), &[("digits", "000000")]).await;
        assert_eq!(guess.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[1], pages[3]);
    assert_eq!(pages[2].1.replace("A…@", "a…@"), pages[0].1);
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 2);
}

#[tokio::test]
async fn a_full_list_answers_those_on_it_and_strangers_alike() {
    let booth = Booth::with(two_hours(), 0).await;
    booth.world.waiting("Ann", 1).await;
    let mut answers = Vec::new();
    for freeze in [false, true] {
        if freeze {
            booth.list(fairlist::domain::event::ListState::Frozen).await;
        } else {
            booth.world.rule(|policy| policy.list_cap = Some(1)).await;
        }
        for email in ["ann@example.org", "abe@example.org"] {
            let mut stranger = booth.visitor();
            // The page has no form any more; theirs was opened before.
            stranger.get("/sign-in").await;
            let answer = booth.fill_in(&mut stranger, "Somebody", email, "1").await;
            assert_eq!(answer.status, StatusCode::CONFLICT);
            answers.push(words(&answer));
        }
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[2], answers[3]);
    booth.world.settle().await;
}

#[tokio::test]
async fn signing_in_tells_nobody_who_is_known() {
    let booth = Booth::with(two_hours(), 0).await;
    booth.world.waiting("Ann", 1).await;
    let mut known_and_not = Vec::new();
    for email in ["ann@example.org", "abe@example.org"] {
        let mut stranger = booth.visitor();
        stranger.get("/sign-in").await;
        let page = stranger.post("/sign-in", &[("email", email)]).await.location().expect("the code page");
        let mut seen = vec![words(&stranger.get(&page).await)];
        // Somebody asks for another one elsewhere: that, too, changes nothing here.
        let mut elsewhere = booth.visitor();
        elsewhere.get("/sign-in").await;
        elsewhere.post("/sign-in", &[("email", email)]).await;
        seen.push(words(&stranger.get(&page).await));
        for _ in 0..6 {
            seen.push(words(&stranger.post(&page, &[("digits", "000000")]).await));
        }
        seen.push(words(&stranger.get(&page).await));
        known_and_not.push(seen);
    }
    assert_eq!(known_and_not[0], known_and_not[1]);
}

/// Capitals and tags make no second person. (zfoh/zureg#33; Mailtrain-org/mailtrain#631)
#[tokio::test]
async fn however_an_address_is_written_it_is_one_entry() {
    let booth = Booth::with(two_hours(), 0).await;
    let mut visitor = booth.visitor();
    let (_, first) = booth.join(&mut visitor, "John", "JohnDoe@example.org").await;
    for email in ["johndoe@example.org", "JOHNDOE@EXAMPLE.ORG", "johndoe+list@example.org"] {
        let mut visitor = booth.visitor();
        let (page, entry) = booth.join(&mut visitor, "John", email).await;
        assert_eq!(entry, first, "{email}");
        page.says("number 1");
    }
    assert_eq!(booth.count("SELECT count(*) FROM persons").await, 1);
}

/// Twenty joins a minute from one address, and a field that only programs fill in. (chrisvel/tududi PR 1533;
/// dcccrypto/percolator-launch PR 2197)
#[tokio::test]
async fn a_flood_of_joins_is_refused_and_a_program_learns_nothing() {
    let booth = Booth::limited(two_hours(), 0, 5).await;
    let mut statuses = Vec::new();
    for n in 0..20 {
        let mut visitor = booth.visitor();
        let answer = booth.fill_in(&mut visitor, "Bot", &format!("bot{n}@example.org"), "1").await;
        statuses.push(answer.status);
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            answer.says("That was a little too often");
            assert!(!answer.header("retry-after").is_empty());
        }
    }
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::SEE_OTHER).count(), 5);
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::TOO_MANY_REQUESTS).count(), 15);
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 5);

    let booth = Booth::with(two_hours(), 0).await;
    let mut bot = booth.visitor();
    bot.get("/e/spring").await;
    let fields =
        [("name", "Bot"), ("email", "bot@example.org"), ("party", "1"), ("website", "https://x.example")];
    let answer = bot.post("/e/spring/join", &fields).await;
    let page = bot.get(&answer.location().expect("as for everybody")).await;
    page.says("We sent a code with six digits to b…@e….org.");
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 0);
    assert_eq!(booth.count("SELECT count(*) FROM messages").await, 0);
    let guess = bot.post(&answer.location().expect("a page"), &[("digits", "000000")]).await;
    guess.says("4 more tries");
}

#[tokio::test]
async fn no_address_is_written_to_again_and_again() {
    let booth = Booth::with(two_hours(), 0).await;
    booth.world.waiting("Ann", 1).await;
    let mut last = StatusCode::OK;
    for _ in 0..6 {
        let mut stranger = booth.visitor();
        stranger.get("/sign-in").await;
        last = stranger.post("/sign-in", &[("email", "ann@example.org")]).await.status;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(booth.count("SELECT count(*) FROM messages WHERE occasion = 'code'").await, 5);
}
