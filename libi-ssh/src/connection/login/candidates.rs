//! Decides which keys are offered, and in which order.

use std::path::Path;
use std::sync::Arc;

use russh::keys::key::parse_public_key;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, Certificate, HashAlg, PrivateKey, PublicKey};

use super::super::agent::AgentKey;
use super::super::identities::{Identities, KeyFile, NoKey, certificate_beside};
use super::super::words::Notes;
use crate::settings::Settings;

/// A key to be offered, or an identity whose public half is not known.
pub(super) enum Candidate {
    Usable {
        offered: Offered,
        key: SigningKey,
    },
    /// To be told when it is its turn.
    Unusable(Vec<String>),
}

/// What the server gets to see.
#[derive(Clone)]
pub(super) enum Offered {
    Key(PublicKey),
    Certificate(Arc<Certificate>),
}

/// What signs.
pub(super) enum SigningKey {
    /// A key of the agent, and its comment.
    OfAgent(Arc<AgentKey>),
    OfFile(Arc<PrivateKey>),
    /// Nothing, which `ssh` finds out when the server wants the key; what is told then.
    None(Vec<String>),
}

impl Offered {
    fn of_blob(blob: &[u8]) -> Option<Offered> {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let name = rest.get(..u32::from_be_bytes(*length) as usize)?;
        if name.ends_with(b"-cert-v01@openssh.com") {
            return Certificate::from_bytes(blob).ok().map(|read| Offered::Certificate(Arc::new(read)));
        }
        parse_public_key(blob).ok().map(Offered::Key)
    }

    fn blob(&self) -> Vec<u8> {
        match self {
            Offered::Key(key) => key.to_bytes().unwrap_or_default(),
            Offered::Certificate(certificate) => certificate.to_bytes().unwrap_or_default(),
        }
    }

    fn key_data(&self) -> &KeyData {
        match self {
            Offered::Key(key) => key.key_data(),
            Offered::Certificate(certificate) => certificate.public_key(),
        }
    }

    pub(super) fn is_rsa(&self) -> bool {
        matches!(self.key_data(), KeyData::Rsa(_))
    }

    /// The name of the protocol.
    pub(super) fn name(&self, hash: Option<HashAlg>) -> String {
        let algorithm = match self.key_data() {
            KeyData::Rsa(_) => Algorithm::Rsa { hash },
            other => other.algorithm(),
        };
        match self {
            Offered::Key(_) => algorithm.to_string(),
            Offered::Certificate(_) => algorithm.to_certificate_type(),
        }
    }

    /// How `ssh` names the type of key.
    pub(super) fn kind(&self) -> &'static str {
        match (self.key_data(), self) {
            (KeyData::Rsa(_), Offered::Key(_)) => "RSA",
            (KeyData::Rsa(_), Offered::Certificate(_)) => "RSA-CERT",
            (KeyData::Ecdsa(_), Offered::Key(_)) => "ECDSA",
            (KeyData::Ecdsa(_), Offered::Certificate(_)) => "ECDSA-CERT",
            (KeyData::Ed25519(_), Offered::Key(_)) => "ED25519",
            (KeyData::Ed25519(_), Offered::Certificate(_)) => "ED25519-CERT",
            _ => "key",
        }
    }

    fn is_acceptable(&self, settings: &Settings) -> bool {
        if let KeyData::Rsa(key) = self.key_data()
            && key.key_size() < settings.trust.rsa_bits
        {
            return false;
        }
        if matches!(self, Offered::Certificate(certificate) if certificate.cert_type() != CertType::User) {
            return false;
        }
        let accepted = &settings.login.accepted;
        let is_accepted = |hash| accepted.contains(&self.name(hash));
        match self.is_rsa() {
            true => [None, Some(HashAlg::Sha256), Some(HashAlg::Sha512)].into_iter().any(is_accepted),
            false => is_accepted(None),
        }
    }
}

/// An identity file, or a certificate.
struct Identity<'a> {
    path: &'a Path,
    offered: Option<Offered>,
    file: Option<Arc<KeyFile>>,
}

