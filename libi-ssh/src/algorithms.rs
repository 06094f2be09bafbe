//! Decides which algorithms a connection uses: those that `ssh` would have agreed on, or none.
//!
//! The server's list is read before the library sees it. Of each kind, `ssh` takes the first of its
//! own names that the server has too; the library is then offered that single name, so that it agrees
//! on exactly this. If it lacks the algorithm, the connection would be another than that of `ssh`,
//! and the start is declined ([`Disagreement::Weaker`]). With the profile `fast`, which gives up the
//! order of preference anyway, the next common algorithm is taken instead.

use std::fmt;

use crate::settings::Algorithms;

/// Key exchanges of the library, client side.
const KEX: [&str; 10] = [
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group14-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group-exchange-sha256",
];

/// Signatures of host keys that the library verifies.
const HOST_KEYS: [&str; 12] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-256",
    "rsa-sha2-512",
    "ssh-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
];

/// Ciphers that authenticate by themselves; no MAC is agreed on for them.
const AEAD: [&str; 3] = ["chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

const CIPHERS: [&str; 6] = [AEAD[0], AEAD[1], AEAD[2], "aes128-ctr", "aes192-ctr", "aes256-ctr"];

const MACS: [&str; 6] = [
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
];

const NO_COMPRESSION: &str = "none";

const SSH_MSG_KEXINIT: u8 = 20;
/// OpenSSH refuses larger packets.
const MAX_PAYLOAD: usize = 256 * 1024;

/// What a server offers: its `SSH_MSG_KEXINIT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) kex: Vec<String>,
    pub(crate) host_keys: Vec<String>,
    pub(crate) ciphers: Directions,
    pub(crate) macs: Directions,
    pub(crate) compressions: Directions,
}

/// One list for each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directions {
    pub(crate) to_server: Vec<String>,
    pub(crate) to_client: Vec<String>,
}

/// The server's list of algorithms is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoOffer;

impl Offer {
    /// Reads the payload of a packet, from its message number on.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, NoOffer> {
        if payload.len() > MAX_PAYLOAD {
            return Err(NoOffer);
        }
        let (&SSH_MSG_KEXINIT, rest) = payload.split_first().ok_or(NoOffer)? else {
            return Err(NoOffer);
        };
        let (_cookie, mut rest) = rest.split_at_checked(16).ok_or(NoOffer)?;
        let mut next = || {
            let (length, after) = rest.split_first_chunk::<4>().ok_or(NoOffer)?;
            let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| NoOffer)?;
            let (list, after) = after.split_at_checked(length).ok_or(NoOffer)?;
            rest = after;
            names(list)
        };
        let kex = next()?;
        let host_keys = next()?;
        let mut both = || Ok(Directions { to_server: next()?, to_client: next()? });
        let (ciphers, macs, compressions) = (both()?, both()?, both()?);
        let _languages = both()?;
        // The guess and the reserved number.
        if rest.len() < 5 {
            return Err(NoOffer);
        }
        Ok(Self { kex, host_keys, ciphers, macs, compressions })
    }
}

fn names(list: &[u8]) -> Result<Vec<String>, NoOffer> {
    if !list.iter().all(u8::is_ascii_graphic) {
        return Err(NoOffer);
    }
    let list = std::str::from_utf8(list).map_err(|_| NoOffer)?;
    Ok(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The only algorithm of each kind to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) kex: String,
    pub(crate) host_key: String,
    pub(crate) cipher_to_server: String,
    pub(crate) cipher_to_client: String,
    /// `None` where the cipher authenticates by itself.
    pub(crate) mac_to_server: Option<String>,
    pub(crate) mac_to_client: Option<String>,
}

/// A kind of algorithm, displayed in the words of `ssh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kex,
    HostKey,
    Cipher,
    Mac,
    Compression,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kex => "key exchange method",
            Self::HostKey => "host key type",
            Self::Cipher => "cipher",
            Self::Mac => "MAC",
            Self::Compression => "compression method",
        })
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disagreement {
    /// `ssh` would fail as well.
    NothingInCommon { kind: Kind, theirs: Vec<String> },
    /// `ssh` would use an algorithm that the library lacks: the start is declined.
    Weaker { kind: Kind, ssh_would: String },
}

impl Disagreement {
    /// What `ssh` says behind `Unable to negotiate with … port …: `, if it would fail as well.
    pub(crate) fn words(&self) -> Option<String> {
        let Self::NothingInCommon { kind, theirs } = self else { return None };
        Some(format!("no matching {kind} found. Their offer: {}", theirs.join(",")))
    }
}

/// Completes "goes through ssh because …".
impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingInCommon { kind, .. } => write!(f, "no {kind} is known to both sides"),
            Self::Weaker { kind, ssh_would } => write!(f, "ssh would use the {kind} `{ssh_would}`"),
        }
    }
}

/// What `ssh` would have agreed on with this server. `ours.host_keys` is in the order in which it is
/// offered ([`order_of_host_key_algorithms`](crate::known_hosts::order_of_host_key_algorithms)).
/// The kinds are looked at in the order of `ssh`, which matters for the message.
pub(crate) fn agree(ours: &Algorithms, server: &Offer, fast: bool) -> Result<Agreed, Disagreement> {
    let choose = |kind, ours: &[String], theirs: &[String], supported: &[&str]| {
        choose(kind, ours, theirs, supported, fast)
    };
    let kex = choose(Kind::Kex, &ours.kex, &server.kex, &KEX)?;
    let host_key = choose(Kind::HostKey, &ours.host_keys, &server.host_keys, &HOST_KEYS)?;
    let direction = |ciphers: &[String], macs: &[String], compressions: &[String]| {
        let cipher = choose(Kind::Cipher, &ours.ciphers, ciphers, &CIPHERS)?;
        let mac = if AEAD.contains(&cipher.as_str()) {
            None
        } else {
            Some(choose(Kind::Mac, &ours.macs, macs, &MACS)?)
        };
        // Without `Compression`, `ssh` offers it last, for a server that insists.
        let offered = [NO_COMPRESSION.to_owned(), "zlib@openssh.com".to_owned()];
        choose(Kind::Compression, &offered, compressions, &[NO_COMPRESSION])?;
        Ok((cipher, mac))
    };
    let (cipher_to_client, mac_to_client) =
        direction(&server.ciphers.to_client, &server.macs.to_client, &server.compressions.to_client)?;
    let (cipher_to_server, mac_to_server) =
        direction(&server.ciphers.to_server, &server.macs.to_server, &server.compressions.to_server)?;
    Ok(Agreed { kex, host_key, cipher_to_server, cipher_to_client, mac_to_server, mac_to_client })
}

fn choose(
    kind: Kind,
    ours: &[String],
    theirs: &[String],
    supported: &[&str],
    fast: bool,
) -> Result<String, Disagreement> {
    let mut common = ours.iter().filter(|name| theirs.contains(name) && !is_extension(name));
    let Some(first) = common.next() else {
        return Err(Disagreement::NothingInCommon { kind, theirs: theirs.to_vec() });
    };
    let supports = |name: &&String| supported.contains(&name.as_str());
    let chosen = if supports(&first) || !fast { Some(first).filter(supports) } else { common.find(supports) };
    chosen.cloned().ok_or_else(|| Disagreement::Weaker { kind, ssh_would: first.clone() })
}

/// Names among the key exchanges that are none (RFC 8308, strict key exchange).
fn is_extension(name: &str) -> bool {
    name.starts_with("ext-info-") || name.starts_with("kex-strict-")
}

#[cfg(test)]
mod tests;
