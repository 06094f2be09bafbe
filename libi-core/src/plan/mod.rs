//! Launch plans: which host launches which, and in what order.
//!
//! A [`Shape`] is a rule for a tree over any number of hosts, a [`Tree`] the result for one number,
//! and a [`Schedule`] the times of its launches. A [`Strategy`] is what a user asks for: a shape,
//! or late commit, which has no tree until the launch is over. The [`Root`] of a tree is its first
//! host, or a front end.
//!
//! # The model
//! A process on another host is started through a remote shell or a resource manager. That costs
//! the launcher some time of its own, SEQ (fork, connect, keys). The new process is up, and can
//! launch others, REM after the start. Two things overlap: a launcher can start the next host while
//! the last one is still coming up, and hosts that are up can launch further ones. With a
//! [`Cost`](crate::cost::Cost) of SEQ and REM, a launcher that is free at time 0 proceeds like
//! this:
//!
//! ```text
//!   launcher   |SEQ|SEQ|SEQ|SEQ| ...
//!   1st child  |------ REM -----|SEQ|SEQ| ...
//!   2nd child      |------ REM -----|SEQ| ...
//!   3rd child          |------ REM -----| ...
//!   1st child of the 1st child  |------ REM -----| ...
//! ```
//!
//! The whole launch ends when the last host is up. If one host launches all others, that is
//! after about n × SEQ: slow for many hosts. If every host launches only one other, it is
//! after n × REM. The best tree lies between the two and depends on REM / SEQ: the longer a
//! launch takes compared with what it costs its launcher, the more children a node should
//! have.
//!
//! # The trees
//! [`Shape`] lists those that are decided in advance:
//!
//! | shape | each host | good when |
//! |---|---|---|
//! | chain | launches one other | SEQ is far longer than REM, which is rare |
//! | flat | the root launches all others | there are few hosts, or REM is longer than n × SEQ |
//! | kary:K | launches K others, level by level | K has been tuned to the machine |
//! | binomial | launches subtrees of 2^k, …, 2, 1 hosts | SEQ is about REM |
//! | rdc | gives half of its remaining hosts to each child | the same, for any number of hosts |
//! | greedy | the host that is free first launches next | costs are known and do not vary |
//!
//! Seven hosts in some of these trees; the hosts that each one launches follow it in brackets, in
//! order:
//!
//! ```text
//!   flat       0 (1 2 3 4 5 6)
//!   kary:2     0 (1 (3 4)  2 (5 6))
//!   binomial   0 (1 (3 (6) 4)  2 (5))         subtrees of 4 and 2 hosts
//!   rdc        0 (1 (4 5)  2 (6)  3)           3 of the remaining 6, then 2 of 3, then 1 of 1
//! ```
//!
//! [`greedy`] is optimal under the model and takes linear time to compute.
//!
//! # Late commit
//! Real costs vary, and hosts die. A fixed tree cannot react: the subtree of a slow host waits,
//! that of a dead host is lost. [`late`] keeps hosts in a queue and gives a part of it to a child
//! only when the child has said hello. It is as fast as greedy when nothing varies, because it
//! computes the same optimum share by share, and usually faster when something does. A dead host
//! costs only itself. The other hosts come up as before, a little later, since replacements have to
//! take over the launches of the dead ones: with every fiftieth of 10,000 hosts dead and REM
//! constant after 0.775 s instead of 0.754 s, while greedy loses 454 hosts to 190 dead ones.
//!
//! Launch times in seconds, SEQ 7 ms, REM 172 ms, median of 20 launches with the worst in
//! parentheses:
//!
//! | hosts | REM | static greedy | late commit | |
//! |---|---|---|---|---|
//! | 1,000 | constant | 0.589 | 0.589 | the same |
//! | 1,000 | ±50 % | 0.785 (0.829) | 0.664 (0.702) | 15 % less |
//! | 10,000 | constant | 0.754 | 0.754 | the same |
//! | 10,000 | ±50 % | 1.007 (1.053) | 0.847 (0.871) | 16 % less |
//!
//! These commands reproduce the table, also for other costs; `--rem 172ms` gives the constant rows:
//!
//! ```text
//! for tree in greedy late; do for hosts in 1000 10000; do
//!   cargo run --release -p libi-cli -- simulate --hosts $hosts --tree $tree \
//!       --seq 7ms --rem 172ms~50% --seed 0 --runs 20
//! done; done
//! ```
//!
//! Late commit needs no exact costs: [`estimate`] begins with an assumption and follows the
//! measurements.

pub mod estimate;
pub mod explain;
pub mod fit;
pub mod greedy;
mod growth;
pub mod late;
mod relays;
mod runs;
mod shapes;
mod strategy;
mod tree;

pub use relays::relays;
pub use runs::{HostRuns, HostRunsError};
pub use shapes::Shape;
pub use strategy::{STRATEGY_NAMES, Strategy, UnknownStrategy};
pub use tree::{Root, Schedule, Tree, TreeError};

/// A node's number as an index; `usize` has at least 32 bits on every supported system.
pub(crate) const fn as_index(node: u32) -> usize {
    node as usize
}
