//! Two engines, of a front end and of its only member, connected as if the first had started the
//! second.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libi_comm::{Bytes, CallId, CommError, Event as Said, Frame, Outcome};
use libi_core::dist::OsBytes;
use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::SessionKey;
use libi_core::loss::LossReason;
use libi_core::plan::late::Attempt;
use libi_core::ranks::Ranks;
use libi_core::secure::{Entropy, LinkSecurity, Secret};
use libi_core::sim::rng::Rng;
use libi_launch::machine::{CarriedSecret, HostSpec, LaunchPlan, LinkPolicy, Notice, Program};
use libi_launch::options::LaunchOptions;

use super::*;
use crate::engine::{Engine, EngineSink, NodeId};

const FRONT: NodeId = NodeId(1);
const MEMBER: NodeId = NodeId(2);
const CHILD: LinkId = LinkId(1);
/// Less than a member waits for its config.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The first bytes of test frames, which no group sends.
const MARK: [u8; 4] = [0xff; 4];

/// What a node has reported, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observed {
    Frame(u32),
    Cut(LinkId),
    Up,
    Signal,
    Released,
    Over,
}

thread_local! {
    static OBSERVED: RefCell<Vec<(NodeId, Observed)>> = const { RefCell::new(Vec::new()) };
}

fn note(id: NodeId, observed: Observed) {
    OBSERVED.with_borrow_mut(|all| all.push((id, observed)));
}

fn observed_by(id: NodeId) -> Vec<Observed> {
    OBSERVED
        .with_borrow(|all| all.iter().filter(|(of, _)| *of == id).map(|(_, observed)| *observed).collect())
}

fn frames_observed_by(id: NodeId) -> Vec<u32> {
    let number = |observed| match observed {
        Observed::Frame(number) => Some(number),
        _ => None,
    };
    observed_by(id).into_iter().filter_map(number).collect()
}

/// Records an event for the group. True if it must not reach the group.
pub(super) fn intercept(id: NodeId, event: &Said) -> bool {
    match event {
        Said::Frame(_, bytes) => {
            let Some(bytes) = bytes.strip_prefix(&MARK) else { return false };
            let (number, rest) = bytes.split_first_chunk().unwrap();
            let number = u32::from_le_bytes(*number);
            assert!(rest.iter().all(|byte| *byte == number as u8), "frame {number} is damaged");
            note(id, Observed::Frame(number));
            true
        }
        Said::Cut(link, _) => {
            note(id, Observed::Cut(*link));
            false
        }
        _ => false,
    }
}

/// A frame of this length in several pieces.
fn frame(number: u32, length: usize) -> Frame {
    let body = Bytes::from(vec![number as u8; length.saturating_sub(8)]);
    let half = body.len() / 2;
    let head = [MARK, number.to_le_bytes()].concat();
    Frame(vec![head.into(), body.slice(..half), body.slice(half..)])
}

struct Notes;

impl EngineSink for Notes {
    fn notice(&mut self, id: NodeId, notice: Notice, _: &Node, _: Instant) {
        match notice {
            Notice::Up => note(id, Observed::Up),
            Notice::Signal(_) => note(id, Observed::Signal),
            Notice::Detached(_) => note(id, Observed::Released),
            Notice::Over => note(id, Observed::Over),
            _ => {}
        }
    }

    fn finished(&mut self, _: NodeId, _: CallId, _: Result<Outcome, CommError>) {}

    fn lost(&mut self, _: NodeId, _: Ranks, _: Option<LossReason>) {}
}

/// A front end and its member.
struct Pair {
    front: Engine,
    member: Engine,
}

