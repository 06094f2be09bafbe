//! The launch state machine: brings a session up, and ends it.
//!
//! # Nodes
//! A [`Node`] runs in the front end, in the leader of each host, and in each further member of a
//! host. Every node except the front end's has a link to its parent, the node that started its
//! process.
//!
//! - The front end starts the leader of the first host, whose first rank is the master.
//! - Leaders start the leaders of other hosts. The [late-commit queue](libi_core::plan::late) of
//!   each leader decides which, or a static tree if the user asks for one.
//! - Leaders start all further members of their own host at once.
//! - A leader that cannot launch hosts from its machine hands its hosts back to its parent (see the
//!   heads of `node/launch_health.rs` and `node/hand_back.rs`). If the leader of the first host
//!   cannot launch, the front end launches all hosts itself.
//!
//! # States of a member's node
//!
//! ```text
//!              ticket              config           all members of the host up        Go
//!  AwaitTicket -------> AwaitConfig -------> Joining ---------------------------> Joined ---> Up
//!     |                     |                  |                                     |         |
//!     +---------------------+------------------+-----------------+-------------------+---------+
//!                                                                | End, or the parent is lost
//!                                                                v
//!                                                             Ending ---> the process exits
//! ```
//!
//! Shares of hosts to launch may arrive in any state after the config. A node forwards the reports
//! of its children in every state.
//!
//! # Children
//! The head of `child.rs` draws the states of a child.
//!
//! - A failed launch is retried if the failure may be transient and attempts are left.
//! - A child that is lost before the session is up costs only its own host. The parent relaunches
//!   the hosts that the child was given, with attempt numbers that invalidate the child's own
//!   launches. Processes that the lost child started end by themselves, because they have lost
//!   their parent.
//! - A child that is lost after the session is up is reported, with all hosts below it.
//!
//! # Starts and arrivals
//! A *start* brings up one process or many; an *arrival* is the link of such a process. Pacing
//! belongs to starts (`start_table.rs`); attempts, deadlines and failures belong to children.
//!
//! - **One process.** The link is the channel to the started process, and exists with it.
//! - **Many hosts.** A back-end with a [`BulkMethod`](crate::backend::BulkMethod) has one process,
//!   the starter, bring up many leaders. The front end makes these starts, for all hosts. Each
//!   leader connects to the rendezvous (`rendezvous.rs`), and the front end admits the connection as
//!   the link of its host (`node/starts.rs`).
//!
//! # Decisions of the front end
//! The front end keeps a table of all hosts and decides from it:
//!
//! - **Enough hosts have joined and no host is open**: the session goes up (`Go`).
//! - **Enough hosts have joined, some are open, and the settle time has passed**: the open hosts
//!   are cut short; then the session goes up.
//! - **Enough hosts cannot join any more**: launching continues for `failure_linger`, so that one
//!   report names all failures; then the launch stops and the session is given up.
//! - **A host has failed, and a spare host is left**: the spare takes the place of the failed host.
//!
//! # Once the session is up
//! - `Go` tells every node which ranks are below which link (see `node/session_up.rs`). The
//!   communication half uses the links of that tree.
//! - Output of members flows towards the front end by credit (see `output_relay.rs`).
//! - `node/session_end.rs` handles signals, the end of a session, and detached members.
//! - `node/direct.rs` moves links to direct connections.
//! - A leader that ends takes the hosts below it with it. `NoDependents` tells a node when it may
//!   end without that effect.
//!
//! # Failures
//!
//! - **The operating system refuses a start**: the host is given up.
//! - **All hosts that a leader launched first fail in ways that point to the leader**: the leader
//!   hands its hosts back to a node that can launch; attempts made by the leader do not count,
//!   unless it had only few hosts.
//! - **A started process ends before its hello**: its exit is the verdict; the launch is retried if
//!   the remote shell itself failed (255), or if the process was killed by a signal or its status
//!   is unknown, before the preamble.
//! - **A remote shell that does not carry exit statuses ends, and the host has not reported how the
//!   program ended**: the connection was cut; the launch is retried if the shell's message is
//!   transient.
//! - **A phase reaches its deadline**: the process is killed, and the launch is retried.
//! - **The peer violates the protocol**: the process is killed, and the host is given up: a retry
//!   would do the same.
//! - **A link is closed**: the node waits for the exit status, at most for `kill_grace`.
//! - **A process that should end does not**: the process is killed after `kill_grace`; after a
//!   second `kill_grace` the verdict is given without an exit status.
//! - **A starter ends**: hosts that have not arrived fail; the launch is retried.
//! - **A link arrives that no host awaits**: it is refused, and its process ends.
//! - **The parent is lost, or silent for too long**: the node ends, with everything it has started.
//! - **Too many hosts are given up**: after `failure_linger` no host is launched any more; open
//!   hosts are reported as cancelled, in the phase that they have reached.
//! - **The front end's deadline passes**: no host is launched any more; all open verdicts are
//!   collected within `kill_grace`.

mod attachment;
mod child;
mod child_table;
mod contract;
mod direct_links;
mod early_output;
mod front_end;
mod host_table;
mod launch_window;
mod membership;
mod message;
mod node;
mod output_relay;
mod parent_link;
mod rendezvous;
mod session_stage;
mod start_table;

#[cfg(test)]
mod tests;

pub use contract::{Effect, Event, LaunchPlan, LinkId, Notice, StartId, StartRequest};
pub use direct_links::{CarriedSecret, LinkPolicy};
pub use host_table::{HostState, Policy, Replacement};
pub use message::{
    ChildMessage, Ending, HostSpec, Membership, ParentMessage, Program, Rules, SessionConfig, Spare,
};
pub use node::Node;
pub use output_relay::{Stream, WINDOW};
pub use rendezvous::{ArrivalId, Claim, Found, HeadReader, StartTicket, is_refusal, refusal};
