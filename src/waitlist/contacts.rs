//! Contacts that stop or begin to work, and what that means for the entries of their person.

use crate::db::entries::EntryMove;
use crate::db::locked_event::retry;
use crate::db::{Db, DbError};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::Entry;
use crate::domain::ids::{EntryId, EventId};
use crate::domain::reason::Reason;

/// Entries changed in one go, one event lock at a time.
const CHUNK: i64 = 100;

/// Makes every live entry say what its person's contacts say: passed over while none of them works, served again
/// when one does, at its old rank. Returns how many changed.
///
/// What is to be done is read from the rows, so that a run that was interrupted is finished by the next. An event that
/// is busy, or whose row cannot be read, holds up neither the others nor whoever calls this.
///
/// # Errors
/// When the database cannot be asked.
pub async fn catch_up(db: &Db) -> Result<usize, DbError> {
    let mut changed = 0;
    loop {
        let mut progress = 0;
        for (event, entry) in db.entries_with_stale_contacts(CHUNK).await? {
            match refresh(db, event, entry).await {
                Ok(done) => progress += usize::from(done),
                Err(error @ DbError::Unavailable(_)) => return Err(error),
                Err(error) => {
                    tracing::warn!(%event, %entry, %error, "what contacts say was not carried over");
                }
            }
        }
        changed += progress;
        // What another worker settled meanwhile is no progress of ours, and needs none.
        if progress == 0 {
            return Ok(changed);
        }
    }
}

async fn refresh(db: &Db, event: EventId, entry: EntryId) -> Result<bool, DbError> {
    retry(db.entropy(), || {
        db.with_event(event, async |event| {
            // The contacts are read under the lock: what is written is what they say now.
            let before = event.entry(entry).await?;
            let problem = event.has_contact_problem(before.person).await?;
            if problem == before.contact_problem || !before.state.is_live() {
                event.nothing_to_write();
                return Ok(false);
            }
            let after = Entry { contact_problem: problem, ..before.clone() };
            let reason = if problem { Reason::ContactProblem } else { Reason::ContactWorks };
            event
                .move_entries(&[EntryMove {
                    before,
                    after,
                    actor: Actor::System,
                    act: Act::ContactChanged,
                    reason,
                    note: None,
                    policy_version: None,
                }])
                .await?;
            // Either somebody can be offered a place again, or the next in line no longer waits for them.
            event.want_pass();
            Ok(true)
        })
    })
    .await
}
