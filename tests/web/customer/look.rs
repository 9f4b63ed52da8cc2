//! Every page in a browser, narrow and wide, light and dark, with long names and names that run the other way: nothing
//! scrolls sideways. Pictures are kept in `target/screenshots`, for somebody to look at.

use chrono::Duration;
use fairlist::domain::attribute::Said;
use fairlist::domain::event::ListState;
use fairlist::domain::ids::{EventId, PersonId};
use fairlist::domain::policy::{Fit, Policy};

use super::Booth;
use crate::harness::browser::{Browser, Scheme, Width};
use crate::harness::visitor::Visitor;
use crate::harness::world::{add_event, two_hours};

const LONG: &str = "Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissenhaftschaferswessenschafewarenwohlgepflege";
const RTL: &str = "محمد بن عبد الرحمن آل سعود";

/// A browser at a booth.
struct Look<'a> {
    browser: &'a Browser,
    at: String,
}

impl<'a> Look<'a> {
    async fn at(browser: &'a Browser, booth: &Booth) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let router = booth.router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { browser, at: format!("http://localhost:{port}") }
    }

    /// On this visitor's device.
    async fn as_visitor(&self, visitor: Option<&Visitor>) {
        self.browser.open(&format!("{}/healthz", self.at)).await;
        self.browser.delete_all_cookies().await.expect("no cookies");
        if let Some(cookie) = visitor.and_then(|visitor| visitor.cookie("fairlist")) {
            self.browser
                .devtools(
                    "Network.setCookie",
                    serde_json::json!({"name": "fairlist", "value": cookie, "url": self.at}),
                )
                .await;
        }
    }

    /// Opens a page and looks at it in every way.
    async fn page(&self, name: &str, path: &str) {
        self.browser.open(&format!("{}{path}", self.at)).await;
        self.shown(name).await;
    }

    /// Looks at what is shown in every way.
    async fn shown(&self, name: &str) {
        for (width, size) in [(Width::Phone, "390"), (Width::Desk, "1280")] {
            self.browser.set_width(width).await;
            for (scheme, colours) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
                self.browser.set_scheme(scheme).await;
                self.browser.picture(&format!("customer-{name}-{size}-{colours}")).await;
            }
            assert_eq!(self.browser.overflow().await, 0, "{name} scrolls sideways at {size}");
        }
        self.browser.set_width(Width::Phone).await;
    }
}

/// Calls an event so, and says more about it.
async fn call(booth: &Booth, event: EventId, name: &str, description: &str) {
    sqlx::query("UPDATE events SET name = $2, description = $3 WHERE id = $1")
        .bind(event.0)
        .bind(name)
        .bind(description)
        .execute(booth.world.database.sql())
        .await
        .expect("renamed");
    sqlx::query("UPDATE organizations SET contact = 'tickets@house.example'")
        .execute(booth.world.database.sql())
        .await
        .expect("a contact");
}

async fn rename(booth: &Booth, person: PersonId, name: &str) {
    sqlx::query("UPDATE persons SET name = $2 WHERE id = $1")
        .bind(person.0)
        .bind(name)
        .execute(booth.world.database.sql())
        .await
        .expect("renamed");
}