impl Pair {
    fn new(secret: Option<CarriedSecret>, options: LaunchOptions) -> Self {
        OBSERVED.take();
        let task = HostSpec {
            host: HostIndex(0),
            attempt: Attempt::default(),
            name: "here".to_owned(),
            user: None,
            port: None,
            blocks: vec![Block { first: Rank(0), count: 1, distribution: 0 }],
            below: 0,
            faults: 0,
            restarts: 0,
        };
        let executable = OsBytes::try_from("nothing").unwrap();
        let program = Program { executable, args: Vec::new(), env: Vec::new(), cwd: None };
        let plan = LaunchPlan { hosts: vec![task], programs: vec![program], size: 1, secret, options };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let session_io = |node| SessionIo::new(node, inherited(), false);
        let (mut front, mut member) = (Engine::new().unwrap(), Engine::new().unwrap());
        member.last = FRONT.0;
        assert_eq!(front.add(session_io(Node::front(SessionKey(1), &plan, 1)), &mut Notes), FRONT);
        front.with(FRONT, &mut Notes, |session_io, turn| {
            // Nothing is started: the member is in this process.
            assert_eq!(session_io.pending_starts.pop_front().map(|start| start.0), Some(StartId(1)));
            let link_io = session_io.links.get_mut(&CHILD).unwrap();
            let input = Stream::ours(ours.into(), true);
            link_io.set_input(input, turn.registry, turn.targets, (turn.id, CHILD)).unwrap();
            session_io.unsent.insert(CHILD);
            session_io.tell(Event::Started(StartId(1)), turn);
        });
        let node = session_io(Node::member(1, "here".to_owned(), 2));
        let input = Stream::ours(theirs.into(), true);
        let id = member.add_connected(node, ParentChannel::Socket(input), Vec::new(), &mut Notes).unwrap();
        assert_eq!(id, MEMBER);
        Self { front, member }
    }

    /// Turns both engines until the condition holds.
    fn until(&mut self, what: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            if what(self) {
                return;
            }
            self.turn(FRONT, Duration::ZERO);
            self.turn(MEMBER, Duration::from_micros(100));
        }
        panic!("that did not come: {:?}", OBSERVED.take());
    }

    fn turn(&mut self, id: NodeId, limit: Duration) {
        self.engine(id).turn(Some(limit), &mut Notes).unwrap();
    }

    fn engine(&mut self, id: NodeId) -> &mut Engine {
        if id == FRONT { &mut self.front } else { &mut self.member }
    }

    /// Queues a frame on the link of this node.
    fn send(&mut self, from: NodeId, frame: Frame) {
        let (session_io, link) = self.session_io(from);
        session_io.links.get_mut(&link).unwrap().queue_frame(frame, None);
        session_io.unsent.insert(link);
    }

    fn session_io(&mut self, id: NodeId) -> (&mut SessionIo, LinkId) {
        let link = if id == FRONT { CHILD } else { LinkId::PARENT };
        (self.engine(id).sessions.get_mut(&id).unwrap(), link)
    }

    fn is_up(&self) -> bool {
        [FRONT, MEMBER].iter().all(|id| observed_by(*id).contains(&Observed::Up))
    }
}

#[test]
fn a_turn_does_not_wait_once_a_write_has_found_the_parent_gone() {
    let Pair { front, mut member } = Pair::new(None, LaunchOptions::local());
    drop(front);
    let began = std::time::Instant::now();
    member.turn(Some(TIMEOUT), &mut Notes).unwrap();
    assert!(observed_by(MEMBER).contains(&Observed::Over) && began.elapsed() < TIMEOUT / 2);
}

#[test]
fn messages_pass_64_mebibytes_of_frames_within_the_one_that_is_begun() {
    const LENGTH: usize = 1 << 20;
    let mut pair = Pair::new(None, LaunchOptions::local().links(LinkPolicy::Channel));
    pair.until(Pair::is_up);
    for (from, to, message) in [(FRONT, MEMBER, Observed::Signal), (MEMBER, FRONT, Observed::Released)] {
        OBSERVED.take();
        (0..64).for_each(|number| pair.send(from, frame(number, LENGTH)));
        // The other side does not read, until no more can be written.
        (0..100).for_each(|_| pair.turn(from, Duration::ZERO));
        let (session_io, link) = pair.session_io(from);
        assert!(session_io.links[&link].has_frames() && !session_io.has_sent_everything());
        let event = if from == FRONT { Event::Signal(10) } else { Event::Detach };
        pair.engine(from).tell(from, event, &mut Notes);
        pair.until(|_| frames_observed_by(to).len() == 64);
        let observed = observed_by(to);
        // A socket buffer holds far less than a frame.
        let before = observed.iter().position(|observed| *observed == message);
        assert!(before.is_some_and(|before| before <= 1), "{observed:?}");
        assert_eq!(frames_observed_by(to), (0..64).collect::<Vec<_>>());
        assert!(pair.session_io(from).0.has_sent_everything());
    }
}

