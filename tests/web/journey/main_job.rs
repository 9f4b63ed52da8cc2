//! The main job: staff release places, and customers are offered them by mail. Once through a mail server; and once
//! through the mailbox page, without scripts.

use chrono::Duration;

use fairlist::domain::role::Role;

use super::{House, Post};

/// Agnes releases the place of somebody, and is told that it is done.
async fn releases(house: &House, place: u32, whose: &str, next: &str) {
    let agnes = house.staff().await;
    house.staff_open("").await;
    agnes.press("Release a place").await;
    agnes.sees(&format!("Whatever you release is offered to the line at once: {next} is next.")).await;
    agnes.press(&format!("Release: Place {place}, {whose}")).await;
    agnes.sees(&format!("{next} is next in line and is offered it at once.")).await;
    agnes.choose("The customer asked").await;
    agnes.press("Release the place").await;
    // However fast the rule was.
    let next = format!("{next} is next and is being offered 1 place.");
    agnes.sees(&format!("Released: place {place}, booked by {whose}. {next}")).await;
}

/// The link in the mail works as it was mailed, from the code to the booking. (fossasia/eventyay#1253)
async fn the_main_job(post: Post, scripts: bool) {
    let house = House::open(post, scripts).await;
    house.signs_in("Agnes", Role::Agent).await;
    let agnes = house.staff().await;
    agnes.sees("2 booked 0 held 0 open of 2 places").await;
    agnes
        .sees("Next offer: Nina, 1 place, joined first (1 Mar 2027, 10:00), as soon as 1 place comes back.")
        .await;
    assert_eq!(agnes.overflow().await, 0);

    // Nina accepts: a booking.
    releases(&house, 1, "Bella", "Nina").await;
    house.follows_the_link("Nina").await;
    let phone = house.phone().await;
    if scripts {
        phone.sees("1:59:5").await;
    } else {
        assert_eq!(phone.text("[data-digits]").await, "in 2 h", "said by the server");
    }
    phone.sees("Until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)").await;
    phone.press("Take my place").await;
    phone.sees("1 place at Spring Concert is yours").await;
    house.told("Nina", "accepted").await;
    let reference = house.phone().await.text(".reference").await;
    house.staff_open("/bookings").await;
    agnes.sees(&reference).await;

    // Otto declines: Paul is offered the place by itself.
    releases(&house, 2, "Cora", "Otto").await;
    house.follows_the_link("Otto").await;
    let phone = house.phone().await;
    phone.press("Pass my place on to the next in line").await;
    phone.sees("You passed your place on").await;
    house.follows_the_link("Paul").await;

    // Paul is silent: his page says so by itself, and Rosa is offered it.
    house.desk.world.later(Duration::hours(2));
    house.told("Paul", "lapsed").await;
    let phone = house.phone().await;
    phone.refresh().await.expect("loaded again");
    phone.sees("The time for 1 place at Spring Concert is up").await;
    phone.sees("You are still on the waitlist").await;
    house.follows_the_link("Rosa").await;
    house.staff_open("").await;
    agnes.sees("1 booked 1 held 0 open of 2 places").await;
    agnes.sees("Next offer: Paul, 1 place").await;

    // The audit tells it all.
    house.staff_open("/audit").await;
    let rows = agnes.execute(AUDITED, Vec::new()).await.expect("the table");
    let rows: Vec<String> = serde_json::from_value(rows).expect("lines");
    let told: Vec<&str> = rows.iter().rev().map(String::as_str).collect();
    let cancelled = "Booking cancelled, cancelled: Agnes, the customer asked";
    let offered = "Offered, pending: The rule, first in order of arrival";
    assert_eq!(
        told,
        [
            "Booked, confirmed: Staff, the customer asked",
            "Booked, confirmed: Staff, the customer asked",
            cancelled,
            offered,
            "Booked, confirmed: The customer, accepted by the customer",
            "Accepted, accepted: The customer, accepted by the customer",
            cancelled,
            offered,
            "Declined, declined: The customer, declined by the customer",
            offered,
            "Offer expired, expired: The rule, no answer before the deadline",
            offered,
        ]
    );
    house.close().await;
}

/// What happened to offers and bookings, a line each: what, what it is now, by whom and why.
const AUDITED: &str = r"return [...document.querySelectorAll('main tbody tr')]
    .map(row => [...row.cells].map(cell => cell.innerText.replace(/[\u2068\u2069]/g, '').trim()))
    .filter(([, , , to]) => to === 'offer' || to === 'booking')
    .map(([, , what, , now, by, why]) => `${what}, ${now}: ${by}, ${why}`)";

#[tokio::test]
async fn a_place_is_released_offered_by_mail_and_taken_passed_on_or_let_lapse() {
    the_main_job(Post::Mail, true).await;
}

#[tokio::test]
async fn the_same_through_the_mailbox_page_and_without_scripts() {
    the_main_job(Post::Mailbox, false).await;
}
