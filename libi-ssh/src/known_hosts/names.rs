//! Decides which names a line stands for, and how names and key types are written.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

const DEFAULT_PORT: u16 = 22;
/// `ssh` gives up a list with a longer pattern.
const MAX_PATTERN: usize = 1022;
/// Length of an HMAC-SHA1 and of its salt.
const HASH_LENGTH: usize = 20;

/// The name under which a host is looked up and stored.
pub(crate) fn stored_name(host: &str, port: u16) -> String {
    if port == DEFAULT_PORT || port == 0 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// Whether a name matches a list of patterns: `a*,b?,!c`. No matter the case.
pub(crate) fn matches_list(name: &[u8], list: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let mut positive = false;
    for pattern in list.split(|&byte| byte == b',') {
        let (negated, pattern) = match pattern {
            [b'!', pattern @ ..] => (true, pattern),
            pattern => (false, pattern),
        };
        if pattern.len() > MAX_PATTERN {
            return false;
        }
        if matches(&name, &pattern.to_ascii_lowercase()) {
            if negated {
                return false;
            }
            positive = true;
        }
    }
    positive
}

/// Whether a name matches one pattern with `*` and `?`. Takes time of at most the product of both
/// lengths.
pub(crate) fn matches(name: &[u8], pattern: &[u8]) -> bool {
    let (mut n, mut p) = (0, 0);
    // Where to go on after the last star has taken one more byte.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&byte) = name.get(n) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n + 1));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted == byte => {
                n += 1;
                p += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else { return false };
                (p, n) = (after_star, from);
                retry = Some((after_star, from + 1));
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|&byte| byte == b'*'))
}

/// A hashed name: `|1|SALT|HASH`.
#[derive(Clone, Debug)]
pub(super) struct Hashed {
    /// Keyed with the salt, which is half of the work for a name.
    keyed: Hmac<Sha1>,
    hash: [u8; HASH_LENGTH],
}

impl Hashed {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"|1|")?;
        let (salt, hash) = text.split_at_checked(text.iter().position(|&byte| byte == b'|')?)?;
        let decode = |text: &[u8]| BASE64.decode(text).ok()?.try_into().ok();
        Some(Self { keyed: keyed(&decode(salt)?)?, hash: decode(hash.get(1..)?)? })
    }

    pub(super) fn is(&self, name: &str) -> bool {
        hash(self.keyed.clone(), name) == self.hash
    }
}

/// A name as `HashKnownHosts` stores it.
pub(super) fn hashed(name: &str, salt: &[u8; HASH_LENGTH]) -> Option<String> {
    let hash = hash(keyed(salt)?, name);
    Some(format!("|1|{}|{}", BASE64.encode(salt), BASE64.encode(&hash)))
}

fn keyed(salt: &[u8; HASH_LENGTH]) -> Option<Hmac<Sha1>> {
    Hmac::new_from_slice(salt).ok()
}

fn hash(mut keyed: Hmac<Sha1>, name: &str) -> [u8; HASH_LENGTH] {
    keyed.update(name.as_bytes());
    keyed.finalize().into_bytes().into()
}

const CERTIFICATE: &str = "-cert-v01@openssh.com";

pub(super) fn is_certificate(algorithm: &str) -> bool {
    algorithm.ends_with(CERTIFICATE)
}

/// The type of the plain key that an algorithm works with.
pub(super) fn plain_type(algorithm: &str) -> String {
    match algorithm.strip_suffix(CERTIFICATE).unwrap_or(algorithm) {
        "rsa-sha2-256" | "rsa-sha2-512" => "ssh-rsa".to_owned(),
        security_key if security_key.starts_with("sk-") && !security_key.ends_with("@openssh.com") => {
            format!("{security_key}@openssh.com")
        }
        plain => plain.to_owned(),
    }
}

/// The types that `ssh` knows, and how it calls them in messages.
pub(super) fn label(key_type: &str) -> Option<&'static str> {
    Some(match key_type {
        "ssh-ed25519" => "ED25519",
        "ssh-rsa" => "RSA",
        "ssh-dss" => "DSA",
        "ecdsa-sha2-nistp256" | "ecdsa-sha2-nistp384" | "ecdsa-sha2-nistp521" => "ECDSA",
        "sk-ssh-ed25519@openssh.com" => "ED25519-SK",
        "sk-ecdsa-sha2-nistp256@openssh.com" => "ECDSA-SK",
        _ => return None,
    })
}
