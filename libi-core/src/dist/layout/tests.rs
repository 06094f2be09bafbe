//! Ranks against the rule by which they are given out.

use alloc::string::{String, ToString};

use proptest::prelude::*;

use super::*;
use crate::dist::OsBytes;

fn distribution(session: u32, hosts: &str) -> Distribution {
    let program = OsBytes::try_from("tool").unwrap();
    Distribution::new(SessionId(session), program, HostList::parse(hosts).unwrap())
}

fn block(first: u32, count: u32, distribution: u32) -> Block {
    Block { first: Rank(first), count, distribution }
}

#[test]
fn entries_take_the_next_ranks_in_the_order_of_the_lists() {
    let [layout] = lay_out(&[distribution(0, "b:2,a,c:3")]).unwrap().try_into().unwrap();
    assert_eq!(layout.hosts().to_string(), "b:2,a,c:3");
    assert_eq!(layout.size(), 6);
    assert_eq!(layout.blocks(HostIndex(2)), [block(3, 3, 0)]);
    assert_eq!(layout.leader(HostIndex(1)), Some(Rank(2)));
    let hosts: Vec<_> = (0..7).map(|rank| layout.host_of(Rank(rank)).map(|host| host.0)).collect();
    assert_eq!(hosts, [Some(0), Some(0), Some(1), Some(2), Some(2), Some(2), None]);
    assert_eq!(layout.blocks(HostIndex(3)), []);
    assert_eq!((layout.leader(HostIndex(u32::MAX)), layout.host_of(Rank(u32::MAX))), (None, None));
}

#[test]
fn a_host_named_again_keeps_one_leader_and_gets_more_ranks() {
    let two = [distribution(0, "a:2,b,a"), distribution(0, "b:2,c")];
    let [layout] = lay_out(&two).unwrap().try_into().unwrap();
    assert_eq!(layout.hosts().to_string(), "a:3,b:3,c");
    assert_eq!(layout.blocks(HostIndex(0)), [block(0, 2, 0), block(3, 1, 0)]);
    assert_eq!(layout.blocks(HostIndex(1)), [block(2, 1, 0), block(4, 2, 1)]);
    assert_eq!(layout.leader(HostIndex(1)), Some(Rank(2)));
    let ranks: Vec<_> = layout.blocks(HostIndex(1)).iter().flat_map(|block| block.ranks()).collect();
    assert_eq!(ranks, [Rank(2), Rank(4), Rank(5)]);
}

#[test]
fn many_entries_of_one_process_are_one_block() {
    let [layout] = lay_out(&[distribution(0, "a,a,a,b,b")]).unwrap().try_into().unwrap();
    assert_eq!(layout.blocks(HostIndex(0)), [block(0, 3, 0)]);
    assert_eq!(layout.blocks(HostIndex(1)), [block(3, 2, 0)]);
}

#[test]
fn another_user_or_port_is_another_host() {
    let [layout] = lay_out(&[distribution(0, "a,me@a,a:2222*1,a")]).unwrap().try_into().unwrap();
    assert_eq!(layout.hosts().to_string(), "a:2,me@a,a:2222:1");
}

#[test]
fn sessions_are_laid_out_side_by_side_in_the_order_of_their_first_distribution() {
    let mixed = [distribution(7, "a,b"), distribution(3, "b"), distribution(7, "c")];
    let layouts = lay_out(&mixed).unwrap();
    let seen: Vec<(u32, u32, String)> =
        layouts.iter().map(|l| (l.session().0, l.size(), l.hosts().to_string())).collect();
    assert_eq!(seen, [(7, 3, "a,b,c".to_string()), (3, 1, "b".to_string())]);
    assert_eq!(layouts[0].blocks(HostIndex(2)), [block(2, 1, 2)], "named by its place in the whole list");
}

#[test]
fn nothing_to_launch_and_too_much_to_count_are_refused() {
    assert_eq!(lay_out(&[]).unwrap_err(), LayoutError::NoDistributions);
    let empty = [distribution(0, "a"), distribution(4, "")];
    assert_eq!(lay_out(&empty).unwrap_err(), LayoutError::NoHosts(SessionId(4)));
    let huge = [distribution(0, "a:4294967295,a")];
    assert_eq!(lay_out(&huge).unwrap_err(), LayoutError::TooManyRanks(SessionId(0)));
}

