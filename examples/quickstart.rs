//! Launches 16 hosts with 4 processes each on this machine, prints the report, and draws the
//! timeline of the launch.
//!
//! `cargo run --release --example quickstart [DIRECTORY]` writes `timeline.svg` and `timeline.json`
//! to the directory, by default the current one.
//!
//! The program is both sides: started by a user it is the front end; started by the front end it is
//! a member.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use libi::{Distribution, Event, FrontEnd, InitError, LaunchOptions, Member};

fn main() -> Result<(), Box<dyn Error>> {
    match Member::init() {
        Ok(member) => work(&member),
        Err(InitError::StartedByHand) => launch(),
        Err(error) => Err(error.into()),
    }
}

/// What each of the 64 processes does.
fn work(member: &Member) -> Result<(), Box<dyn Error>> {
    if member.is_master() {
        println!("hello from rank 0 of {} on {}", member.size(), member.host_name());
    }
    // Other members may still need this process to reach the front end.
    member.drain(Duration::from_secs(10))?;
    Ok(())
}

/// What the front end does.
fn launch() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).unwrap_or_default();
    let processes = Distribution::new(std::env::current_exe()?).hosts("host[01-16]:4");

    let front_end = FrontEnd::new()?;
    let session = front_end.launch(&processes, &LaunchOptions::local())?;
    let report = session.wait_up(Duration::ZERO)?; // it is up: launch() has waited for that
    println!("{report}");

    let mut ended = 0;
    while let Some(event) = front_end.next_event(Duration::from_secs(20)) {
        match event {
            Event::Output { rank, bytes, .. } => print!("[{}] {}", rank.0, String::from_utf8_lossy(&bytes)),
            Event::Exited { .. } => ended += 1,
            Event::Lost { name, reason, .. } => println!("{name} is lost: {reason}"),
            Event::Done { .. } => break,
            _ => {}
        }
    }
    println!("{ended} of {} members have ended", session.size());

    let timeline = report.timeline();
    std::fs::write(directory.join("timeline.svg"), timeline.svg())?;
    std::fs::write(directory.join("timeline.json"), timeline.chrome_json())?;
    println!("drawn in {0}timeline.svg, written to {0}timeline.json", directory.join("").display());
    Ok(())
}
