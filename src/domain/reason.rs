//! Why something happened: one enum for people and program, published so that every record can be read.

use super::words;

words! {
    /// The reason of a transition. The first group is given by staff, the second by customers, the last by rules.
    Reason {
        /// The customer asked for it, by telephone or in person.
        CustomerAsked = "customer_asked",
        /// Somebody of the staff made a mistake that this puts right.
        StaffMistake = "staff_mistake",
        /// The same person or place is there twice.
        Duplicate = "duplicate",
        /// Nobody could be reached on any contact.
        Unreachable = "unreachable",
        /// The event itself changed.
        EventChanged = "event_changed",
        /// Rules were broken: false names, resale, automated joining.
        Misuse = "misuse",
        /// A courtesy; the note or the house's rules say which.
        Goodwill = "goodwill",
        /// Needed for access: a companion, a wheelchair place.
        Accessibility = "accessibility",
        /// A technical fault on our side or on the way.
        TechnicalFault = "technical_fault",
        /// Anything else; the note says what.
        Other = "other",

        /// The customer joined the list.
        Joined = "joined",
        /// The contact was confirmed by a code.
        Confirmed = "confirmed",
        /// Staff or an import answered for the contact.
        VouchedFor = "vouched_for",
        /// The customer accepted.
        Accepted = "accepted",
        /// The customer declined.
        Declined = "declined",
        /// The customer left the list.
        Left = "left",
        /// The customer booked without an offer.
        BookedDirectly = "booked_directly",
        /// The customer cancelled a booking.
        Cancelled = "cancelled",
        /// The customer paused the entry.
        Paused = "paused",
        /// The customer, or the date set, ended a pause.
        Resumed = "resumed",
        /// The customer says that the position is wrong.
        PositionWrong = "position_wrong",
        /// The customer says that somebody else came first.
        PassedOver = "passed_over",
        /// The customer says that they were told too late, or not at all.
        ToldLate = "told_late",
        /// The customer says that something else is wrong.
        OtherwiseWrong = "otherwise_wrong",

        /// First in order of arrival among those who could take the place.
        FirstInOrder = "first_in_order",
        /// First among those who go first for a public reason, or among everybody else after them.
        FirstInBand = "first_in_band",
        /// First in the order that was drawn.
        FirstDrawn = "first_drawn",
        /// Everybody who could take a place was called.
        EverybodyCalled = "everybody_called",
        /// Past the instant from which everybody who could take a place is called.
        FinalCall = "final_call",
        /// A call ended without an answer: who is called keeps the rank, and nothing was kept for them.
        CallEnded = "call_ended",
        /// A draw was needed before anything could be offered.
        DrawNeeded = "draw_needed",
        /// Somebody was put right before it, and their ranks were too close.
        RoomMade = "room_made",
        /// The deadline passed without an answer.
        WindowEnded = "window_ended",
        /// Not confirmed within 24 hours.
        NotConfirmed = "not_confirmed",
        /// Too many offers in a row without an answer.
        Silent = "silent",
        /// The list was closed.
        ListClosed = "list_closed",
        /// The event was cancelled.
        EventCancelled = "event_cancelled",
        /// A cancelled event takes place after all.
        EventRestored = "event_restored",
        /// The event started or is over.
        EventOver = "event_over",
        /// The start moved before the deadline.
        StartMoved = "start_moved",
        /// Nobody could be told for a while, or the first letter was late.
        TellingFailed = "telling_failed",
        /// The booking service says that the place is gone.
        PlaceGone = "place_gone",
        /// The booking service could not be reached, or did not do it.
        ServiceFailed = "service_failed",
        /// None of the person's contacts works.
        ContactProblem = "contact_problem",
        /// A contact works again.
        ContactWorks = "contact_works",
        /// The date until which the person wanted to wait passed.
        UntilPassed = "until_passed",
        /// Places were added or retired.
        CapacityChanged = "capacity_changed",
        /// A schedule set by staff was due.
        Scheduled = "scheduled",
        /// Brought in from a file.
        Imported = "imported",
        /// An endpoint answered that nobody wants deliveries any more.
        EndpointGone = "endpoint_gone",
        /// An endpoint took nothing for three days.
        EndpointFailing = "endpoint_failing",
        /// Set up by staff.
        SetUp = "set_up",
    }
}

