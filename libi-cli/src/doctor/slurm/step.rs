//! What the step that runs the probe says about each node. Reads no clock and starts nothing: lines
//! and connections come in, a [`NodeFinding`] for each node goes out.
//!
//! | input | effect |
//! |---|---|
//! | a line of the probe | it tells what the node has |
//! | a connection with the token of the node | the node can connect to that address |
//! | `srun` names a node that cannot be started | that is the node's problem |
//! | `srun` names how a task ended that gave no answer | that is the node's problem |
//! | the step waits, fails, or takes too long | the problem of nodes without an answer |

use std::net::SocketAddr;

use libi::Srun;
use libi::hosts::HostRef;
use libi_launch::backend::{BulkMethod, StarterLine};
use libi_launch::process::ExitStatus;

use super::super::finding::{Direct, Problem};
use super::super::probe::{ProgramCheck, Reply, kept, reply};

/// What is known of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeFinding {
    /// Why a launch on the node would not work, with the evidence.
    pub(super) problem: Option<(NodeProblem, String)>,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) files: Option<String>,
    pub(super) program: Option<ProgramCheck>,
    pub(super) direct: Direct,
}

/// Why a launch on a node would not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeProblem {
    /// The node is not in the job.
    NotInJob,
    /// Slurm does not know the node.
    Unknown,
    /// The node is in this state, in which jobs do not begin there.
    Unusable(String),
    /// The step did not start there.
    NotStarted,
    /// `srun` failed for no node in particular.
    Refused,
    /// The step still waited for resources at the timeout.
    Waits,
    /// The node did not answer before the timeout.
    Silent,
    /// The probe ended without an answer.
    Ended,
    /// The program to launch is missing or not executable.
    Program(ProgramCheck),
    /// The node can connect to none of the addresses of this machine, as a launch has it do.
    NoConnection,
    /// A signal ended the examination before there was a result.
    Interrupted,
}

/// See the [module](self).
pub(super) struct StepExam<'a> {
    srun: &'a Srun,
    names: Vec<String>,
    nodes: Vec<Node>,
    with_program: bool,
    addresses: Vec<SocketAddr>,
    /// What `srun` says while the step waits for resources.
    waits: Option<String>,
    /// The line of `srun` that tells most about nodes that do not answer.
    said: Option<String>,
    /// Why nodes that have not answered have not.
    end: NodeProblem,
}

#[derive(Default)]
struct Node {
    found: NodeFinding,
    is_probed: bool,
    has_answered: bool,
    has_tool: bool,
    /// The addresses that the probe has tried.
    tried: usize,
    reached: Vec<usize>,
}

impl<'a> StepExam<'a> {
    /// An examination of these nodes, which are the tasks of the step in this order.
    pub(super) fn new(
        srun: &'a Srun,
        nodes: &[HostRef<'_>],
        with_program: bool,
        addresses: Vec<SocketAddr>,
    ) -> Self {
        Self {
            srun,
            names: nodes.iter().map(|node| node.name.to_owned()).collect(),
            nodes: nodes.iter().map(|_| Node::default()).collect(),
            with_program,
            addresses,
            waits: None,
            said: None,
            end: NodeProblem::Refused,
        }
    }

    /// Handles a line that `srun` has printed.
    pub(super) fn on_line(&mut self, line: &str) {
        let names = std::mem::take(&mut self.names);
        match self.srun.read_line(&names, line.as_bytes()) {
            StarterLine::Printed(name, text) => {
                let text = String::from_utf8_lossy(text);
                if let Some(at) = names.iter().position(|known| known == name) {
                    self.on_reply(at, text.trim_end());
                }
            }
            StarterLine::Failed(hosts) => {
                hosts.iter().for_each(|host| self.blame(&names, host.name, NodeProblem::NotStarted, line));
            }
            StarterLine::Ended(hosts, exit) if exit != libi::Exit::Code(0) => {
                hosts.iter().for_each(|host| self.blame(&names, host.name, NodeProblem::Ended, line));
            }
            StarterLine::Waits => self.waits = Some(line.to_owned()),
            StarterLine::Proceeds => self.waits = None,
            StarterLine::Refused(_) => self.said = Some(line.to_owned()),
            StarterLine::Other => {
                let is_error = |text: &str| text.contains("error: ") || text.contains("fatal: ");
                if is_error(line) && self.said.as_deref().is_none_or(|said| !is_error(said))
                    || self.said.is_none()
                {
                    self.said = Some(line.to_owned());
                }
            }
            _ => {}
        }
        self.names = names;
    }

    fn blame(&mut self, names: &[String], name: &str, problem: NodeProblem, line: &str) {
        let at = names.iter().position(|known| known == name);
        if let Some(node) = at.and_then(|at| self.nodes.get_mut(at)).filter(|node| !node.has_answered) {
            node.found.problem.get_or_insert((problem, kept(line)));
        }
    }

    fn on_reply(&mut self, at: usize, line: &str) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        match reply(line) {
            Some(Reply::Marker) => node.is_probed = true,
            Some(reply) if node.is_probed => match reply {
                Reply::Kernel(kernel) => node.found.kernel = Some(kernel),
                Reply::Machine(machine) => node.found.machine = Some(machine),
                Reply::Files(files) => node.found.files = Some(files),
                Reply::Tool(tool) => node.has_tool = tool.is_some(),
                Reply::Ready => node.has_answered = true,
                Reply::Dialled(..) => node.tried += 1,
                Reply::ProgramCheck(program) => node.found.program = Some(program),
                _ => {}
            },
            // What cannot run the probe says why here.
            _ if self.said.is_none() && !line.is_empty() => self.said = Some(line.to_owned()),
            _ => {}
        }
    }