#[tokio::test]
async fn the_public_pages() {
    let booth = Booth::with(Policy { party_limit: Some(4), ..two_hours() }, 3).await;
    let world = &booth.world;
    call(&booth, world.event, "Spring Concert", "An evening with the chamber choir.\n\nDoors open at 19:00.")
        .await;
    let browser = Browser::start().await;
    let look = Look::at(&browser, &booth).await;
    look.as_visitor(None).await;
    look.page("events-one", "/").await;
    look.page("event-free", "/e/spring").await;
    look.page("sign-in", "/sign-in").await;
    look.page("not-found", "/e/nothing").await;
    look.page("link-gone", "/o/nothing").await;
    look.page("code-gone", "/code/00000000-0000-0000-0000-000000000001").await;
    world.booked("Zoe", 3).await;
    look.page("event-full", "/e/spring").await;

    // After an error, values kept.
    browser.fill("Your name", LONG).await;
    browser.fill("Email", "ann@localhost").await;
    browser
        .execute(
            "document.querySelector('#party').value = 9; document.querySelector('form').noValidate = true",
            vec![],
        )
        .await
        .expect("run");
    browser.press("Join: send me a code").await;
    browser.sees("At most 4 places").await;
    look.shown("event-error").await;
    browser.fill("Email", "ann.long.address.with.many.parts@subdomain.example.org").await;
    browser.fill("party", "2").await;
    browser.press("Join: send me a code").await;
    browser.sees("We sent a code").await;
    look.shown("code").await;
    for _ in 0..2 {
        browser.fill("Six digits", "000000").await;
        browser.press("Join the waitlist").await;
        browser.sees("not the code that was sent last").await;
    }
    look.shown("code-wrong").await;
    for _ in 0..3 {
        browser.fill("Six digits", "000000").await;
        browser.press("Join the waitlist").await;
    }
    browser.sees("This code is used up").await;
    look.shown("code-spent").await;

    world.waiting("Ben", 1).await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    look.as_visitor(None).await;
    look.page("event-held", "/e/spring").await;
    let (organization, staff) = (world.organization, world.staff);
    for (slug, name, places) in [
        ("long", LONG, 0),
        ("rtl", "أمسية موسيقية في القاعة الكبرى مع جوقة الأطفال", 4),
        ("film", "Film night", 1),
    ] {
        let event = add_event(&world.waitlist, organization, staff, slug, two_hours()).await;
        call(&booth, event, name, "").await;
        if places > 0 {
            let labels = vec![None; places];
            world
                .waitlist
                .add_places(
                    event,
                    &labels,
                    &Said::default(),
                    slug,
                    world.actor(),
                    fairlist::domain::reason::Reason::SetUp,
                )
                .await
                .expect("added");
        }
    }
    look.page("events", "/").await;
    look.page("event-long", "/e/long").await;
    booth.list(ListState::Frozen).await;
    look.page("event-frozen", "/e/spring").await;
    world.settle().await;
    let empty = Booth::with(two_hours(), 0).await;
    empty.cancel_event().await;
    let look = Look::at(&browser, &empty).await;
    look.as_visitor(None).await;
    look.page("events-empty", "/").await;
    look.page("event-cancelled", "/e/spring").await;
}

#[tokio::test]
async fn the_pages_of_who_waits() {
    let booth = Booth::with(Policy { fit: Fit::Fill, silence_limit: 1, ..two_hours() }, 0).await;
    let world = &booth.world;
    call(&booth, world.event, "Spring Concert", "").await;
    let browser = Browser::start().await;
    let look = Look::at(&browser, &booth).await;

    let ann = world.waiting("Ann", 1).await;
    let fam = world.waiting("Fam", 4).await;
    let lee = world.waiting("Lee", 1).await;
    rename(&booth, fam.person, RTL).await;
    rename(&booth, lee.person, LONG).await;
    let mut annie = booth.signed_in("ann@example.org").await;
    look.as_visitor(Some(&annie)).await;
    look.page("entry-waiting", &format!("/me/entries/{}", ann.id)).await;
    look.page("leave", &format!("/me/entries/{}/leave", ann.id)).await;
    look.page("event-waiting", "/e/spring").await;
    look.page("not-yours", &format!("/me/entries/{}", lee.id)).await;
    world.add_places(2).await;
    world.settle().await;
    look.page("entry-offered", &format!("/me/entries/{}", ann.id)).await;
    look.page("me-offered", "/me").await;
    look.page("event-offered", "/e/spring").await;
    look.page("leave-offered", &format!("/me/entries/{}/leave", ann.id)).await;
    let family = booth.signed_in("fam@example.org").await;
    look.as_visitor(Some(&family)).await;
    look.page("entry-rtl-passed-over", &format!("/me/entries/{}", fam.id)).await;
    let long = booth.signed_in("lee@example.org").await;
    look.as_visitor(Some(&long)).await;
    let offer = world.live_offer(lee.id).await;
    look.page("offer-long", &format!("/offers/{}", offer.id)).await;
    booth.later(Duration::hours(2));
    world.settle().await;
    look.page("entry-paused-long", &format!("/me/entries/{}", lee.id)).await;
    look.as_visitor(Some(&annie)).await;
    annie.get(&format!("/me/entries/{}", ann.id)).await;
    annie.post(&format!("/me/entries/{}/leave", ann.id), &[]).await;
    look.page("entry-left", &format!("/me/entries/{}", ann.id)).await;
    let mut somebody = booth.visitor();
    booth.fill_in(&mut somebody, "Dua", "dua@example.org", "3").await;
    let dua = booth.signed_in("dua@example.org").await;
    look.as_visitor(Some(&dua)).await;
    look.page("me-unconfirmed", "/me").await;
    browser.press("Spring Concert").await;
    browser.sees("did not confirm it yet").await;
    look.shown("entry-unconfirmed").await;
    world.person("Nobody").await;
    let nobody = booth.signed_in("nobody@example.org").await;
    look.as_visitor(Some(&nobody)).await;
    look.page("me-empty", "/me").await;
    look.page("sign-in-again", "/sign-in").await;
    world.settle().await;
}

