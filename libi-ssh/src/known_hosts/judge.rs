//! Decides whether the key that a host offers is accepted: `check_host_key` of OpenSSH 9.2, with its
//! words on standard error.
//!
//! Questions are answered with no, as `BatchMode` does. What `ssh` prints about forwardings that it
//! cancels is left out: there are none.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use russh::keys::{Certificate, PublicKey};

use super::status::{Key, Status};
use super::{Entry, KnownHosts, Level, Message, authority, stored_name};
use crate::settings::{Strict, Trust};

/// The key exchange has ended, and the host has proved to have this key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// `HostName`, in lower case as `ssh -G` prints it.
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// `None` if the connection goes through a jump host.
    pub(crate) address: Option<IpAddr>,
    pub(crate) offered: Offered<'a>,
    pub(crate) now: SystemTime,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Offered<'a> {
    Key(&'a PublicKey),
    Certificate(&'a Certificate),
}

/// What is known about the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Trusted,
    Unknown,
    Changed {
        file: PathBuf,
        line: usize,
    },
    Revoked {
        file: PathBuf,
        line: usize,
    },
    /// Shorter than `RequiredRSASize`, or of no known type.
    Unfit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Whether the login goes on.
    pub(crate) accepted: bool,
    pub(crate) verdict: Verdict,
    /// What `ssh` prints, before anything that [`learned`](Self::learned) leads to.
    pub(crate) messages: Vec<Message>,
    /// Names under which the key is to be stored. More than one only if they are hashed.
    pub(crate) learned: Option<Learned>,
}

/// A key to store in the first of the user's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    pub(crate) names: Vec<String>,
    pub(crate) blob: Vec<u8>,
    /// To print once it is stored, or could not be.
    pub(crate) added: Message,
    pub(crate) failed: Message,
}

/// The last line of a refusal.
pub(crate) const FAILED: &str = "Host key verification failed.";
const FRAME: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

/// Judges the key that a host offers.
pub(crate) fn judge(hosts: &KnownHosts, trust: &Trust, asked: &Asked<'_>) -> Judgement {
    let mut case = Case { hosts, trust, asked, messages: Vec::new(), learned: None };
    let key = match asked.offered {
        Offered::Key(key) => Some(Key::of(key.key_data(), None)),
        Offered::Certificate(certificate) => Some(Key::of(certificate.public_key(), Some(certificate))),
    };
    let Some(key) = key.flatten().filter(|key| key.bits.is_none_or(|bits| bits >= trust.rsa_bits)) else {
        case.say(Level::Fatal, "Bad server host key: Invalid key length".to_owned());
        return case.end(false, Verdict::Unfit);
    };
    let is_loopback = asked.address.is_some_and(|address| address.is_loopback());
    if trust.trusts_loopback && is_loopback && trust.alias.is_none() {
        return case.end(true, Verdict::Trusted);
    }
    let (accepted, verdict) = case.check(&key, asked.port, false);
    if !accepted {
        case.say(Level::Fatal, FAILED.to_owned());
    }
    case.end(accepted, verdict)
}

struct Case<'a> {
    hosts: &'a KnownHosts,
    trust: &'a Trust,
    asked: &'a Asked<'a>,
    messages: Vec<Message>,
    learned: Option<Learned>,
}

