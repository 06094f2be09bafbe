//! The ticket file: where a keeper is, and the secret that admits to it.
//!
//! A keeper that writes it holds a lock on it as long as it lives, so that a file of one that was killed is
//! known as such on the same machine. That of a keeper elsewhere is written by its first front end, and has
//! no lock. A file is whole when it has its name.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{LinkKey, LinkSecurity, Parent, Secret, Terms};
use libi_core::wire::Version;
use nix::fcntl::{Flock, FlockArg};
use zeroize::{Zeroize, Zeroizing};

/// The first line.
const HEAD: &str = "libi-ticket 1";
/// How long an address may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Why a file of this name cannot be written.
pub(super) const IN_USE: &str = "a session is kept that has this ticket file";
/// The longest file.
const MAX_LENGTH: u64 = 16 << 10;

/// The content of a ticket file.
#[derive(Debug)]
pub(super) struct Ticket {
    /// The keeper, and its machine.
    pub(super) pid: u32,
    pub(super) host: String,
    /// Where it listens.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) secret: Secret,
    /// Whether it holds a lock on the file.
    pub(super) is_locked: bool,
}

/// A ticket file that this process has written, and removes.
pub(super) struct OwnTicket {
    path: PathBuf,
    lock: Flock<File>,
}

impl Ticket {
    /// The key of connections to the keeper.
    pub(super) fn key(&self) -> LinkKey {
        let terms = Terms {
            version: Version(1),
            session: SessionId(0),
            host: HostIndex(0),
            attempt: 0,
            parent: Parent::FrontEnd,
            mode: LinkSecurity::Encrypted,
        };
        LinkKey::derive(&self.secret, &terms)
    }

    /// Writes it, in place of a file of this name that no keeper has, and holds a lock on it.
    pub(super) fn write(&self, path: &Path) -> io::Result<OwnTicket> {
        if is_in_use(path) {
            return Err(io::Error::other(IN_USE));
        }
        let lock = self.replace(path)?;
        Ok(OwnTicket { path: path.to_owned(), lock })
    }

    /// Writes that of a keeper on another machine.
    pub(super) fn write_for_another(&self, path: &Path) -> io::Result<()> {
        self.replace(path).map(drop)
    }

    fn replace(&self, path: &Path) -> io::Result<Flock<File>> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = self.write_to(file).and_then(|lock| std::fs::rename(&new, path).map(|()| lock));
        written.inspect_err(|_| drop(std::fs::remove_file(&new)))
    }

    fn write_to(&self, file: File) -> io::Result<Flock<File>> {
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, why)| io::Error::from(why))?;
        lock.write_all(self.text().as_bytes())?;
        lock.sync_all().or(Ok(())).map(|()| lock)
    }

    /// The file.
    pub(super) fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(MAX_LENGTH as usize));
        let _ = writeln!(text, "{HEAD}\npid {}\nhost {}", self.pid, self.host);
        if self.is_locked {
            text.push_str("locked\n");
        }
        for address in &self.addresses {
            let _ = writeln!(text, "address {address}");
        }
        text.push_str("secret ");
        for byte in self.secret.for_ticket() {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        text
    }

    /// Reads a ticket file that its owner alone can read; otherwise, why not.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|why| format!("it cannot be read: {why}"))?;
        let metadata = file.metadata().map_err(|why| why.to_string())?;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(format!("it belongs to another user, of number {}", metadata.uid()));
        }
        if metadata.mode() & 0o077 != 0 {
            let mode = metadata.mode() & 0o777;
            return Err(format!("its mode is {mode:03o}, so that others may know the secret; use 600"));
        }
        let mut text = Zeroizing::new(String::with_capacity(MAX_LENGTH as usize));
        file.take(MAX_LENGTH).read_to_string(&mut text).map_err(|why| why.to_string())?;
        Self::parse(&text).ok_or_else(|| "it is no ticket file of this version of libi".to_owned())
    }

    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return None;
        }
        let (mut pid, mut host, mut addresses, mut secret) = (None, None, Vec::new(), None);
        let mut is_locked = false;
        for line in lines {
            if line == "locked" {
                is_locked = true;
                continue;
            }
            match line.split_once(' ')? {
                ("pid", value) => pid = Some(value.parse().ok()?),
                ("host", value) => host = Some(value.to_owned()),
                ("address", value) => addresses.push(value.parse().ok()?),
                ("secret", value) => secret = Some(parse_secret(value)?),
                _ => return None,
            }
        }
        Some(Self { pid: pid?, host: host?, addresses, secret: secret?, is_locked })
    }

    /// Where the keeper is, in words.
    pub(super) fn place(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }
}

