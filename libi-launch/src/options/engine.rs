//! Where the engine of a host runs: in a process of its own, or in the program of its first member.

use serde::{Deserialize, Serialize};

/// Tells a process that it is to lead its host apart from its program.
pub const APART_ENV: &str = "LIBI_APART";

/// Which process carries a host's part of the tree, if no [`Agent`](super::Agent) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Engine {
    /// The first member's own process. If it ends, crashes or executes another program, the members
    /// that depend on it end as well. Calls among the members of a host are faster: there is one hop
    /// less.
    InProgram,
    /// The default: a process of its own. The process that was started on a host divides before its
    /// `main`: the program is the child, a member like all others, and what it does to itself costs
    /// no other member anything. Exit status and signals pass through the parent.
    ///
    /// A program that loads libi while it runs, as Python does, or has threads before its `main`,
    /// leads its host as with [`InProgram`](Self::InProgram); the report of the launch names such
    /// hosts.
    #[default]
    Apart,
}
