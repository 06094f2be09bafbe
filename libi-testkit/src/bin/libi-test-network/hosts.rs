//! A host: its namespaces, the first process in them, and its device.

use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags};

/// See the [module](self).
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// Of its first process.
    pub(crate) pid: i32,
    device: File,
    /// All of its processes have ended, and its network with them.
    is_gone: Cell<bool>,
    /// The first process ends when this is closed.
    _hold: OwnedFd,
}

impl Host {
    /// The host that a line of the file describes.
    pub(crate) fn begin(line: &str, script: &str) -> Self {
        let (name, address) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}: NAME ADDRESS"));
        let parsed = address.parse().unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let (input, hold) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        // It is made before there is a second process, which may not allocate.
        let words = [script, "host", name, address].map(|word| CString::new(word).unwrap());
        let pid = begin_process(&words, &input, &hold);
        drop(input);
        let device = device_in(pid).unwrap_or_else(|error| panic!("the device of {name}: {error}"));
        File::from(hold.try_clone().unwrap()).write_all(b"\n").unwrap();
        Self { name: name.to_owned(), address: parsed, pid, device, is_gone: Cell::new(false), _hold: hold }
    }

    /// What is to be waited for. Of one that is gone, the system would say for ever that something
    /// has happened.
    pub(crate) fn awaited(&self) -> Option<PollFd<'_>> {
        (!self.is_gone.get()).then(|| PollFd::new(self.device.as_fd(), PollFlags::POLLIN))
    }

    /// A packet that the host has sent, if there is one.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        match nix::unistd::read(&self.device, buffer) {
            Ok(count) => Some(count).filter(|count| *count > 0),
            Err(error) => {
                self.is_gone.set(error == Errno::EBADFD);
                None
            }
        }
    }

    /// What a host does not take, because it is gone or has too much, is lost.
    pub(crate) fn write(&self, packet: &[u8]) {
        let _ = nix::unistd::write(&self.device, packet);
    }
}

/// Runs this command as the first process of new namespaces, with this input.
fn begin_process(words: &[CString; 4], input: &OwnedFd, hold: &OwnedFd) -> i32 {
    const NEW: i32 = libc::CLONE_NEWNET
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::SIGCHLD;
    let [program, a, b, c] = words.each_ref().map(|word| word.as_ptr());
    let arguments = [program, a, b, c, std::ptr::null()];
    // SAFETY: without memory of its own, this is a fork: it gives two processes. There is one
    // thread. The new process does nothing but make system calls; the pointers are to strings, and
    // end with none.
    unsafe {
        let pid = libc::syscall(libc::SYS_clone, NEW, 0, 0, 0, 0) as i32;
        if pid == 0 {
            // A host that has ended meanwhile has closed its end of the input, so that no end is
            // missed.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::close(hold.as_raw_fd());
            libc::dup2(input.as_raw_fd(), 0);
            libc::execv(program, arguments.as_ptr());
            libc::_exit(127);
        }
        assert!(pid > 0, "no namespaces: {}", io::Error::last_os_error());
        pid
    }
}

/// The device `eth0` in the network of a process. It lasts as long as it is open.
fn device_in(pid: i32) -> io::Result<File> {
    let ours = File::open("/proc/self/ns/net")?;
    enter(&File::open(format!("/proc/{pid}/ns/net"))?)?;
    let device = open_device();
    enter(&ours)?;
    device
}

fn enter(network: &File) -> io::Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn open_device() -> io::Result<File> {
    let mut options = File::options();
    let device = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: all of it may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"eth0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request lives through the call, and is what this one takes.
    match unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw const request) } {
        0 => Ok(device),
        _ => Err(io::Error::last_os_error()),
    }
}

/// This program ends with its starter, even by SIGKILL; and hosts that end leave no zombies.
pub(crate) fn leave_nothing() {
    // SAFETY: both take numbers; ignoring needs no handler.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// Has the system wake this process when it is time, and not when it suits others. What is not
/// allowed is not done.
pub(crate) fn be_on_time() {
    // SAFETY: both take numbers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000);
        libc::setpriority(libc::PRIO_PROCESS, 0, -15);
    }
}
