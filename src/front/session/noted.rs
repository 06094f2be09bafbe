//! Notes the hosts of a session that is up, for tools that attach to it.

use libi_core::hosts::HostRef;
use libi_core::ids::HostIndex;
use libi_job::session::{Host, Hosts};
use libi_launch::backend::LaunchMethod;
use libi_launch::machine::Node;

use super::SessionStatus;
use crate::{Backend, Programs};

impl SessionStatus {
    /// Notes the hosts as they are now. Without memory or descriptors for that, no tool finds them.
    pub(in crate::front) fn note_hosts(&mut self, node: &Node) {
        if node.options().programs == Programs::None {
            return; // it has no members
        }
        let hosts = self.live_hosts().into_iter().map(|index| self.noted_host(index, node)).collect();
        let slurm_job = match node.backend() {
            Backend::Srun(srun) => srun.job.as_ref().map(|job| job.id.clone()),
            _ => None,
        };
        let hosts = Hosts { session: self.session(), key: node.session_key(), hosts, slurm_job };
        let _ = self.noted.write(&hosts);
    }

    fn noted_host(&self, index: HostIndex, node: &Node) -> Host {
        let name = self.host_name(index);
        let listed = self.layout.hosts().entry(index.0 as usize).filter(|listed| listed.name == name);
        let entry = HostRef { count: 1, ..listed.unwrap_or_else(|| HostRef::new(&name)) };
        let is_here =
            node.backend().is_local() || node.options().local_hosts.iter().any(|here| is_same(&here, &entry));
        Host { index, name: entry.to_string(), is_here }
    }
}

fn is_same(here: &HostRef<'_>, host: &HostRef<'_>) -> bool {
    (here.name, here.user, here.port) == (host.name, host.user, host.port)
}
