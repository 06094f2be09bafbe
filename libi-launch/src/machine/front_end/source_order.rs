//! The order in which hosts get staged files from each other; see
//! [`machine::sources`](crate::machine::sources).
//!
//! | event | effect |
//! |---|---|
//! | a host asks | its source is the first that has room for a client; its parent if none has |
//! | a host is launched again, or given up | it is no source, and its source has room again |
//! | a host is slow | it is no source; its clients get the source before its own, or its own |
//!
//! Whether a host receives slowly, or its source sends slowly, its clients are better off with the source
//! before that. That may then have more clients than others, and the slow host has none.
//!
//! Each source has one client: the hosts are a chain, and each sends the files once. A host in a chain
//! has a piece some time after the host before it. If there are so many hosts that the last would wait
//! half as long as the files take, each source has two clients.
//!
//! The source of a host is always before it: no circle can form.

use std::net::SocketAddr;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;

use crate::machine::staging::PIECE;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::machine) struct SourceOrder {
    /// How many clients a source may have.
    most: u32,
    entries: Vec<Entry>,
    /// All entries before this place have no room.
    first_with_room: usize,
}

#[derive(Debug)]
struct Entry {
    launch: Launch,
    addresses: Vec<SocketAddr>,
    source: Option<HostIndex>,
    clients: u32,
    is_slow: bool,
}

impl SourceOrder {
    /// For so many hosts, and files of so many bytes.
    pub(in crate::machine) fn new(hosts: usize, bytes: u64) -> Self {
        let is_chain = hosts as u64 <= bytes / PIECE / 2;
        Self { most: if is_chain { 1 } else { 2 }, entries: Vec::new(), first_with_room: 0 }
    }

    /// A host asks for a source; returns the addresses of that, none for its parent.
    pub(in crate::machine) fn place(
        &mut self,
        launch: Launch,
        addresses: Vec<SocketAddr>,
    ) -> Vec<SocketAddr> {
        self.remove(launch);
        let most = self.most;
        let has_room = |entry: &Entry| entry.clients < most && !entry.addresses.is_empty() && !entry.is_slow;
        let open = self.entries.iter().skip(self.first_with_room).position(has_room);
        self.first_with_room = open.map_or(self.entries.len(), |place| self.first_with_room + place);
        let entry = self.entries.get_mut(self.first_with_room);
        let (source, at) = entry.map_or((None, Vec::new()), |entry| {
            entry.clients += 1;
            (Some(entry.launch.host), entry.addresses.clone())
        });
        self.entries.push(Entry { launch, addresses, source, clients: 0, is_slow: false });
        at
    }

    /// A host is slow; returns those that got files from it, and their new source, at these addresses.
    pub(in crate::machine) fn is_slow(&mut self, host: HostIndex) -> Vec<(Launch, Vec<SocketAddr>)> {
        let before =
            |host: HostIndex, entries: &[Entry]| entries.iter().find(|of| of.launch.host == host)?.source;
        let Some(own) = before(host, &self.entries) else { return Vec::new() };
        let other = before(own, &self.entries).unwrap_or(own);
        let mut addresses = Vec::new();
        let clients = self.entries.iter().filter(|entry| entry.source == Some(host)).count();
        for entry in &mut self.entries {
            if entry.launch.host == host {
                (entry.is_slow, entry.clients) = (true, 0);
            } else if entry.launch.host == other {
                addresses.clone_from(&entry.addresses);
                entry.clients += clients as u32; // there are few
            }
        }
        let moved = self.entries.iter_mut().filter(|entry| entry.source == Some(host));
        moved
            .map(|entry| {
                entry.source = Some(other);
                (entry.launch, addresses.clone())
            })
            .collect()
    }

