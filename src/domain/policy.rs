//! An event's rule: versioned settings, and the sentences that say what they do.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};

use super::reason::Reason;
use super::words;

words! {
    /// In which order people are served.
    Ordering {
        /// Who came first is served first.
        Arrival = "arrival",
        /// Bands with published reasons go first, in order of arrival inside each.
        Priority = "priority",
        /// A draw ranks those who wait; who joins later is in the next draw.
        Lottery = "lottery",
        /// Staff pick and say why; nothing goes out by itself.
        Manual = "manual",
    }
}

words! {
    /// What an offer is.
    Mode {
        /// Each offer keeps its places until the deadline.
        Hold = "hold",
        /// Everybody who could take a place is called, and the first to accept has it.
        NotifyAll = "notify_all",
    }
}

/// When a draw is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// By the first pass that needs one.
    AtNeed,
    /// At this instant, and by need after it.
    At(DateTime<Utc>),
    /// When staff say so.
    ByStaff,
}

impl Draws {
    /// The word stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtNeed => "need",
            Self::At(_) => "at",
            Self::ByStaff => "staff",
        }
    }

    /// The instant set, where it is one.
    #[must_use]
    pub fn at(self) -> Option<DateTime<Utc>> {
        if let Self::At(at) = self { Some(at) } else { None }
    }
}

words! {
    /// A public source of chance that takes part in a draw, so that not even the operator could choose.
    Beacon {
        /// The League of Entropy's quicknet: a value every three seconds, which anybody can verify.
        Drand = "drand",
    }
}

/// A group of people who go first, for a reason that is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// Below 0; the lowest goes first, and band 0 is everybody else. It stays the same as bands come and go.
    pub number: i16,
    /// "Members", "Residents".
    pub name: String,
    /// Why they go first.
    pub reason: String,
}

/// At most so many bands.
pub const BANDS_MAX: usize = 9;

/// Below every band of priority.
const BAND_FIRST: i16 = -8_192;

/// A draw's people have a band of their own, the earlier draw first: draw 1 has -10,000, and no priority is as low.
#[must_use]
pub fn band_of_draw(number: i32) -> i16 {
    i16::try_from(-10_001 + i32::min(number, 10_000)).unwrap_or(-1)
}

words! {
    /// What happens when the head of the list wants more places than are open.
    Fit {
        /// Wait for more.
        Strict = "strict",
        /// Go to the first that fits, and record who was passed over.
        Fill = "fill",
    }
}

words! {
    /// What becomes of an entry whose offer ended without a booking.
    After {
        /// To the end of the line.
        Back = "back",
        /// Same rank, but behind everyone not yet offered in this round.
        Keep = "keep",
        /// Off the list.
        Leave = "leave",
    }
}

words! {
    /// What a deadline does when telling of the offer fails: mail that does not work, or reaches somebody late.
    Telling {
        /// The clock runs on.
        Run = "run",
        /// A late letter moves the deadline by as much; while nobody can be told, deadlines wait and nothing new is
        /// held.
        Extend = "extend",
    }
}

words! {
    /// What a waiting customer is told of their place in the line.
    PositionShown {
        /// The exact position.
        Exact = "exact",
        /// A band: "among the first 10", "… 50", "… 100", …
        Band = "band",
        /// Nothing.
        None = "none",
    }
}

/// The settings of one version of an event's rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The version; goes up by one with every change.
    pub version: i32,
    /// In which order people are served.
    pub ordering: Ordering,
    /// Who goes first under [`Ordering::Priority`], the first of all first.
    pub bands: Vec<Band>,
    /// Whether people are told their band.
    pub bands_shown: bool,
    /// When draws are held under [`Ordering::Lottery`].
    pub draws: Draws,
    /// The public source of chance that takes part in draws.
    pub beacon: Option<Beacon>,
    /// What an offer is.
    pub mode: Mode,
    /// How long an offer lives; `None` is a passive list: people join, nothing is offered by itself.
    pub window: Option<Duration>,
    /// From then on whoever could take an open place is called, and the first to accept has it.
    pub cutoff: Option<DateTime<Utc>>,
    /// At most so many holds pending at once, staff's included; 0: as many as there are places.
    pub batch_size: i32,
    /// When the head wants more places than are open.
    pub fit: Fit,
    /// After a deadline passed without an answer.
    pub after_expiry: After,
    /// After "no, thank you".
    pub after_decline: After,
    /// After so many offers in a row without an answer the entry is paused.
    pub silence_limit: i32,
    /// When telling of an offer fails.
    pub telling: Telling,
    /// At most so many live entries.
    pub list_cap: Option<i32>,
    /// At most so many places for one entry.
    pub party_limit: Option<i32>,
    /// At most so many places for one person, booked ones included: asked when they join, ask for more, book, or have
    /// an offer made again.
    pub person_limit: Option<i32>,
    /// What a waiting customer is told of their place in the line.
    pub position_shown: PositionShown,
}

