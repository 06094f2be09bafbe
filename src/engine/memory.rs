//! Shared memory for members of one host: memory files, sealed before their descriptors are sent.
//!
//! They are written by system calls, not through a mapping: without free memory, a system call
//! fails and a mapping raises SIGBUS.
//!
//! The system refuses to seal a file while a page of it is in use elsewhere, as by what moves pages to
//! other places. It waits for that, but not for long; then what was written is copied to another file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use libi_comm::Bytes;
use libi_comm::memory::{Region, SealedRegion, SharedMemory};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::sys::Mapping;

/// These seals make a file immutable, so that its content needs to be checked once.
const SEALS: SealFlag = SealFlag::F_SEAL_WRITE
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_SEAL);

/// How often a file is copied that cannot be sealed, and how much of it at once.
const COPIES: u32 = 3;
const COPIED_AT_ONCE: usize = 256 << 10;

/// Allocates memory that can be sent to other processes of this host.
#[derive(Debug)]
pub(crate) struct MemfdMemory;

#[derive(Debug)]
struct File {
    file: std::fs::File,
    filled: u64,
    length: u64,
}

impl SharedMemory for MemfdMemory {
    fn region(&mut self, length: usize) -> Option<Box<dyn Region>> {
        let file = new_file().ok()?;
        Some(Box::new(File { file, filled: 0, length: length as u64 }))
    }
}

impl Region for File {
    fn append(&mut self, bytes: &[u8]) -> bool {
        let written = self.file.write_all_at(bytes, self.filled);
        self.filled += bytes.len() as u64;
        if let Err(error) = &written {
            log::warn!("cannot write {} bytes to shared memory: {error}", bytes.len());
        }
        written.is_ok()
    }

    fn seal(self: Box<Self>) -> Option<SealedRegion> {
        let Self { file, filled, length } = *self;
        if filled != length {
            return None;
        }
        match sealed(file, length) {
            Ok(region) => Some(region),
            Err(error) => {
                log::warn!("cannot share memory with the members of this host: {error}");
                None
            }
        }
    }
}

/// Seals a file of this length, or a copy of it.
fn sealed(mut file: std::fs::File, length: u64) -> io::Result<SealedRegion> {
    for _ in 0..COPIES {
        match fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS)) {
            Err(Errno::EBUSY) => file = copied(&file, length)?,
            other => {
                other?;
                break;
            }
        }
    }
    let fd = OwnedFd::from(file);
    let bytes = borrow(&fd)?;
    Ok(SealedRegion { bytes, handle: Arc::new(fd) })
}

fn new_file() -> nix::Result<std::fs::File> {
    memfd_create(c"libi", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).map(std::fs::File::from)
}

/// Copies the content of a file, by system calls.
fn copied(from: &std::fs::File, length: u64) -> io::Result<std::fs::File> {
    let (to, mut done) = (new_file()?, 0);
    let mut buffer = vec![0; COPIED_AT_ONCE];
    while done < length {
        let most = buffer.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
        from.read_exact_at(&mut buffer[..most], done)?;
        to.write_all_at(&buffer[..most], done)?;
        done += most as u64;
    }
    Ok(to)
}

/// Maps memory that was received from another process.
///
/// # Errors
/// The file is not sealed, or cannot be mapped.
pub(super) fn borrow(fd: &OwnedFd) -> io::Result<Bytes> {
    let seals = SealFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GET_SEALS)?);
    if !seals.contains(SEALS) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "memory that is not sealed"));
    }
    map(fd.as_fd())
}

/// The descriptor to be sent.
pub(super) fn descriptor(lent: &SealedRegion) -> Option<BorrowedFd<'_>> {
    lent.handle.downcast_ref::<OwnedFd>().map(AsFd::as_fd)
}

fn map(fd: BorrowedFd<'_>) -> io::Result<Bytes> {
    Ok(Bytes::from_owner(Mapping::of_sealed(fd)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_what_was_written_and_stays_so() {
        let mut region = MemfdMemory.region(10).unwrap();
        assert!(region.append(b"01234") && region.append(b"56789"));
        let lent = region.seal().unwrap();
        let fd = descriptor(&lent).unwrap().try_clone_to_owned().unwrap();
        let borrowed = borrow(&fd).unwrap();
        assert_eq!((&lent.bytes[..], &borrowed[..]), (&b"0123456789"[..], &b"0123456789"[..]));
        let file = std::fs::File::from(fd);
        assert!(file.write_all_at(b"x", 0).is_err() && file.set_len(3).is_err());
        drop(lent);
        assert_eq!(&borrowed[..], b"0123456789");
    }

    #[test]
    fn what_cannot_be_sealed_is_copied() {
        let content = [7; 300_000];
        let file = new_file().unwrap();
        file.write_all_at(&content, 0).unwrap();
        let in_use = Mapping::that_could_write(file.as_fd(), content.len()).unwrap();
        assert_eq!(fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS)), Err(Errno::EBUSY));
        let lent = sealed(file, content.len() as u64).unwrap();
        assert_eq!(lent.bytes[..], content);
        let fd = descriptor(&lent).unwrap().try_clone_to_owned().unwrap();
        assert_eq!(borrow(&fd).unwrap()[..], content);
        drop(in_use);
    }

    #[test]
    fn what_is_not_full_is_not_lent_and_what_is_not_sealed_not_borrowed() {
        let mut region = MemfdMemory.region(10).unwrap();
        assert!(region.append(b"01234"));
        assert!(region.seal().is_none());
        let open = memfd_create(c"open", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        assert!(borrow(&open).is_err());
    }
}
