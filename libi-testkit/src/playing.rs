//! The part of the front end, and how members ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libi::{Event, Exit, FrontEnd, Rank, Session, SessionId, Stream};

use crate::launching::Launch;
use crate::play::play_well;

/// How long all members may take to end after the part of the front end is over.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The exit statuses of members, and their error messages.
#[derive(Default)]
pub struct Endings {
    exits: BTreeMap<(SessionId, Rank), Exit>,
    said: BTreeMap<(SessionId, Rank), String>,
    done: Vec<SessionId>,
}

impl Endings {
    /// Handles events until every member of these sessions has ended.
    pub fn follow(&mut self, front: &FrontEnd, sessions: &[SessionId]) {
        let deadline = Instant::now() + TIMEOUT;
        while !sessions.iter().all(|session| self.done.contains(session)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = front.next_event(left);
            let event = event.unwrap_or_else(|| panic!("they do not end: {:?} {:?}", self.exits, self.said));
            let session = event.session();
            match event {
                Event::Output { rank, stream: Stream::Err, bytes, .. } => {
                    let said = self.said.entry((session, rank)).or_default();
                    said.push_str(&String::from_utf8_lossy(&bytes));
                }
                Event::Exited { rank, exit, .. } => drop(self.exits.insert((session, rank), exit)),
                Event::Lost { name, failure, .. } if sessions.contains(&session) => {
                    panic!("{name} is lost: {failure:?}; {:?}", self.said);
                }
                Event::Done { .. } => self.done.push(session),
                _ => {}
            }
        }
    }

    /// All members of a launch ended well, and so did the part of the front end.
    pub fn are_good(&self, session: SessionId, launch: &Launch, front_end: &Result<(), String>) {
        let nothing = String::new();
        for rank in &launch.sessions[0].1.present {
            let said = self.said.get(&(session, *rank)).unwrap_or(&nothing);
            let exit = self.exits.get(&(session, *rank));
            let file = launch.file;
            assert_eq!(exit, Some(&Exit::Code(0)), "{file}, {rank}: {said}; the front end: {front_end:?}");
        }
        assert_eq!(*front_end, Ok(()), "{}", launch.file);
    }
}

/// Runs the part of the front end in all sessions of a launch.
pub fn play_front_end(launch: &Launch, session: &Session) -> Result<(), String> {
    launch.sessions.iter().try_for_each(|(number, case)| {
        play_well(case, session).map_err(|wrong| format!("session {number}, {wrong}"))
    })
}
