//! The helper: a process that a node above has started on the host of an orphan. It passes bytes on between
//! its standard streams and the orphan, see `engine/session_io/helpers.rs`.
//!
//! Any program that links libi is one if it is asked, before its `main`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use libi_launch::backend::{HELPER_ENV, HELPER_IS_CONNECTED};

use super::apart::end_at_once;
use crate::engine::session_io::connect_to_orphan;
use crate::engine::sys::duplicate;

/// How long the orphan may take to await a helper: it may hear of the loss later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// Serves as a helper if this process was asked to, and does not return then.
pub(super) fn serve_if_asked() {
    let Some(name) = std::env::var_os(HELPER_ENV) else { return };
    crate::agent::remove_delivery();
    let ended = connect(&name.to_string_lossy())
        .and_then(|orphan| serve(orphan).map_err(|error| format!("the link to the host has ended: {error}")));
    if let Err(why) = &ended {
        eprintln!("libi: helper: {why}");
    }
    end_at_once(i32::from(ended.is_err()));
}

/// Connects to the orphan, or says why not.
fn connect(name: &str) -> Result<UnixStream, String> {
    let by = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match connect_to_orphan(name) {
            Ok(orphan) => return Ok(orphan),
            Err(error) if Instant::now() >= by => {
                return Err(format!("no process of the session awaits a new parent here: {error}"));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn serve(orphan: UnixStream) -> io::Result<()> {
    let (mut input, mut output) = (File::from(duplicate(0)?), File::from(duplicate(1)?));
    output.write_all(HELPER_IS_CONNECTED)?;
    let (mut from, mut to) = (orphan.try_clone()?, orphan);
    // One thread for each direction: neither waits for the other. The first end is that of both.
    std::thread::Builder::new().spawn(move || {
        let copied = pass_on(&mut from, &mut output);
        end_at_once(i32::from(copied.is_err()));
    })?;
    pass_on(&mut input, &mut to)
}

/// Passes bytes on as they come: what the kernel would do by itself between pipes and sockets may wait for
/// more.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
