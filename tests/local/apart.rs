//! Sessions of linked programs that nothing else is asked of, with the engine apart from them: a
//! member may end in whichever way, at whichever place of the tree, and costs nothing but its own
//! rank.

use libi::{Engine, Exit, FrontEnd, LaunchOptions};
use libi_testkit::local::*;

use super::agents::costs_only_its_rank;

/// Hosts in a tree of several levels, two members on each.
const HOSTS: &str = "n[0-11]:2";
const SIZE: u32 = 24;
/// Rank 0, a rank that is the first of a host that launches others, and one at the end of the tree.
const PLACES: [u32; 3] = [0, 2, 22];

fn options() -> LaunchOptions {
    LaunchOptions::local().engine(Engine::Apart).strategy("kary:2".parse().unwrap())
}

/// Everything that is heard of a session whose members do this.
fn heard(lab: &Lab, hosts: &str, words: &[&str]) -> Heard {
    let front = FrontEnd::new().unwrap();
    let session = launch_with(&front, &[lab.members(hosts, words)], &options());
    let report = session.report().unwrap();
    assert!(report.hosts().iter().all(|host| !host.in_program), "{report}");
    let heard = Heard::all(&front);
    drop(session);
    heard
}

#[test]
fn a_member_may_end_in_any_way_and_costs_only_its_rank() {
    let lab = Lab::new();
    for (way, exit) in [
        ("exit:0", Exit::Code(0)),
        ("_exit:4", Exit::Code(4)),
        ("abort", Exit::Signal(6)),
        ("crash", Exit::Signal(11)),
        ("signal:9", Exit::Signal(9)),
        ("signal:15", Exit::Signal(15)),
        ("exec:/bin/false", Exit::Code(1)),
    ] {
        for victim in PLACES {
            let only = format!("only:{victim}:{way}");
            let heard = heard(&lab, HOSTS, &["join", &only, "out:up", "out:last", "finish:30000"]);
            costs_only_its_rank(&heard, victim, exit, way);
        }
    }
    lab.is_empty_within(SOON);
}

#[test]
fn a_member_may_close_all_that_it_has_or_be_stopped_and_costs_nobody_anything() {
    let lab = Lab::new();
    for victim in PLACES {
        let words = [format!("only:{victim}:close"), format!("only:{victim}:_exit:5")];
        let words = ["join", &words[0], &words[1], "out:up", "out:last", "finish:30000"];
        costs_only_its_rank(&heard(&lab, HOSTS, &words), victim, Exit::Code(5), "close");
        let stop = format!("only:{victim}:stop:300");
        let heard =
            heard(&lab, HOSTS, &["join", &stop, "talk:barrier", "out:up", "out:last", "finish:30000"]);
        costs_only_its_rank(&heard, victim, Exit::Code(0), "stop");
        assert_eq!(heard.out(victim), "up\nlast\n");
    }
    lab.is_empty_within(SOON);
}

#[test]
fn members_that_just_return_after_their_work_lose_nothing() {
    let lab = Lab::new();
    let heard = heard(&lab, HOSTS, &["join", "talk:barrier", "talk:allgather:8", "out:up", "out:last"]);
    for rank in 0..SIZE {
        assert_eq!((heard.exits[&rank], heard.out(rank)), (Exit::Code(0), "up\nlast\n".to_owned()));
    }
    assert!(heard.lost.is_empty(), "{}", heard.described());
    lab.is_empty_within(SOON);
}

/// The text of a session with one host whose leader is started by this script.
fn of_script(script: &str, options: &LaunchOptions) -> Result<Heard, String> {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let script = script.replace("MEMBER", member()).replace("DIR", &lab.path(""));
    let distribution = lab.program("/bin/sh", "a", &["-c", &script]);
    let session = front.launch(&distribution, options).map_err(|error| error.to_string())?;
    let mut heard = Heard::all(&front);
    // What the script prints behind its member arrives behind the end of the member.
    heard.until(&front, "the script has ended", |heard| heard.out(0).ends_with("end\n"));
    drop(session);
    lab.is_empty_within(SOON);
    Ok(heard)
}

#[test]
fn programs_of_a_script_run_as_if_nothing_led_their_host() {
    let options = LaunchOptions::local().engine(Engine::Apart);
    let heard = of_script(
        "echo first; MEMBER out:second exit:3; echo $?; MEMBER signal:15; echo $?; \
         MEMBER join out:fourth exit:4; echo $?; echo end; exit 5",
        &options,
    )
    .unwrap();
    assert_eq!(heard.out(0), "first\nsecond\n3\n143\nfourth\n4\nend\n");
    assert_eq!(heard.exits[&0], Exit::Code(4), "the program that has joined is the member");
    let report = of_script("MEMBER out:alone; exit 6", &options).unwrap_err();
    assert!(report.contains("exited 6 before joining"), "{report}");
}

#[test]
fn a_stream_that_a_script_or_the_program_has_redirected_is_left_alone() {
    let options = LaunchOptions::local().engine(Engine::Apart);
    let heard =
        of_script("MEMBER join out:to-file err:to-libi 1>DIR/out; cat DIR/out; echo end", &options).unwrap();
    assert_eq!(heard.text(0, libi::Stream::Err), "to-libi\n");
    assert_eq!(heard.out(0), "to-file\nend\n", "it came by way of the file");
    let heard = of_script("MEMBER print-to:DIR/out join out:own; cat DIR/out; echo end", &options).unwrap();
    assert_eq!(heard.out(0), "own\nend\n");
}

#[test]
fn a_signal_to_the_process_that_was_started_reaches_its_program() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let mark = format!("catch:10:{}", lab.path("caught"));
    let options = LaunchOptions::local().engine(Engine::Apart);
    let session = launch_with(&front, &[lab.members("a", &["join", &mark, "out:ready", "wait"])], &options);
    let mut heard = Heard::default();
    heard.until(&front, "it is ready", |heard| !heard.texts.is_empty());
    let leader =
        lab.living().into_iter().find(|(pid, _)| status(*pid, "Name").as_deref() == Some("libi-leader"));
    kill(leader.unwrap().0, libc::SIGUSR1);
    eventually("the program has caught it", || lab.has("caught"));
    session.kill(libc::SIGTERM).unwrap();
    heard.until(&front, "it has ended", |heard| heard.done);
    assert_eq!(heard.exits[&0], Exit::Signal(libc::SIGTERM));
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn the_master_has_the_input_of_the_front_end() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().engine(Engine::Apart).input(true);
    let session = launch_with(&front, &[lab.members("a:2", &["join", "read"])], &options);
    session.write(b"seven b", TIMEOUT).unwrap();
    session.close_input();
    let heard = Heard::all(&front);
    assert_eq!((heard.out(0), heard.out(1)), ("7\n".to_owned(), "0\n".to_owned()));
}

#[test]
fn nothing_is_left_when_the_leader_of_a_host_is_killed() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().engine(Engine::Apart);
    let session = launch_with(&front, &[lab.members("a:2,b", &["join", "out:ready", "wait"])], &options);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 3);
    let is_leader_of_three =
        |(pid, _): &(i32, String)| status(*pid, "Name").as_deref() == Some("libi-leader");
    let leaders: Vec<i32> = lab.living().into_iter().filter(is_leader_of_three).map(|(pid, _)| pid).collect();
    assert_eq!(leaders.len(), 2);
    kill(*leaders.iter().min().unwrap(), libc::SIGKILL);
    heard.until(&front, "the host is lost", |heard| !heard.lost.is_empty());
    drop(session);
    lab.is_empty_within(SOON);
}
