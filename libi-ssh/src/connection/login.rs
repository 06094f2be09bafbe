//! Logs in with public keys, in the order of OpenSSH.
//!
//! The method `none` tells which methods there are. Then keys are offered, one at a time:
//!
//! 1. certificates that are named in the configuration,
//! 2. keys of the agent that are identity files as well, in the order of the agent,
//! 3. other keys of the agent, unless `IdentitiesOnly`,
//! 4. the remaining identity files, each before the certificate beside it.
//!
//! After a partial success all of them are offered again, if the server still wants keys.

use russh::client::{AuthResult, Handle};
use russh::keys::HashAlg;
use russh::{Error, MethodKind, MethodSet};

use super::Stop;
use super::agent::Agent;
use super::handler::Observer;
use super::identities::Identities;
use super::link::Link;
use super::words::{Lost, Notes, lost_before_start};
use crate::settings::Settings;
use candidates::{Candidate, Offered};
use signing::{Hand, SignError};

mod candidates;
mod signing;

/// A server may ask for several keys; more than this is not sensible.
const ROUNDS: usize = 16;

/// Logs in, or prints why that failed.
pub(super) async fn log_in(
    link: &mut Link,
    settings: &Settings,
    identities: &Identities,
    notes: &Notes,
) -> Result<(), Stop> {
    let result = link.handle.authenticate_none(settings.user.as_str()).await;
    let mut methods = match answer(link, result, notes).await? {
        Answer::LoggedIn => return Ok(()),
        Answer::Refused { methods, .. } => methods,
    };
    if !settings.login.public_keys || !methods.contains(&MethodKind::PublicKey) {
        return denied(settings, &methods, notes);
    }
    let mut agent = match &settings.login.agent {
        Some(socket) => Agent::connect(socket, link.handle.agent_session_binding()).await.ok(),
        None => None,
    };
    let agent_keys = match &mut agent {
        Some(connected) => connected.keys().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let candidates = candidates::of(settings, identities, agent_keys);
    let mut server_hash = None;
    'rounds: for _ in 0..ROUNDS {
        for candidate in &candidates {
            let Candidate::Usable { offered, key } = candidate else {
                candidate.tell(notes);
                continue;
            };
            let hash = match offered.is_rsa() {
                false => None,
                true => {
                    let known = match server_hash {
                        Some(known) => known,
                        None => link.handle.best_supported_rsa_hash().await.unwrap_or_default(),
                    };
                    server_hash = Some(known);
                    match hash_for(offered, &settings.login.accepted, known) {
                        Some(hash) => hash,
                        None => {
                            notes.line("send_pubkey_test: no mutual signature algorithm");
                            continue;
                        }
                    }
                }
            };
            let mut hand = Hand { agent: agent.as_mut(), key };
            let result = offer(&mut link.handle, &settings.user, offered, hash, &mut hand).await;
            let result = match result {
                Err(SignError::Refused(why)) => {
                    let kind = offered.kind();
                    notes.line(&format!("sign_and_send_pubkey: signing failed for {kind}: {why}"));
                    continue;
                }
                Err(SignError::NoKey(lines)) => {
                    lines.iter().for_each(|line| notes.line(line));
                    continue;
                }
                Err(SignError::Lost) => Err(Error::SendError),
                Ok(result) => Ok(result),
            };
            match answer(link, result, notes).await? {
                Answer::LoggedIn => return Ok(()),
                Answer::Refused { methods: left, is_partial } => {
                    methods = left;
                    if !methods.contains(&MethodKind::PublicKey) {
                        return denied(settings, &methods, notes);
                    }
                    if is_partial {
                        continue 'rounds;
                    }
                }
            }
        }
        break;
    }
    denied(settings, &methods, notes)
}

fn denied(settings: &Settings, methods: &MethodSet, notes: &Notes) -> Result<(), Stop> {
    let names: Vec<&str> = methods.iter().map(<&str>::from).collect();
    let Settings { user, host_name, .. } = settings;
    notes.line(&format!("{user}@{host_name}: Permission denied ({}).", names.join(",")));
    Err(Stop::Failed)
}

enum Answer {
    LoggedIn,
    Refused { methods: MethodSet, is_partial: bool },
}

/// What the server answered. If it ended the connection instead, that is printed.
async fn answer(link: &mut Link, result: Result<AuthResult, Error>, notes: &Notes) -> Result<Answer, Stop> {
    match result {
        Ok(AuthResult::Success) => return Ok(Answer::LoggedIn),
        // russh also returns an empty set if there was no answer; it ends the connection if the
        // set of the server is empty.
        Ok(AuthResult::Failure { remaining_methods, partial_success }) if !remaining_methods.is_empty() => {
            return Ok(Answer::Refused { methods: remaining_methods, is_partial: partial_success });
        }
        _ => {}
    }
    match link.ended().await {
        Lost::Failed(Error::NoAuthMethod) => {
            Ok(Answer::Refused { methods: MethodSet::empty(), is_partial: false })
        }
        lost => {
            lost_before_start(notes, link.peer, &lost);
            Err(Stop::Failed)
        }
    }
}

async fn offer(
    handle: &mut Handle<Observer>,
    user: &str,
    offered: &Offered,
    hash: Option<HashAlg>,
    hand: &mut Hand<'_>,
) -> Result<AuthResult, SignError> {
    match offered {
        Offered::Key(key) => handle.authenticate_publickey_with(user, key.clone(), hash, hand).await,
        Offered::Certificate(certificate) => {
            let certificate = (**certificate).clone();
            handle.authenticate_certificate_with(user, certificate, hash, hand).await
        }
    }
}

/// Chooses how an RSA key signs: the first way that is accepted and that the server knows. The
/// outer `None` is that there is none. `known` is the best of the server: one that knows SHA-512
/// knows SHA-256.
fn hash_for(
    offered: &Offered,
    accepted: &[String],
    known: Option<Option<HashAlg>>,
) -> Option<Option<HashAlg>> {
    let best = known?;
    let ways = [Some(HashAlg::Sha512), Some(HashAlg::Sha256), None];
    let usable = ways.into_iter().skip_while(|way| *way != best);
    let rank = |way: &Option<HashAlg>| accepted.iter().position(|name| *name == offered.name(*way));
    usable.filter(|way| rank(way).is_some()).min_by_key(|way| rank(way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rsa_key_signs_in_the_first_way_that_both_sides_accept() {
        let key = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCaaJXgmaOUksJ1ATA+dpzOiul1L2tznafwjkztPS+c+o0sH+A0\
            At3vnCJprp9ynfA5VwJ8wQMj3t4cdoaTcwzhPa/81vaWJAga0Aeg3+1iHkJmubKZ1YfrcdsOd7TEbDV1\
            apJ+3vgNgBQqLlvQcnUXQsidR1PWmOFaxRvuWnhjfw==";
        let offered = match russh::keys::PublicKey::from_openssh(key) {
            Ok(key) => Offered::Key(key),
            Err(why) => panic!("{why}"),
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (sha256, sha512) = (Some(HashAlg::Sha256), Some(HashAlg::Sha512));
        let both = names(&["ssh-ed25519", "rsa-sha2-256", "rsa-sha2-512"]);
        assert_eq!(hash_for(&offered, &both, Some(sha512)), Some(sha256));
        let strong = names(&["rsa-sha2-512"]);
        assert_eq!(hash_for(&offered, &strong, Some(sha512)), Some(sha512));
        assert_eq!(hash_for(&offered, &strong, Some(sha256)), None);
        assert_eq!(hash_for(&offered, &both, None), None);
    }
}