/// The largest party of any event.
pub const PARTY_MAX: i32 = 100;

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Outside 5 minutes – 7 days.
    #[error("The time to answer must be between 5 minutes and 7 days.")]
    Window,
    /// Outside 0 – 10,000.
    #[error("The batch size must be between 0 and 10,000.")]
    BatchSize,
    /// Outside 1 – 100.
    #[error("The number of unanswered offers must be between 1 and 100.")]
    SilenceLimit,
    /// Negative.
    #[error("The list’s limit must be 0 or more.")]
    ListCap,
    /// Outside 1 – 100.
    #[error("The largest party must be between 1 and 100.")]
    PartyLimit,
    /// Outside 1 – 100.
    #[error("The places for one person must be between 1 and 100.")]
    PersonLimit,
    /// A final call ends at the start, so there has to be one.
    #[error("A final call ends when the event starts: give the event a start first.")]
    CutoffWithoutStart,
    /// At or after the start.
    #[error("The final call must begin before the event starts.")]
    CutoffAfterStart,
    /// A passive list offers nothing by itself, so there is nothing to go over from.
    #[error("A final call takes the place of offers with a deadline: give a time to answer first.")]
    CutoffWithoutWindow,
    /// An instant that has passed.
    #[error("The final call must begin in the future.")]
    CutoffPast,
    /// People were called with the old instant.
    #[error("The final call has been made: when it began stays as it was.")]
    CutoffCalled,
    /// A draw is an order in which places are offered one by one.
    #[error(
        "A lottery ranks people for offers one after the other: it cannot be joined with calls to everybody."
    )]
    LotteryToAll,
    /// Nothing goes out by itself, and a call to everybody does.
    #[error("Where staff pick, nothing goes out by itself: it cannot be joined with calls to everybody.")]
    ManualToAll,
    /// A draw that would have been.
    #[error("The draw must be before the event starts.")]
    DrawAfterStart,
    /// Draws and beacons belong to lotteries.
    #[error("Only a lottery holds draws.")]
    DrawWithoutLottery,
    /// No band to go first.
    #[error("Name at least one group that goes first.")]
    NoBands,
    /// More than nine.
    #[error("At most nine groups can go first.")]
    TooManyBands,
    /// A group that exists was moved before or behind another.
    #[error("Groups that exist cannot change places: take one away, and add it again.")]
    BandsMoved,
    /// Without a name, without a reason, too long, or two of one name.
    #[error(
        "Each group needs a name of its own and the reason why it goes first, in at most 200 characters each."
    )]
    Bands,
}

impl Policy {
    /// The rule of a new event: arrival order, holds, passive until a window is set.
    #[must_use]
    pub fn first() -> Self {
        Self {
            version: 1,
            ordering: Ordering::Arrival,
            bands: vec![],
            bands_shown: false,
            draws: Draws::AtNeed,
            beacon: None,
            mode: Mode::Hold,
            window: None,
            cutoff: None,
            batch_size: 0,
            fit: Fit::Strict,
            after_expiry: After::Back,
            after_decline: After::Leave,
            silence_limit: 2,
            telling: Telling::Extend,
            list_cap: None,
            party_limit: None,
            person_limit: None,
            position_shown: PositionShown::Exact,
        }
    }

