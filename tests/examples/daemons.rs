//! The example of daemons that are found again does what its head says.

use std::path::Path;
use std::process::Command;

use libi_testkit::programs;

#[test]
fn daemons_are_found_by_the_next_run() {
    let program = Path::new(programs::libi()).parent().unwrap().join("examples/daemons");
    let directory = programs::scratch().join(format!("daemons-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let run = |words: &[&str]| {
        let ended = Command::new(&program).args(words).current_dir(&directory).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout)
    };
    let asked = |often: &str| format!("each daemon has been asked {often}");
    assert_eq!(run(&[]), format!("started 4 daemons\nquestion 1: 4 answers, {}\n", asked("once")));
    for nth in 2..4 {
        let expected =
            format!("found 4 daemons\nquestion {nth}: 4 answers, {}\n", asked(&format!("{nth} times")));
        assert_eq!(run(&[]), expected);
    }
    assert_eq!(run(&["end"]), "found 4 daemons\nthey have ended\n");
    std::fs::remove_dir_all(directory).unwrap();
}
