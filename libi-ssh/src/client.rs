//! Carries out a start: from the command line of `ssh` to the outcome.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use libi_core::dist::OsBytes;
use libi_launch::ssh_client::ClientStart;
use nix::errno::Errno;

use crate::command_line::CommandLine;
use crate::connection::{self, End, FAILED, Identities, Start, Streams, Target};
use crate::known_hosts::KnownHosts;
use crate::policy::HostPolicy;
use crate::service::{Outcome, Taken};
use crate::settings::{Asker, Context, Question, Role, Settings};

/// The longest way through hosts whose configuration names another one to go through.
const MOST_JUMPS: usize = 8;
/// If so many servers were declined, as a rule because the connection would be weaker, and none was
/// taken, all others are declined before they are connected to.
const ENOUGH_WEAKER: u32 = 4;

/// What all starts of a process share.
pub(crate) struct Client {
    asker: Asker,
    known: Arc<KnownHosts>,
    identities: Identities,
    /// Whether a server was taken, and how many would have got a weaker connection.
    has_taken: AtomicBool,
    weaker: AtomicU32,
}

impl Client {
    /// The client of the user of this process.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self {
            asker: Asker::new(Context::of_process()?),
            known: Arc::default(),
            identities: Identities::default(),
            has_taken: AtomicBool::new(false),
            weaker: AtomicU32::new(0),
        })
    }

    /// Carries out a start.
    pub(crate) async fn carry_out(
        self: Arc<Self>,
        start: ClientStart,
        streams: Streams,
        taken: Taken,
    ) -> Outcome {
        let ClientStart { program, args, fast } = start;
        let program = word(&program);
        let line = match CommandLine::parse(args.iter().map(word)) {
            Ok(line) => line,
            Err(reason) => return declined(&reason),
        };
        let targets = match self.targets(&program, &line, fast).await {
            Ok(targets) => targets,
            Err(outcome) => return outcome,
        };
        let (target, jumps) = targets;
        let start = Start { jumps, target, command: line.command, streams };
        let take = || {
            self.has_taken.store(true, Relaxed);
            taken.tell();
        };
        match connection::run(start, &self.identities, take).await {
            connection::Outcome::Ended(End::Code(code)) => Outcome::Ended(code),
            connection::Outcome::Ended(End::Signal(_)) => Outcome::Ended(FAILED),
            connection::Outcome::Declined(reason) => {
                let of_all = self.weaker.fetch_add(1, Relaxed) + 1 >= ENOUGH_WEAKER;
                Outcome::Declined { why: reason, of_all: of_all && !self.has_taken.load(Relaxed) }
            }
        }
    }

    /// The host of a command line, and those to go through, the nearest first.
    async fn targets(
        &self,
        program: &OsStr,
        line: &CommandLine,
        fast: bool,
    ) -> Result<(Target, Vec<Target>), Outcome> {
        let settings = self.settings(program, &line.options, &line.host, Role::Target).await?;
        let mut jumps = Vec::new();
        // The nearest host is the first of the list, unless its own configuration names others.
        let (mut list, mut options) = (settings.jumps.clone(), line.options.clone());
        while !list.is_empty() {
            let mut group = Vec::new();
            for (at, jump) in list.iter().enumerate() {
                let options = CommandLine::options_of_jump(&options, jump, &list[..at]);
                group.push(self.settings(program, &options, &jump.host, Role::Jump).await?);
            }
            options = CommandLine::options_of_jump(&options, &list[0], &[]);
            list.clone_from(&group[0].jumps);
            jumps.splice(0..0, group);
            if jumps.len() > MOST_JUMPS {
                return Err(declined(&"`ProxyJump` leads through too many hosts"));
            }
        }
        let target = |settings: Settings| {
            let settings = Arc::new(settings);
            let known = Arc::clone(&self.known);
            Target { policy: Arc::new(HostPolicy { settings: Arc::clone(&settings), known, fast }), settings }
        };
        Ok((target(settings), jumps.into_iter().map(target).collect()))
    }

    async fn settings(
        &self,
        program: &OsStr,
        options: &[OsString],
        host: &str,
        role: Role,
    ) -> Result<Settings, Outcome> {
        let question = Question { program, options, host, role };
        self.asker.settings(question).await.map_err(|reason| declined(&reason))
    }
}

fn declined(reason: &impl ToString) -> Outcome {
    Outcome::Declined { why: reason.to_string(), of_all: false }
}

fn word(bytes: &OsBytes) -> OsString {
    OsString::from_vec(bytes.as_bytes().to_vec())
}
