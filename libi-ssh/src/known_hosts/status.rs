//! Decides what the lines for one name say of an offered key.

use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::{Certificate, HashAlg, PublicKey};

use super::lines::key_type;
use super::names::label;
use super::{Entry, Marker};

/// An offered key in the terms of the files.
pub(super) struct Key<'a> {
    pub(super) blob: Vec<u8>,
    pub(super) label: &'static str,
    pub(super) fingerprint: String,
    /// Of an RSA key.
    pub(super) bits: Option<u32>,
    pub(super) certificate: Option<(&'a Certificate, Vec<u8>)>,
}

impl<'a> Key<'a> {
    pub(super) fn of(data: &KeyData, certificate: Option<&'a Certificate>) -> Option<Self> {
        let bytes = |data: &KeyData| PublicKey::new(data.clone(), "").to_bytes().ok();
        let certificate = match certificate {
            Some(certificate) => Some((certificate, bytes(certificate.signature_key())?)),
            None => None,
        };
        let blob = bytes(data)?;
        Some(Self {
            label: label(key_type(&blob)?)?,
            fingerprint: data.fingerprint(HashAlg::Sha256).to_string(),
            bits: data.rsa().map(RsaPublicKey::key_size),
            certificate,
            blob,
        })
    }

    pub(super) fn label(&self) -> String {
        let suffix = if self.certificate.is_some() { "-CERT" } else { "" };
        format!("{}{suffix}", self.label)
    }
}

/// What the lines for one name say of a key.
pub(super) enum Status<'a> {
    Same,
    New,
    Other(&'a Entry),
    Revoked(&'a Entry),
}

impl<'a> Status<'a> {
    pub(super) fn of(key: &Key<'_>, known: &'a [Entry]) -> Self {
        let authority = key.certificate.as_ref().map(|(_, authority)| authority);
        let is_revoked = |entry: &&Entry| {
            entry.marker == Marker::Revoked && (entry.blob == key.blob || Some(&entry.blob) == authority)
        };
        if let Some(entry) = known.iter().find(is_revoked) {
            return Self::Revoked(entry);
        }
        let (marker, wanted) = match authority {
            Some(authority) => (Marker::Authority, authority),
            None => (Marker::Plain, &key.blob),
        };
        let mut entries = known.iter().filter(|entry| entry.marker == marker);
        if entries.clone().any(|entry| entry.blob == *wanted) {
            return Self::Same;
        }
        // Another authority says nothing about a certificate. Of other keys, `ssh` names the last.
        match entries.next_back() {
            Some(other) if authority.is_none() => Self::Other(other),
            _ => Self::New,
        }
    }
}