impl Reason {
    /// The reasons staff may give for an act that changes somebody's chance.
    pub const FOR_STAFF: &'static [Self] = &[
        Self::CustomerAsked,
        Self::StaffMistake,
        Self::Duplicate,
        Self::Unreachable,
        Self::EventChanged,
        Self::Misuse,
        Self::Goodwill,
        Self::Accessibility,
        Self::TechnicalFault,
        Self::Other,
    ];

    /// The reason in a few words, for staff.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::CustomerAsked => "the customer asked",
            Self::StaffMistake => "a mistake by staff",
            Self::Duplicate => "a duplicate",
            Self::Unreachable => "could not be reached",
            Self::EventChanged => "the event changed",
            Self::Misuse => "misuse",
            Self::Goodwill => "goodwill",
            Self::Accessibility => "accessibility",
            Self::TechnicalFault => "a technical fault",
            Self::Other => "another reason",
            Self::Joined => "joined the list",
            Self::Confirmed => "confirmed the contact",
            Self::VouchedFor => "vouched for",
            Self::Accepted => "accepted by the customer",
            Self::Declined => "declined by the customer",
            Self::Left => "left the list",
            Self::BookedDirectly => "booked directly",
            Self::Cancelled => "cancelled by the customer",
            Self::Paused => "paused by the customer",
            Self::Resumed => "resumed",
            Self::PositionWrong => "the position is said to be wrong",
            Self::PassedOver => "somebody else is said to have come first",
            Self::ToldLate => "told too late, they say, or not at all",
            Self::OtherwiseWrong => "something else is said to be wrong",
            Self::FirstInOrder => "first in order of arrival",
            Self::FirstInBand => "first in the order of the groups",
            Self::FirstDrawn => "first in the order drawn",
            Self::EverybodyCalled => "everybody who could take it was called",
            Self::FinalCall => "the final call",
            Self::CallEnded => "the call ended",
            Self::RoomMade => "room was made for somebody ahead",
            Self::DrawNeeded => "a draw was needed",
            Self::WindowEnded => "no answer before the deadline",
            Self::NotConfirmed => "not confirmed within 24 hours",
            Self::Silent => "too many offers without an answer",
            Self::ListClosed => "the list was closed",
            Self::EventCancelled => "the event was cancelled",
            Self::EventRestored => "the event takes place after all",
            Self::EventOver => "the event has started or is over",
            Self::StartMoved => "the start moved",
            Self::TellingFailed => "nobody could be told in time",
            Self::PlaceGone => "the booking service says that the place is gone",
            Self::ServiceFailed => "the booking service did not do it",
            Self::ContactProblem => "no contact works",
            Self::ContactWorks => "a contact works again",
            Self::UntilPassed => "the date they wanted to wait until passed",
            Self::CapacityChanged => "the number of places changed",
            Self::Scheduled => "as scheduled",
            Self::Imported => "imported",
            Self::EndpointGone => "the endpoint is gone",
            Self::EndpointFailing => "the endpoint took nothing for three days",
            Self::SetUp => "set up",
        }
    }

    /// The staff reason named by a form, or `None` for anything staff may not give.
    #[must_use]
    pub fn from_staff(text: &str) -> Option<Self> {
        Self::parse(text).filter(|reason| Self::FOR_STAFF.contains(reason))
    }
}

/// A reason given by staff, with the note that `other` demands. Parsed once, at the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaffReason {
    /// Why.
    pub reason: Reason,
    /// In their own words; may hold personal data, so it is kept beside the audit, not in it.
    pub note: Option<String>,
}

/// What is wrong with a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReasonError {
    /// None, or none that staff may give.
    #[error("Choose a reason.")]
    Missing,
    /// `other` without a note.
    #[error("Say in the note what the other reason is.")]
    NoteMissing,
    /// More than 2,000 characters.
    #[error("The note is too long: at most 2,000 characters.")]
    NoteTooLong,
}

impl StaffReason {
    /// # Errors
    /// When the reason is missing, or `other` has no note, or the note is too long.
    pub fn parse(reason: &str, note: &str) -> Result<Self, ReasonError> {
        let reason = Reason::from_staff(reason).ok_or(ReasonError::Missing)?;
        let note = note.trim();
        if note.chars().count() > 2_000 {
            return Err(ReasonError::NoteTooLong);
        }
        if reason == Reason::Other && note.is_empty() {
            return Err(ReasonError::NoteMissing);
        }
        Ok(Self { reason, note: (!note.is_empty()).then(|| note.to_owned()) })
    }
}
