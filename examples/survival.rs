//! Daemons that survive: four hosts with two members each count themselves again and again, while members
//! crash, a host is lost, and another one joins.
//!
//! `cargo run --release --example survival`
//!
//! | call | what happens | what follows |
//! |---|---|---|
//! | 20 | rank 5 crashes | its agent starts it again: it counts from a call on that all agree on |
//! | 40 | rank 0 crashes, the master | rank 1 is the master from the next call on; rank 0 is back as well |
//! | 60 | the agent of host2 is killed | ranks 2 and 3 are lost for good, and the front end adds a host |
//!
//! In each call all members that take part see the same number, and the same members missing. The master
//! prints it where it changes, and the front end what has happened:
//!
//! ```text
//! call 0: 8 members
//! rank 5 on host3 was killed by signal 6
//! rank 5 on host3 was restarted
//! call 20: 7 members, without rank 5
//! call 21: 8 members
//! rank 0 on host1 was killed by signal 6
//! rank 1 on host1 is the master now
//! rank 0 on host1 was restarted
//! call 40: 7 members, without rank 0
//! call 41: 8 members
//! host2 (ranks 2-3) is lost: was killed by signal 9
//! ranks 8..10 have joined on host5
//! call 60: 6 members, without ranks 2-3
//! call 62: 8 members, without ranks 2-3
//! ```
//!
//! The program is both sides: started by a user it is the front end; started by the front end it is a
//! member.

use std::error::Error;
use std::os::unix::process::parent_id;
use std::process::Command;
use std::time::Duration;

use libi::{Distribution, Event, Exit, FrontEnd, InitError, LaunchOptions, Member, OnLoss, Op};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The timeout of every call.
const TIMEOUT: Duration = Duration::from_secs(20);
const CALLS: u64 = 200;

fn main() -> Done {
    match Member::init() {
        Ok(member) => work(&member),
        Err(InitError::StartedByHand) => launch(),
        Err(error) => Err(error.into()),
    }
}

/// What the front end does.
fn launch() -> Done {
    let members = Distribution::new(std::env::current_exe()?);
    let options = LaunchOptions::local().on_loss(OnLoss::Continue).restarts(1).replace_master(true);
    let front_end = FrontEnd::new()?;
    let session = front_end.launch(&members.clone().hosts("host[1-4]:2"), &options)?;

    while let Some(event) = front_end.next_event(TIMEOUT) {
        match event {
            Event::Output { bytes, .. } => print!("{}", String::from_utf8_lossy(&bytes)),
            Event::Lost { .. } => {
                println!("{event}");
                let growth = session.add(&members.clone().hosts("host5:2"))?;
                println!("ranks {:?} have joined on host5", growth.ranks);
            }
            Event::Exited { exit: Exit::Code(0), .. } => {}
            Event::Exited { .. } | Event::Restarted { .. } | Event::MasterReplaced { .. } => {
                println!("{event}");
            }
            Event::Done { .. } => return Ok(()),
            _ => {}
        }
    }
    Err("the session has not ended".into())
}

/// What each member does.
fn work(member: &Member) -> Done {
    let mut printed = String::new();
    for call in member.first_call(TIMEOUT)?..CALLS {
        if member.restarts() == 0 {
            mishap(member, call)?;
        }
        let (count, missing) = member.allreduce(&[1_u64], Op::Sum).wait_with_missing(TIMEOUT)?;
        let without = if missing.is_empty() { String::new() } else { format!(", without {missing}") };
        let news = format!("{} members{without}", count[0]);
        if member.is_master() && news != printed {
            println!("call {call}: {news}");
            printed = news;
        }
        std::thread::sleep(Duration::from_millis(10)); // a daemon does its work here
    }
    member.drain(TIMEOUT)?;
    Ok(())
}

/// What happens to some members before a call.
fn mishap(member: &Member, call: u64) -> Done {
    match (call, member.rank().0) {
        (20, 5) | (40, 0) => std::process::abort(),
        (60, 2) => drop(Command::new("kill").args(["-KILL", &parent_id().to_string()]).status()?),
        _ => {}
    }
    Ok(())
}
