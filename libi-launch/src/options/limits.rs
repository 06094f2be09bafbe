//! The umask and the soft resource limits that members run with.
//!
//! A process that a remote shell starts has those of the login on its host, which may differ from
//! host to host. With [`MemberLimits::FrontEnd`] the launch carries the front end's to every
//! member. A member applies them when the session is up, before its program goes on; the hard
//! limits of a host stay, and bound what is applied.

#[cfg(target_os = "linux")]
use nix::sys::resource::{Resource, getrlimit, setrlimit};
#[cfg(target_os = "linux")]
use nix::sys::stat::{Mode, umask};
use serde::{Deserialize, Serialize};

/// Which umask and soft resource limits members have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MemberLimits {
    /// Those that their launch gives them: with a remote shell, those of the login.
    #[default]
    Login,
    /// Those that the front end has when it launches.
    FrontEnd,
    /// These.
    These(ProcessLimits),
}

/// The umask and the soft resource limits of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// The bits that new files do not get; `None` if the system does not tell.
    umask: Option<u32>,
    /// The soft limits of [`RESOURCES`], in their order.
    soft: Vec<u64>,
}

/// The resources whose limits are carried. The order is part of the protocol.
#[cfg(target_os = "linux")]
const RESOURCES: [Resource; 15] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_STACK,
];

#[cfg(target_os = "linux")]
impl MemberLimits {
    /// Replaces [`FrontEnd`](Self::FrontEnd) by the limits of this process. `open_files` is its
    /// soft limit of open files, if the library has raised that.
    #[must_use]
    pub fn resolved(&self, open_files: Option<u64>) -> Self {
        let Self::FrontEnd = self else { return self.clone() };
        let mut limits = ProcessLimits::of_this_process();
        let raised = RESOURCES.iter().position(|resource| *resource == Resource::RLIMIT_NOFILE);
        if let Some((soft, original)) = raised.and_then(|at| limits.soft.get_mut(at)).zip(open_files) {
            *soft = original;
        }
        Self::These(limits)
    }

    /// Gives this process these limits, as far as its hard limits allow.
    pub fn apply(&self) {
        if let Self::These(limits) = self {
            limits.apply(|_| true);
        }
    }

    /// Gives this process, which starts members, the limits that they inherit: all but that of
    /// [open files](Self::open_files), of which it may need more itself.
    pub fn apply_for_members(&self) {
        if let Self::These(limits) = self {
            limits.apply(|resource| resource != Resource::RLIMIT_NOFILE);
        }
    }

    /// The soft limit of open files, if it is set.
    #[must_use]
    pub fn open_files(&self) -> Option<u64> {
        let Self::These(limits) = self else { return None };
        let place = RESOURCES.iter().position(|resource| *resource == Resource::RLIMIT_NOFILE)?;
        limits.soft.get(place).copied()
    }
}

#[cfg(target_os = "linux")]
impl ProcessLimits {
    /// The limits of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let soft = |resource| getrlimit(resource).map_or(u64::MAX, |(soft, _)| soft);
        Self { umask: own_umask(), soft: RESOURCES.map(soft).to_vec() }
    }

    fn apply(&self, which: impl Fn(Resource) -> bool) {
        let limits = RESOURCES.iter().zip(&self.soft).filter(|(resource, _)| which(**resource));
        for (&resource, &wanted) in limits {
            let Ok((soft, hard)) = getrlimit(resource) else { continue };
            if wanted.min(hard) != soft {
                // A soft limit up to the hard one is always allowed.
                let _ = setrlimit(resource, wanted.min(hard), hard);
            }
        }
        if let Some(bits) = self.umask {
            umask(Mode::from_bits_truncate(bits as libc::mode_t));
        }
    }
}

/// The umask of this process. The system call that tells it would change it for a moment, which
/// other threads could see.
#[cfg(target_os = "linux")]
fn own_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let octal = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(octal.trim(), 8).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_front_ends_limits_are_read_when_it_launches_and_others_are_kept() {
        let MemberLimits::These(own) = MemberLimits::FrontEnd.resolved(None) else { panic!() };
        assert_eq!(own.soft.len(), RESOURCES.len());
        assert!(own.umask.is_some_and(|bits| bits <= 0o777));
        let MemberLimits::These(original) = MemberLimits::FrontEnd.resolved(Some(77)) else { panic!() };
        assert_eq!(original.soft[8], 77, "the limit before the library raised it");
        assert_eq!(MemberLimits::Login.resolved(Some(77)), MemberLimits::Login);
        let given = MemberLimits::These(ProcessLimits { umask: Some(0o27), soft: vec![1] });
        assert_eq!(given.resolved(None), given);
    }

    #[test]
    fn limits_are_applied_up_to_the_hard_limit() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
        let (umask_before, mut limits) = (own_umask(), ProcessLimits::of_this_process());
        limits.soft[1] = u64::MAX;
        limits.umask = Some(0o27);
        limits.apply(|_| true);
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (hard, hard));
        assert_eq!(own_umask(), Some(0o27));
        limits.soft[1] = soft;
        limits.umask = umask_before;
        limits.apply(|_| true);
        assert_eq!((getrlimit(Resource::RLIMIT_CORE).unwrap(), own_umask()), ((soft, hard), umask_before));
    }
}
