//! The program `libi-agent`: leads a host for `libi run`. See [`libi::agent`].

use std::process::ExitCode;

fn main() -> ExitCode {
    libi::agent::serve_if_asked();
    eprintln!("libi-agent is started by a front end of libi, on each host of a launch with agents");
    ExitCode::from(2)
}
