//! Runs one command on one host, as `ssh` would: connects, checks the host key, logs in, and
//! copies the streams.
//!
//! [`run`] is the whole life of a start. What the server may be (algorithms, host keys) is
//! decided by a [`Policy`]; what `ssh` would do otherwise stands in the settings.
//!
//! # Cancellation
//! Dropping the future of [`run`] closes every connection at once, those to jump hosts included.
//! russh runs a task for each connection; [`stream::Closer`] takes its transport away, which ends
//! the task.

mod agent;
mod handler;
mod identities;
mod link;
mod login;
mod offer;
mod pipes;
mod preface;
mod session;
mod stream;
mod tcp;
mod words;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use russh::keys::PublicKeyOrCertificate;

pub(crate) use identities::Identities;
pub(crate) use offer::{NoOffer, Offer};

use crate::settings::Settings;
use words::Notes;

/// A command that is to run on a host.
pub(crate) struct Start {
    /// The hosts to go through, the nearest first.
    pub(crate) jumps: Vec<Target>,
    pub(crate) target: Target,
    pub(crate) command: Vec<u8>,
    pub(crate) streams: Streams,
}

/// A host, and what is accepted from it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) settings: Arc<Settings>,
    pub(crate) policy: Arc<dyn Policy>,
}

/// The streams of the command. They are switched to non-blocking once a start is taken, and back
/// when it ends.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// What a start came to.
pub(crate) enum Outcome {
    Ended(End),
    /// Nothing was sent to the command or printed; the streams were not used. Why.
    Declined(String),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The exit status of `ssh`: that of the command, or [`FAILED`].
    Code(i32),
    /// The signal that ended the command, without `SIG`. `ssh` exits with [`FAILED`].
    Signal(String),
}

/// The exit status of `ssh` for its own failures.
pub(crate) const FAILED: i32 = 255;

/// Decides which servers are accepted.
pub(crate) trait Policy: Send + Sync + 'static {
    /// Decides on the algorithms, from the payload of the server's `SSH_MSG_KEXINIT`.
    fn offer(&self, kexinit: &[u8]) -> Result<Offer, NoOffer>;

    /// Decides whether a host key is trusted. Its signature has been verified; of a certificate,
    /// neither the authority nor the authority's signature has. The address is not known behind
    /// a jump host.
    fn judge(&self, address: Option<SocketAddr>, key: &PublicKeyOrCertificate) -> Judgement;
}

/// What is thought of a host key.
pub(crate) struct Judgement {
    pub(crate) is_trusted: bool,
    /// Lines of text to print. If the key is not trusted, `Host key verification failed.` follows
    /// by itself.
    pub(crate) lines: Vec<String>,
}

/// Why there is no connection. What `ssh` would have printed stands in the notes.
enum Stop {
    Declined(String),
    Failed,
}

/// Runs a command. `taken` is called before anything is printed or a login begins; from then on
/// the start is not declined.
pub(crate) async fn run(start: Start, identities: &Identities, taken: impl FnOnce()) -> Outcome {
    let Start { jumps, target, command, streams } = start;
    let notes = Notes::default();
    let mut taken = Some(taken);
    let mut take = || {
        if let Some(taken) = taken.take() {
            taken();
        }
    };
    let reached = link::reach(&jumps, &target, identities, &notes, &mut take).await;
    if let Err(Stop::Declined(reason)) = reached {
        return Outcome::Declined(reason);
    }
    take();
    let Streams { stdin, stdout, stderr } = streams;
    let mut stderr = pipes::Output::new(stderr);
    let end = match reached {
        Ok(reached) => {
            session::run(reached, &target.settings, &command, stdin, stdout, &mut stderr, &notes).await
        }
        Err(_) => End::Code(FAILED),
    };
    stderr.write_all(&notes.take()).await;
    Outcome::Ended(end)
}

#[cfg(test)]
mod tests;
