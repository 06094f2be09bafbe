//! What a node says of itself and of its session.

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::SessionKey;

use super::{Node, Role};
use crate::backend::Backend;
use crate::machine::message::Program;
use crate::machine::parent_link::Identity;
use crate::options::LaunchOptions;

impl Node {
    /// What tells the session from all others.
    #[must_use]
    pub const fn session_key(&self) -> SessionKey {
        self.session
    }

    /// The number of members of the session; 0 before it is known.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The host that a member runs on, and its name; `None` before the config.
    #[must_use]
    pub fn host(&self) -> Option<(HostIndex, &str)> {
        Some(self.identity()?.host())
    }

    /// Who this member is, once it knows.
    pub(super) fn identity(&self) -> Option<&Identity> {
        match &self.role {
            Role::FrontEnd(_) => None,
            Role::Member(parent) => parent.identity(),
        }
    }

    /// The host that this member leads.
    #[must_use]
    pub fn leads(&self) -> Option<HostIndex> {
        Some(self.identity()?.leads()?.host)
    }

    /// The rank of this process, once it is configured; an agent has none.
    #[must_use]
    pub fn rank(&self) -> Option<Rank> {
        self.identity().and_then(Identity::rank)
    }

    /// Whether this process leads its host without being a member.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.identity().is_some_and(Identity::is_agent)
    }

    /// The programs of the distributions.
    #[must_use]
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Whether the session is ending, so that nothing more has to be said about members that are
    /// lost.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.stage.has_begun_to_end()
    }

    /// How this node reaches the hosts that it launches.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        self.options.launch_method()
    }

    /// The options of the launch; the default until a member has its config.
    #[must_use]
    pub fn options(&self) -> &LaunchOptions {
        &self.options
    }
}
