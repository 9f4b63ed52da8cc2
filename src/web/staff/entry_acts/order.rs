//! Acts on an entry's order: another group, another number.

use axum::response::Response;

use super::super::super::WebState;
use super::super::super::error::Error;
use super::super::super::page::{Errors, Tone};
use super::super::Staff;
use super::super::act::{ActForm, done};
use super::super::frame::isolated;
use super::{About, EntryAct};
use crate::domain::reason::StaffReason;
use crate::domain::standing::grouped;
use crate::waitlist::bands::BandOutcome;
use crate::waitlist::placing::PlacingOutcome;

pub(super) async fn change_group(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
) -> Result<Response, Error> {
    let mut errors = Errors::default();
    let band = errors.check("after", form.after.parse().map_err(|_| "Choose a group."));
    let Some(band) = band else { return about.page(staff, EntryAct::Group, form, errors).await };
    let event = about.frame.event.id;
    let outcome = state.waitlist().move_to_band(event, about.entry.id, band, staff.actor(), reason).await?;
    let (tone, said) = match outcome {
        BandOutcome::Moved(Some(band)) => {
            (Tone::Done, format!("{} is in the group {}.", about.name(), isolated(&band.name)))
        }
        BandOutcome::Moved(None) => (Tone::Done, format!("{} is in no group any more.", about.name())),
        BandOutcome::Already => (Tone::Note, format!("{} was in this group before.", about.name())),
        BandOutcome::Over(_) => (Tone::Warn, about.first(state).await?),
        BandOutcome::Reordering => (
            Tone::Warn,
            "The list is still being put into the order of the new rule. Try again in a moment; nothing was done."
                .to_owned(),
        ),
        BandOutcome::NoBands => {
            (Tone::Warn, "The rule has no groups: only the priority order has.".to_owned())
        }
        BandOutcome::UnknownBand => {
            errors.add("after", "The rule has no such group any more. Choose one of these.");
            return about.page(staff, EntryAct::Group, form, errors).await;
        }
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

pub(super) async fn move_in_line(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
) -> Result<Response, Error> {
    let mut errors = Errors::default();
    let number = form.number.trim().parse::<i64>().ok().filter(|number| *number > 0);
    let number = errors.check("number", number.ok_or("Enter a number from 1."));
    let Some(number) = number else { return about.page(staff, EntryAct::Move, form, errors).await };
    let event = about.frame.event.id;
    let outcome = state.waitlist().place_at(event, about.entry.id, number, staff.actor(), reason).await?;
    let wrong = match outcome {
        PlacingOutcome::Placed => {
            let said = format!("Moved: {} has number {} now.", about.name(), grouped(number));
            return done(staff, Tone::Done, said, &form.back, &about.path()).await;
        }
        PlacingOutcome::Already => {
            let said = format!("{} had number {} before.", about.name(), grouped(number));
            return done(staff, Tone::Note, said, &form.back, &about.path()).await;
        }
        PlacingOutcome::NotWaiting(_) => {
            let said = about.first(state).await?;
            return done(staff, Tone::Warn, said, &form.back, &about.path()).await;
        }
        PlacingOutcome::Reordering => {
            let said = "The list is still being put into the order of the new rule. Try again in a moment; nothing was done.";
            return done(staff, Tone::Warn, said, &form.back, &about.path()).await;
        }
        PlacingOutcome::Lottery => {
            let said = "A draw decides the order, and anybody can check it: nobody is moved in it.";
            return done(staff, Tone::Warn, said, &form.back, &about.path()).await;
        }
        PlacingOutcome::TooFar => "The line is shorter than that.",
        PlacingOutcome::OtherGroup => "Who has that number is in another group: change the group first.",
        PlacingOutcome::NoRoom => "So many were put there that no room is left: choose another number.",
    };
    errors.add("number", wrong);
    about.page(staff, EntryAct::Move, form, errors).await
}
