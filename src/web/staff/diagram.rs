//! An offer's states as a small branching line, the path it has travelled lit.

use crate::domain::audit::Act;
use crate::domain::offer::OfferState;

/// A dot with its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The word.
    pub word: &'static str,
    /// Where it stands.
    pub x: i32,
    /// Where it stands.
    pub y: i32,
    /// Whether the offer has been there.
    pub lit: bool,
    /// Whether it is there now.
    pub here: bool,
}

/// A stretch between two dots, as the `d` of an SVG path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The path.
    pub d: String,
    /// Whether the offer has gone it.
    pub lit: bool,
}

/// The diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// The dots.
    pub nodes: Vec<Node>,
    /// The stretches, the lit ones last, so that they lie on top.
    pub ways: Vec<Way>,
    /// The same in words.
    pub words: String,
}

const START: (i32, i32) = (24, 78);
const END: i32 = 210;

impl Diagram {
    /// Of an offer in this state that went through these acts, the oldest first.
    #[must_use]
    pub fn new(state: OfferState, acts: &[Act]) -> Self {
        let been = |act: Act, end: OfferState| state == end || acts.contains(&act);
        let given_again = acts.contains(&Act::Reactivated);
        let mut ends = vec![
            (OfferState::Accepted, state == OfferState::Accepted),
            (OfferState::Declined, state == OfferState::Declined),
            (OfferState::Expired, been(Act::Expired, OfferState::Expired)),
            (OfferState::Revoked, been(Act::Revoked, OfferState::Revoked)),
        ];
        if matches!(state, OfferState::Accepting | OfferState::Conflicted) {
            ends[0] = (state, true);
        }
        let mut nodes = vec![Node {
            word: OfferState::Pending.as_str(),
            x: START.0,
            y: START.1,
            lit: true,
            here: state == OfferState::Pending,
        }];
        let mut ways = Vec::new();
        for (number, (end, lit)) in ends.into_iter().enumerate() {
            let y = 18 + 40 * i32::try_from(number).unwrap_or(0);
            let (x, from) = START;
            ways.push(Way {
                d: format!("M{x} {from} C {} {from}, {} {y}, {END} {y}", x + 90, END - 90),
                lit,
            });
            if matches!(end, OfferState::Expired | OfferState::Revoked) && given_again && lit && state != end
            {
                let low = y + 22;
                ways.push(Way {
                    d: format!("M{END} {y} C {} {low}, {} {low}, {x} {from}", END - 60, x + 30),
                    lit: true,
                });
            }
            nodes.push(Node { word: end.as_str(), x: END, y, lit, here: state == end });
        }
        ways.sort_by_key(|way| way.lit);
        let mut travelled = vec!["pending"];
        for act in acts {
            match act {
                Act::Accepted => travelled.push("accepted"),
                Act::Declined => travelled.push("declined"),
                Act::Expired => travelled.push("expired"),
                Act::Revoked | Act::Removed => travelled.push("revoked"),
                Act::Reactivated => travelled.push("pending again"),
                _ => {}
            }
        }
        Self { nodes, ways, words: travelled.join(", then ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_it_went_is_lit_and_the_others_are_not() {
        let diagram = Diagram::new(
            OfferState::Accepted,
            &[Act::Offered, Act::Expired, Act::Reactivated, Act::Accepted],
        );
        let lit: Vec<_> = diagram.nodes.iter().filter(|node| node.lit).map(|node| node.word).collect();
        assert_eq!(lit, ["pending", "accepted", "expired"]);
        assert_eq!(diagram.words, "pending, then expired, then pending again, then accepted");
        assert_eq!(diagram.nodes.iter().filter(|node| node.here).count(), 1);
        assert_eq!(diagram.ways.iter().filter(|way| way.lit).count(), 3, "there, back, and there again");
    }
}
