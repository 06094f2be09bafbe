//! Letting ranks go that are held, in daemons.
//!
//! ```text
//!   front end            master                         each other daemon, in a thread
//!     | -- let go -------> | -- let go --------------------> | lets its own go
//!     |                    | lets its own go                 |
//!     | <-- how many are - | <--------- how many are held -- |
//! ```
//!
//! | what fails | what follows |
//! |---|---|
//! | the front end or the master is lost | each daemon that is left lets its own go |
//! | another daemon is lost | its ranks go on at the time limit |
//! | the master leaves | it tells the others to let their ranks go, and waits a second for that |
//! | another daemon leaves | it lets its own go |

use std::sync::{Arc, Mutex};
use std::time::Duration;

use libi::job::Target;
use libi::{Bytes, Member, Rank};

use super::codes::talk;
use super::limits::Deadline;
use super::messages::Message;
use crate::compat::lock;

/// The tag of these messages between daemons, which have no other messages.
const TAG: u32 = 1;
/// How long the answer of a daemon may take longer than its ranks do.
const FOR_ANSWER: Duration = Duration::from_millis(500);
/// How long ranks are waited for when a daemon leaves.
const AT_LEAVING: Duration = Duration::from_secs(1);

pub(super) struct Releases {
    member: Arc<Member>,
    targets: Arc<[Target]>,
    /// Whether all were told, at the master. It is locked while they are.
    all: Mutex<bool>,
}

impl Releases {
    pub(super) fn new(member: Arc<Member>, targets: Arc<[Target]>) -> Arc<Self> {
        Arc::new(Self { member, targets, all: Mutex::new(false) })
    }

    /// Lets the ranks of this host go; returns how many are still held.
    pub(super) fn let_own_go(&self, within: Duration) -> u32 {
        Target::release_all(self.targets.iter(), within).len() as u32
    }

    /// At the master: lets the ranks of all hosts go; returns how many are still held.
    pub(super) fn let_all_go(&self, within: Duration) -> u32 {
        let mut all = lock(&self.all);
        let deadline = Deadline::after(within);
        let own = || self.let_own_go(deadline.left());
        if std::mem::replace(&mut *all, true) {
            return own();
        }
        let order = Message::Release(within.as_millis().try_into().unwrap_or(u32::MAX)).encoded();
        let others = || (1..self.member.size()).map(Rank);
        let sent: Vec<_> = others().map(|rank| self.member.send_to(rank, TAG, order.clone())).collect();
        let own = own();
        // What fails here is reported by the answers.
        sent.into_iter().for_each(|sending| drop(sending.wait(deadline.left())));
        let answer = |rank| {
            let answer = self.member.recv_from(rank, TAG).wait(deadline.left() + FOR_ANSWER);
            // A daemon that is lost has none.
            answer.ok().and_then(|answer| number(&answer)).unwrap_or(0)
        };
        others().map(answer).fold(own, u32::saturating_add)
    }

    /// In another daemon: does what the master says, until it leaves.
    pub(super) fn serve(&self) {
        loop {
            let order = self.member.recv_from(Rank(0), TAG).wait(Duration::MAX);
            let order = order.map_err(talk("the order to let ranks go"));
            let Some(millis) = order.ok().and_then(|order| number(&order)) else {
                self.let_own_go(Duration::ZERO);
                return;
            };
            let held = self.let_own_go(Duration::from_millis(millis.into()));
            let _ = self.member.send_to(Rank(0), TAG, Message::Release(held).encoded()).wait(Duration::MAX);
        }
    }

    /// This daemon leaves its session.
    pub(super) fn leave(&self) {
        if self.member.is_master() {
            self.let_all_go(AT_LEAVING);
        } else {
            self.let_own_go(AT_LEAVING);
        }
    }
}

fn number(message: &Bytes) -> Option<u32> {
    match Message::decoded(message) {
        Ok(Message::Release(number)) => Some(number),
        _ => None,
    }
}
