//! Room for an entry between two others: ranks are sparse, so most of the time nobody else's changes.

use super::entry::OrderKey;

/// What those who are given other ranks are apart, so that there is room for the next time.
const APART: i64 = 1 << 10;

/// Where an entry fits in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its rank.
    pub rank: i64,
    /// New ranks for the first of those behind, in their order: only where they stood without room between them.
    pub moved: Vec<i64>,
}

/// Room right before the first of those `behind` and after who is `ahead`: their ranks, in order. `None` where so many
/// stand so close that all those behind would have to move.
#[must_use]
pub fn room(ahead: Option<i64>, behind: &[i64]) -> Option<Room> {
    let Some(ahead) = ahead else {
        let rank = behind.first()?.checked_sub(OrderKey::rank_of(1))?;
        return Some(Room { rank, moved: Vec::new() });
    };
    // Nobody moves; or as few as leaves them apart, and is followed by one who stays.
    (0_i64..).zip(behind).find_map(|(moved, stays)| {
        let step = (stays - ahead) / (moved + 2);
        let enough = if moved == 0 { 1 } else { APART };
        (step >= enough)
            .then(|| Room { rank: ahead + step, moved: (2..moved + 2).map(|n| ahead + n * step).collect() })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_few_move_only_where_there_is_no_room() {
        let rank = OrderKey::rank_of;
        let between = |ahead, behind: &[i64]| room(ahead, behind).expect("room");
        assert_eq!(between(None, &[rank(1)]), Room { rank: 0, moved: vec![] });
        assert_eq!(between(Some(rank(1)), &[rank(2)]), Room { rank: rank(3) / 2, moved: vec![] });
        let close = between(Some(rank(1)), &[rank(1) + 1, rank(1) + 2, rank(2)]);
        assert_eq!(close.moved.len(), 2);
        assert_eq!(room(Some(1), &[2, 3, 4]), None);
        assert_eq!(room(None, &[]), None);
    }

    proptest! {
        /// Whoever is put in front of any number, again and again, stands there, and nobody else changes places.
        #[test]
        fn the_order_is_what_was_asked_for(numbers in prop::collection::vec(0..6_usize, 0..200)) {
            let mut line: Vec<(i64, usize)> = (0..6).map(|n| (OrderKey::rank_of(7 + n), 1_000)).collect();
            for (who, number) in numbers.into_iter().enumerate() {
                let ahead = number.checked_sub(1).map(|before| line[before].0);
                let behind: Vec<i64> = line[number..].iter().map(|(rank, _)| *rank).collect();
                let Some(Room { rank, moved }) = room(ahead, &behind) else { continue };
                for (other, rank) in line[number..].iter_mut().zip(&moved) {
                    other.0 = *rank;
                }
                line.insert(number, (rank, who));
                prop_assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0), "{line:?}");
                prop_assert_eq!(line[number].1, who);
            }
        }
    }
}
