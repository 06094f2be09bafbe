//! The assertions that hold for every byte stream on a direct link.

use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{
    AwaitOpening, AwaitProof, AwaitReply, CipherOffer, Entropy, HandshakeFault, HandshakeMessage,
    HandshakeStep, LinkKey, LinkSecurity, Opener, Opening, Parent, RecordFault, Secret, SecuredLink, Terms,
};
use libi_core::wire::Version;

/// The genuine child's records after its proof.
const SAID: [&[u8]; 3] = [b"one", b"and two", b"and then a somewhat longer third"];

/// Uses `data` in place of each message of a handshake and of the records after it; then damages a
/// genuine link according to `data`. The first byte is the size of the pieces.
pub fn check_handshake(data: &[u8]) {
    let (&first, data) = data.split_first().unwrap_or((&0, data));
    let size = usize::from(first) + 1;
    let genuine = Genuine::new();
    check_in_place_of_messages(data, size, &genuine);
    check_damage(data, size, &genuine);
}

/// A link between ends with fixed randomness: all bytes that the child sends, and the parent's
/// reply.
struct Genuine {
    key: LinkKey,
    opening: Vec<u8>,
    reply: Vec<u8>,
    proof: Vec<u8>,
    records: Vec<u8>,
}

impl Genuine {
    fn new() -> Self {
        let terms = Terms {
            version: Version(1),
            session: SessionId(1),
            host: HostIndex(17),
            attempt: 1,
            parent: Parent::FrontEnd,
            mode: LinkSecurity::Encrypted,
        };
        let key = LinkKey::derive(&Secret::from_ticket(&[7; 32]), &terms);
        let (child, opening) = AwaitReply::begin(&key, CipherOffer::PORTABLE, Entropy::new(&mut [1; 32]));
        let (_, reply) = answer(&key, &opening, opening.len()).expect("a genuine opening");
        let Ok((SecuredLink::Encrypted { mut seal, .. }, proof)) = take_reply(child, &reply, reply.len())
        else {
            panic!("a genuine reply is refused");
        };
        let mut records = Vec::new();
        for said in SAID {
            seal.seal(&[said], &mut records).expect("the key is fresh");
        }
        Self { key, opening: opening.to_vec(), reply, proof: proof.to_vec(), records }
    }

    fn child(&self) -> AwaitReply {
        AwaitReply::begin(&self.key, CipherOffer::PORTABLE, Entropy::new(&mut [1; 32])).0
    }

    fn parent(&self) -> AwaitProof {
        answer(&self.key, &self.opening, self.opening.len()).expect("a genuine opening").0
    }

    fn open(&self) -> Opener {
        match take_proof(self.parent(), &self.proof, self.proof.len()) {
            Ok(SecuredLink::Encrypted { open, .. }) => open,
            _ => panic!("a genuine proof is refused"),
        }
    }
}

/// Only the genuine message is accepted; a shorter input is reported as cut. The genuine messages
/// are in the corpus.
fn check_in_place_of_messages(data: &[u8], size: usize, genuine: &Genuine) {
    let opened = answer(&genuine.key, data, size).map(|_| ());
    expect(opened, HandshakeMessage::Opening, data, &genuine.opening);
    let replied = take_reply(genuine.child(), data, size).map(|_| ());
    expect(replied, HandshakeMessage::Reply, data, &genuine.reply);
    let proven = take_proof(genuine.parent(), data, size).map(|_| ());
    expect(proven, HandshakeMessage::Proof, data, &genuine.proof);
    check_records(data, size, genuine);
}

#[track_caller]
fn expect(result: Result<(), HandshakeFault>, awaited: HandshakeMessage, data: &[u8], genuine: &[u8]) {
    match result {
        Ok(()) => assert!(data.starts_with(genuine), "a forged {awaited} is taken"),
        Err(HandshakeFault::Cut { awaited: opened, have }) => {
            assert_eq!((opened, have), (awaited, data.len()));
        }
        Err(_) => assert!(!data.starts_with(genuine) && data.len() >= genuine.len()),
    }
}

