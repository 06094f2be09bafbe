//! Memory is freed without the secret in it.
//!
//! The allocator of this test searches every block that is freed. It cannot see the stack.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{
    AwaitOpening, AwaitReply, CipherOffer, Entropy, HandshakeStep, LinkKey, LinkSecurity, Parent, Secret,
    SecuredLink, Terms,
};
use libi_core::wire::Version;

/// Bytes that occur nowhere else.
static SECRET: [u8; 32] = *b"\xa5\x01the secret of the session\xfe\x5a\x00\x99\xc3";

static FOUND: AtomicUsize = AtomicUsize::new(0);

struct Searching;

// SAFETY: every call is passed on to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Searching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that the search below reads nothing that was never written.
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's as well.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: until it is freed below, the block is the caller's, has this size, and is
        // initialised.
        let block = unsafe { slice::from_raw_parts(at, layout.size()) };
        FOUND.fetch_add(block.windows(SECRET.len()).filter(|bytes| *bytes == SECRET).count(), Relaxed);
        // SAFETY: `at` came from `alloc` above, hence from the system.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Searching = Searching;

/// The number of blocks with the secret that are freed during `work`.
fn freed_with_secret(work: impl FnOnce()) -> usize {
    let before = FOUND.load(Relaxed);
    work();
    FOUND.load(Relaxed) - before
}

// One test, since the allocator serves all threads.
#[test]
fn no_block_is_freed_with_the_secret_in_it() {
    assert_eq!(freed_with_secret(|| drop(black_box(Box::new(SECRET)))), 1, "the search finds nothing");
    assert_eq!(freed_with_secret(|| drop(black_box(Secret::from_ticket(&SECRET)))), 0, "a secret is dropped");
    let clones = || drop(black_box(vec![Secret::from_ticket(&SECRET); 3]));
    assert_eq!(freed_with_secret(clones), 0, "clones are dropped");
    let boxed = || drop(black_box(Box::new(Entropy::new(&mut SECRET.clone()))));
    assert_eq!(freed_with_secret(boxed), 0, "randomness is dropped");
    for offer in [CipherOffer::PORTABLE, CipherOffer::AES_INSTRUCTIONS] {
        let link = || link_that_carries_the_secret(offer);
        assert_eq!(freed_with_secret(link), 0, "a link is made, used and dropped: {offer:?}");
    }
}

/// A session's secret makes a link, and travels over it in the ticket for another host, in small
/// pieces.
fn link_that_carries_the_secret(offer: CipherOffer) {
    let secret = Secret::from_ticket(&SECRET);
    let terms = Terms {
        version: Version(1),
        session: SessionId(1),
        host: HostIndex(2),
        attempt: 1,
        parent: Parent::FrontEnd,
        mode: LinkSecurity::Encrypted,
    };
    let key = Box::new(LinkKey::derive(&secret, &terms));
    let (child, opening) = AwaitReply::begin(&key, offer, Entropy::new(&mut [1; 32]));
    let HandshakeStep::Done(received) = AwaitOpening::new().step(&mut &opening[..]) else {
        panic!("an opening is not complete");
    };
    let (parent, reply) =
        received.answer(Some(&key), offer, Entropy::new(&mut [2; 32])).expect("a genuine opening");
    let Ok(HandshakeStep::Done((SecuredLink::Encrypted { mut seal, .. }, proof))) =
        child.step(&mut &reply[..])
    else {
        panic!("the reply is refused");
    };
    let Ok(HandshakeStep::Done(SecuredLink::Encrypted { mut open, .. })) = parent.step(&mut &proof[..])
    else {
        panic!("the proof is refused");
    };
    let mut wire = Vec::new();
    for _ in 0..3 {
        seal.seal(&[b"ticket: ", secret.for_ticket()], &mut wire).expect("the key is fresh");
    }
    let mut tickets = 0;
    for mut piece in wire.chunks_mut(7) {
        while let Some(bytes) = open.step(&mut piece).expect("genuine records") {
            assert!(bytes.ends_with(&SECRET));
            tickets += 1;
        }
    }
    assert_eq!(tickets, 3);
}
