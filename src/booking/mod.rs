//! The port to where an event's places are booked, and its two adapters: the ledger in this database, which books in
//! the transaction that accepts, and a service over HTTP, which has the last word and is asked outside any lock.
//!
//! What the port needs of a service: it reserves under a key, and under the same key again gives the same answer; it
//! confirms, gives back, and says what a key names. A key that was given back before it was ever used is refused from
//! then on: that is how it is proven that a lost call booked nothing and never will.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use crate::domain::ids::PlaceId;
use crate::domain::outside::ServiceUrl;

mod contract;
mod http;

pub use contract::{Ask, CustomerSheet, EventSheet, PlaceSheet};
pub use http::Services;

/// Where an event's places are booked.
#[derive(Clone, Debug)]
pub enum Books {
    /// The ledger in this database: accepting and booking are one transaction.
    BuiltIn,
    /// A service: accepting is an intent, a call, and its outcome.
    Service(Service),
}

/// How to reach a service.
#[derive(Clone, Debug)]
pub struct Service {
    /// Where.
    pub url: ServiceUrl,
    /// As whom.
    pub key: BearerKey,
}

/// What a service is shown to be believed. Never printed.
#[derive(Clone)]
pub struct BearerKey(pub String);

impl fmt::Debug for BearerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerKey(…)")
    }
}

/// How long to wait for a service.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For one call, from the first byte out to the last byte in.
    pub call: Duration,
    /// For all tries of one question together.
    pub whole: Duration,
    /// Tries of one question.
    pub tries: u32,
    /// Before the second try; twice as long before each other, give or take a half.
    pub backoff: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            call: Duration::from_secs(4),
            whole: Duration::from_secs(8),
            tries: 3,
            backoff: Duration::from_millis(200),
        }
    }
}

/// What came of asking for places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are booked.
    Booked {
        /// What the customer quotes.
        reference: String,
    },
    /// These are gone, and nothing was booked.
    Gone(Vec<PlaceId>),
    /// It is proven that nothing was booked under this key, and nothing will be.
    NotDone(String),
    /// Nobody knows.
    Unknown(String),
}

/// What came of giving places back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// They are free at the service.
    Done,
    /// Not yet, or nobody knows.
    NotYet(String),
}

/// An answer, and how the service is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard<T> {
    /// The answer.
    pub what: T,
    /// What was wrong with the service, if anything.
    pub trouble: Option<String>,
}

impl<T> Heard<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Heard<U> {
        Heard { what: change(self.what), trouble: self.trouble }
    }
}

/// What a service says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Reserved,
    Confirmed(String),
    /// What was asked for is free; the key as a whole, or these places of it.
    Released,
    Unknown,
    Gone(Vec<PlaceId>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failed {
    /// Nothing was done by this call: it was never sent, or turned away.
    NotDone(String),
    /// Nobody knows what this call did.
    Lost(String),
}

/// An answer to a question that may have been put more than once: `lost` says that the fate of an earlier one is unknown.
struct Asked {
    answer: Result<Told, Failed>,
    lost: bool,
}

impl Services {
    /// Asks for places for the first time.
    pub async fn book(&self, service: &Service, ask: &Ask) -> Heard<Verdict> {
        self.reserve_and_confirm(service, ask, false).await
    }

    /// Finds out what became of a key whose call was lost. Where it names nothing, the same key is sent again if `again`,
    /// or else given back unused, so that the lost call can do nothing any more.
    pub async fn find_out(&self, service: &Service, ask: &Ask, again: bool) -> Heard<Verdict> {
        let looked = self.look_up(service, &ask.key).await;
        let trouble = trouble(&looked);
        let known = |what| Heard { what, trouble: trouble.clone() };
        match looked.answer {
            Ok(Told::Confirmed(reference)) => known(Verdict::Booked { reference }),
            Ok(Told::Reserved) => self.confirm_reserved(service, ask).await,
            Ok(Told::Released) => known(Verdict::NotDone("the service gave the places back".to_owned())),
            Ok(Told::Unknown) if again => self.reserve_and_confirm(service, ask, true).await,
            Ok(Told::Unknown) => self.give_back(service, &ask.key, &[]).await.map(|given| match given {
                GivenBack::Done => Verdict::NotDone("the service never had it".to_owned()),
                GivenBack::NotYet(why) => Verdict::Unknown(why),
            }),
            Ok(Told::Gone(_)) => known(Verdict::Unknown("the service contradicts itself".to_owned())),
            Err(Failed::NotDone(why) | Failed::Lost(why)) => known(Verdict::Unknown(why)),
        }
    }

    /// Gives places of a reservation back; with none named, the whole of it, used or not.
    pub async fn give_back(&self, service: &Service, key: &str, places: &[Uuid]) -> Heard<GivenBack> {
        let asked = self.release(service, key, places).await;
        let trouble = trouble(&asked);
        let what = match asked.answer {
            Ok(Told::Released) => GivenBack::Done,
            Ok(_) => GivenBack::NotYet("the service did not give the places back".to_owned()),
            Err(Failed::NotDone(why) | Failed::Lost(why)) => GivenBack::NotYet(why),
        };
        Heard { what, trouble }
    }

    async fn reserve_and_confirm(&self, service: &Service, ask: &Ask, lost_before: bool) -> Heard<Verdict> {
        let asked = self.reserve(service, ask).await;
        let trouble = trouble(&asked);
        let lost = lost_before || asked.lost;
        let what = match asked.answer {
            Ok(Told::Reserved) => return self.confirm_reserved(service, ask).await,
            Ok(Told::Confirmed(reference)) => Verdict::Booked { reference },
            Ok(Told::Gone(places)) => Verdict::Gone(places),
            Ok(Told::Released) => Verdict::NotDone("the service gave the places back".to_owned()),
            Ok(Told::Unknown) => Verdict::Unknown("the service contradicts itself".to_owned()),
            Err(Failed::NotDone(why)) if !lost => Verdict::NotDone(why),
            Err(Failed::NotDone(why) | Failed::Lost(why)) => Verdict::Unknown(why),
        };
        Heard { what, trouble }
    }

    async fn confirm_reserved(&self, service: &Service, ask: &Ask) -> Heard<Verdict> {
        let asked = self.confirm(service, &ask.key).await;
        let trouble = trouble(&asked);
        let what = match asked.answer {
            Ok(Told::Confirmed(reference)) => Verdict::Booked { reference },
            Ok(Told::Released) => Verdict::NotDone("the reservation lapsed at the service".to_owned()),
            Ok(_) => Verdict::Unknown("the service did not confirm what it had reserved".to_owned()),
            Err(Failed::NotDone(why) | Failed::Lost(why)) => Verdict::Unknown(why),
        };
        Heard { what, trouble }
    }
}

fn trouble(asked: &Asked) -> Option<String> {
    match &asked.answer {
        Ok(_) => None,
        Err(Failed::NotDone(why) | Failed::Lost(why)) => Some(why.clone()),
    }
}
