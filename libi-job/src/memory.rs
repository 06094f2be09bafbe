//! The memory of another process, which goes on while it is read.

use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Memory that is read by addresses. Nothing that is read there is true any longer than the read takes.
pub(crate) trait Memory {
    /// Fills `into` with what is at an address.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Errno>;

    /// The number at an address.
    fn int(&self, address: u64) -> Result<i32, Errno> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    /// The address at an address.
    fn pointer(&self, address: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// The memory of a process, without being attached to it.
#[derive(Debug)]
pub(crate) struct ProcessMemory(pub(crate) Pid);

impl Memory for ProcessMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < into.len() {
            let base = usize::try_from(address).ok().and_then(|address| address.checked_add(done));
            let remote = RemoteIoVec { base: base.ok_or(Errno::EFAULT)?, len: into.len() - done };
            match process_vm_readv(self.0, &mut [IoSliceMut::new(&mut into[done..])], &[remote])? {
                0 => return Err(Errno::EFAULT),
                count => done += count,
            }
        }
        Ok(())
    }
}

impl ProcessMemory {
    /// Writes a number, which the process finds there.
    pub(crate) fn write_int(&self, address: u64, value: i32) -> io::Result<()> {
        let memory = OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.0))?;
        memory.write_all_at(&value.to_ne_bytes(), address)
    }
}
