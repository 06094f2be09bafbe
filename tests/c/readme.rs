//! The program in C in docs/c.md does what it should.

use std::process::Command;
use std::time::Duration;

use libi_testkit::native::{Link, compile, root, run_command, scratch};

#[test]
fn the_program_of_the_documentation_greets_from_every_rank() {
    let page = std::fs::read_to_string(root().join("docs/c.md")).unwrap();
    let programs: Vec<&str> =
        page.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(programs.len(), 1, "one program in C");
    let directory = scratch().join(format!("readme.{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let source = directory.join("hello.c");
    std::fs::write(&source, programs[0]).unwrap();

    let program = compile("readme", &[source.to_str().unwrap()], Link::Shared, &[]);
    let ended = run_command(Command::new(&program).current_dir(&directory), Duration::from_secs(60));
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "", ""));
    for rank in 0..4 {
        let said = std::fs::read_to_string(directory.join(format!("hello.out/{rank}.out"))).unwrap();
        assert_eq!(said, format!("hello from rank {rank} of 4 on node{}\n", rank / 2 + 1));
    }
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::remove_file(&program).unwrap();
}
