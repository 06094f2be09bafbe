//! The program `libi`; see the crate `libi_cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    libi_cli::run()
}
