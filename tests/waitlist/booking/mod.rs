//! Places that another service books: over real HTTP, behind a proxy, with a ledger of its own that must say the same as
//! ours in the end, whatever breaks in between.

use std::time::Duration;

use chrono::Duration as Span;
use fairlist::booking::{Patience, Services};
use fairlist::domain::entry::Entry;
use fairlist::domain::offer::Offer;
use fairlist::domain::outside::ServiceUrl;
use fairlist::domain::policy::Policy;
use fairlist::tls::Trust;
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};
use fairlist::waitlist::reconcile::{Outcome, Reconciler};

use crate::harness::booking_service::{BookingService, KEY};
use crate::harness::proxy::TcpProxy;
use crate::harness::world::{World, two_hours};

mod answers;
mod circuit;
mod crashes;
mod meanwhile;
mod tls;

/// A box office whose places a service has, behind a proxy.
struct Box_ {
    world: World,
    service: BookingService,
    proxy: TcpProxy,
}

/// Short enough for a test, long enough for a busy machine.
fn patience() -> Patience {
    Patience {
        connect: Duration::from_millis(500),
        call: Duration::from_millis(400),
        whole: Duration::from_millis(900),
        tries: 2,
        backoff: Duration::from_millis(5),
    }
}

impl Box_ {
    async fn new(places: usize) -> Self {
        Self::under(two_hours(), places).await
    }

    async fn under(policy: Policy, places: usize) -> Self {
        let mut world = World::with(policy, places).await;
        world.waitlist = world.waitlist.clone().with_services(Services::new(patience(), Trust::default()));
        let service = BookingService::start().await;
        let proxy = TcpProxy::to(service.address).await;
        let office = Self { world, service, proxy };
        assert_eq!(office.book_at(Some(KEY)).await, BookAtOutcome::Saved);
        office
    }

    async fn book_at(&self, key: Option<&str>) -> BookAtOutcome {
        let url = ServiceUrl::parse(&format!("http://{}/", self.proxy.address())).expect("local");
        let at = BookAt::Service { url, key: key.map(str::to_owned) };
        self.world.waitlist.set_booking(self.world.event, &at, self.world.actor()).await.expect("set")
    }

    /// Somebody who was just offered places.
    async fn offered(&self, who: &str, party: i32) -> (Entry, Offer) {
        let entry = self.world.waiting(who, party).await;
        self.world.settle().await;
        let offer = self.world.live_offer(entry.id).await;
        (entry, offer)
    }

    async fn tick(&self) -> Outcome {
        Reconciler::new(&self.world.waitlist).tick().await.expect("a tick")
    }

    /// Lets time pass until nothing is due any more, as the worker does.
    async fn reconcile(&self) {
        for _ in 0..40 {
            self.world.later(Span::seconds(61));
            while self.tick().await != Outcome::Idle {}
            let open: i64 =
                sqlx::query_scalar("SELECT count(*) FROM booking_attempts WHERE outcome = 'unresolved'")
                    .fetch_one(self.world.database.sql())
                    .await
                    .expect("attempts");
            if open == 0 {
                return;
            }
        }
        panic!("something stays unresolved: {:?}", self.service.calls());
    }
}
