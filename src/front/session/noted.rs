//! Notes the hosts of a session that is up, for tools that attach to it.
//!
//! | event | noted |
//! |---|---|
//! | the session is up, or has grown | at once, before that is told |
//! | hosts are lost | once in a turn, however many they are |
//! | the session is over | nothing any more |

use libi_core::hosts::HostRef;
use libi_core::ids::HostIndex;
use libi_job::session::{Host, Hosts};
use libi_launch::backend::LaunchMethod;
use libi_launch::machine::Node;

use super::SessionStatus;
use crate::{Backend, Programs};

impl SessionStatus {
    /// Notes the hosts as they are now, if some were lost since.
    pub(in crate::front) fn note_lost_hosts(&mut self, node: &Node) {
        if std::mem::take(&mut self.note_is_due) {
            self.note_hosts(node);
        }
    }

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
        let is_here = node.backend().is_local() || node.options().local_hosts.lists(entry);
        Host { index, name: entry.to_string(), is_here }
    }
}