#[tokio::test]
async fn the_pages_of_offers_and_bookings() {
    let mut booth = Booth::with(two_hours(), 0).await;
    booth.world.database.broken_on_purpose();
    let world = &booth.world;
    call(&booth, world.event, "Spring Concert", "").await;
    let browser = Browser::start().await;
    let look = Look::at(&browser, &booth).await;
    let mut waiting = Vec::new();
    for who in ["Ann", "Ben", "Cem", "Dua", "Eve", "Fay"] {
        waiting.push(world.waiting(who, 2).await);
    }
    let labels: Vec<Option<String>> = (1..=12).map(|n| Some(format!("Row B, seat {n}"))).collect();
    world
        .waitlist
        .add_places(
            world.event,
            &labels,
            &Said::default(),
            "seats",
            world.actor(),
            fairlist::domain::reason::Reason::SetUp,
        )
        .await
        .expect("added");
    world.settle().await;
    let mut offers = Vec::new();
    for entry in &waiting {
        offers.push(world.live_offer(entry.id).await.id);
    }
    look.as_visitor(None).await;
    look.page("offer-visitor", &booth.link(offers[0])).await;
    browser.press("Send me the code").await;
    browser.sees("the address that this offer is for").await;
    look.shown("code-offer").await;
    let names = ["ann", "ben", "cem", "dua", "eve", "fay"];
    let mut visitors = Vec::new();
    for name in names {
        visitors.push(booth.signed_in(&format!("{name}@example.org")).await);
    }
    look.as_visitor(Some(&visitors[1])).await;
    look.page("offer-somebody-else", &format!("/offers/{}", offers[0])).await;
    look.as_visitor(Some(&visitors[0])).await;
    look.page("offer-open", &format!("/offers/{}", offers[0])).await;
    browser.set_scripts(false).await;
    look.page("offer-open-no-script", &format!("/offers/{}", offers[0])).await;
    browser.set_scripts(true).await;
    browser.open(&format!("{}/offers/{}", look.at, offers[0])).await;
    browser.press("Take my 2 places").await;
    browser.sees("are yours").await;
    look.shown("offer-accepted").await;
    look.page("me-booked", "/me").await;
    look.page("event-booked", "/e/spring").await;
    browser.open(&format!("{}/offers/{}", look.at, offers[0])).await;
    browser.press("Cancel the booking").await;
    browser.sees("Cancel your booking?").await;
    look.shown("cancel").await;
    browser.press("Give 2 places back").await;
    browser.sees("was cancelled").await;
    look.shown("offer-booking-cancelled").await;
    look.as_visitor(Some(&visitors[1])).await;
    browser.open(&format!("{}/offers/{}", look.at, offers[1])).await;
    browser.press("Pass my 2 places on to the next in line").await;
    browser.sees("You passed your 2 places on").await;
    look.shown("offer-declined").await;
    booth.revoke(offers[2]).await;
    look.as_visitor(Some(&visitors[2])).await;
    look.page("offer-revoked", &format!("/offers/{}", offers[2])).await;
    for (state, offer) in [("accepting", offers[3]), ("conflicted", offers[4])] {
        sqlx::query(
            "UPDATE offers SET state = $2, decided_at = made_at,
                 ended_at = CASE $2 WHEN 'conflicted' THEN made_at END,
                 end_reason = CASE $2 WHEN 'conflicted' THEN 'x' END WHERE id = $1",
        )
        .bind(offer.0)
        .bind(state)
        .execute(world.database.sql())
        .await
        .expect("changed");
    }
    look.as_visitor(Some(&visitors[3])).await;
    look.page("offer-being-confirmed", &format!("/offers/{}", offers[3])).await;
    look.as_visitor(Some(&visitors[4])).await;
    look.page("offer-conflicted", &format!("/offers/{}", offers[4])).await;
    // The page says by itself that the time is up.
    look.as_visitor(Some(&visitors[5])).await;
    let address = format!("/offers/{}", offers[5]);
    booth.later(Duration::minutes(119) + Duration::seconds(58));
    browser.open(&format!("{}{address}", look.at)).await;
    browser.sees("Time is up").await;
    browser.picture("customer-offer-over-by-itself-390-light").await;
    booth.later(Duration::seconds(2));
    browser.sees("This page then says how it goes on for you.").await;
    look.shown("offer-late-unswept").await;
    world.settle().await;
    look.page("offer-late", &address).await;
    look.as_visitor(None).await;
    look.page("offer-late-visitor", &address).await;
}

