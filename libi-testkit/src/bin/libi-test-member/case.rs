//! The command `case:…`: runs sessions of a file of cases, one after the other, as this member.

use libi::{Member, Rank, Ranks};

use libi_testkit::play::{TIMEOUT, play_well, sessions};

/// Runs these sessions. The error names the first wrong result.
pub(crate) fn case(member: &Member, word: &str) -> Result<(), String> {
    let (file, numbers) = word.split_once(':').ok_or("a file and numbers are missing")?;
    let all = sessions(file);
    for number in numbers.split('+') {
        let session = number.parse().ok().and_then(|number: usize| all.get(number));
        let session = session.ok_or_else(|| format!("{file} has no session {number}"))?;
        let absent: Ranks = (0..session.size).map(Rank).filter(|rank| !session.has(*rank)).collect();
        if (member.size(), member.absent()) != (session.size, absent.clone()) {
            let (size, is) = (member.size(), member.absent());
            return Err(format!("{}: {is} of {size} are absent, and should be {absent}", session.name));
        }
        play_well(session, member).map_err(|wrong| format!("session {number}, {wrong}"))?;
    }
    // A local key is lost with the member that put it, and others may still look it up.
    member.barrier().wait(TIMEOUT).map_err(|error| format!("the barrier behind all: {error}"))
}