    /// Whether the settings are within their bounds and go together, for an event that starts then.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self, starts_at: Option<DateTime<Utc>>) -> Result<(), PolicyError> {
        if self.window.is_some_and(|window| window < Duration::minutes(5) || window > Duration::days(7)) {
            return Err(PolicyError::Window);
        }
        if !(0..=10_000).contains(&self.batch_size) {
            return Err(PolicyError::BatchSize);
        }
        if !(1..=100).contains(&self.silence_limit) {
            return Err(PolicyError::SilenceLimit);
        }
        if self.list_cap.is_some_and(|cap| cap < 0) {
            return Err(PolicyError::ListCap);
        }
        if self.party_limit.is_some_and(|limit| !(1..=PARTY_MAX).contains(&limit)) {
            return Err(PolicyError::PartyLimit);
        }
        if self.person_limit.is_some_and(|limit| !(1..=PARTY_MAX).contains(&limit)) {
            return Err(PolicyError::PersonLimit);
        }
        self.check_order(starts_at)?;
        match (self.cutoff, starts_at) {
            (Some(_), _) if self.window.is_none() => Err(PolicyError::CutoffWithoutWindow),
            (Some(_), None) => Err(PolicyError::CutoffWithoutStart),
            (Some(cutoff), Some(start)) if cutoff >= start => Err(PolicyError::CutoffAfterStart),
            _ => Ok(()),
        }
    }

    fn check_order(&self, starts_at: Option<DateTime<Utc>>) -> Result<(), PolicyError> {
        match (self.ordering, self.mode) {
            (Ordering::Lottery, Mode::NotifyAll) => return Err(PolicyError::LotteryToAll),
            (Ordering::Manual, Mode::NotifyAll) => return Err(PolicyError::ManualToAll),
            _ => {}
        }
        if self.ordering != Ordering::Lottery && (self.draws != Draws::AtNeed || self.beacon.is_some()) {
            return Err(PolicyError::DrawWithoutLottery);
        }
        if self.draws.at().zip(starts_at).is_some_and(|(draw, start)| draw >= start) {
            return Err(PolicyError::DrawAfterStart);
        }
        if self.ordering == Ordering::Priority && self.bands.is_empty() {
            return Err(PolicyError::NoBands);
        }
        if self.bands.len() > BANDS_MAX {
            return Err(PolicyError::TooManyBands);
        }
        let sound = |text: &str| !text.trim().is_empty() && text.chars().count() <= 200;
        let mut names: Vec<String> = self.bands.iter().map(|band| band.name.to_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < self.bands.len()
            || !self.bands.iter().all(|band| sound(&band.name) && sound(&band.reason))
        {
            return Err(PolicyError::Bands);
        }
        Ok(())
    }

    /// Numbers for groups given as names and reasons, the first to go first. Who exists keeps its number, so that
    /// nobody in it has to move, and a new one is put between its neighbours.
    ///
    /// # Errors
    /// When groups that exist changed places.
    pub fn number_bands(&self, wanted: Vec<(String, String)>) -> Result<Vec<Band>, PolicyError> {
        let same = |band: &&Band, name: &str| band.name.to_lowercase() == name.to_lowercase();
        let kept: Vec<Option<i16>> = wanted
            .iter()
            .map(|(name, _)| self.bands.iter().find(|band| same(band, name)).map(|band| band.number))
            .collect();
        let mut bands = Vec::with_capacity(wanted.len());
        let mut above = BAND_FIRST;
        for (index, (name, reason)) in wanted.into_iter().enumerate() {
            let number = kept[index].unwrap_or_else(|| {
                let below = kept[index..].iter().flatten().next().copied().unwrap_or(0);
                above + (below - above) / 2
            });
            if number <= above || number >= 0 {
                return Err(PolicyError::BandsMoved);
            }
            above = number;
            bands.push(Band { number, name, reason });
        }
        Ok(bands)
    }

    /// The band that an entry has, where the rule has bands and it is in one of them.
    #[must_use]
    pub fn band(&self, number: i16) -> Option<&Band> {
        self.bands.iter().find(|band| band.number == number)
    }

    /// The last band that has its turn: in a lottery whoever was not drawn waits for the next draw.
    #[must_use]
    pub fn last_band(&self) -> i16 {
        if self.ordering == Ordering::Lottery { -1 } else { i16::MAX }
    }

    /// Why somebody is the next to be offered a place.
    #[must_use]
    pub fn reason_of_turn(&self) -> Reason {
        match self.ordering {
            Ordering::Arrival | Ordering::Manual => Reason::FirstInOrder,
            Ordering::Priority => Reason::FirstInBand,
            Ordering::Lottery => Reason::FirstDrawn,
        }
    }

    /// The next instant after `now` that the rule set itself: the draw, or the beginning of the final call.
    #[must_use]
    pub fn due_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        [self.draws.at(), self.cutoff].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Whether whoever could take an open place is called now, instead of offered it in turn.
    #[must_use]
    pub fn calls(&self, now: DateTime<Utc>) -> bool {
        self.mode == Mode::NotifyAll || self.cutoff.is_some_and(|cutoff| cutoff <= now)
    }

    /// The largest party this rule lets join.
    #[must_use]
    pub fn largest_party(&self) -> i32 {
        largest_party(self.party_limit, self.person_limit)
    }

    /// Whether `party` more places would be more than one person may have who has booked so many.
    #[must_use]
    pub fn enough(&self, has: i32, party: i32) -> Option<Enough> {
        self.person_limit
            .filter(|most| has > 0 && has.saturating_add(party) > *most)
            .map(|most| Enough { has, most })
    }

    /// The deadline of an offer made at `now` with this window: never after the start.
    #[must_use]
    pub fn deadline(window: Duration, now: DateTime<Utc>, starts_at: Option<DateTime<Utc>>) -> DateTime<Utc> {
        let deadline = now + window;
        starts_at.map_or(deadline, |start| deadline.min(start))
    }
}

/// A person would have more places than the rule lets one person have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enough {
    /// So many they have booked.
    pub has: i32,
    /// So many one person may have.
    pub most: i32,
}

/// The largest party of a rule with these limits.
#[must_use]
pub fn largest_party(party_limit: Option<i32>, person_limit: Option<i32>) -> i32 {
    [party_limit, person_limit].into_iter().flatten().min().unwrap_or(PARTY_MAX)
}

#[cfg(test)]
mod properties;
