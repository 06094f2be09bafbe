//! A peer that has not proved which link it is: a connection that was accepted, or the streams of a helper.
//!
//! | state | event | next |
//! |---|---|---|
//! | greeting (helpers) | text of login shells | the same; too much of it closes the peer |
//! | greeting | the host lacks the agent that would be the helper | the same; it is sent |
//! | greeting | the helper has connected to its orphan | opening |
//! | opening | an opening for a known key | proof; the answer is sent |
//! | proof | it is valid | proved |
//! | any | something else, or the end | the peer is closed |

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use libi_core::secure::{AwaitOpening, AwaitProof, Entropy, HandshakeStep, KeyId, LinkKey, SecuredLink};
use libi_core::time::Instant;
use libi_launch::backend::HELPER_IS_CONNECTED;
use libi_launch::delivery::{Answer, Delivery};
use mio::Token;

use super::agent_delivery::AgentDelivery;
use super::ciphers::cipher_offer;
use super::direct_listener::Admission;
use super::send_queue::Flushed;
use super::stream::Stream;

/// The most text that login shells print before a helper.
const MAX_BEFORE: usize = 64 << 10;

/// See the [module](self).
pub(super) struct PendingPeer {
    pub(super) stream: Stream,
    pub(super) token: Token,
    pub(super) until: Instant,
    state: Handshake,
    out: Vec<u8>,
    /// Of a helper, until it has connected.
    greeting: Option<Greeting>,
}

enum Handshake {
    Opening(AwaitOpening),
    Proof(Admission, KeyId, AwaitProof),
}

/// What a peer has proved.
pub(super) struct Proved {
    pub(super) admission: Admission,
    pub(super) key: KeyId,
    pub(super) secured: SecuredLink,
    /// What has arrived behind the proof.
    pub(super) early: Vec<u8>,
}

/// What comes before the handshake on the streams of a helper.
#[derive(Default)]
pub(super) struct Greeting {
    text: Vec<u8>,
    sending: Option<Sending>,
}

/// An agent that the host may lack.
struct Sending {
    delivery: Delivery,
    file: Arc<[u8]>,
    to: AgentDelivery,
}

impl Greeting {
    /// Of a helper that is sent to its host if that lacks it.
    pub(super) fn with_delivery(delivery: Delivery, file: Arc<[u8]>) -> Self {
        let sending = Sending { delivery, file, to: AgentDelivery::default() };
        Self { text: Vec::new(), sending: Some(sending) }
    }

    /// Takes what has arrived. Returns what follows the greeting once that is over.
    fn take(&mut self, input: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut input = input.to_vec();
        if let Some(sending) = &mut self.sending {
            match sending.to.answers.filter(&mut input) {
                Answer::Nothing => {}
                Answer::Ready => self.sending = None,
                Answer::Needed { has_gzip } => {
                    sending.to.send(&sending.delivery, &sending.file, has_gzip);
                }
            }
        }
        self.text.append(&mut input);
        let mark = HELPER_IS_CONNECTED;
        match self.text.windows(mark.len()).position(|found| found == mark) {
            Some(at) => Ok(Some(self.text.split_off(at + mark.len()))),
            None if self.text.len() > MAX_BEFORE => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }

    /// Sends what the host lacks, as far as it takes it.
    fn flush(&mut self, stream: &Stream) -> io::Result<()> {
        match self.sending.as_mut().map(|sending| sending.to.flush(stream, usize::MAX)) {
            Some(Flushed::Broken) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }
}

impl PendingPeer {
    /// A peer that has said nothing yet; a helper has a greeting.
    pub(super) fn new(stream: Stream, token: Token, until: Instant, greeting: Option<Greeting>) -> Self {
        let state = Handshake::Opening(AwaitOpening::new());
        Self { stream, token, until, state, out: Vec::new(), greeting }
    }

    /// Whether it has sent a valid opening.
    pub(super) fn is_verified(&self) -> bool {
        matches!(self.state, Handshake::Proof(..))
    }

    /// Continues as far as possible without waiting. Returns what it has proved, once it has.
    pub(super) fn advance(
        &mut self,
        keys: &BTreeMap<KeyId, (Admission, LinkKey)>,
    ) -> io::Result<Option<Proved>> {
        loop {
            write_all(&self.stream, &mut self.out)?;
            let mut buffer = [0; 256];
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.greeting.as_mut().map_or(Ok(()), |it| it.flush(&self.stream)).map(|()| None);
                }
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..count];
            let behind;
            if let Some(greeting) = &mut self.greeting {
                let Some(rest) = greeting.take(input)? else { continue };
                self.greeting = None;
                behind = rest;
                input = &behind;
            }
            while !input.is_empty() {
                let state = std::mem::replace(&mut self.state, Handshake::Opening(AwaitOpening::new()));
                match state {
                    Handshake::Opening(state) => match state.step(&mut input) {
                        HandshakeStep::Wait(state) => self.state = Handshake::Opening(state),
                        HandshakeStep::Done(opening) => {
                            let key = opening.key_id();
                            let known = keys.get(&key);
                            let answer =
                                opening.answer(known.map(|(_, key)| key), cipher_offer(), entropy()?);
                            let (proof, reply) = answer.map_err(io::Error::other)?;
                            let Some((admission, _)) = known else {
                                return Err(io::ErrorKind::PermissionDenied.into());
                            };
                            self.out.extend_from_slice(&reply);
                            self.state = Handshake::Proof(*admission, key, proof);
                        }
                    },
                    Handshake::Proof(admission, key, state) => {
                        match state.step(&mut input).map_err(io::Error::other)? {
                            HandshakeStep::Wait(state) => {
                                self.state = Handshake::Proof(admission, key, state);
                            }
                            HandshakeStep::Done(secured) => {
                                let early = input.to_vec();
                                return Ok(Some(Proved { admission, key, secured, early }));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Writes as much as the socket takes, and keeps the rest.
pub(super) fn write_all(stream: &Stream, out: &mut Vec<u8>) -> io::Result<()> {
    while !out.is_empty() {
        match stream.write(out) {
            Ok(count) => drop(out.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn entropy() -> io::Result<Entropy> {
    let mut bytes = [0; Entropy::LEN];
    getrandom::fill(&mut bytes)?;
    Ok(Entropy::new(&mut bytes))
}