#[test]
fn no_frame_is_lost_or_doubled_when_a_link_moves_while_they_flow() {
    let mut before = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mode = if rng.chance(0.5) { LinkSecurity::Encrypted } else { LinkSecurity::Authenticated };
        let secret = Some(CarriedSecret(Secret::new(Entropy::new(&mut [7; Entropy::LEN]))));
        let mut pair = Pair::new(secret, LaunchOptions::local().loopback(true).link_security(mode));
        let longest = [100, 20_000, 200_000][rng.below(3) as usize];
        let mut sent = [0; 2];
        let has_moved = |pair: &mut Pair| {
            [FRONT, MEMBER].into_iter().all(|id| {
                let (session_io, link) = pair.session_io(id);
                session_io.links[&link].sends_direct && session_io.links[&link].reads_direct
            })
        };
        let mut left = 20;
        for _ in 0..100_000 {
            for (id, sent) in [FRONT, MEMBER].into_iter().zip(&mut sent) {
                if observed_by(id).contains(&Observed::Up) && rng.chance(0.3) {
                    pair.send(id, frame(*sent, rng.below(longest) as usize));
                    *sent += 1;
                }
                if rng.chance(0.5) {
                    pair.turn(id, Duration::ZERO);
                }
            }
            if has_moved(&mut pair) {
                left -= 1;
            } else {
                before += sent[0] + sent[1];
            }
            if left == 0 {
                break;
            }
        }
        assert!(has_moved(&mut pair), "seed {seed}");
        pair.until(|_| [MEMBER, FRONT].map(|id| frames_observed_by(id).len() as u32) == sent);
        for (id, sent) in [MEMBER, FRONT].into_iter().zip(sent) {
            assert_eq!(frames_observed_by(id), (0..sent).collect::<Vec<_>>(), "seed {seed}");
        }
    }
    assert!(before > 0, "no frame was sent before a link had moved");
}

#[test]
fn all_that_a_child_has_sent_directly_before_its_end_is_read() {
    let secret = Some(CarriedSecret(Secret::new(Entropy::new(&mut [7; Entropy::LEN]))));
    let mode = LinkSecurity::Authenticated;
    let mut pair = Pair::new(
        secret,
        LaunchOptions::local().links(LinkPolicy::Direct).loopback(true).link_security(mode),
    );
    pair.until(|pair| {
        let has_moved = |link_io: &LinkIo| link_io.sends_direct && link_io.reads_direct;
        pair.is_up() && pair.member.sessions[&MEMBER].links.get(&LinkId::PARENT).is_some_and(has_moved)
    });
    pair.until(|pair| pair.front.sessions[&FRONT].links[&CHILD].reads_direct);
    // Systems keep more of a connection that has carried much.
    (0..200).for_each(|number| pair.send(MEMBER, frame(number, 256 << 10)));
    pair.until(|_| frames_observed_by(FRONT).len() == 200);
    OBSERVED.take();
    (0..16).for_each(|number| pair.send(MEMBER, frame(number, 64 << 10)));
    for _ in 0..10_000 {
        pair.turn(MEMBER, Duration::from_micros(100));
        let session_io = pair.session_io(MEMBER).0;
        if session_io.has_sent_everything() && !session_io.awaits_acknowledgement() {
            break;
        }
    }
    pair.member.remove(MEMBER);
    pair.until(|_| observed_by(FRONT).contains(&Observed::Cut(CHILD)));
    let expected: Vec<_> = (0..16).map(Observed::Frame).chain([Observed::Cut(CHILD)]).collect();
    assert_eq!(observed_by(FRONT), expected);
}

#[test]
fn a_link_is_cut_once_and_behind_all_that_has_come() {
    let mut pair = Pair::new(None, LaunchOptions::local().links(LinkPolicy::Channel));
    pair.until(Pair::is_up);
    OBSERVED.take();
    (0..3).for_each(|number| pair.send(FRONT, frame(number, 60_000)));
    (0..10).for_each(|_| pair.turn(FRONT, Duration::ZERO));
    pair.front.remove(FRONT);
    for _ in 0..100 {
        pair.turn(MEMBER, Duration::ZERO);
    }
    let frames = (0..3).map(Observed::Frame);
    let expected: Vec<_> = frames.chain([Observed::Cut(LinkId::PARENT), Observed::Over]).collect();
    assert_eq!(observed_by(MEMBER), expected);
}
