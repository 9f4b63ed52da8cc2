//! Complaining that something is not right about a request, and answering that. Neither changes anybody's chance: both are on
//! the record, so that it can be asked of every list how often people found it unfair.

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide_once};
use crate::db::DbError;
use crate::db::messages::Draft;
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::complaint::{About, Words};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::message::{Facts, Occasion};

/// What came of complaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComplainOutcome {
    /// It was written down, as the how-manieth of this entry.
    WrittenDown(i32),
    /// The one before has not been answered yet: nothing was written.
    Unanswered(i32),
}

/// What came of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerOutcome {
    /// They are told by mail, and see it on the page of their request.
    Answered,
    /// It was answered before, or nothing was said.
    NothingToAnswer,
}

impl Waitlist {
    /// Somebody says that something is not right about an entry, or staff write it down for them. One at a time.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn complain(
        &self,
        event: EventId,
        entry: EntryId,
        about: About,
        words: &Words,
        actor: Actor,
    ) -> Result<ComplainOutcome, DbError> {
        decide_once!(self, event, async |event| {
            event.entry(entry).await?;
            let last = event.last_complaint(entry).await?;
            let number = match last {
                Some(last) if last.answer.is_none() => {
                    event.nothing_to_write();
                    return Ok(ComplainOutcome::Unanswered(last.number));
                }
                Some(last) => last.number + 1,
                None => 1,
            };
            event.add_complaint(entry, number, about, words).await?;
            let subject = Subject::Entry(entry);
            event.record(Record::new(event.now(), actor, Act::Complained, subject, about.reason()));
            Ok(ComplainOutcome::WrittenDown(number))
        })
        .await
    }

    /// Staff answer what somebody complained of last, by its number, and they are told.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn answer_complaint(
        &self,
        event: EventId,
        entry: EntryId,
        number: i32,
        answer: &Words,
        actor: Actor,
    ) -> Result<AnswerOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let person = event.entry(entry).await?.person;
            let last = event.last_complaint(entry).await?;
            let Some(last) = last.filter(|last| last.number == number && last.answer.is_none()) else {
                event.nothing_to_write();
                return Ok(AnswerOutcome::NothingToAnswer);
            };
            event.answer_complaint(entry, number, answer).await?;
            let (subject, reason) = (Subject::Entry(entry), last.about.reason());
            event.record(Record::new(event.now(), actor, Act::Answered, subject, reason));
            event.tell(Draft {
                person,
                occasion: Occasion::Answered,
                subject: entry.0,
                count: number,
                facts: Facts {
                    entry: Some(entry.0),
                    complaint: Some(last.words),
                    answer: Some(answer.as_str().to_owned()),
                    ..Facts::default()
                },
            });
            Ok(AnswerOutcome::Answered)
        })
        .await
    }
}