/// Lists what is to be offered.
pub(super) fn of(settings: &Settings, files: &Identities, agent_keys: Vec<AgentKey>) -> Vec<Candidate> {
    let login = &settings.login;
    let mut identities = Vec::new();
    for path in &login.identities {
        let file = files.key(path);
        let offered = file.public.clone().map(Offered::Key);
        identities.push(Identity { path, offered, file: Some(Arc::clone(&file)) });
        if login.certificates.is_empty()
            && let Some(certificate) = files.certificate(&certificate_beside(path))
        {
            let offered = Some(Offered::Certificate(certificate));
            identities.push(Identity { path, offered, file: Some(file) });
        }
    }
    let certificates: Vec<_> = login
        .certificates
        .iter()
        .filter_map(|path| {
            let offered = Some(Offered::Certificate(files.certificate(path)?));
            Some(Identity { path, offered, file: None })
        })
        .collect();
    let agent_keys: Vec<_> = agent_keys.into_iter().map(Arc::new).collect();
    let signers = Signers::new(settings, files, &agent_keys);

    let mut listed = Vec::new();
    for identity in &certificates {
        listed.push(signers.candidate(identity, login.identities_are_named));
    }
    let mut others = Vec::new();
    for key in &agent_keys {
        let Some(offered) = Offered::of_blob(&key.blob) else {
            continue;
        };
        let is_this = |identity: &Identity<'_>| {
            identity.offered.as_ref().is_some_and(|offered| offered.blob() == key.blob)
        };
        let usable = Candidate::Usable { offered, key: SigningKey::OfAgent(Arc::clone(key)) };
        match identities.iter().position(is_this) {
            Some(at) => {
                identities.remove(at);
                listed.push(usable);
            }
            None if !login.identities_only => others.push(usable),
            None => {}
        }
    }
    listed.extend(others);
    for identity in &identities {
        listed.push(signers.candidate(identity, login.identities_are_named));
    }
    listed.retain(|candidate| match candidate {
        Candidate::Usable { offered, .. } => offered.is_acceptable(settings),
        Candidate::Unusable(lines) => !lines.is_empty(),
    });
    listed
}

/// Private keys, by their public halves.
struct Signers<'a> {
    files: Vec<Arc<KeyFile>>,
    agent: &'a [Arc<AgentKey>],
}

impl<'a> Signers<'a> {
    fn new(settings: &Settings, files: &Identities, agent: &'a [Arc<AgentKey>]) -> Signers<'a> {
        Signers { files: settings.login.identities.iter().map(|path| files.key(path)).collect(), agent }
    }

    fn candidate(&self, identity: &Identity<'_>, is_named: bool) -> Candidate {
        let own = identity.file.as_ref().map(|file| &file.private);
        let fits =
            |key: &&Arc<PrivateKey>, offered: &Offered| key.public_key().key_data() == offered.key_data();
        if let Some(offered) = &identity.offered {
            let private = self.files.iter().filter_map(|file| file.private.as_ref().ok());
            let private = own.and_then(|own| own.as_ref().ok()).into_iter().chain(private);
            if let Some(key) = private.into_iter().find(|key| fits(key, offered)) {
                let key = SigningKey::OfFile(Arc::clone(key));
                return Candidate::Usable { offered: offered.clone(), key };
            }
            let plain = PublicKey::new(offered.key_data().clone(), "").to_bytes().unwrap_or_default();
            if let Some(key) = self.agent.iter().find(|key| key.blob == plain) {
                let key = SigningKey::OfAgent(Arc::clone(key));
                return Candidate::Usable { offered: offered.clone(), key };
            }
        }
        let lines = match own {
            Some(Err(reason)) => lines(identity.path, reason, is_named),
            _ => Vec::new(),
        };
        match &identity.offered {
            Some(offered) => Candidate::Usable { offered: offered.clone(), key: SigningKey::None(lines) },
            None => Candidate::Unusable(lines),
        }
    }
}

fn lines(path: &Path, reason: &NoKey, is_named: bool) -> Vec<String> {
    let path = path.display();
    match reason {
        NoKey::Missing(why) if is_named => vec![format!("no such identity: {path}: {why}")],
        // Nothing can be asked.
        NoKey::Missing(_) | NoKey::Encrypted => Vec::new(),
        NoKey::Invalid => vec![format!("Load key \"{path}\": error in libcrypto")],
        NoKey::Unprotected(mode) => {
            let frame = "@".repeat(59);
            vec![
                frame.clone(),
                "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @".into(),
                frame,
                format!("Permissions {mode:04o} for '{path}' are too open."),
                "It is required that your private key files are NOT accessible by others.".into(),
                "This private key will be ignored.".into(),
                format!("Load key \"{path}\": bad permissions"),
            ]
        }
    }
}

impl Candidate {
    pub(super) fn tell(&self, notes: &Notes) {
        if let Candidate::Unusable(lines) = self {
            lines.iter().for_each(|line| notes.line(line));
        }
    }
}
