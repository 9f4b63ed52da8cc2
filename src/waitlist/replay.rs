//! What a rule would have done with an event's own past, beside what really happened. Nothing is saved.

use chrono::{DateTime, Utc};

use crate::db::{Db, DbError};
use crate::domain::event::Event;
use crate::domain::policy::Policy;
use crate::domain::simulation::{Simulation, WhyNot, simulate};

/// A longer past is not replayed while somebody waits: 21,000 people took two seconds without optimisation.
pub const PEOPLE: i64 = 50_000;

/// The same, for the lines of its record.
pub const RECORDS: i64 = 200_000;

/// What came of wanting to know.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// The past is longer than [`PEOPLE`] or [`RECORDS`].
    TooLong {
        /// How many joined.
        people: i64,
        /// How many lines the record has.
        records: i64,
    },
    /// There is nothing that could be replayed.
    Not(WhyNot),
    /// This.
    Done(Box<Simulation>),
}

/// Replays the event's past until `now` under `policy`.
///
/// # Errors
/// What the database says.
pub async fn replay(
    db: &Db,
    event: &Event,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Result<Replayed, DbError> {
    let size = db.past_size(event.id).await?;
    if size.people > PEOPLE || size.records > RECORDS {
        return Ok(Replayed::TooLong { people: size.people, records: size.records });
    }
    let past = db.past(event, now).await?;
    let rule = policy.clone();
    let broken = |error: tokio::task::JoinError| DbError::Unreadable("past of an event", error.to_string());
    let simulated = tokio::task::spawn_blocking(move || simulate(&past, &rule)).await.map_err(broken)?;
    Ok(match simulated {
        Ok(simulation) => Replayed::Done(Box::new(simulation)),
        Err(why_not) => Replayed::Not(why_not),
    })
}
