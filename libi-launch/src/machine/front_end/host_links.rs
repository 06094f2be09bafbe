//! Which hosts have a direct link to their launcher.

use crate::machine::message::ChildMessage;

/// The links of all hosts.
#[derive(Debug)]
pub(in crate::machine) struct HostLinks {
    /// Whether the link of each host is direct, once that is known.
    known: Vec<Option<bool>>,
    direct: u32,
    in_channel: u32,
}

impl HostLinks {
    pub(super) fn new(hosts: usize) -> Self {
        Self { known: vec![None; hosts], direct: 0, in_channel: 0 }
    }

    /// The session has so many hosts more.
    pub(super) fn grow(&mut self, hosts: u32) {
        self.known.resize(self.known.len() + hosts as usize, None);
    }

    /// Records the state of a host's link. A host that is lost or relaunched has none; that of a host
    /// whose members have all ended stays known.
    pub(super) fn note(&mut self, report: &ChildMessage) {
        let (host, direct) = match report {
            ChildMessage::Link(host, direct) => (host, Some(*direct)),
            ChildMessage::Relaunch(host, ..) | ChildMessage::Failed(host, ..) => (host, None),
            _ => return,
        };
        let Some(known) = self.known.get_mut(host.0 as usize) else { return };
        let before = std::mem::replace(known, direct);
        for (is, count) in [(true, &mut self.direct), (false, &mut self.in_channel)] {
            *count = *count + u32::from(direct == Some(is)) - u32::from(before == Some(is));
        }
    }

    /// Whether the link of each host is direct, once that is known.
    pub(in crate::machine) fn known(&self) -> &[Option<bool>] {
        &self.known
    }

    /// How many links are direct, and how many should be but are not.
    pub(in crate::machine) fn counts(&self) -> (u32, u32) {
        (self.direct, self.in_channel)
    }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::HostIndex;
    use libi_core::plan::late::Attempt;

    use super::*;

    #[test]
    fn a_host_that_is_relaunched_has_no_link_until_it_reports_one_again() {
        let mut links = HostLinks::new(2);
        links.note(&ChildMessage::Link(HostIndex(0), true));
        links.note(&ChildMessage::Link(HostIndex(1), false));
        assert_eq!((links.known(), links.counts()), (&[Some(true), Some(false)][..], (1, 1)));
        links.note(&ChildMessage::Relaunch(HostIndex(1), Attempt::default(), None));
        assert_eq!((links.known(), links.counts()), (&[Some(true), None][..], (1, 0)));
        links.note(&ChildMessage::Link(HostIndex(1), true));
        links.note(&ChildMessage::Link(HostIndex(1), true));
        assert_eq!(links.counts(), (2, 0), "a repeated report counts once");
    }

    #[test]
    fn links_of_unknown_hosts_are_ignored() {
        let mut links = HostLinks::new(1);
        links.note(&ChildMessage::Link(HostIndex(1), true));
        assert_eq!((links.known(), links.counts()), (&[None][..], (0, 0)));
    }
}
