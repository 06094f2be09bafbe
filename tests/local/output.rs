//! What members print: whole lines, both streams, complete; and no other member is delayed by it.

use std::collections::BTreeMap;
use std::fs;

use libi::{Engine, Event, Exit, FrontEnd, LaunchOptions, Output, Ranks, Stream};

use libi_testkit::local::*;
use libi_testkit::roles::plays_alone;

#[test]
fn lines_of_concurrent_ranks_are_not_torn() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let text = format!("out:{{rank}} {} end of {{rank}}", "x".repeat(300));
    let mut words = vec!["join"];
    words.extend([text.as_str(); 100]);
    words.push("finish:30000");
    let _session = launch(&front, lab.members("a[1-4]:4", &words));
    let (mut lines, mut done) = (0, false);
    while !done {
        match front.next_event(TIMEOUT).expect("all is printed") {
            Event::Output { rank, bytes, .. } => {
                let text = String::from_utf8(bytes).unwrap();
                assert!(text.ends_with('\n'), "{text}");
                for line in text.lines() {
                    assert_eq!(line, format!("{0} {1} end of {0}", rank.0, "x".repeat(300)));
                    lines += 1;
                }
            }
            Event::Done { .. } => done = true,
            _ => {}
        }
    }
    assert_eq!(lines, 16 * 100);
}

#[test]
fn both_streams_arrive_each_as_what_it_is_from_before_joining_to_the_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words =
        ["out:early", "err:early too", "join", "out:late", "err:late too", "finish:30000", "bare:last"];
    let _session = launch(&front, lab.members("a:2,b:2", &words));
    let heard = Heard::all(&front);
    for rank in 0..4 {
        assert_eq!(heard.out(rank), "early\nlate\nlast", "rank {rank}");
        assert_eq!(heard.text(rank, Stream::Err), "early too\nlate too\n", "rank {rank}");
    }
}

#[test]
fn the_beginning_of_a_line_arrives_before_its_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let gate = format!("await:{}", lab.path("go"));
    let session = launch(
        &front,
        lab.members("a:2,b:2", &["join", "bare:prompt> ", &gate, "out:answer", "finish:30000"]),
    );
    let mut heard = Heard::default();
    heard.until(&front, "all prompts are there", |heard| (0..4).all(|rank| heard.out(rank) == "prompt> "));
    lab.touch("go");
    heard.until(&front, "all have ended", |heard| heard.done);
    assert!((0..4).all(|rank| heard.out(rank) == "prompt> answer\n"), "{heard:?}");
    drop(session);
}

#[test]
fn where_equal_lines_are_merged_each_member_has_all_of_its_output_before_its_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = ["join", "out:same", "out:host {host}", "err:error", "finish:30000"];
    // Longer than the test takes: nothing has to wait so long.
    let options = LaunchOptions::local().output(Output::Folded { hold: TIMEOUT });
    let _session = launch_with(&front, &[lab.members("a[1-4]:2", &words)], &options);
    let (mut texts, mut ended) = (BTreeMap::new(), Ranks::new());
    loop {
        match front.next_event(TIMEOUT).expect("all have ended") {
            Event::Folded { ranks, stream, bytes, .. } => {
                let text = String::from_utf8(bytes).unwrap();
                for rank in ranks.iter() {
                    assert!(!ended.contains(rank), "{rank} prints {text:?} after its end");
                    *texts.entry((rank.0, stream)).or_insert_with(String::new) += &text;
                }
            }
            Event::Exited { rank, .. } => ended.add(rank),
            Event::Done { .. } => break,
            event => assert!(!matches!(event, Event::Output { .. }), "{event:?}"),
        }
    }
    assert_eq!(ended, Ranks::first(8));
    for rank in 0..8 {
        let host = rank / 2 + 1;
        assert_eq!(texts[&(rank, Stream::Out)], format!("same\nhost a{host}\n"));
        assert_eq!(texts[&(rank, Stream::Err)], "error\n");
    }
}

/// The memory that a process has, in kilobytes.
fn memory() -> u64 {
    let of = |field| status(std::process::id() as i32, field).unwrap();
    of("VmRSS").trim_end_matches(" kB").parse().unwrap()
}

/// How much the processes of this lab have written.
fn written(lab: &Lab) -> u64 {
    let of = |pid| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()).unwrap_or(0)
    };
    lab.living().iter().map(|(pid, _)| of(*pid)).sum()
}

/// Waits until no process has written for a while: each waits for its reader.
fn await_standstill(lab: &Lab) {
    let (mut last, mut since) = (0, std::time::Instant::now());
    eventually("those who print are held up", || {
        let now = written(lab);
        if now > last + 200 {
            // Heartbeats go on.
            (last, since) = (now, std::time::Instant::now());
        }
        now > 64 << 10 && since.elapsed() > ms(300)
    });
}