#[tokio::test]
async fn the_pages_of_bookings_and_of_what_ended_around_them() {
    let booth = Booth::with(two_hours(), 1).await;
    let world = &booth.world;
    call(&booth, world.event, "Spring Concert", "").await;
    let browser = Browser::start().await;
    let look = Look::at(&browser, &booth).await;
    let zoe = world.person("Zoe").await;
    let zoe_here = booth.signed_in("zoe@example.org").await;
    let id = direct(&booth, zoe).await;
    look.as_visitor(Some(&zoe_here)).await;
    look.page("booking", &format!("/me/bookings/{id}")).await;
    browser.press("Cancel the booking").await;
    browser.press("Give 1 place back").await;
    browser.sees("This booking was cancelled").await;
    look.shown("booking-cancelled").await;

    let closed = Booth::with(two_hours(), 1).await;
    let ann = closed.world.waiting("Ann", 1).await;
    closed.world.settle().await;
    let offer = closed.world.live_offer(ann.id).await.id;
    let visitor = closed.signed_in("ann@example.org").await;
    let look = Look::at(&browser, &closed).await;
    look.as_visitor(Some(&visitor)).await;
    closed.list(ListState::Closed).await;
    look.page("offer-list-closed", &format!("/offers/{offer}")).await;
    look.page("entry-list-closed", &format!("/me/entries/{}", ann.id)).await;
    let cancelled = Booth::with(two_hours(), 1).await;
    let ann = cancelled.world.waiting("Ann", 1).await;
    cancelled.world.settle().await;
    let offer = cancelled.world.live_offer(ann.id).await.id;
    let visitor = cancelled.signed_in("ann@example.org").await;
    let look = Look::at(&browser, &cancelled).await;
    look.as_visitor(Some(&visitor)).await;
    cancelled.cancel_event().await;
    look.page("offer-event-cancelled", &format!("/offers/{offer}")).await;
    look.page("entry-event-cancelled", &format!("/me/entries/{}", ann.id)).await;
}

/// Books a place for somebody past the list: the booking's id.
async fn direct(booth: &Booth, person: PersonId) -> uuid::Uuid {
    booth.world.booked("Zoe", 1).await;
    sqlx::query_scalar("SELECT id FROM bookings WHERE person_id = $1 LIMIT 1")
        .bind(person.0)
        .fetch_one(booth.world.database.sql())
        .await
        .expect("a booking")
}
