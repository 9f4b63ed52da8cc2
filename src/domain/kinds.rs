//! Sets of kinds of places. Places with the same attributes are of one kind, a small number of their event, so that
//! whether somebody wants a place is a bit, whatever the event says of its places.

/// The largest number of a kind: an event tells so many apart.
pub const KIND_MAX: i32 = 1023;

/// Some kinds of places of one event.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds([u64; 16]);

impl Kinds {
    /// Every kind, those to come included: who wants nothing in particular.
    pub const ALL: Self = Self([u64::MAX; 16]);

    /// No kind.
    pub const NONE: Self = Self([0; 16]);

    /// Whether a kind is among them.
    #[must_use]
    pub fn has(&self, kind: i32) -> bool {
        Self::bit(kind).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    /// Whether the two have a kind in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Takes a kind in.
    pub fn add(&mut self, kind: i32) {
        if let Some((word, bit)) = Self::bit(kind) {
            self.0[word] |= bit;
        }
    }

    /// Takes in what another set has.
    pub fn add_all(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    fn bit(kind: i32) -> Option<(usize, u64)> {
        let kind = usize::try_from(kind).ok().filter(|kind| *kind < 1024)?;
        Some((kind / 64, 1 << (kind % 64)))
    }
}

impl FromIterator<i32> for Kinds {
    fn from_iter<I: IntoIterator<Item = i32>>(kinds: I) -> Self {
        let mut set = Self::NONE;
        kinds.into_iter().for_each(|kind| set.add(kind));
        set
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all kinds");
        }
        f.debug_set().entries((0..=KIND_MAX).filter(|kind| self.has(*kind))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let mut set: Kinds = [0, 63, 64, KIND_MAX].into_iter().collect();
        let members = |set: Kinds| (-1..2000).filter(|kind| set.has(*kind)).collect::<Vec<_>>();
        assert_eq!(members(set), [0, 63, 64, 1023]);
        set.add(2000);
        set.add(-1);
        set.add_all(&[5].into_iter().collect());
        assert_eq!(members(set), [0, 5, 63, 64, 1023]);
        assert_eq!(members(Kinds::ALL).len(), 1024);
    }
}