    /// Handles a connection that presented the token of this task for this address.
    pub(super) fn on_arrival(&mut self, task: usize, address: usize) {
        if let Some(node) = self.nodes.get_mut(task) {
            node.reached.push(address);
        }
    }

    /// The line that says what the step waits for, if it does.
    pub(super) fn waits(&self) -> Option<&str> {
        self.waits.as_deref()
    }

    /// `srun` could not be started.
    pub(super) fn not_started(&mut self, why: &str) {
        self.said = Some(why.to_owned());
    }

    /// `srun` has failed.
    pub(super) fn ended(&mut self, exit: ExitStatus) {
        let how = match exit {
            ExitStatus::Code(code) => format!("exited {code}"),
            ExitStatus::Signal { signal, .. } => format!("was killed by signal {}", signal.number()),
            ExitStatus::Unknown => "has ended".to_owned(),
        };
        self.said.get_or_insert_with(|| format!("{} {how}", self.srun));
    }

    /// The step has taken too long.
    pub(super) fn timed_out(&mut self) {
        self.end = if self.waits.is_some() { NodeProblem::Waits } else { NodeProblem::Silent };
    }

    /// The findings, in the order of the nodes.
    pub(super) fn conclude(self, is_interrupted: bool) -> Vec<NodeFinding> {
        let said = self.waits.or(self.said).map(|line| kept(&line)).unwrap_or_default();
        let (end, addresses) = (self.end, self.addresses);
        let finding = |node: Node| {
            let Node { mut found, has_answered, has_tool, tried, mut reached, .. } = node;
            // Input reaches the tasks only once all have started: some may have got none.
            let has_input =
                tried == addresses.len() && (found.program.is_some() || !self.with_program) && has_answered;
            reached.sort_unstable();
            let reached: Vec<_> = reached.iter().filter_map(|at| addresses.get(*at).copied()).collect();
            found.direct = match () {
                () if !reached.is_empty() => Direct::Works(reached),
                () if addresses.is_empty() || !has_input => Direct::NotTried,
                () if !has_tool => Direct::NoTool,
                () => Direct::Blocked,
            };
            found.problem = found.problem.or_else(|| match found.program {
                _ if is_interrupted && !has_input => Some((NodeProblem::Interrupted, String::new())),
                _ if !has_input => Some((end.clone(), said.clone())),
                Some(check @ (ProgramCheck::Missing | ProgramCheck::NotExecutable)) => {
                    Some((NodeProblem::Program(check), String::new()))
                }
                _ if found.direct == Direct::Blocked => {
                    let tried: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                    Some((NodeProblem::NoConnection, format!("tried {}", tried.join(", "))))
                }
                _ => None,
            });
            found
        };
        self.nodes.into_iter().map(finding).collect()
    }
}

/// Which of these nodes are to be examined again, without those that have ended the step for all.
pub(super) fn again(findings: &[NodeFinding]) -> Vec<usize> {
    let problem = |found: &NodeFinding| found.problem.as_ref().map(|(problem, _)| problem.clone());
    if !findings.iter().any(|found| problem(found) == Some(NodeProblem::NotStarted)) {
        return Vec::new();
    }
    let is_open = |found| matches!(problem(found), Some(NodeProblem::Refused | NodeProblem::Ended));
    (0..findings.len()).filter(|at| is_open(&findings[*at])).collect()
}

impl NodeProblem {
    /// A predicate, read after the names of nodes.
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotInJob => "cannot be in a step of this job".to_owned(),
            Self::Unknown => "is unknown to Slurm".to_owned(),
            Self::Unusable(state) => format!("is {state}: no job begins there"),
            Self::NotStarted => "cannot be started by srun".to_owned(),
            Self::Refused => "not examined, because srun fails".to_owned(),
            Self::Waits => "still waited for resources at the timeout".to_owned(),
            Self::Silent => "does not answer before the timeout".to_owned(),
            Self::Ended => "ended the probe before it answered".to_owned(),
            Self::Program(check) => Problem::Program(*check).text(),
            Self::NoConnection => "cannot connect to this machine, as a launch by srun needs it".to_owned(),
            Self::Interrupted => Problem::Interrupted.text(),
        }
    }

    /// What to do about it, with this node as the example.
    pub(super) fn hint(&self, node: &str) -> Option<String> {
        Some(match self {
            Self::NotInJob => "ask for a job that has it: `salloc --nodelist`; or leave it out".to_owned(),
            Self::Unknown => "`sinfo -a -N` lists the nodes".to_owned(),
            Self::Unusable(_) | Self::NotStarted | Self::Silent | Self::Ended => {
                format!("`scontrol show node {node}` has its state and the reason")
            }
            Self::Refused => format!("try it by hand: `srun --nodelist={node} hostname`"),
            Self::Waits => {
                "`squeue --me --long` tells the reason; examine the nodes inside a job, or wait longer \
                 with --timeout"
                    .to_owned()
            }
            Self::Program(_) => "a path without a leading / is relative to the directory here".to_owned(),
            Self::NoConnection => "allow connections from the nodes to ephemeral ports here: `sysctl \
                 net.ipv4.ip_local_port_range`"
                .to_owned(),
            Self::Interrupted => return None,
        })
    }

    /// The name in JSON.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotInJob => "not-in-job",
            Self::Unknown => "unknown-node",
            Self::Unusable(_) => "unusable",
            Self::NotStarted => "not-started",
            Self::Refused => "srun-failed",
            Self::Waits => "waits-for-resources",
            Self::Silent => "timed-out",
            Self::Ended => "ended",
            Self::Program(check) => Problem::Program(*check).name(),
            Self::NoConnection => "cannot-connect",
            Self::Interrupted => Problem::Interrupted.name(),
        }
    }
}

#[cfg(test)]
mod tests;
