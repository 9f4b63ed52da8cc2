//! A lottery, from the rule that an organizer sets to the stranger who draws again.

use std::path::Path;
use std::process::Command;

use fairlist::domain::draw::file::DrawFile;
use fairlist::domain::role::Role;

use super::{House, Post};
use crate::harness::browser::Browser;

/// Mary makes the rule a lottery that is drawn when staff say so, after having read what it would do.
async fn sets_a_lottery(house: &House) {
    let mary = house.staff().await;
    house.staff_open("/policy").await;
    mary.choose("Lottery").await;
    mary.press("The draw").await;
    mary.choose("When staff say so").await;
    mary.press("Show what it would do").await;
    let example = "A draw is held first among the 4 people who could be offered a place; the places then go down the \
                   order drawn.";
    mary.sees(&format!("If 3 places came back now: {example} Nothing is saved yet.")).await;
    mary.choose("The event changed").await;
    mary.press("Put it in force").await;
    mary.sees("Saved: version 2 of the rule is in force.").await;
}

/// Mary gives the place of somebody back.
async fn releases(house: &House, place: u32, whose: &str) {
    let mary = house.staff().await;
    house.staff_open("/release").await;
    mary.sees("What you release stays open. Offers wait for the draw.").await;
    mary.press(&format!("Release: Place {place}, {whose}")).await;
    mary.choose("The customer asked").await;
    mary.press("Release the place").await;
    mary.sees(&format!("Released: place {place}, booked by {whose}. Offers wait for the draw.")).await;
}

/// What a program that checks a draw says, and whether it holds it for sound.
fn checked(mut command: Command, draw: &Path) -> (bool, String) {
    let output = command.arg(draw).output().expect("it runs");
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (output.status.success(), String::from_utf8(said).expect("text"))
}

#[tokio::test]
async fn an_organizer_sets_a_lottery_and_draws_and_a_stranger_gets_the_same_winners() {
    let house = House::open(Post::Mail, true).await;
    house.signs_in("Mary", Role::Manager).await;
    sets_a_lottery(&house).await;
    let mary = house.staff().await;
    let public = format!("{}/e/spring/fairness", house.at);
    mary.open(&public).await;
    mary.sees("A draw is held when staff say so; who joins later is in the next.").await;
    mary.sees("Nothing has been drawn yet.").await;
    let announced = mary.text("section[aria-labelledby=draws] p .mono").await;
    assert_eq!(announced.len(), 64, "the end of the chain of secrets: {announced}");

    // Two places come back and stay open until the draw; then they go down the order drawn.
    releases(&house, 1, "Bella").await;
    releases(&house, 2, "Cora").await;
    house.staff_open("/draws").await;
    mary.press("Hold a draw now").await;
    mary.sees("4 people could be offered a place now: they are the pool.").await;
    mary.choose("The event changed").await;
    mary.press("Hold the draw").await;
    mary.sees("Drawn: draw 1 ranked 4 people.").await;
    let order: Vec<(String, String)> = sqlx::query_as(
        "SELECT e.id::text, p.name FROM entries e JOIN persons p ON p.id = e.person_id ORDER BY e.rank",
    )
    .fetch_all(house.desk.world.database.sql())
    .await
    .expect("the line");
    house.told(&order[0].1, "offer").await;
    house.told(&order[1].1, "offer").await;
    house.staff_open("/offers").await;
    mary.sees("2 offers are out.").await;

    // Whoever was drawn first takes the place.
    let first = order[0].1.as_str();
    house.follows_the_link(first).await;
    let phone = house.phone().await;
    phone.press("Take my place").await;
    phone.sees("1 place at Spring Concert is yours").await;

    // A stranger, who has never been here, takes the draw along and draws again, with the program on the page.
    let stranger = Browser::start().await;
    stranger.open(&public).await;
    stranger.sees("Draw 1: 4 entries, by the organizer’s staff, who gave a reason.").await;
    let recipe = stranger.text("pre.code").await;
    assert_eq!(recipe.lines().count(), 10, "{recipe}");
    let draw = stranger.take_along("Take draw 1 along (JSON)").await;
    assert_eq!(draw.file_name().expect("a name"), "spring-draw-1.json");
    let program = draw.with_file_name("check.py");
    std::fs::write(&program, recipe).expect("written");
    let python = || {
        let mut python = Command::new("python3");
        python.arg(&program);
        python
    };
    let verify = || {
        let mut verify = Command::new(env!("CARGO_BIN_EXE_fairlist"));
        verify.arg("verify");
        verify
    };
    let (sound, printed) = checked(python(), &draw);
    assert!(sound, "{printed}");
    let winners: Vec<&str> = printed.lines().take(2).collect();
    assert_eq!(winners, [&order[0].0, &order[1].0], "those who were offered the places, in this order");
    let (sound, said) = checked(verify(), &draw);
    assert!(sound && said.starts_with("Sound: draw 1 of spring ranks the 4 entries"), "{said}");
    // Whoever was drawn knows their own entry by its page's address.
    let phone = house.phone().await;
    phone.open(&format!("{}/me/entries/{}", house.at, winners[0])).await;
    phone.sees("Spring Concert").await;

    // Nobody can alter the file, nor what was announced beforehand, without being found out.
    let text = std::fs::read_to_string(&draw).expect("the file");
    let file: DrawFile = serde_json::from_str(&text).expect("a draw");
    assert_eq!(file.commitment, announced);
    let member = file.pool[0].to_string();
    let other = format!("{}{}", if member.starts_with('0') { '1' } else { '0' }, &member[1..]);
    let mut swapped = file.clone();
    swapped.pool.swap(1, 2);
    let swapped = serde_json::to_string(&swapped).expect("JSON");
    for tampered in [text.replacen(&member, &other, 1), swapped] {
        std::fs::write(&draw, &tampered).expect("written");
        let (sound, said) = checked(python(), &draw);
        assert!(!sound && said.contains("not what was announced"), "{said}");
        let (sound, said) = checked(verify(), &draw);
        assert!(!sound && said.contains("the pool is not the one that was published"), "{said}");
    }
    drop(stranger);
    house.close().await;
}
