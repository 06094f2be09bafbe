//! Which packets do not arrive.

use std::net::IpAddr;

use libi_core::sim::rng::Rng;

use crate::packet::Packet;

/// Drops some of the packets from one host, or any, to one host, or any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) from: Option<usize>,
    pub(crate) to: Option<usize>,
    pub(crate) percent: u64,
    pub(crate) what: What,
}

/// Which packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    All,
    /// Those of TCP, over one sort of addresses or both, unless they are of ssh.
    Tcp {
        four: bool,
        six: bool,
    },
}

impl What {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "all" => Self::All,
            "tcp" => Self::Tcp { four: true, six: true },
            "tcp4" => Self::Tcp { four: true, six: false },
            "tcp6" => Self::Tcp { four: false, six: true },
            _ => return None,
        })
    }

    fn means(self, packet: &Packet) -> bool {
        match (self, packet.to) {
            (Self::All, _) => true,
            (Self::Tcp { four, .. }, IpAddr::V4(_)) => four && packet.is_other_tcp,
            (Self::Tcp { six, .. }, IpAddr::V6(_)) => six && packet.is_other_tcp,
        }
    }
}

impl Rule {
    /// Whether this packet is dropped.
    pub(crate) fn befalls(&self, from: usize, to: usize, packet: &Packet, rng: &mut Rng) -> bool {
        let is = |who: Option<usize>, whom| who.is_none_or(|who| who == whom);
        is(self.from, from) && is(self.to, to) && self.what.means(packet) && rng.below(100) < self.percent
    }
}
