//! What the word `case:…` does: it plays sessions of a file of cases, one after the other, as the member that this is.

use libi::{Member, Rank, Ranks};

use crate::play::{TIMEOUT, play_well, sessions};

/// Plays these; the error says what came out otherwise than it should.
pub(crate) fn case(member: &Member, word: &str) -> Result<(), String> {
    let (file, numbers) = word.split_once(':').ok_or("a file and numbers are missing")?;
    let all = sessions(file);
    for number in numbers.split('+') {
        let session = number.parse().ok().and_then(|number: usize| all.get(number));
        let session = session.ok_or_else(|| format!("{file} has no session {number}"))?;
        let absent: Ranks = (0..session.size).map(Rank).filter(|rank| !session.has(*rank)).collect();
        if (member.size(), member.absent()) != (session.size, &absent) {
            let (size, is) = (member.size(), member.absent());
            return Err(format!("{}: {is} of {size} are absent, and should be {absent}", session.name));
        }
        play_well(session, member).map_err(|wrong| format!("session {number}, {wrong}"))?;
    }
    // A key that is sparse is gone with the member that has put it, and others may still ask for it.
    member.barrier().wait(TIMEOUT).map_err(|error| format!("the barrier behind all: {error}"))
}
