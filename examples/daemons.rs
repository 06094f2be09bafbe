//! A tool that finds its daemons again: the first run starts four of them, later runs ask them, however
//! the runs before have ended.
//!
//! ```text
//! $ cargo run --release --example daemons
//! started 4 daemons
//! question 1: 4 answers, each daemon has been asked once
//! $ cargo run --release --example daemons
//! found 4 daemons
//! question 2: 4 answers, each daemon has been asked 2 times
//! $ cargo run --release --example daemons end
//! found 4 daemons
//! they have ended
//! ```
//!
//! Without a run they end after a minute. The ticket file is `daemons.ticket` in the current directory.
//!
//! The program is three: started by a user it is the tool; started by the tool it keeps the session, for
//! which it calls `serve_if_asked`; started by that it is a daemon.

use std::error::Error;
use std::time::Duration;

use libi::{Bytes, CommError, Detached, Distribution, FrontEnd, InitError, LaunchOptions, Member, Session};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const TICKET: &str = "daemons.ticket";
/// The timeout of every call.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long daemons live without a tool.
const ALONE: Duration = Duration::from_secs(60);

fn main() -> Done {
    libi::agent::serve_if_asked();
    match Member::init() {
        Ok(member) => answer(&member),
        Err(InitError::StartedByHand) => ask(std::env::args().nth(1).as_deref()),
        Err(error) => Err(error.into()),
    }
}

/// The tool.
fn ask(order: Option<&str>) -> Done {
    let front_end = FrontEnd::new()?;
    let session = if std::path::Path::new(TICKET).exists() {
        let session = front_end.attach(TICKET, TIMEOUT)?;
        println!("found {} daemons", session.size());
        session
    } else {
        let session = start(&front_end)?;
        println!("started {} daemons", session.size());
        session
    };
    if order == Some("end") {
        session.terminate(Duration::from_secs(1))?;
        println!("they have ended");
        return Ok(());
    }
    session.broadcast("how often?").wait(TIMEOUT)?;
    let answers = session.gather().wait(TIMEOUT)?;
    let first = answers.first().map(|answer| String::from_utf8_lossy(answer).into_owned());
    let often = first.unwrap_or_default();
    let times = if often == "1" { "once".to_owned() } else { format!("{often} times") };
    println!("question {often}: {} answers, each daemon has been asked {times}", answers.len());
    Ok(()) // the session goes on
}

fn start(front_end: &FrontEnd) -> Done<Session> {
    let daemons = Distribution::new(std::env::current_exe()?).hosts("node[1-4]");
    let options = LaunchOptions::local().detached(Detached::new(TICKET, ALONE));
    Ok(front_end.launch(&daemons, &options)?)
}

/// A daemon: counts the questions.
fn answer(member: &Member) -> Done {
    for count in 1_u32.. {
        // The next question may be asked by another run, in a while.
        match member.broadcast_from_front().wait(Duration::MAX) {
            Ok(_) => member.gather_to_front(Bytes::from(count.to_string())).wait(TIMEOUT)?,
            Err(CommError::Ended) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
