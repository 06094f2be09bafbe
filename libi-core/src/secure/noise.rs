//! The Noise handshake of a link; the only module that uses `snow`.
//!
//! `snow` does the handshake. The records are made here (see [`record`](super::record)), with the
//! keys of the handshake's split. Under ChaCha20-Poly1305 they are the same bytes that `snow`'s own
//! transport makes, as a test compares; but that copies each byte once more in either direction,
//! and knows no AEGIS.

use alloc::boxed::Box;

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::cipher::{DirectionKey, RecordCipher};
use super::{Entropy, LinkKey};

const NAME: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PSK_AT: u8 = 0;

/// Bytes of each of the two messages: a public key, a payload of one byte, and its tag.
pub(super) const MESSAGE_LEN: usize = 32 + 1 + 16;

/// A handshake in progress. Boxed, because it is large and moves from state to state.
pub(super) struct Handshake(Box<HandshakeState>);

/// A message that does not authenticate under this handshake's key.
#[derive(Debug)]
pub(super) struct NotAuthentic;

/// One end's keys after the handshake.
pub(super) struct TransportKeys {
    pub(super) send: DirectionKey,
    pub(super) receive: DirectionKey,
}

impl Handshake {
    pub(super) fn initiator(key: &LinkKey, entropy: Entropy) -> Self {
        Self::start(key, entropy, Builder::build_initiator)
    }

    pub(super) fn responder(key: &LinkKey, entropy: Entropy) -> Self {
        Self::start(key, entropy, Builder::build_responder)
    }

    fn start<'a>(
        key: &'a LinkKey,
        entropy: Entropy,
        build: impl FnOnce(Builder<'a>) -> Result<HandshakeState, snow::Error>,
    ) -> Self {
        // The possible errors are the same for every link, so any test of this module finds them: a
        // name that is no Noise protocol or is not compiled in, a psk that is set twice.
        let state = NAME
            .parse()
            .and_then(|name| {
                let builder =
                    Builder::with_resolver(name, Box::new(InjectedRandomness(entropy.into_bytes())));
                build(builder.psk(PSK_AT, key.psk())?.prologue(key.prologue())?)
            })
            .expect("the handshake is put together the same way for every link");
        Self(Box::new(state))
    }

    /// Writes the next message, with this payload.
    pub(super) fn write(&mut self, payload: u8) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        self.0
            .write_message(&[payload], &mut message)
            .expect("fails out of turn or in too little space: our states know their turn and the length");
        message
    }

    /// Reads the peer's next message, and returns its payload.
    pub(super) fn read(&mut self, message: &[u8; MESSAGE_LEN]) -> Result<u8, NotAuthentic> {
        let mut payload = [0; MESSAGE_LEN];
        // Every error is the peer's fault: the length is right, and it is the peer's turn.
        self.0.read_message(message, &mut payload).map_err(|_| NotAuthentic)?;
        Ok(payload[0])
    }

    /// The keys for this cipher, once both messages have passed.
    pub(super) fn finish(mut self, cipher: RecordCipher) -> TransportKeys {
        debug_assert!(self.0.is_handshake_finished());
        let keys = Zeroizing::new(<[[u8; 32]; 2]>::from(self.0.dangerously_get_raw_split()));
        let [initiator, responder] = &*keys;
        let (send, receive) =
            if self.0.is_initiator() { (initiator, responder) } else { (responder, initiator) };
        TransportKeys { send: DirectionKey::new(cipher, send), receive: DirectionKey::new(cipher, receive) }
    }
}

/// The default algorithms, with the given bytes as randomness.
struct InjectedRandomness(Zeroizing<[u8; Entropy::LEN]>);

impl CryptoResolver for InjectedRandomness {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneShotRandom(Some(self.0.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// Returns its bytes once. This handshake asks once, for its private key; if a later `snow` asked
/// again, it must not get the same bytes.
struct OneShotRandom(Option<Zeroizing<[u8; Entropy::LEN]>>);

impl Random for OneShotRandom {
    fn try_fill_bytes(&mut self, wanted: &mut [u8]) -> Result<(), snow::Error> {
        let bytes = self.0.take().filter(|bytes| bytes.len() == wanted.len()).ok_or(snow::Error::Rng)?;
        wanted.copy_from_slice(&*bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TERMS, entropy, key};
    use super::*;

    /// A child of this module and a parent that is `snow` from end to end.
    fn pair() -> (Handshake, Handshake) {
        let key = key(&TERMS);
        let (mut child, mut parent) =
            (Handshake::initiator(&key, entropy(1)), Handshake::responder(&key, entropy(2)));
        assert_eq!(parent.read(&child.write(3)).unwrap(), 3);
        assert_eq!(child.read(&parent.write(1)).unwrap(), 1);
        (child, parent)
    }

    #[test]
    fn records_are_what_snow_itself_would_send_and_take() {
        let (child, parent) = pair();
        let mut child = child.finish(RecordCipher::ChaCha20Poly1305);
        let mut parent = parent.0.into_transport_mode().unwrap();
        for length in [0, 1, 15, 16, 17, 64, 1000, 16_384] {
            let plain = alloc::vec![0x5a; length];
            let mut ours = plain.clone();
            let tag = child.send.seal(&mut ours).unwrap();
            ours.extend_from_slice(&tag);
            let mut opened = alloc::vec![0; length];
            assert_eq!(parent.read_message(&ours, &mut opened), Ok(length));
            assert_eq!(opened, plain);

            let mut theirs = alloc::vec![0; length + 16];
            parent.write_message(&plain, &mut theirs).unwrap();
            assert_eq!(child.receive.open(&mut theirs), Ok(&mut plain.clone()[..]));
        }
    }

    #[test]
    fn randomness_is_given_away_once() {
        let mut random = OneShotRandom(Some(entropy(1).into_bytes()));
        let mut wanted = [0; 32];
        assert_eq!(random.try_fill_bytes(&mut wanted), Ok(()));
        assert_eq!(wanted, [1; 32]);
        assert_eq!(random.try_fill_bytes(&mut wanted), Err(snow::Error::Rng));
    }
}
