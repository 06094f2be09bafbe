//! Which packet arrives where, and when: each host's in the order in which it has sent them to
//! another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use libi_core::sim::rng::Rng;

use crate::packet::Packet;
use crate::rules::{Rule, What};

/// Drops what there would be too much of to keep.
const MOST: usize = 200_000;

/// A packet: when it arrives, how many were sent before it, and where it arrives.
type UnderWay = (Instant, u64, usize, Vec<u8>);

/// See the [module](self).
pub(crate) struct Switch {
    names: BTreeMap<String, usize>,
    hosts: BTreeMap<IpAddr, usize>,
    delays: Vec<Duration>,
    drops: Vec<Rule>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    count: u64,
    rng: Rng,
}

impl Switch {
    /// Of hosts with these names and addresses.
    pub(crate) fn new<'a>(hosts: impl Iterator<Item = (&'a str, IpAddr)>) -> Self {
        let (mut names, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for (number, (name, address)) in hosts.enumerate() {
            names.insert(name.to_owned(), number);
            addresses.insert(address, number);
        }
        let delays = vec![Duration::ZERO; names.len()];
        let (drops, under_way) = Default::default();
        Self { names, hosts: addresses, delays, drops, under_way, count: 0, rng: Rng::new(1) }
    }

    /// A host has sent this.
    pub(crate) fn take(&mut self, from: usize, bytes: &[u8], now: Instant) {
        let Some(packet) = Packet::read(bytes) else { return };
        let Some(&to) = self.hosts.get(&packet.to) else { return };
        let is_dropped = self.drops.iter().any(|drop| drop.befalls(from, to, &packet, &mut self.rng));
        if !is_dropped && self.under_way.len() < MOST {
            self.under_way.push(Reverse((now + self.delays[from], self.count, to, bytes.to_vec())));
            self.count += 1;
        }
    }

    /// What arrives now, and where.
    pub(crate) fn give(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        self.due().filter(|due| *due <= now)?;
        self.under_way.pop().map(|Reverse((_, _, to, packet))| (to, packet))
    }

    /// When something arrives next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse((due, ..))| *due)
    }

    /// Does what a line says; see the head of the program.
    pub(crate) fn obey(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["address", host, address] => {
                let host = self.host(host)?;
                let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
                self.hosts.insert(address, host);
            }
            ["delay", host, micros] => {
                let host = self.host(host)?;
                self.delays[host] = Duration::from_micros(number(micros)?);
            }
            ["drop", from, to, percent, what] => {
                let (from, to) = (self.some(from)?, self.some(to)?);
                let what = What::parse(what).ok_or(format!("{what}: all, tcp, tcp4 or tcp6"))?;
                self.drops.push(Rule { from, to, percent: number(percent)?, what });
            }
            ["heal"] => self.drops.clear(),
            _ => return Err(format!("{line:?}: see the head of its main.rs")),
        }
        Ok(())
    }

    fn host(&self, name: &str) -> Result<usize, String> {
        self.names.get(name).copied().ok_or(format!("{name} is no host"))
    }

    fn some(&self, name: &str) -> Result<Option<usize>, String> {
        if name == "*" { Ok(None) } else { self.host(name).map(Some) }
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::tcp;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    struct Scene {
        switch: Switch,
        began: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let hosts = [("front", 0), ("h1", 1), ("h2", 2)];
            let hosts = hosts.map(|(name, last)| (name, IpAddr::from([10, 77, 0, last])));
            Self { switch: Switch::new(hosts.into_iter()), began: Instant::now() }
        }

        fn told(mut self, line: &str) -> Self {
            self.switch.obey(line).unwrap();
            self
        }

        fn send(&mut self, from: usize, to: u8, port: u16, at: u64) {
            self.switch.take(from, &tcp([10, 77, 0, to], port), self.began + MS(at));
        }

        /// Where the next packet that has arrived by then is, and its port.
        fn next(&mut self, at: u64) -> Option<(usize, u16)> {
            let (to, bytes) = self.switch.give(self.began + MS(at))?;
            Some((to, u16::from_be_bytes([bytes[22], bytes[23]])))
        }
    }

    #[test]
    fn what_a_host_sends_arrives_after_its_delay_and_in_its_order() {
        let mut scene = Scene::new().told("delay h1 20000");
        scene.send(1, 2, 1, 0);
        scene.send(1, 2, 2, 0);
        scene.send(2, 1, 3, 5);
        assert_eq!(scene.switch.due(), Some(scene.began + MS(5)));
        assert_eq!([scene.next(19), scene.next(19)], [Some((1, 3)), None]);
        assert_eq!([scene.next(20), scene.next(20), scene.next(20)], [Some((2, 1)), Some((2, 2)), None]);
        assert_eq!(scene.switch.due(), None);
    }

    #[test]
    fn packets_to_an_unknown_address_are_dropped_until_a_host_has_it() {
        let mut scene = Scene::new();
        scene.send(1, 9, 1, 0);
        scene = scene.told("address h2 10.77.0.9");
        scene.send(1, 9, 2, 0);
        assert_eq!([scene.next(1), scene.next(1)], [Some((2, 2)), None]);
    }

    #[test]
    fn a_cut_has_one_direction_and_heals() {
        let mut scene = Scene::new().told("drop h1 * 100 all");
        scene.send(1, 2, 1, 0);
        scene.send(2, 1, 2, 0);
        assert_eq!([scene.next(1), scene.next(1)], [Some((1, 2)), None]);
        scene = scene.told("heal");
        scene.send(1, 2, 3, 0);
        assert_eq!(scene.next(1), Some((2, 3)));
    }

    #[test]
    fn where_tcp_is_dropped_ssh_is_not() {
        for (what, arrives) in [("tcp", false), ("tcp4", false), ("tcp6", true)] {
            let mut scene = Scene::new().told(&format!("drop * * 100 {what}"));
            scene.send(1, 2, 4711, 0);
            assert_eq!(scene.next(1).is_some(), arrives, "{what}");
            scene.send(1, 2, 22, 0);
            assert_eq!(scene.next(1), Some((2, 22)), "{what}");
        }
    }

    #[test]
    fn of_all_packets_the_share_is_lost_that_was_said() {
        let mut scene = Scene::new().told("drop * * 30 all");
        (0..10_000).for_each(|_| scene.send(1, 2, 1, 0));
        let arrived = std::iter::from_fn(|| scene.next(1)).count();
        assert!((6_700..7_300).contains(&arrived), "{arrived}");
    }

    #[test]
    fn what_is_not_understood_is_said_and_changes_nothing() {
        let mut scene = Scene::new();
        for line in ["", "cut h1", "delay h9 1", "delay h1 soon", "drop h1 * 100 udp", "address h1 here"] {
            assert!(scene.switch.obey(line).is_err(), "{line:?}");
        }
        scene.send(1, 2, 1, 0);
        assert_eq!(scene.next(0), Some((2, 1)));
    }
}
