//! Signs a login, with a key of a file or with the agent.

use std::sync::Arc;

use russh::keys::agent::AgentIdentity;
use russh::keys::signature::Signer as _;
use russh::keys::ssh_encoding::Encode;
use russh::keys::ssh_key::Signature;
use russh::keys::ssh_key::private::KeypairData;
use russh::keys::{HashAlg, PrivateKey};
use russh::{SendError, Signer};

use super::super::agent::{Agent, put};
use super::candidates::SigningKey;

/// The key that signs, and what it takes.
pub(super) struct Hand<'a> {
    pub(super) agent: Option<&'a mut Agent>,
    pub(super) key: &'a SigningKey,
}

/// Why there is no signature.
pub(super) enum SignError {
    Refused(String),
    /// There is nothing to sign with; what is to be told.
    NoKey(Vec<String>),
    /// The connection to the server is lost.
    Lost,
}

impl From<SendError> for SignError {
    fn from(_: SendError) -> SignError {
        SignError::Lost
    }
}

const RSA_SHA2_256: u32 = 2;
const RSA_SHA2_512: u32 = 4;

impl Signer for Hand<'_> {
    type Error = SignError;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut data: Vec<u8>,
    ) -> Result<Vec<u8>, SignError> {
        let signature = match self.key {
            SigningKey::None(lines) => return Err(SignError::NoKey(lines.clone())),
            SigningKey::OfFile(key) => of_file(key, hash, &data)?,
            SigningKey::OfAgent(key) => {
                let flags = match hash {
                    Some(HashAlg::Sha512) => RSA_SHA2_512,
                    Some(HashAlg::Sha256) => RSA_SHA2_256,
                    _ => 0,
                };
                let Some(agent) = self.agent.as_mut() else {
                    return Err(SignError::Refused("no agent".into()));
                };
                let signed = agent.sign(&key.blob, &data, flags).await;
                signed.map_err(|why| SignError::Refused(format!("\"{}\" from agent: {why}", key.comment)))?
            }
        };
        put(&mut data, &signature);
        Ok(data)
    }
}

fn of_file(key: &Arc<PrivateKey>, hash: Option<HashAlg>, data: &[u8]) -> Result<Vec<u8>, SignError> {
    let signed: Result<Signature, _> = match key.key_data() {
        KeypairData::Rsa(key) => (key, hash).try_sign(data),
        other => other.try_sign(data),
    };
    let signature = signed.map_err(|why| SignError::Refused(why.to_string()))?;
    let mut encoded = Vec::new();
    signature.encode(&mut encoded).map_err(|why| SignError::Refused(why.to_string()))?;
    Ok(encoded)
}
