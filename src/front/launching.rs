//! What a launch needs before it begins: the node of the front end, and what is known of the session.

use libi_core::dist::layout::Layout;
use libi_core::hosts::HostRef;
use libi_core::ids::HostIndex;
use libi_core::join::SessionKey;
use libi_core::plan::late::Attempt;
use libi_core::secure::{Entropy, Secret};
use libi_launch::backend::{Backend, LaunchMethod};
use libi_launch::exit_trailer::TrailerTag;
use libi_launch::machine::{CarriedSecret, HostSpec, LaunchPlan, Node, Program};
use libi_launch::options::{LaunchOptions, Output};

use super::output_files::OutputFiles;
use super::session::SessionStatus;
use super::{BackendReason, Error, log_lines};
use crate::engine::fd_budget::original_limit;
use crate::engine::session_io::{SessionIo, inherited};

/// A session to be launched: what runs, on which hosts, how these are reached, and why so.
pub(super) struct Plan<'a> {
    pub(super) layout: &'a Layout,
    pub(super) programs: &'a [Program],
    pub(super) backend: &'a Backend,
    pub(super) reason: &'a BackendReason,
    pub(super) options: &'a LaunchOptions,
}

impl Plan<'_> {
    /// The node, and what is known of the session. `lasting_thread` tells whether the thread that starts
    /// processes lives as long as this process.
    pub(super) fn prepare(&self, lasting_thread: bool) -> Result<(SessionIo, SessionStatus), Error> {
        let Plan { layout, programs, reason, options, .. } = *self;
        let mut mark = [0; 16];
        fill_randomly(&mut mark)?;
        let mut backend = self.backend.clone();
        backend.set_trailer_tag(TrailerTag(mark));
        if backend.is_plaintext() {
            log::warn!(
                target: log_lines::LAUNCH,
                "session {} is launched through {backend}, in the clear: anyone on the network can \
                 read and change its data",
                layout.session().0
            );
        }
        let limits = options.limits.resolved(original_limit());
        let launch_options = options.clone().backend(backend).limits(limits);
        let plan = LaunchPlan {
            hosts: host_specs(layout),
            programs: programs.to_vec(),
            size: layout.size(),
            secret: secret(&launch_options)?,
            options: launch_options,
        };
        let files = match &options.output {
            Output::Files(directory) => {
                let unusable = |why| Error::OutputDirectory { path: directory.clone(), why };
                Some(OutputFiles::new(directory).map_err(unusable)?)
            }
            _ => None,
        };
        let node = Node::front(SessionKey(random()?), &plan, random()?);
        let status = SessionStatus::new(layout.clone(), reason.clone(), files, options);
        let session_io =
            SessionIo::new(node, inherited(), lasting_thread).with_here(options.local_hosts.clone());
        Ok((session_io, status))
    }
}

/// A secret for the links of a session that are connections of their own or lead through helpers, if it may
/// have any.
fn secret(options: &LaunchOptions) -> Result<Option<CarriedSecret>, Error> {
    if !options.has_secret() {
        return Ok(None);
    }
    fresh_secret().map(|secret| Some(CarriedSecret(secret)))
}

/// A new secret.
pub(super) fn fresh_secret() -> Result<Secret, Error> {
    let mut bytes = [0; Entropy::LEN];
    fill_randomly(&mut bytes)?;
    Ok(Secret::new(Entropy::new(&mut bytes)))
}

fn fill_randomly(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|why| Error::System { what: "cannot get random bytes", why: why.into() })
}

fn random() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    fill_randomly(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The hosts of a session, each to be launched for the first time.
pub(super) fn host_specs(layout: &Layout) -> Vec<HostSpec> {
    let spec = |(host, named): (u32, HostRef<'_>)| {
        let host = HostIndex(host);
        HostSpec { blocks: layout.blocks(host).to_vec(), ..host_spec(host, named) }
    };
    (0..).zip(layout.hosts()).map(spec).collect()
}

/// A host to be launched for the first time, without processes.
pub(super) fn host_spec(host: HostIndex, named: HostRef<'_>) -> HostSpec {
    HostSpec {
        host,
        attempt: Attempt::default(),
        name: named.name.to_owned(),
        user: named.user.map(str::to_owned),
        port: named.port,
        below: 0,
        faults: 0,
        restarts: 0,
        blocks: Vec::new(),
    }
}
