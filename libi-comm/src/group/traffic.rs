//! Decides how many items of a collective call pass over each link. The signature of a call
//! determines the amounts in both directions, so every process can tell when a link has carried
//! everything.
//!
//! Of a link, *near* is this process and all that it reaches without the link; *far* is the rest.

use super::operation::{Operation, Receivers, Senders};

/// The members on both sides of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkSides {
    pub(crate) near: u64,
    pub(crate) far: u64,
    /// Whether the root of the call is on the far side.
    pub(crate) root_is_far: bool,
    /// Whether the far side is above.
    pub(crate) up: bool,
}

/// How much passes over a link in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// From near to far.
    pub(crate) out: u64,
    /// From far to near.
    pub(crate) into: u64,
}

impl LinkSides {
    /// As seen from the far side. A call without a root has it on neither side.
    pub(crate) const fn reversed(self) -> Self {
        Self { near: self.far, far: self.near, root_is_far: !self.root_is_far, up: !self.up }
    }
}

/// How many items of an operation pass over a link.
pub(crate) fn items(operation: &Operation, sides: LinkSides) -> Amounts {
    let amount = |LinkSides { near, far, root_is_far, .. }| {
        let senders = match operation.senders {
            Senders::None => 0,
            Senders::Root => u64::from(!root_is_far),
            Senders::All => near,
        };
        senders
            * match operation.receivers {
                Receivers::None => 0,
                Receivers::Root => u64::from(root_is_far),
                Receivers::All => 1,
                Receivers::Each => far,
            }
    };
    Amounts { out: amount(sides), into: amount(sides.reversed()) }
}

/// How many items this member receives, its own included.
pub(crate) const fn own_items(operation: &Operation, is_root: bool, members: u64) -> u64 {
    let receives = match operation.receivers {
        Receivers::None => false,
        Receivers::Root => is_root,
        Receivers::All | Receivers::Each => true,
    };
    match operation.senders {
        Senders::Root if receives => 1,
        Senders::All if receives => members,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::operation::Transport;

    fn operations() -> impl Iterator<Item = Operation> {
        let receivers = [Receivers::Root, Receivers::All, Receivers::Each];
        let all = [Senders::Root, Senders::All].into_iter().zip([receivers; 2]);
        let row =
            |senders, receivers| Operation { name: "", senders, receivers, transport: Transport::Items };
        all.flat_map(move |(senders, receivers)| receivers.map(|receivers| row(senders, receivers)))
    }

    #[test]
    fn each_side_of_a_link_expects_what_the_other_sends() {
        for operation in operations() {
            for root_is_far in [false, true] {
                for up in [false, true] {
                    let here = LinkSides { near: 3, far: 5, root_is_far, up };
                    let there = LinkSides { near: 5, far: 3, root_is_far: !root_is_far, up: !up };
                    let [here, there] = [here, there].map(|sides| items(&operation, sides));
                    assert_eq!((here.out, here.into), (there.into, there.out), "{operation:?}");
                }
            }
        }
    }

    #[test]
    fn a_tree_of_two_processes_carries_each_item_once() {
        let amounts = |senders, receivers| {
            let row = Operation { name: "", senders, receivers, transport: Transport::Items };
            let sides = LinkSides { near: 3, far: 5, root_is_far: true, up: false };
            let Amounts { out, into } = items(&row, sides);
            (out, into, own_items(&row, false, 8))
        };
        assert_eq!(amounts(Senders::Root, Receivers::All), (0, 1, 1));
        assert_eq!(amounts(Senders::Root, Receivers::Each), (0, 3, 1));
        assert_eq!(amounts(Senders::All, Receivers::Root), (3, 0, 0));
        assert_eq!(amounts(Senders::All, Receivers::All), (3, 5, 8));
        assert_eq!(amounts(Senders::All, Receivers::Each), (15, 15, 8));
    }
}
