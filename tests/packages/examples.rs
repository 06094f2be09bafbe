//! The arguments and the expected output of the programs in `examples/c` and `examples/cpp`.
//!
//! Every example has to be in the table.

use std::collections::BTreeSet;
use std::fs;

use libi_testkit::native;

/// One run of a program. The working directory holds all programs, so one can launch another by a path
/// such as `c/hosts`.
pub(crate) struct Run {
    /// Its path below `examples`, without the extension.
    pub(crate) program: &'static str,
    pub(crate) args: &'static [&'static str],
    pub(crate) code: i32,
    /// What its standard output has to contain.
    pub(crate) stdout: &'static [&'static str],
    /// What its standard error has to contain; if this is empty, standard error has to be empty.
    pub(crate) stderr: &'static str,
}

pub(crate) const RUNS: &[Run] = &[
    Run {
        program: "c/hosts",
        args: &["node[01-03]:2, me@login:2222"],
        code: 0,
        stdout: &["node02: 2 processes\n", "login: 2222 processes\n", " processes on 4 hosts\n"],
        stderr: "",
    },
    Run {
        program: "c/hosts",
        args: &["node[01-03"],
        code: 2,
        stdout: &[],
        stderr: "column 5: this `[` is never closed",
    },
    Run {
        program: "c/hello",
        args: &[],
        code: 0,
        stdout: &["[0] hello from rank 0 of 4 on here1\n", "[3] hello from rank 3 of 4 on here2\n"],
        stderr: "",
    },
    Run {
        program: "c/event_loop",
        args: &[],
        code: 0,
        stdout: &[
            "session 3: the master says: 6 members are here\n",
            "session 2: done\n",
            "all sessions are over\n",
        ],
        stderr: "",
    },
    // Its function needs a gdbserver and is tested in tests/examples.
    Run { program: "c/gdbservers", args: &["--help"], code: 2, stdout: &[], stderr: "usage: " },
    Run {
        program: "cpp/topology_exchange",
        args: &[],
        code: 0,
        stdout: &["3 daemons and 6 back ends are up\n", "add up to 55\nall have ended\n"],
        stderr: "",
    },
    Run {
        program: "cpp/legacy",
        args: &["localhost", "127.0.0.2"],
        code: 0,
        stdout: &["rank 0 on localhost: 100\n", "rank 3 on 127.0.0.2: 169\n"],
        stderr: "",
    },
    Run { program: "cpp/hosts", args: &["n[1-3]", "n4"], code: 0, stdout: &["n[1-4]\n"], stderr: "" },
];

/// All programs, named as in [`Run::program`], with their sources.
pub(crate) fn all() -> Vec<(String, String)> {
    let mut found = BTreeSet::new();
    for language in ["c", "cpp"] {
        let Ok(entries) = fs::read_dir(native::root().join("examples").join(language)) else { continue };
        for file in entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            if let Some((name, ending)) = file.rsplit_once('.')
                && ending == language
            {
                found.insert((format!("{language}/{name}"), format!("examples/{language}/{file}")));
            }
        }
    }
    found.into_iter().collect()
}

#[test]
fn every_example_is_in_the_table() {
    let (there, tried): (BTreeSet<_>, BTreeSet<_>) = (
        all().into_iter().map(|(name, _)| name).collect(),
        RUNS.iter().map(|run| run.program.to_owned()).collect(),
    );
    assert_eq!(
        there, tried,
        "the programs in examples/c and examples/cpp, and those in tests/packages/examples.rs"
    );
}