impl Case<'_> {
    fn end(self, accepted: bool, verdict: Verdict) -> Judgement {
        Judgement { accepted, verdict, messages: self.messages, learned: self.learned }
    }

    fn say(&mut self, level: Level, text: String) {
        self.messages.push(Message { level, text });
    }

    fn error(&mut self, text: impl Into<String>) {
        self.say(Level::Error, text.into());
    }

    /// Checks a key under the name with a port. `quiet` is the second attempt under the name alone:
    /// nothing is learned then.
    fn check(&mut self, key: &Key<'_>, port: u16, quiet: bool) -> (bool, Verdict) {
        let trust = self.trust;
        let name = trust.alias.clone().unwrap_or_else(|| stored_name(self.asked.host, port));
        let known = self.hosts.lookup(trust, &name);
        let by_address = self.entries_of_address(key, port);
        let status = Status::of(key, &known);
        let mut verdict = match &status {
            Status::Same => Verdict::Trusted,
            Status::New => Verdict::Unknown,
            Status::Other(entry) => Verdict::Changed { file: entry.file.clone(), line: entry.line },
            Status::Revoked(entry) => Verdict::Revoked { file: entry.file.clone(), line: entry.line },
        };
        let address = by_address.as_ref().map(|(address, entries)| (address, Status::of(key, entries)));
        let accepted = match &status {
            Status::Same => self.known(key, address.as_ref(), quiet),
            Status::New => match self.without_port(key, port, quiet) {
                Some(found) => {
                    verdict = found;
                    true
                }
                None => self.unknown(key, &name, address.as_ref(), quiet),
            },
            Status::Revoked(_) => self.revoked(key, &name),
            Status::Other(entry) => self.changed(key, &name, entry, address.as_ref(), quiet),
        };
        let accepted = accepted
            && (matches!(status, Status::Other(_))
                || self.address_agrees(key, &name, &status, address.as_ref()));
        if !accepted && key.certificate.is_some() && !matches!(status, Status::Revoked(_)) {
            // The certificate is worth nothing, but its key may be known.
            let plain = Key {
                blob: key.blob.clone(),
                fingerprint: key.fingerprint.clone(),
                certificate: None,
                ..*key
            };
            return self.check(&plain, port, quiet);
        }
        (accepted, verdict)
    }

    /// The lines for the address (`CheckHostIP`), if they count.
    fn entries_of_address(&self, key: &Key<'_>, port: u16) -> Option<(String, Vec<Entry>)> {
        let address = self.asked.address.filter(|address| !address.is_loopback())?;
        let name = stored_name(&address.to_string(), port);
        let counts = self.trust.checks_address && key.certificate.is_none() && name != self.asked.host;
        counts.then(|| (name.clone(), self.hosts.lookup(self.trust, &name)))
    }

    fn known(&mut self, key: &Key<'_>, address: Option<&(&String, Status<'_>)>, quiet: bool) -> bool {
        if let Some((certificate, _)) = key.certificate {
            let host = self.trust.alias.as_deref().unwrap_or(self.asked.host);
            let signatures = &self.trust.authority_signatures;
            if let Some(reason) = authority::refusal(certificate, host, self.asked.now, signatures) {
                self.error(reason);
                return false;
            }
        }
        if let Some((address, Status::New)) = address {
            let label = key.label();
            if quiet || !self.may_be_stored() {
                self.say(
                    Level::Info,
                    format!("{label} host key for IP address '{address}' not in list of known hosts."),
                );
            } else {
                let file = self.first_file();
                self.learn(
                    key,
                    vec![(*address).clone()],
                    format!(
                        "Warning: Permanently added the {label} host key for IP address '{address}' to the list of \
                         known hosts."
                    ),
                    format!(
                        "Failed to add the {label} host key for IP address '{address}' to the list of known hosts \
                         ({file})."
                    ),
                );
            }
        }
        true
    }

    /// A key that is known for the host at the default port is accepted at another one.
    fn without_port(&mut self, key: &Key<'_>, port: u16, quiet: bool) -> Option<Verdict> {
        if quiet || port == 22 || port == 0 || self.trust.alias.is_some() {
            return None;
        }
        let (accepted, verdict) = self.check(key, 0, true);
        accepted.then_some(verdict)
    }

    fn unknown(
        &mut self,
        key: &Key<'_>,
        name: &str,
        address: Option<&(&String, Status<'_>)>,
        quiet: bool,
    ) -> bool {
        if quiet || key.certificate.is_some() || !self.may_be_stored() {
            return false;
        }
        let label = key.label();
        match self.trust.strict {
            Strict::Yes => {
                self.error(format!(
                    "No {label} host key is known for {name} and you have requested strict checking."
                ));
                return false;
            }
            Strict::Ask => return false,
            Strict::AcceptNew | Strict::No => {}
        }
        let (shown, names) = match address {
            Some((address, Status::New)) if self.trust.hashes => {
                (name.to_owned(), vec![name.to_owned(), (*address).clone()])
            }
            Some((address, Status::New)) => {
                let both = format!("{name},{address}");
                (both.clone(), vec![both])
            }
            _ => (name.to_owned(), vec![name.to_owned()]),
        };
        let file = self.first_file();
        self.learn(
            key,
            names,
            format!("Warning: Permanently added '{shown}' ({label}) to the list of known hosts."),
            format!("Failed to add the host to the list of known hosts ({file})."),
        );
        true
    }

    fn revoked(&mut self, key: &Key<'_>, name: &str) -> bool {
        let label = key.label();
        self.error(FRAME);
        self.error("@       WARNING: REVOKED HOST KEY DETECTED!               @");
        self.error(FRAME);
        self.error(format!("The {label} host key for {name} is marked as revoked."));
        self.error("This could mean that a stolen key is being used to");
        self.error("impersonate this host.");
        if self.trust.strict == Strict::No {
            return self.unsafe_but_wanted();
        }
        self.error(format!(
            "{label} host key for {name} was revoked and you have requested strict checking."
        ));
        false
    }

    fn changed(
        &mut self,
        key: &Key<'_>,
        name: &str,
        entry: &Entry,
        address: Option<&(&String, Status<'_>)>,
        quiet: bool,
    ) -> bool {
        if quiet {
            return false;
        }
        let label = key.label();
        let remove =
            |file: &PathBuf, name: &str| format!("  ssh-keygen -f \"{}\" -R \"{name}\"", file.display());
        if let Some((address, status)) = address {
            let (differs, message, offending) = match status {
                Status::New => (true, "is unknown", None),
                Status::Same => (true, "is unchanged", None),
                Status::Other(of_address) => {
                    (of_address.blob != entry.blob, "has a different value", Some(*of_address))
                }
                Status::Revoked(of_address) => (true, "has a different value", Some(*of_address)),
            };
            if differs {
                self.error(FRAME);
                self.error("@       WARNING: POSSIBLE DNS SPOOFING DETECTED!          @");
                self.error(FRAME);
                self.error(format!("The {label} host key for {name} has changed,"));
                self.error(format!("and the key for the corresponding IP address {address}"));
                self.error(format!("{message}. This could either mean that"));
                self.error("DNS SPOOFING is happening or the IP address for the host");
                self.error("and its host key have changed at the same time.");
                if let Some(offending) = offending {
                    let file = offending.file.display();
                    self.error(format!("Offending key for IP in {file}:{}", offending.line));
                    self.error("  remove with:");
                    self.error(remove(&offending.file, address));
                }
            }
        }
        self.error(FRAME);
        self.error("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @");
        self.error(FRAME);
        self.error("IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!");
        self.error("Someone could be eavesdropping on you right now (man-in-the-middle attack)!");
        self.error("It is also possible that a host key has just been changed.");
        self.error(format!(
            "The fingerprint for the {label} key sent by the remote host is\n{}.",
            key.fingerprint
        ));
        self.error("Please contact your system administrator.");
        self.error(format!("Add correct host key in {} to get rid of this message.", self.first_file()));
        let offending = entry.label();
        self.error(format!("Offending {offending} key in {}:{}", entry.file.display(), entry.line));
        self.error("  remove with:");
        self.error(remove(&entry.file, name));
        if self.trust.strict == Strict::No {
            return self.unsafe_but_wanted();
        }
        self.error(format!("Host key for {name} has changed and you have requested strict checking."));
        false
    }

    /// With `StrictHostKeyChecking=no` a login with a key goes on, and nothing else would.
    fn unsafe_but_wanted(&mut self) -> bool {
        self.error("Password authentication is disabled to avoid man-in-the-middle attacks.");
        self.error("Keyboard-interactive authentication is disabled to avoid man-in-the-middle attacks.");
        true
    }

    /// `CheckHostIP`: the host is known, but its address belongs to another key.
    fn address_agrees(
        &mut self,
        key: &Key<'_>,
        name: &str,
        status: &Status<'_>,
        address: Option<&(&String, Status<'_>)>,
    ) -> bool {
        let Some((address, Status::Other(entry))) = address else { return true };
        let mut text = format!(
            "Warning: the {} host key for '{name}' differs from the key for the IP address '{address}'\nOffending \
             key for IP in {}:{}",
            key.label(),
            entry.file.display(),
            entry.line
        );
        if matches!(status, Status::Same)
            && let Some(matching) =
                self.hosts.lookup(self.trust, name).iter().find(|entry| entry.blob == key.blob)
        {
            text.push_str(&format!("\nMatching host key in {}:{}", matching.file.display(), matching.line));
        }
        // A key that is refused is not stored.
        match self.trust.strict {
            Strict::Ask => {
                self.learned = None;
                false
            }
            Strict::No => {
                self.say(Level::Info, text);
                true
            }
            Strict::Yes | Strict::AcceptNew => {
                self.learned = None;
                self.say(Level::Info, text);
                self.error("Exiting, you have requested strict checking.");
                false
            }
        }
    }

    /// Names that would mean something else in a file are not stored.
    fn may_be_stored(&self) -> bool {
        !self.asked.host.chars().any(|c| "@?*#[]|'\"\\".contains(c))
    }

    fn first_file(&self) -> String {
        self.trust.user_files.first().map(|file| file.display().to_string()).unwrap_or_default()
    }

    fn learn(&mut self, key: &Key<'_>, names: Vec<String>, added: String, failed: String) {
        let info = |text| Message { level: Level::Info, text };
        self.learned =
            Some(Learned { names, blob: key.blob.clone(), added: info(added), failed: info(failed) });
    }
}
