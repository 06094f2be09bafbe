//! The launch machine: what every process of a session does to get the session up, and to end it.
//!
//! # Nodes
//! There is a [`Node`] in the front end, in the leader of each host, and in each further member. Every node but the front
//! end's has a link to the one that started its process, its parent. The front end starts the leader of the first
//! host, the master's; leaders start the other hosts' leaders, as the [late-commit queue](libi_core::plan::late) of each
//! decides or, if the user insists, a tree that was laid out in advance, and the further members of their own host, all
//! at once. A leader that finds that it cannot launch others from where it is hands back what it was given (the heads of
//! `node/footing.rs` and `node/returning.rs`); if that is the master's, the front end launches everything itself.
//!
//! # What a member's node waits for
//!
//! ```text
//!            ticket           welcome          all members of its host are up        Go
//!   Called ----------> Greeted ------> Joining -----------------------------> Joined ----> Up
//!      |                  |               |                                     |          |
//!      +------------------+---------------+--------------------+----------------+----------+
//!                                                              | End, or the parent is lost
//!                                                              v
//!                                                           Ending ----> its process ends
//! ```
//!
//! Shares may arrive from the welcome on. In every state it passes on what its children report, until it ends.
//!
//! # What becomes of the children it starts
//! The head of `child.rs` has the states of one. A launch that fails is repeated if that may help and attempts are left. A child that is lost
//! before the session is up takes nobody with it: what it was given is launched again by whoever gave it, with
//! attempt numbers that make whatever the lost one had started out of date; its own processes end by themselves,
//! since they have lost their parent. A child that is lost afterwards is reported, and so is everybody below it.
//!
//! # What the front end decides
//! It keeps a ledger of all hosts. It says Go when enough have joined and no verdict is open. When enough
//! cannot join any more, the launch goes on for a while, so that whatever else is wrong is found as well; then nothing is
//! launched any more, what is in flight is ended and reported, and the session is given up, of which every host's
//! verdict is known. As long as it has spare hosts, one is put in the place of each host that is given up.
//!
//! # Once the session is up
//! Who is where is said with Go (the head of `node/tree.rs`); on the links of that tree the communication half talks.
//! What members print goes up by credit (the head of `relay.rs`); signals, ends and release are in `node/leaving.rs`,
//! links that become direct in `node/direct.rs`. A leader that ends takes the hosts below it with it, so there is
//! a way to wait until nobody is there.
//!
//! # Failures
//!
//! | what happens | what follows |
//! |---|---|
//! | a start is refused by the operating system | the host is given up |
//! | of those that a leader launches first, all fail as if it were to blame | it hands back what it has, for somebody to launch who can; of hosts that are handed back, what was tried does not count unless they were few |
//! | a started process ends before its hello | its exit is the verdict; repeated if a remote shell says of itself that it failed (255), or if it was ended by a signal or nobody knows how, before it had begun to speak |
//! | a remote shell without a status of the program ends, and its host has not said how that has ended | it was cut off: repeated if what the shell says may pass |
//! | nothing is heard until the deadline of the phase | it is ended, and launched again |
//! | what it says is not our protocol | it is ended, and given up: it would say so again |
//! | a link is closed | waits for the exit status, for the grace at most |
//! | what is to end does not | it is killed after the grace; after another the verdict is given without it |
//! | a parent is lost, or silent for too long | the node ends, and all that it has started |
//! | too many hosts are given up | after the time for further verdicts, nobody launches any more; what is cut short is reported as abandoned, as far as it came |
//! | the front end's deadline passes | nobody launches any more; every open verdict is asked for, for the grace at most |

mod child;
mod contract;
mod host_table;
mod launch_window;
mod link_reader;
mod message;
mod node;
mod output_relay;

#[cfg(test)]
mod tests;

pub use contract::{Effect, Event, LaunchPlan, LinkId, Notice, StartRequest, TreeBranch, TreeView};
pub use host_table::{HostState, Policy, Replacement};
pub use message::{
    ChildMessage, Ending, HostSpec, Membership, Output, ParentMessage, Program, Rules, SessionConfig, Spare,
};
pub use node::{CarriedSecret, DirectSettings, LinkPolicy, Node};
pub use output_relay::{Stream, WINDOW};
