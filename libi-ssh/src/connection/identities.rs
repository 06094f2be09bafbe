//! The files of keys and certificates, read once for all connections.
//!
//! A file is read again if it has changed. Private keys are zeroised when the last connection and
//! the cache drop them. Which files are used is decided by `login`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::getuid;
use russh::keys::{Algorithm, Certificate, PrivateKey, PublicKey, decode_secret_key};
use zeroize::Zeroizing;

use super::words::of_system;
use crate::settings::Login;

/// The files that have been read.
#[derive(Default)]
pub(crate) struct Identities {
    keys: Mutex<Cache<(Stamp, Stamp), Arc<KeyFile>>>,
    certificates: Mutex<Cache<Stamp, Option<Arc<Certificate>>>>,
}

/// An `IdentityFile`.
pub(super) struct KeyFile {
    /// From the file itself, else from the one that ends with `.pub`.
    pub(super) public: Option<PublicKey>,
    pub(super) private: Result<Arc<PrivateKey>, NoKey>,
}

/// Why a file has no private key to sign with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    Missing(String),
    /// Others may read it; the mode.
    Unprotected(u32),
    /// A passphrase would have to be asked for.
    Encrypted,
    Invalid,
}

/// What tells that a file is another one.
#[derive(PartialEq, Eq)]
struct Stamp(Option<(u64, u64, u64, i64, i64, u32)>);

/// What was read from files that had these stamps.
type Cache<S, T> = HashMap<PathBuf, (S, T)>;

/// Longer files are not keys.
const LENGTH: u64 = 1024 * 1024;

impl Identities {
    /// Returns an identity that needs a security token, for which russh has no support.
    pub(super) fn needs_token(&self, login: &Login) -> Option<PathBuf> {
        if !login.public_keys {
            return None;
        }
        let is_of_token = |path: &&PathBuf| {
            let file = self.key(path);
            let needs = matches!(file.public.as_ref().map(PublicKey::algorithm), Some(algorithm)
                if matches!(algorithm, Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256));
            needs && !matches!(file.private, Err(NoKey::Missing(_)))
        };
        login.identities.iter().find(is_of_token).cloned()
    }

    pub(super) fn key(&self, path: &Path) -> Arc<KeyFile> {
        let public_path = with_suffix(path, ".pub");
        let stamps = (Stamp::of(path), Stamp::of(&public_path));
        // Held while the file is read: it is the same for a thousand connections.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, file)) = keys.get(path)
            && *known == stamps
        {
            return Arc::clone(file);
        }
        let file = Arc::new(KeyFile::read(path, &public_path));
        keys.insert(path.to_owned(), (stamps, Arc::clone(&file)));
        file
    }

    /// Returns the certificate in a file, if there is one.
    pub(super) fn certificate(&self, path: &Path) -> Option<Arc<Certificate>> {
        let stamp = Stamp::of(path);
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, certificate)) = certificates.get(path)
            && *known == stamp
        {
            return certificate.clone();
        }
        let read = || Certificate::from_openssh(read(path).ok()?.trim()).ok().map(Arc::new);
        let certificate = read();
        certificates.insert(path.to_owned(), (stamp, certificate.clone()));
        certificate
    }
}

/// The certificate that `ssh` looks for beside a key.
pub(super) fn certificate_beside(path: &Path) -> PathBuf {
    with_suffix(path, "-cert.pub")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > LENGTH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
    io::Read::read_to_string(&mut io::Read::take(fs::File::open(path)?, LENGTH), &mut text)?;
    Ok(text)
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        Stamp(
            fs::metadata(path).ok().map(|file| {
                (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec(), file.mode())
            }),
        )
    }
}

impl KeyFile {
    fn read(path: &Path, public_path: &Path) -> KeyFile {
        let beside = || PublicKey::from_openssh(read(public_path).ok()?.trim()).ok();
        let without = |reason| KeyFile { public: beside(), private: Err(reason) };
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return without(NoKey::Missing(of_system(&error))),
        };
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return without(NoKey::Invalid),
            Err(error) => return without(NoKey::Missing(of_system(&error))),
        };
        // The agent may hold the private key of it.
        if let Ok(public) = PublicKey::from_openssh(text.trim()) {
            return KeyFile { public: Some(public), private: Err(NoKey::Invalid) };
        }
        let of_openssh = PrivateKey::from_openssh(&*text).ok();
        let public = of_openssh.as_ref().map(|key| key.public_key().clone()).or_else(beside);
        if metadata.uid() == getuid().as_raw() && metadata.mode() & 0o077 != 0 {
            return KeyFile { public, private: Err(NoKey::Unprotected(metadata.mode() & 0o777)) };
        }
        let private = match of_openssh {
            Some(key) if key.is_encrypted() => Err(NoKey::Encrypted),
            Some(key) => Ok(key),
            None => decode_secret_key(&text, None).map_err(|error| match error {
                russh::keys::Error::KeyIsEncrypted => NoKey::Encrypted,
                _ => NoKey::Invalid,
            }),
        };
        let public = public.or_else(|| private.as_ref().ok().map(|key| key.public_key().clone()));
        KeyFile { public, private: private.map(Arc::new) }
    }
}
