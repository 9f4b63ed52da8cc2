//! Saying that something is not right about a request of one's own.

use axum::http::StatusCode;
use fairlist::domain::complaint::{About, Words};
use fairlist::waitlist::complaints::{AnswerOutcome, ComplainOutcome};

use super::Booth;
use crate::harness::world::two_hours;

#[tokio::test]
async fn somebody_says_that_something_is_not_right_and_reads_the_answer() {
    let booth = Booth::with(two_hours(), 0).await;
    let world = &booth.world;
    let ann = world.waiting("Ann", 1).await;
    let address = format!("/me/entries/{}", ann.id);
    let complaint = format!("{address}/complaint");
    let mut visitor = booth.signed_in("ann@example.org").await;
    visitor.get(&address).await.says("Something is not right?");
    visitor.get(&complaint).await.says("Your place in the line stays as it is.");
    let page = visitor.submit(&complaint, &[("words", "I waited all night.")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("Choose what it is about.");
    page.says("I waited all night.");
    let page =
        visitor.submit(&complaint, &[("about", "told_late"), ("words", "I <b>waited</b>\nall night.")]).await;
    page.says("The organizer has it now, and answers by mail and here.");
    page.says("Not answered yet.");
    page.says("I <b>waited</b>");
    visitor.get(&address).await.says("You said that something is not right");

    // One at a time; what was typed stays.
    let again = visitor.post(&complaint, &[("about", "told_late"), ("words", "Hello?")]).await;
    assert_eq!(again.status, StatusCode::UNPROCESSABLE_ENTITY);
    again.says("The organizer has not answered what you wrote before.");
    again.says("Hello?");
    let words = Words::parse("The mail went out at once; look among the unwanted ones.").expect("words");
    let answered = world.waitlist.answer_complaint(world.event, ann.id, 1, &words, world.actor()).await;
    assert_eq!(answered.expect("answered"), AnswerOutcome::Answered);
    visitor.get(&complaint).await.says("look among the unwanted ones");
    visitor.get(&address).await.says("The organizer answered what you said is not right");

    // Somebody else's is not there for others.
    world.waiting("Ben", 1).await;
    let mut ben = booth.signed_in("ben@example.org").await;
    let page = ben.get(&complaint).await;
    assert!(!page.body.contains("waited"), "{}", page.body);
    ben.post(&complaint, &[("about", "told_late"), ("words", "Hello")]).await;
    assert_eq!(booth.count("SELECT count(*) FROM complaints").await, 1, "nothing is written in her name");
    let words = Words::parse("Thank you, and another thing.").expect("words");
    let about = About::OtherwiseWrong;
    let second = world.waitlist.complain(world.event, ann.id, about, &words, world.actor()).await;
    assert_eq!(second.expect("written"), ComplainOutcome::WrittenDown(2));
}
