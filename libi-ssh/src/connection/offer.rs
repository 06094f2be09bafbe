//! Turns the algorithms that were decided for a connection into those that russh offers: exactly
//! these, so that the negotiation has a single result.

use std::borrow::Cow;

use russh::keys::Algorithm;
use russh::{Preferred, cipher, compression, kex, mac};

/// The algorithms of a connection, by the names of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) kex: String,
    pub(crate) host_key: String,
    pub(crate) cipher: String,
    /// `None` if the cipher authenticates by itself.
    pub(crate) mac: Option<String>,
}

/// Why no algorithms are offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoOffer {
    /// `ssh` may do better.
    Declined(String),
    /// `ssh` would fail as well, with this text after `Unable to negotiate with … port …: `.
    Refused(String),
}

const CERTIFICATE: &str = "-cert-v01@openssh.com";

impl Offer {
    /// Returns the name that russh does not know on failure.
    pub(super) fn preferred(&self) -> Result<Preferred, &str> {
        let kex = kex::Name::try_from(self.kex.as_str()).map_err(|()| self.kex.as_str())?;
        let cipher = cipher::Name::try_from(self.cipher.as_str()).map_err(|()| self.cipher.as_str())?;
        let mac = match self.mac.as_deref() {
            Some(name) => Cow::Owned(vec![mac::Name::try_from(name).map_err(|()| name)?]),
            // Not used, but some servers look for a common one nevertheless.
            None => Preferred::DEFAULT.mac,
        };
        let is_certificate = self.host_key.ends_with(CERTIFICATE);
        let plain = self.host_key.strip_suffix(CERTIFICATE).unwrap_or(&self.host_key);
        let key = match Algorithm::new(plain) {
            Ok(Algorithm::Other(_)) | Err(_) => return Err(&self.host_key),
            Ok(key) => Cow::Owned(vec![key]),
        };
        let none = Cow::Borrowed(&[] as &[Algorithm]);
        let (key, certificate) = if is_certificate { (none, key) } else { (key, none) };
        Ok(Preferred {
            kex: Cow::Owned(vec![
                kex,
                kex::EXTENSION_SUPPORT_AS_CLIENT,
                kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
            ]),
            key,
            host_key_certificates: certificate,
            cipher: Cow::Owned(vec![cipher]),
            mac,
            compression: Cow::Borrowed(&[compression::NONE]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(host_key: &str) -> Offer {
        Offer {
            kex: "curve25519-sha256".into(),
            host_key: host_key.into(),
            cipher: "aes128-gcm@openssh.com".into(),
            mac: None,
        }
    }

    #[test]
    fn a_certificate_is_offered_alone() {
        let offer = offer("ssh-ed25519-cert-v01@openssh.com");
        let preferred = offer.preferred().unwrap();
        assert!(preferred.key.is_empty());
        assert_eq!(*preferred.host_key_certificates, [Algorithm::Ed25519]);
    }

    #[test]
    fn unknown_names_are_told() {
        assert_eq!(offer("ssh-new").preferred().unwrap_err(), "ssh-new");
        let offer = Offer { kex: "new-sha512".into(), ..offer("ssh-ed25519") };
        assert_eq!(offer.preferred().unwrap_err(), "new-sha512");
    }
}
