//! The launch state machine: brings a session up, and ends it.
//!
//! # Nodes
//! A [`Node`] runs in the front end, in the leader of each host, and in each further member of a
//! host. Every node except the front end's has a link to its parent, the node that started its
//! process.
//!
//! - The front end starts the leader of the first host, whose first rank is the master, and others
//!   (see the head of `front_end/launchers.rs`). They may move below that leader (`moves.rs`).
//! - Leaders start the leaders of other hosts. The [late-commit queue](libi_core::plan::late) of
//!   each leader decides which, or a static tree if the user asks for one.
//! - Leaders start all further members of their own host at once.
//! - A leader is the first member of its host, or an [agent](crate::options::Agent), which is none
//!   and starts all members of its host. With [`Engine::Apart`](crate::options::Engine) the process
//!   that was started is one, and its program, which is its child, one of those members: the driver
//!   has it running already when the node starts it. The leader's hello tells which it is. An agent
//!   may start programs that never join; the head of `node/programs.rs` tells how.
//! - A leader that cannot launch hosts from its machine hands its hosts back to its parent (see the
//!   heads of `launcher/health.rs` and `launcher/hand_back.rs`). If the leader of the first host
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
//! - A child that is lost after the session is up is reported, with all hosts below it, unless these
//!   find another parent.
//!
//! # Starts and arrivals
//! A *start* brings up one process or many; an *arrival* is the link of such a process. Pacing
//! belongs to starts (`start_table.rs`); attempts, deadlines and failures belong to children.
//!
//! - **One process.** The link is the channel to the started process, and exists with it.
//! - **Many hosts.** A back-end with a [`BulkMethod`](crate::backend::BulkMethod) has one process,
//!   the starter, bring up many leaders. The front end makes these starts, for all hosts. Each
//!   leader connects to the rendezvous (`rendezvous.rs`), and the front end admits the connection
//!   as the link of its host (`node/starts.rs`), or redirects it to a leader that was admitted
//!   before (`relays.rs`, `node/relays.rs`).
//!
//! # Parts
//! A node is made of parts. Each owns its state, draws it as a table at the head of its file, and
//! has unit tests; the files in `node/` pass events to the parts and turn their answers into
//! effects.
//!
//! | part | decides |
//! |---|---|
//! | `session_stage.rs` | how far the session has come, as this node knows |
//! | `child_table.rs`, `child.rs` | how far each child has come, and when that takes too long |
//! | `start_table.rs` | which starts are in progress |
//! | `relays.rs` | which leaders of a bulk start are redirected, and where to |
//! | `moves.rs` | which leaders that the front end has started move |
//! | `moved_processes.rs` | what becomes of the processes that lead to those |
//! | `launcher.rs` | which host is launched next, whether from here, and what a child gets |
//! | `parent_link.rs` | how far this member has come, and who it is |
//! | `membership.rs` | which ranks are below which link |
//! | `direct_links.rs` | whether links leave the channel of the remote shell |
//! | `output_relay.rs` | which output may be passed on |
//! | `output_order.rs` | which output is sent again, and which has come before |
//! | `output_merge.rs` | which equal output of several members is passed on as one |
//! | `restarts.rs` | which lost members are started again, and how that goes |
//! | `growth.rs` | how hosts join a session that is up |
//! | `commands.rs` | which commands run in the session, and how their processes end |
//! | `staging.rs` | which staged files this host has, and what its children get of them |
//! | `orphans.rs` | which other parent a host has that has lost its own |
//! | `sources.rs` | which node sends them to this host, and which other hosts get them from it |
//! | `attachment.rs` | whether this member lives and ends with the session |
//! | `front_end.rs`, `host_table.rs` | the front end: whether the session goes up, waits or fails |
//!
//! # Events
//!
//! | event | part | what follows |
//! |---|---|---|
//! | `Begin` | parent link | a member sends its preamble and awaits the ticket |
//! | | front end | the deadline of the launch is set; the node listens |
//! | `Started` | start table | the cost of a start is measured; the next one may begin |
//! | `NotStarted`, `OutOfResources` | start table, child | the hosts of the start have failed |
//! | `StarterPrinted` | start table | kept as evidence for hosts that have not arrived |
//! | `HostPrinted` | child, output relay | as `Printed`; of no host of the start: `StarterPrinted` |
//! | `HostEnded` | child | it ends, if it has not arrived; else the exit counts at its end |
//! | `HostFailed` | child | it fails, and is not launched again |
//! | `StarterWaits` | start table, front end | the time in the queue is not counted; `Waiting` |
//! | `StarterProceeds` | start table, front end | time counts again |
//! | `StarterWillEndAll` | start table | quoted beside the line by which it ends all, if no reason follows |
//! | `StarterEndsAll` | start table | hosts whose programs are killed wait for the reason |
//! | `StarterRefused` | start table | kept as the reason why no such start succeeds; no other is made |
//! | | front end | `Revoked`, if the session is up |
//! | `StarterKilled` | start table | hosts whose programs are killed are launched again |
//! | `StarterExited` | start table | hosts that have not arrived fail |
//! | `Arrived` | start table, relays | `Admit` or `Redirect`, if a child of the start awaits it; else `Refuse` |
//! | `Left` | relays | the arrival is not answered |
//! | `Received`, parent | parent link | see the messages below |
//! | `Received`, child | child | preamble, hello, or the messages below |
//! | `Violation`, `Closed`, parent | orphans, stage | another parent is found, or everything below ends |
//! | `OrphanArrived` | orphans | a host that has lost its parent is heard, or refused |
//! | `Walled` | orphans | it waits for a helper when it has tried all nodes above |
//! | `HelperEnded` | orphans | another one is sent, or its host counts as dead |
//! | `Helped` | orphans | a host that has lost its parent says who it is, to a node above |
//! | `Violation`, child | child | it is killed; one that is up may end by itself |
//! | `Closed`, `Exited`, child | child | it ends; its verdict follows when all evidence is there |
//! | `Printed` | child, output relay | kept until the hello, then output of its rank |
//! | `End` | stage | children and the user are asked to end; the child table has their deadlines |
//! | `Signal` | attachment | passed on to children, and to the user of an attached member |
//! | `Spawn`, `SignalCommand` | commands | sent towards the chosen hosts |
//! | `Restart` | restarts, front end | sent towards the host of the member, or refused |
//! | `Grow` | growth, front end | hosts are launched, or the request is refused |
//! | `Consumed` | output relay | credit for more output |
//! | `Input` | input | sent to the master, or to all leaders below, if the session is up |
//! | `InputTaken` | input | reported to the front end, or counted: see `input_flow.rs` |
//! | `Detach` | attachment | `Detached` is reported |
//! | `ProgramsFound` | programs | the host of an agent may join, or fails |
//! | `Staged` | staging | confirmed and passed on; the programs are sought, or the host fails |
//! | `FilesWanted` | sources | the host is sent files from here, or refused |
//! | `SourceConnected` | sources | files arrive from there |
//! | `Listening` | direct links | bulk starts may begin; later children are offered a direct link |
//! | | relays | a relay reports its addresses |
//! | `DirectAccepted`, `DirectConnected` | direct links | the link moves, or stays; or the parent is another node |
//! | what comes of a process whose host has moved | moved processes | told to the leader of the first host |
//! | `Woken`, after each event | child table, start table | expired deadlines: kill, then verdict |
//! | | child table, parent link | heartbeats; silent peers are lost |
//! | | launcher | hosts are launched, handed back or reported |
//! | | front end | reports are recorded, and the next step is carried out |
//! | | output relay | output and credit are passed on |
//! | | stage | `Over`, when it ends and the last child and the last start are gone |
//!
//! | message from the parent | part | what follows |
//! |---|---|---|
//! | `Ticket` | parent link | `Hello` |
//! | `SessionConfig` | parent link, direct links | starts the members of its host; connects |
//! | `Share` | launcher | hosts are queued, or handed back |
//! | `StopLaunching`, `GiveUpOpen` | stage, launcher | open hosts are given up, here and below |
//! | `Go` | stage, membership | children get theirs; the session is up |
//! | `Signal`, `End`, `Credit` | | as the events `Signal`, `End`, `Consumed` |
//! | `Relay`: `Listen` | relays | listens for others of its start |
//! | `Relay`: `Expect`, `Release` | child | a host is awaited, or ended |
//! | `Relay`: what the starter tells | child | as the events of these names |
//! | `Relay`: `Adopt` | moves | `Adopted`; a host that the front end has started is awaited |
//! | `Move` | parent link, direct links | connects to the new parent; then as `SessionConfig` |
//! | `Restart` | restarts | passed on; the agent of the host starts the member again |
//! | `Join` | stage, membership | as `Go`, in the place of a lost member, or on a new host |
//! | `Grow`, `Admit` | growth | passed on; new hosts are launched, and in the tree |
//! | `Run`, `SignalCommand` | commands | passed on; at an agent that is chosen, carried out |
//! | `Goodbye` | direct links | receives and sends directly |
//! | `Ancestors`, `Adopts` | orphans | the nodes above are known; the sender is the parent from now on |
//! | `Source` | sources | passed on; the host it is for connects to its source |
//! | bytes of staged files | staging | they are written |
//!
//! | message from a child | part | what follows |
//! |---|---|---|
//! | `Hello` | child, launcher | config and share are sent |
//! | `Joined`, `Failed`, `Relaunch` | child, launcher, membership | recorded, passed on |
//! | `Exited`, `Link`, `InProgram`, `Declined` | | passed on, an end behind the output of the member |
//! | `InputTaken` | input | passed on, or counted: what all below have taken is reported |
//! | `HoldsOutput` | output relay | output is still to come from there, or not |
//! | `Detached` | child | recorded if it is the child itself; passed on |
//! | `NoDependents` | child | a detached child is not awaited any more |
//! | `NotDirect` | direct links | the link stays in the channel, or the child fails |
//! | `CannotLaunch`, `HandBack`, `InDoubt` | launcher | the host is launched from here, or given up |
//! | `Listening` | relays, moves | leaders that wait are redirected there, or move |
//! | `Dropped` | relays, launcher | the host is launched again, or given up |
//! | `Adopted` | moves | `Move` is sent to that host |
//! | `NotDirect` of a host that moves | moves | that leader launches it again |
//! | `Restarting`, `Restarted`, `NotRestarted` | | passed on; recorded at the front end |
//! | `CommandEnded` | commands | passed on; at the front end, the outcome of the process |
//! | `Staged` | staging | more of the files is sent |
//! | `WantsSource` | sources | passed on; the front end answers with `Source` |
//! | `FilesFrom` | staging | the rest of the files is sent |
//! | `SlowClient` | sources | passed on; the front end gives its clients another `Source` |
//! | output | child, output relay | passed on, within the credit of the child |
//! | `Goodbye` | child | receives directly |
//!
//! # Once the session is up
//! - `Go` tells every node which ranks are below which link (see `node/session_up.rs`). The
//!   communication half uses the links of that tree.
//! - Output of members flows towards the front end by credit (see `output_relay.rs`), and is merged
//!   on the way if the options say so (see `output_merge.rs`).
//! - Commands are run in the session (see `commands.rs`).
//! - Members that are lost may be started again on their hosts (see `restarts.rs`).
//! - Further hosts may be launched (see `growth.rs`).
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
//! - **A relay is lost**: the hosts below it are launched again. **A leader cannot reach its
//!   relay**: it comes back, and is admitted by the front end.
//! - **The parent is lost, or silent for too long**: the node ends, with everything it has started, unless
//!   it finds another parent (`orphans.rs`).
//! - **Too many hosts are given up, or the front end's deadline passes**: no host is launched any
//!   more (see the head of `front_end.rs`); open hosts are reported in the phase that they have
//!   reached.

