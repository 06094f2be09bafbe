//! Decides how much of a collective call passes over each link. The signature of a call determines
//! how many items pass in each direction, so every process can tell when a link has carried
//! everything.
//!
//! Of a link, *near* is this process and all that it reaches without the link; *far* is the rest.

use libi_core::ids::Rank;

use crate::message::{CallSignature, Kind, Length};

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

/// How many bytes of an array are combined at a time.
pub(crate) const SEGMENT: u64 = 64 << 10;

/// Into how many values the data of a reduction are divided.
pub(crate) fn segments(called: &CallSignature) -> u64 {
    match (called.kind, called.length) {
        (Kind::Reduce(..), Length::Equal(length)) => length.div_ceil(SEGMENT).max(1),
        _ => 1,
    }
}

/// How many items pass from near to far; in reductions, the number of members that values
/// represent.
pub(crate) fn outgoing(called: &CallSignature, sides: LinkSides) -> u64 {
    let LinkSides { near, far, root_is_far, up } = sides;
    match called.kind {
        Kind::Barrier | Kind::Ring | Kind::Fence => 0,
        Kind::Broadcast => u64::from(!root_is_far),
        Kind::Gather if root_is_far => near,
        Kind::Scatter if !root_is_far => far,
        Kind::Gather | Kind::Scatter => 0,
        Kind::AllGather => near,
        Kind::AllToAll => near * far,
        Kind::Reduce(..) | Kind::ReduceCustom => {
            let members = if up { near } else { near + far };
            // The result goes down to those that get it.
            let goes = up || called.root.is_none() || root_is_far;
            if goes { members * segments(called) } else { 0 }
        }
    }
}

/// How many items pass from far to near.
pub(crate) fn incoming(called: &CallSignature, sides: LinkSides) -> u64 {
    let LinkSides { near, far, root_is_far, up } = sides;
    // As seen from the far side. A call without a root has it on neither side.
    let there = LinkSides { near: far, far: near, root_is_far: !root_is_far, up: !up };
    outgoing(called, there)
}

/// How many items or values this process itself receives.
pub(crate) fn local_items(called: &CallSignature, me: Rank, members: u64) -> u64 {
    match called.kind {
        Kind::Barrier | Kind::Ring | Kind::Fence => 0,
        Kind::Broadcast | Kind::Scatter => 1,
        Kind::Gather if called.root == Some(me) => members,
        Kind::Gather => 0,
        Kind::AllGather | Kind::AllToAll => members,
        Kind::Reduce(..) | Kind::ReduceCustom if called.root.is_none_or(|root| root == me) => {
            members * segments(called)
        }
        Kind::Reduce(..) | Kind::ReduceCustom => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::{Element, Op};

    const KINDS: [Kind; 9] = [
        Kind::Barrier,
        Kind::Broadcast,
        Kind::Gather,
        Kind::Scatter,
        Kind::AllGather,
        Kind::AllToAll,
        Kind::Reduce(Op::Sum, Element::U8),
        Kind::ReduceCustom,
        Kind::Ring,
    ];

    fn called(kind: Kind) -> CallSignature {
        let rootless = matches!(kind, Kind::Barrier | Kind::AllGather | Kind::AllToAll | Kind::Ring);
        CallSignature { kind, root: (!rootless).then_some(Rank(0)), length: Length::Equal(SEGMENT + 1) }
    }

    #[test]
    fn each_side_of_a_link_expects_what_the_other_sends() {
        for kind in KINDS {
            for root_is_far in [false, true] {
                for up in [false, true] {
                    let here = LinkSides { near: 3, far: 5, root_is_far, up };
                    let there = LinkSides { near: 5, far: 3, root_is_far: !root_is_far, up: !up };
                    assert_eq!(outgoing(&called(kind), here), incoming(&called(kind), there), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn results_go_down_to_all_members_or_to_the_root_alone() {
        let down = |root_is_far| LinkSides { near: 3, far: 5, root_is_far, up: false };
        let reduce = called(Kind::Reduce(Op::Sum, Element::U8));
        let all = CallSignature { root: None, ..reduce };
        assert_eq!(segments(&reduce), 2);
        assert_eq!((outgoing(&reduce, down(true)), outgoing(&reduce, down(false))), (16, 0));
        assert_eq!((outgoing(&all, down(false)), outgoing(&all, down(true))), (16, 16));
    }
}