    /// This launch of a host, and those before it, are over.
    pub(in crate::machine) fn remove(&mut self, launch: Launch) {
        let is_over =
            |entry: &Entry| entry.launch.host == launch.host && entry.launch.attempt <= launch.attempt;
        let Some(place) = self.entries.iter().position(is_over) else { return };
        let source = self.entries.remove(place).source;
        self.first_with_room = 0;
        // Those that got files from it get them from their parents. The host may come again, behind them.
        for client in self.entries.iter_mut().filter(|entry| entry.source == Some(launch.host)) {
            client.source = None;
        }
        let mut others = self.entries.iter_mut();
        if let Some(entry) = source.and_then(|source| others.find(|entry| entry.launch.host == source)) {
            entry.clients = entry.clients.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;

    fn launch(host: u32, failed: u16) -> Launch {
        Launch { host: HostIndex(host), attempt: Attempt { failed, ..Attempt::default() } }
    }

    fn at(host: u32) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([10, 0, 0, host as u8], 1))]
    }

    #[test]
    fn hosts_are_a_chain_in_the_order_in_which_they_ask() {
        let mut order = SourceOrder::new(10, 10 << 20);
        let sources = [4, 2, 7].map(|host| order.place(launch(host, 0), at(host)));
        assert_eq!(sources, [vec![], at(4), at(2)]);
    }

    #[test]
    fn many_hosts_with_short_files_are_a_tree() {
        let mut order = SourceOrder::new(1_000, 10 << 20);
        let sources = [0, 1, 2, 3, 4].map(|host| order.place(launch(host, 0), at(host)));
        assert_eq!(sources, [vec![], at(0), at(0), at(1), at(1)]);
    }

    #[test]
    fn a_host_that_is_over_is_no_source_and_its_own_has_room_again() {
        let mut order = SourceOrder::new(10, 10 << 20);
        for host in [0, 1, 2] {
            order.place(launch(host, 0), at(host));
        }
        order.remove(launch(2, 0));
        assert_eq!(order.place(launch(3, 0), at(3)), at(1));
        // It was the first client of its source, which has another one.
        order.remove(launch(0, 0));
        assert_eq!(order.place(launch(0, 1), at(0)), at(3));
        order.remove(launch(0, 0));
        assert_eq!(order.place(launch(4, 0), at(4)), at(0), "a later attempt goes on");
    }

    #[test]
    fn clients_of_a_slow_host_get_the_source_before_its_own() {
        let mut order = SourceOrder::new(10, 10 << 20);
        for host in [0, 1, 2, 3] {
            order.place(launch(host, 0), at(host));
        }
        assert_eq!(order.is_slow(HostIndex(2)), [(launch(3, 0), at(0))]);
        assert_eq!(order.place(launch(4, 0), at(4)), at(3), "the slow one is no source any more");
        assert_eq!(order.is_slow(HostIndex(2)), [], "it has no client");
        assert_eq!(order.is_slow(HostIndex(1)), [(launch(2, 0), at(0))], "there is none before its own");
        assert_eq!(order.is_slow(HostIndex(0)), [], "it has none, and its clients no other");
        assert_eq!(order.is_slow(HostIndex(9)), []);
    }

    #[test]
    fn a_source_is_before_its_clients_also_when_a_host_has_come_again() {
        let mut order = SourceOrder::new(10, 10 << 20);
        for host in [0, 1, 2, 3] {
            order.place(launch(host, 0), at(host));
        }
        assert_eq!(order.place(launch(0, 1), at(0)), at(3));
        assert_eq!(order.is_slow(HostIndex(2)), [(launch(3, 0), at(1))], "host 0 gets its files from host 3");
        let place = |host| order.entries.iter().position(|entry| entry.launch.host == host);
        for entry in &order.entries {
            assert!(entry.source.is_none_or(|source| place(source) < place(entry.launch.host)), "{entry:?}");
        }
    }

    #[test]
    fn a_host_that_does_not_listen_is_no_source() {
        let mut order = SourceOrder::new(10, 10 << 20);
        assert_eq!(order.place(launch(0, 0), at(0)), vec![]);
        assert_eq!(order.place(launch(1, 0), vec![]), at(0));
        assert_eq!(order.place(launch(2, 0), at(2)), vec![], "none is left");
        assert_eq!(order.place(launch(3, 0), at(3)), at(2));
    }
}
