//! A session on hosts in namespaces, some of which are to be lost.

use std::time::{Duration, Instant};

use libi::{FrontEnd, LaunchOptions, Session};

use libi_testkit::labs::netns::Network;
use libi_testkit::labs::{Marked, Process, within};
use libi_testkit::local::{Heard, launch_with};

pub(crate) const SILENCE: Duration = Duration::from_secs(4);
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Within this time a host that is cut off has ended, even if its processes ignore signals.
pub(crate) const ENDED: Duration = Duration::from_secs(5 + 2);
/// How much longer things may take on a machine that does much else.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// A session of two members on each of so many hosts, some of which are to be lost.
pub(crate) struct Scene {
    pub(crate) network: Network,
    pub(crate) front: FrontEnd,
    pub(crate) session: Session,
    pub(crate) mark: Marked,
    pub(crate) heard: Heard,
    pub(crate) hosts: u32,
    pub(crate) victims: Vec<u32>,
}

impl Scene {
    pub(crate) fn launch(
        network: Network,
        hosts: u32,
        victims: &[u32],
        words: &[&str],
        options: &LaunchOptions,
    ) -> Self {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let members = mark.program(&network.member(), &format!("h[1-{hosts}]:2"), words);
        let session = launch_with(&front, &[members], options);
        Self { network, front, session, mark, heard: Heard::default(), hosts, victims: victims.to_vec() }
    }

    /// The first of seven hosts has launched the second and the third, and each of these two more.
    pub(crate) fn is_binary_tree(&self) {
        let report = self.session.report().unwrap();
        let launched: Vec<_> = report.hosts().iter().map(|host| host.launcher.map(|by| by.0)).collect();
        assert_eq!(launched[3..], [Some(1), Some(1), Some(2), Some(2)], "{launched:?}");
    }

    /// Processes of the launch on a host.
    pub(crate) fn left_on(&self, host: u32) -> Vec<Process> {
        let there = self.network.processes(&format!("h{host}"));
        let ours = self.mark.processes().into_iter();
        ours.filter(|process| there.contains(&process.pid)).collect()
    }

    /// A host that is cut off has ended by itself.
    pub(crate) fn nothing_is_left_where_it_was_lost(&self, since: Instant) {
        let victims = || self.victims.iter().flat_map(|host| self.left_on(*host)).collect::<Vec<_>>();
        within(ENDED + SLACK, "what was lost has ended", || victims().is_empty());
        println!("all that was lost has ended after {:?}", since.elapsed());
    }

    pub(crate) fn end(self) {
        let Self { network, front, session, mark, .. } = self;
        drop((session, front));
        mark.nothing_is_left();
        drop(network);
    }
}

pub(crate) fn ranks(host: u32) -> [u32; 2] {
    [2 * host - 2, 2 * host - 1]
}
