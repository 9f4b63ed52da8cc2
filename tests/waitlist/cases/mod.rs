//! What went wrong in other products, each a story that must end well here. Every test names the public report.

mod people;
mod places;

use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::Actor;
use fairlist::domain::ids::PersonId;
use fairlist::domain::place::PlaceCounts;
use fairlist::waitlist::bookings::{Book, BookOutcome, booked_directly};

use crate::harness::world::World;

async fn book_directly(world: &World, person: PersonId, party: i32) -> BookOutcome {
    let book = Book {
        wants: Wants::default(),
        person,
        party,
        actor: Actor::Person(person),
        reason: booked_directly(),
        override_reservation: false,
        once: fairlist::clock::Entropy.id(),
    };
    world.waitlist.book(world.event, &book).await.expect("an answer")
}

async fn counts(world: &World) -> PlaceCounts {
    world.waitlist.db().place_counts(world.event).await.expect("counts")
}
