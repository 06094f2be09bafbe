//! What a child is told of the session and of its place, once it has said hello.

use libi_core::dist::layout::Block;
use libi_core::ids::HostIndex;
use libi_core::secure::Secret;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node};
use crate::machine::direct_links::LinkPolicy;
use crate::machine::message::{ParentMessage, SessionConfig};
use crate::options::StandardInput;

impl Node {
    /// The config of the leader of this host, whose link `has_arrived` at the rendezvous or not.
    pub(super) fn config_of_leader(
        &self,
        host: (HostIndex, String),
        blocks: Vec<Block>,
        has_arrived: bool,
    ) -> SessionConfig {
        let policy = self.direct.policy_for_children(self.options.links);
        let links = if has_arrived { LinkPolicy::Channel } else { policy };
        let files_secret = self.direct.files_secret_of_children().cloned();
        SessionConfig { files_secret, ..self.config(host, blocks, links, true) }
    }

    pub(super) fn config(
        &self,
        (host, name): (HostIndex, String),
        blocks: Vec<Block>,
        links: LinkPolicy,
        is_leader: bool,
    ) -> SessionConfig {
        let mut options = self.options.clone();
        options.links = links;
        SessionConfig {
            options,
            secret: self.direct.secret().filter(|_| links != LinkPolicy::Channel).cloned(),
            files_secret: None,
            orphans_secret: self.direct.orphans_secret().filter(|_| is_leader).cloned(),
            reconnects: self.reconnects,
            dial: Vec::new(),
            parent: None,
            takes_back: is_leader
                && !self.options.is_static()
                && self.front_end().is_none_or(|front| front.launchers().are_all()),
            size: if is_leader { self.size } else { self.size_for_programs() },
            host,
            name,
            blocks,
            restarts: match is_leader {
                true => self.launcher.spec(host).map_or(0, |spec| spec.restarts),
                false => self.restarts.of_host(),
            },
            programs: self.programs.clone(),
            input: match self.growth.is_late(host) {
                true => StandardInput::Empty,
                false => self.input.for_child(is_leader, self.is_front() && host == HostIndex(0)),
            },
        }
    }

    /// Sends the config without leaving a copy of its secret in memory: a buffer that grows leaves
    /// its content in freed memory.
    pub(super) fn send_config(
        link: LinkId,
        mut config: SessionConfig,
        message: impl Fn(Box<SessionConfig>) -> ParentMessage,
        out: &mut Vec<Effect>,
    ) -> bool {
        let secrets = (config.secret.take(), config.files_secret.take(), config.orphans_secret.take());
        let mut measured = Vec::new();
        let mut config = Box::new(config);
        if secrets.0.is_some() || secrets.1.is_some() || secrets.2.is_some() {
            Self::send(link, Kind::Control, &message(config.clone()), &mut measured);
        }
        let length = match &measured[..] {
            [Effect::Send(_, bytes)] => bytes.len() + 5 * Secret::LEN,
            _ => 0,
        };
        (config.secret, config.files_secret, config.orphans_secret) = secrets;
        Self::send_of(length, link, Kind::Control, &message(config), out)
    }
}
