//! A client of ssh-agent, for one login: the keys that it holds, and signatures.
//!
//! Keys stay the bytes that the agent sent, so that keys of types that are not known here only
//! cost themselves. The connection is bound to the server's (`session-bind@openssh.com`), which is
//! why logins do not share one.

use std::io;
use std::path::Path;
use std::time::Duration;

use russh::keys::agent::AgentSessionBinding;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub(super) struct Agent(UnixStream);

/// A key of the agent.
pub(super) struct AgentKey {
    pub(super) blob: Vec<u8>,
    pub(super) comment: String,
}

const ANSWER: usize = 256 * 1024;
/// How long an answer may take.
const LISTING: Duration = Duration::from_secs(10);
/// The user may have to confirm a signature.
const SIGNING: Duration = Duration::from_secs(60);

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const EXTENSION: u8 = 27;

impl Agent {
    /// Connects to an agent, for one connection to a server. An agent that does not know about
    /// bindings is used without.
    pub(super) async fn connect(socket: &Path, binding: Option<&AgentSessionBinding>) -> io::Result<Agent> {
        let mut agent = Agent(UnixStream::connect(socket).await?);
        if let Some(binding) = binding {
            let mut request = vec![EXTENSION];
            put(&mut request, b"session-bind@openssh.com");
            put(&mut request, binding.host_key());
            put(&mut request, binding.session_id());
            put(&mut request, binding.signature());
            request.push(0);
            agent.ask(&request, LISTING).await?;
        }
        Ok(agent)
    }

    pub(super) async fn keys(&mut self) -> io::Result<Vec<AgentKey>> {
        let answer = self.ask(&[REQUEST_IDENTITIES], LISTING).await?;
        let keys = || {
            let rest = &mut answer.strip_prefix(&[IDENTITIES_ANSWER])?;
            let (count, keys) = rest.split_first_chunk::<4>()?;
            let mut rest = keys;
            let mut found = Vec::new();
            for _ in 0..u32::from_be_bytes(*count) {
                let blob = take(&mut rest)?.to_vec();
                let comment = String::from_utf8_lossy(take(&mut rest)?).into_owned();
                found.push(AgentKey { blob, comment });
            }
            Some(found)
        };
        keys().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the signature as it is encoded in the protocol of ssh.
    pub(super) async fn sign(&mut self, blob: &[u8], data: &[u8], flags: u32) -> io::Result<Vec<u8>> {
        let mut request = vec![SIGN_REQUEST];
        put(&mut request, blob);
        put(&mut request, data);
        request.extend_from_slice(&flags.to_be_bytes());
        let answer = self.ask(&request, SIGNING).await?;
        let signature = || take(&mut answer.strip_prefix(&[SIGN_RESPONSE])?).map(<[u8]>::to_vec);
        signature().ok_or_else(|| io::Error::other("agent refused operation"))
    }

    async fn ask(&mut self, request: &[u8], within: Duration) -> io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(request.len() + 4);
        put(&mut message, request);
        let exchange = async {
            self.0.write_all(&message).await?;
            let length = self.0.read_u32().await? as usize;
            if length > ANSWER {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut answer = vec![0; length];
            self.0.read_exact(&mut answer).await?;
            Ok(answer)
        };
        timeout(within, exchange).await?
    }
}

/// Adds bytes with their length in front.
pub(super) fn put(message: &mut Vec<u8>, bytes: &[u8]) {
    // No message is as long as 4 GiB.
    message.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    message.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, bytes) = rest.split_first_chunk::<4>()?;
    let (taken, after) = bytes.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(taken)
}