impl OwnTicket {
    /// Removes the file, unless another one has taken its place.
    pub(super) fn remove(self) {
        let own = self.lock.metadata().ok().map(|own| (own.dev(), own.ino()));
        let found = std::fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()));
        if own.is_some() && own == found {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a keeper has the file of this name: a process of this machine holds its lock, or something
/// answers where another machine's listens.
pub(super) fn is_in_use(path: &Path) -> bool {
    match Ticket::read(path) {
        Ok(ticket) if !ticket.is_locked => ticket
            .addresses
            .iter()
            .any(|address| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok()),
        _ => is_locked(path),
    }
}

/// Whether a process of this machine holds the lock of a file of this name.
pub(super) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
}

fn parse_secret(text: &str) -> Option<Secret> {
    let mut bytes = [0; Secret::LEN];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let secret = Secret::from_ticket(&bytes);
    bytes.zeroize();
    Some(secret)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            pid: 42,
            host: "login1".to_owned(),
            addresses: vec!["127.0.0.1:99".parse().unwrap(), "[::1]:98".parse().unwrap()],
            secret: Secret::from_ticket(&[0xa5; 32]),
            is_locked: true,
        }
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("libi-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_ticket_file_is_read_as_it_was_written_and_removed() {
        let directory = directory("ticket");
        let path = directory.join("t");
        let own = ticket().write(&path).unwrap();
        let read = Ticket::read(&path).unwrap();
        assert_eq!((read.pid, &read.host[..], &read.addresses), (42, "login1", &ticket().addresses));
        assert!(read.secret == ticket().secret && read.is_locked);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(ticket().write(&path).is_err(), "it is in use");
        own.remove();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_no_keeper_has_is_replaced_and_not_removed_by_others() {
        let directory = directory("stale");
        let path = directory.join("t");
        drop(ticket().write(&path).unwrap());
        let own = ticket().write(&path).unwrap();
        std::fs::write(directory.join("other"), "").unwrap();
        std::fs::rename(directory.join("other"), &path).unwrap();
        own.remove();
        assert!(path.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_others_may_read_and_one_of_another_kind_are_refused() {
        let directory = directory("refused");
        let path = directory.join("t");
        let _own = ticket().write(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(Ticket::read(&path).unwrap_err().contains("mode is 640"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "libi-ticket 2\n").unwrap();
        assert!(Ticket::read(&path).unwrap_err().contains("no ticket file"));
        assert!(Ticket::read(&directory.join("none")).unwrap_err().contains("cannot be read"));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn lines_that_are_wrong_or_missing_are_no_ticket() {
        let good = format!("{HEAD}\npid 1\nhost h\naddress 127.0.0.1:1\nsecret {}\n", "0a".repeat(32));
        assert!(Ticket::parse(&good).is_some());
        for (wrong, right) in
            [("pid 1", "pid x"), ("0a0a", "0g0a"), ("host h\n", ""), ("address 1", "address x1")]
        {
            assert!(Ticket::parse(&good.replacen(wrong, right, 1)).is_none(), "{right}");
        }
        assert!(Ticket::parse(&good[..good.len() - 3]).is_none());
    }
}