/// For any input, the decrypted records are a prefix of the genuine ones, independently of the
/// pieces.
fn check_records(stream: &[u8], size: usize, genuine: &Genuine) {
    let (opened, result) = read(genuine.open(), stream, size);
    assert_eq!(opened, SAID[..opened.len()], "a record was opened that was never sealed");
    let same = stream.iter().zip(&genuine.records).take_while(|(a, b)| a == b).count();
    let mut end = 0;
    let whole = SAID.iter().take_while(|said| {
        end += 2 + said.len() + 16;
        end <= same
    });
    assert_eq!(opened.len(), whole.count(), "a genuine record is refused");
    if result.is_ok() {
        assert!(genuine.records.starts_with(stream));
    }
    assert_eq!(read(genuine.open(), stream, stream.len().max(1)), (opened, result));
}

/// Changes a genuine stream: each three bytes name a position and the change there.
fn check_damage(data: &[u8], size: usize, genuine: &Genuine) {
    let damage = |message: &[u8]| {
        let mut damaged = message.to_vec();
        for change in data.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % damaged.len();
            damaged[at] ^= change[2];
        }
        damaged
    };
    let opening = damage(&genuine.opening);
    assert_eq!(answer(&genuine.key, &opening, size).is_ok(), opening == genuine.opening);
    let reply = damage(&genuine.reply);
    assert_eq!(take_reply(genuine.child(), &reply, size).is_ok(), reply == genuine.reply);
    let proof = damage(&genuine.proof);
    assert_eq!(take_proof(genuine.parent(), &proof, size).is_ok(), proof == genuine.proof);
    check_records(&damage(&genuine.records), size, genuine);
}

fn answer(key: &LinkKey, data: &[u8], size: usize) -> Result<(AwaitProof, Vec<u8>), HandshakeFault> {
    let unknown = opening(data, size)?.answer(None, CipherOffer::PORTABLE, Entropy::new(&mut [2; 32]));
    assert_eq!(unknown.err(), Some(HandshakeFault::UnknownKey));
    let opening = opening(data, size)?;
    let found = (opening.key_id() == key.id()).then_some(key);
    let (parent, reply) = opening.answer(found, CipherOffer::PORTABLE, Entropy::new(&mut [2; 32]))?;
    Ok((parent, reply.to_vec()))
}

fn opening(data: &[u8], size: usize) -> Result<Opening, HandshakeFault> {
    let mut waiting = AwaitOpening::new();
    for mut piece in data.chunks(size) {
        match waiting.step(&mut piece) {
            HandshakeStep::Wait(next) => waiting = next,
            HandshakeStep::Done(opening) => return Ok(opening),
        }
    }
    Err(waiting.end())
}

fn take_reply(
    mut child: AwaitReply,
    data: &[u8],
    size: usize,
) -> Result<(SecuredLink, [u8; 16]), HandshakeFault> {
    for mut piece in data.chunks(size) {
        match child.step(&mut piece)? {
            HandshakeStep::Wait(next) => child = next,
            HandshakeStep::Done(done) => return Ok(done),
        }
    }
    Err(child.end())
}

fn take_proof(mut parent: AwaitProof, data: &[u8], size: usize) -> Result<SecuredLink, HandshakeFault> {
    for mut piece in data.chunks(size) {
        match parent.step(&mut piece)? {
            HandshakeStep::Wait(next) => parent = next,
            HandshakeStep::Done(secured) => return Ok(secured),
        }
    }
    Err(parent.end())
}

/// The plaintext of a stream of records in pieces of `size` bytes, and how it ends.
fn read(mut open: Opener, stream: &[u8], size: usize) -> (Vec<Vec<u8>>, Result<(), RecordFault>) {
    let mut opened = Vec::new();
    let mut stream = stream.to_vec();
    for mut piece in stream.chunks_mut(size) {
        loop {
            match open.step(&mut piece) {
                Ok(Some(bytes)) => opened.push(bytes.to_vec()),
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(open.step(&mut piece), Err(fault), "an error is forgotten");
                    return (opened, Err(fault));
                }
            }
        }
        assert!(piece.is_empty());
    }
    (opened, open.end())
}