proptest! {
    #[test]
    fn ranks_and_hosts_agree_with_the_entries_one_by_one(
        lists in prop::collection::vec(prop::collection::vec((0u8..6, 1u32..4), 1..12), 1..4)
    ) {
        let distributions: Vec<_> = lists
            .iter()
            .map(|list| {
                let items: Vec<_> = list.iter().map(|(host, n)| std::format!("h{host}:{n}")).collect();
                distribution(0, &items.join(","))
            })
            .collect();
        let [layout] = lay_out(&distributions).unwrap().try_into().unwrap();
        let mut rank = 0;
        for (d, list) in (0..).zip(&lists) {
            for &(host, n) in list {
                for _ in 0..n {
                    let at = layout.host_of(Rank(rank)).unwrap();
                    prop_assert_eq!(layout.hosts().entry(at.0 as usize).unwrap().name, std::format!("h{host}"));
                    let here = layout.blocks(at).iter().find(|b| b.ranks().any(|r| r == Rank(rank)));
                    prop_assert_eq!(here.map(|b| b.distribution), Some(d));
                    rank += 1;
                }
            }
        }
        prop_assert_eq!(layout.size(), rank);
        let leaders: Vec<_> = (0..layout.hosts().len() as u32).map(|h| layout.leader(HostIndex(h))).collect();
        prop_assert!(leaders.is_sorted(), "hosts are numbered by their leaders");
    }
}

#[test]
fn a_layout_that_has_grown_by_its_own_hosts_is_sent_unchanged() {
    let [mut layout] = lay_out(&[distribution(2, "a:2,me@b:22*3,a")]).unwrap().try_into().unwrap();
    let [more] = lay_out(&[distribution(2, "a,a2,a:2")]).unwrap().try_into().unwrap();
    layout.grow(&more).unwrap();
    layout.grow(&more).unwrap();
    let bytes = postcard::to_allocvec(&layout).unwrap();
    let back: Layout = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(back, layout);
    assert_eq!(back.host_of(Rank(6)), Some(HostIndex(2)));
}

#[test]
fn members_that_move_are_on_their_new_host_alone() {
    let [mut layout] = lay_out(&[distribution(2, "a:4,b:2,c")]).unwrap().try_into().unwrap();
    layout.move_to(HostRef::new("d"), &[block(1, 2, 0), block(4, 2, 0)]).unwrap();
    let hosts =
        |layout: &Layout| (0..7).map(|rank| layout.host_of(Rank(rank)).unwrap().0).collect::<Vec<_>>();
    assert_eq!(hosts(&layout), [0, 3, 3, 0, 3, 3, 2]);
    assert_eq!(layout.blocks(HostIndex(0)), [block(0, 1, 0), block(3, 1, 0)]);
    assert_eq!((layout.blocks(HostIndex(1)), layout.leader(HostIndex(1))), (&[][..], None));
    assert_eq!(layout.blocks(HostIndex(3)), [block(1, 2, 0), block(4, 2, 0)]);
    assert_eq!((layout.size(), layout.hosts().len()), (7, 4));
    let back: Layout = postcard::from_bytes(&postcard::to_allocvec(&layout).unwrap()).unwrap();
    assert_eq!(back, layout);
    // Again, to a host that has none then.
    layout.move_to(HostRef::new("a"), &[]).unwrap();
    layout.move_to(HostRef::new("e"), &[block(1, 1, 0), block(6, 1, 0), block(7, 1, 0)]).unwrap();
    assert_eq!(hosts(&layout), [0, 5, 3, 0, 3, 3, 5]);
    assert_eq!(layout.blocks(HostIndex(4)), []);
    let back: Layout = postcard::from_bytes(&postcard::to_allocvec(&layout).unwrap()).unwrap();
    assert_eq!(back, layout);
}

#[test]
fn what_is_no_layout_is_refused() {
    let hosts = HostList::parse("a,b").unwrap();
    let parse = |blocks: Vec<Vec<Block>>| {
        let bytes = postcard::to_allocvec(&(SessionId(0), &hosts, blocks)).unwrap();
        postcard::from_bytes::<Layout>(&bytes).is_ok()
    };
    assert!(parse(vec![vec![block(0, 1, 0)], vec![block(1, 1, 0)]]));
    for wrong in [
        vec![vec![block(0, 1, 0)]],
        vec![vec![block(0, 2, 0)], vec![block(1, 1, 0)]],
        vec![vec![block(1, 1, 0)], vec![block(2, 1, 0)]],
        vec![vec![block(0, 0, 0)], vec![block(0, 1, 0)]],
        vec![vec![block(2, 1, 0), block(0, 1, 0)], vec![block(1, 1, 0)]],
        vec![vec![block(0, u32::MAX, 0)], vec![block(u32::MAX, 2, 0)]],
    ] {
        assert!(!parse(wrong.clone()), "{wrong:?}");
    }
}