mod attachment;
mod child;
mod child_table;
mod commands;
mod contract;
mod direct_links;
mod early_output;
mod front_end;
mod growth;
mod host_table;
mod input_flow;
mod launcher;
mod membership;
mod message;
mod moved_processes;
mod moves;
mod node;
mod orphans;
mod output_merge;
mod output_order;
mod output_piece;
mod output_relay;
mod parent_link;
mod relays;
mod rendezvous;
mod restarts;
mod returns;
mod session_stage;
mod sources;
mod staging;
mod start_table;

#[cfg(test)]
mod tests;

pub use commands::{
    CommandEnd, CommandId, CommandOutcome, CommandProcess, CommandRequest, CommandSignal, CommandSpec,
};
pub use contract::{Effect, Event, LaunchPlan, LinkId, Notice, StartId, StartRequest};
pub use direct_links::{CarriedSecret, LinkPolicy};
pub use growth::{GrowOrder, Grown, GrowthError, GrowthRequest};
pub use host_table::{HostState, Policy, Replacement};
pub use message::{
    Ancestor, ChildMessage, Ending, HostSpec, Membership, OrphanClaim, ParentMessage, Program, RelayMessage,
    Rules, SessionConfig, Spare,
};
pub use node::Node;
pub use output_piece::Stream;
pub use output_relay::WINDOW;
pub use rendezvous::{
    ArrivalId, Claim, Found, HeadReader, StartTicket, is_refusal, read_redirection, redirection, refusal,
};
pub use restarts::{RESTARTS_ENV, RestartError, RestartOrder};
pub use staging::{PIECE, PLACE, staged_payload};