#[test]
fn untaken_output_waits_where_it_is_printed_and_delays_no_other_member() {
    // Its memory is measured.
    if plays_alone("output::untaken_output_waits_where_it_is_printed_and_delays_no_other_member") {
        return;
    }
    const FLOOD: usize = 50_000_000;
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let gate = format!("await:{}", lab.path("go"));
    let flood = format!("only:5:flood:{FLOOD}");
    let words =
        ["join", &flood, &format!("except:5:{gate}"), "only:3:exit:3", "only:7:out:between", "finish:300000"];
    let session = launch(&front, lab.members("a[1-4]:2", &words));
    let before = memory();
    await_standstill(&lab);
    assert!(written(&lab) < FLOOD as u64 / 10, "held up");
    assert!(memory() < before + 5_000, "{before} kB, then {} kB", memory());
    lab.touch("go");
    let mut heard = Heard::default();
    heard.until(&front, "another member's end is known", |heard| heard.exits.contains_key(&3));
    assert!(heard.bytes() < FLOOD / 10, "it came after {} bytes", heard.bytes());
    heard.until(&front, "all have ended", |heard| heard.done && heard.bytes() == FLOOD + "between\n".len());
    assert_eq!((heard.exits[&3], heard.exits[&5]), (Exit::Code(3), Exit::Code(0)));
    assert!(heard.texts[&(5, Stream::Out)].chunks(100).all(|line| line.ends_with(b"x\n")));
    assert!(memory() < before + 5_000 + 2 * FLOOD as u64 / 1_000, "{before} kB, then {} kB", memory());
    drop(session);
}

#[test]
fn a_session_is_killed_and_ended_although_its_output_is_not_taken() {
    for (engine, kill) in
        [(Engine::InProgram, true), (Engine::InProgram, false), (Engine::Apart, true), (Engine::Apart, false)]
    {
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let options = LaunchOptions::local().engine(engine);
        let members = lab.members("a[1-4]:2", &["join", "flood:50000000"]);
        let session = launch_with(&front, &[members], &options);
        await_standstill(&lab);
        if kill {
            session.kill(libc::SIGKILL).unwrap();
            session.wait_done(TIMEOUT).unwrap();
        } else {
            session.terminate(ms(1_000)).unwrap();
        }
        if engine == Engine::Apart {
            eventually("no program is left", || lab.programs() == 0);
            // Processes that lead a host keep what was printed for as long as it can be taken.
            drop(session);
        }
        lab.is_empty_within(SOON);
    }
}

#[test]
fn output_goes_to_files_and_no_event_is_made_of_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let directory = lab.path("a/b");
    let options = LaunchOptions::local().output(Output::Files(directory.clone().into()));
    let words = ["out:early", "join", "out:{rank}", "err:{rank} err", "only:3:flood:1000000", "finish:30000"];
    let _session = launch_with(&front, &[lab.members("a:20,b[1-4]:5", &words)], &options);
    let heard = Heard::all(&front);
    assert_eq!(heard.bytes(), 0);
    let read = |name: String| fs::read_to_string(format!("{directory}/{name}")).unwrap();
    for rank in 0..40 {
        let flood = if rank == 3 { 1_000_000 } else { 0 };
        let out = read(format!("{rank}.out"));
        assert!(out.starts_with(&format!("early\n{rank}\n")), "rank {rank}");
        assert_eq!(out.len(), format!("early\n{rank}\n").len() + flood, "rank {rank}");
        assert_eq!(read(format!("{rank}.err")), format!("{rank} err\n"));
    }
}

#[test]
fn output_that_cannot_be_written_to_its_file_is_reported_once() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let directory = lab.path("");
    // A disk that is full, and a file that cannot be opened.
    std::os::unix::fs::symlink("/dev/full", lab.path("1.out")).unwrap();
    fs::create_dir(lab.path("2.out")).unwrap();
    let options = LaunchOptions::local().output(Output::Files(directory.clone().into()));
    let words = ["join", "out:{rank}", "out:more of {rank}", "finish:30000"];
    let session = launch_with(&front, &[lab.members("a:2,b:2", &words)], &options);
    let heard = Heard::all(&front);
    let failed: Vec<_> = heard.lines.iter().filter(|line| line.starts_with("cannot write")).collect();
    assert_eq!(failed.len(), 1, "{:?}", heard.lines);
    let error = session.output_error().unwrap();
    assert_eq!(*failed[0], error.to_string());
    let full = format!("cannot write the output of rank 1 to {}: No space left on device", lab.path("1.out"));
    let taken = format!("cannot write the output of rank 2 to {}: Is a directory", lab.path("2.out"));
    assert!(failed[0].starts_with(&full) || failed[0].starts_with(&taken), "{}", failed[0]);
    for rank in [0, 3] {
        let text = fs::read_to_string(lab.path(&format!("{rank}.out"))).unwrap();
        assert_eq!(text, format!("{rank}\nmore of {rank}\n"), "other files are complete");
    }
    assert_eq!(heard.exits.len(), 4);
}

#[test]
fn a_directory_for_output_that_cannot_be_made_prevents_the_launch() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    lab.touch("file");
    let options = LaunchOptions::local().output(Output::Files(lab.path("file/output").into()));
    let error = front.launch(&lab.members("a", &["wait"]), &options).map(drop).unwrap_err();
    assert!(error.to_string().contains("file/output: Not a directory"), "{error}");
    assert!(lab.living().is_empty());
}

#[test]
fn dropped_output_delays_no_member() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().output(Output::Dropped);
    let words = ["join", "flood:20000000", "finish:30000"];
    let session = launch_with(&front, &[lab.members("a[1-2]:2", &words)], &options);
    session.wait_done(TIMEOUT).unwrap();
    let heard = Heard::all(&front);
    assert_eq!((heard.bytes(), heard.exits.len()), (0, 4));
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{heard:?}");
}
