//! The helpers that a node above orphans has sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use libi_core::ids::HostIndex;
use libi_core::secure::LinkKey;
use libi_launch::backend::{Channel, HELPER_ENV, LaunchMethod, Local};
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, HostSpec, LinkId, Program};
use libi_launch::process::{Child, FdSource, Signal, Start};
use mio::{Interest, Registry, Token};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::engine::direct_listener::{Admission, DirectListener};
use crate::engine::fd_budget::original_limit;
use crate::engine::pending_peer::Greeting;
use crate::engine::session_io::reading::exit_of;
use crate::engine::session_io::starting::{is_listed, variable};
use crate::engine::session_io::{SessionIo, Turn};
use crate::engine::stream::Stream;
use crate::engine::targets::{FdRole, Targets};

/// How much of what a helper prints to standard error is kept.
const ERROR_BYTES: u64 = 4096;

/// See the [module](self).
#[derive(Default)]
pub(super) struct SentHelpers {
    running: BTreeMap<HostIndex, SentHelper>,
    /// Those that could not be started, of which the node has not heard, and why.
    failed: Vec<(HostIndex, String)>,
}

struct SentHelper {
    child: Child,
    token: Token,
    errors: ErrorText,
}

/// What a helper, or the shell that leads to it, prints to standard error: a file of fixed size in memory,
/// to which nothing more is written than fits.
struct ErrorText(File);

impl ErrorText {
    fn new() -> io::Result<Self> {
        let file =
            File::from(memfd_create(c"libi-helper", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(ERROR_BYTES)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK))?;
        Ok(Self(file))
    }

    /// What was printed, or else how the process has ended.
    fn or(mut self, exit: Exit) -> String {
        let length = self.0.stream_position().unwrap_or(0).min(ERROR_BYTES);
        let mut text = vec![0; length as usize];
        let read = self.0.read_exact_at(&mut text, 0);
        let text = String::from_utf8_lossy(&text);
        match text.trim() {
            text if read.is_ok() && !text.is_empty() => text.to_owned(),
            _ => format!("a helper ended with {exit}"),
        }
    }
}

impl SentHelpers {
    /// A helper could not be started.
    pub(super) fn failed(&mut self, host: HostIndex, why: String) {
        self.failed.push((host, why));
    }

    /// Ends all helpers.
    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        // All are signalled before the first is waited for.
        for SentHelper { child, token, .. } in self.running.values_mut() {
            let _ = child.signal_group(Signal::KILL);
            targets.remove(registry, child.as_fd().as_raw_fd(), *token);
        }
        self.running.clear();
    }
}

impl SessionIo {
    /// Starts a helper on a host, or says why that is not possible.
    pub(super) fn start_helper(
        &mut self,
        host: &HostSpec,
        program: Program,
        key: LinkKey,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let env = variable(HELPER_ENV.as_bytes(), key.id().to_string().as_bytes());
        let program = Program { env: env.into_iter().collect(), ..program };
        let mut greeting = Greeting::default();
        let spec = if is_listed(&self.here, host) {
            Local::start(&program)
        } else if let Some((delivery, file)) = self.delivered_agent() {
            let script = delivery.script_for(&program);
            greeting = Greeting::with_delivery(delivery, file);
            self.node.backend().spawn_spec(host, &script).map_err(|error| error.to_string())?
        } else {
            self.node.backend().spawn_spec(host, &program).map_err(|error| error.to_string())?
        };
        if spec.channel == Channel::None {
            return Err("the launcher has no streams to a helper".to_owned());
        }
        let failed = |error: io::Error| format!("a helper cannot be started: {error}");
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        let errors = ErrorText::new().map_err(failed)?;
        let mut start = Start::new(spec.program, self.environment.clone().with(spec.env));
        start.fds.insert(0, FdSource::File(its.as_fd()));
        start.fds.insert(1, FdSource::File(its.as_fd()));
        start.fds.insert(2, FdSource::File(errors.0.as_fd()));
        start.args = spec.args;
        start.cwd = spec.cwd;
        start.open_files = original_limit();
        start.parent_death_signal = self.thread_lasts().then_some(Signal::KILL);
        let child = start.start().map_err(|error| error.to_string())?;
        drop(start);
        drop(its);
        let stream = Stream::ours(OwnedFd::from(ours), true);
        // The buffer of the socket is empty.
        stream.write(&spec.initial_input).map_err(failed)?;
        let listener = self.listener.get_or_insert_with(DirectListener::for_helpers);
        listener.add_key(Admission::Orphans, key);
        let until = turn.now + self.node.options().rules.hello_timeout;
        let place = (turn.registry, &mut *turn.targets, turn.id);
        listener.add_helper(stream, until, greeting, place).map_err(failed)?;
        let at = (turn.id, LinkId::PARENT, FdRole::HelperProcess(host.host.0));
        let number = child.as_fd().as_raw_fd();
        let token = turn.targets.add(turn.registry, number, Interest::READABLE, at).map_err(failed)?;
        let helper = SentHelper { child, token, errors };
        if let Some(before) = self.helpers.sent.running.insert(host.host, helper) {
            turn.targets.remove(turn.registry, before.child.as_fd().as_raw_fd(), before.token);
        }
        Ok(())
    }

    /// The process of a helper may have ended.
    pub(in crate::engine::session_io) fn on_helper_process(&mut self, host: HostIndex, turn: &mut Turn<'_>) {
        let running = &mut self.helpers.sent.running;
        let Some(helper) = running.get_mut(&host) else { return };
        if helper.child.peek().is_none() {
            return;
        }
        // Processes that it has left behind in its group must not outlive it.
        let _ = helper.child.signal_group(Signal::KILL);
        let exit = exit_of(helper.child.try_wait());
        if let Some(SentHelper { child, token, errors }) = running.remove(&host) {
            turn.targets.remove(turn.registry, child.as_fd().as_raw_fd(), token);
            self.tell(Event::HelperEnded(host, errors.or(exit)), turn);
        }
    }

    /// Tells of helpers that could not be started.
    pub(in crate::engine::session_io) fn tell_failed_helpers(&mut self, turn: &mut Turn<'_>) {
        for (host, why) in std::mem::take(&mut self.helpers.sent.failed) {
            self.tell(Event::HelperEnded(host, why), turn);
        }
    }
}
