//! Detached members live on, whichever process ends first.

use libi::{Engine, Exit, FrontEnd, Stage};

use libi_testkit::local::*;
use libi_testkit::processes::is_engine;
use libi_testkit::roles::Front;

/// What a detached member does: it prints much to both streams on request, and reports that it
/// could.
fn lives_on(lab: &Lab) -> Vec<String> {
    let path = |what: &str| lab.path(what);
    let words = [
        "join".to_owned(),
        "finalize:30000".to_owned(),
        format!("touch:{}", path("released{rank}")),
        format!("await:{}", path("print")),
        "flood:2000000".to_owned(),
        "err:to the other".to_owned(),
        "out:to this".to_owned(),
        format!("touch:{}", path("printed{rank}")),
        format!("await:{}", path("end")),
    ];
    words.to_vec()
}

fn all(lab: &Lab, what: &str, ranks: impl IntoIterator<Item = u32>) {
    let ranks: Vec<_> = ranks.into_iter().collect();
    eventually(what, || ranks.iter().all(|rank| lab.has(&format!("{what}{rank}"))));
}

fn end(front: Front, killed: bool) {
    if killed {
        front.kill();
    } else {
        front.end();
    }
}

fn references(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn detached_members_live_on_after_the_front_end_and_their_output_is_discarded() {
    for killed in [false, true] {
        let lab = Lab::new();
        let words = lives_on(&lab);
        let mut front = Front::start(&lab, "a[1-4]", &references(&words));
        front.until("all are released", |front| front.gone() == 8);
        all(&lab, "released", 0..8);
        end(front, killed);
        eventually("the leaders have ended, and they alone", || lab.living().len() == 8);
        lab.touch("print");
        all(&lab, "printed", 0..8);
        lab.touch("end");
        lab.is_empty_within(TIMEOUT);
    }
}

#[test]
fn who_is_released_twice_keeps_the_streams_that_it_has_given_itself() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let [own, done, end] = ["own{rank}", "printed{rank}", "end"].map(|file| lab.path(file));
    let [own, done, end] = [format!("print-to:{own}"), format!("touch:{done}"), format!("await:{end}")];
    let words = ["join", "out:before", "finalize:30000", &own, "finalize:30000", "out:after", &done, &end];
    let session = launch(&front, lab.members("a[1-2]:2", &words));
    all(&lab, "printed", 0..4);
    // A leader that has ended passes on nothing, not even that others have detached.
    let mut heard = Heard::default();
    heard.until(&front, "all are released", |heard| heard.released.len() == 4);
    lab.touch("end");
    heard.until(&front, "what they have printed before", |heard| heard.done && heard.texts.len() == 4);
    lab.is_empty_within(TIMEOUT);
    for rank in 0..4 {
        let own = std::fs::read_to_string(lab.path(&format!("own{rank}"))).unwrap();
        assert_eq!((heard.out(rank).as_str(), own.as_str()), ("before\n", "after\n"), "rank {rank}");
    }
    drop(session);
}

#[test]
fn a_front_end_hears_what_released_members_print_while_they_are_carried() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let again = format!("await:{}", lab.path("print"));
    let end = format!("await:{}", lab.path("end"));
    let session = launch(
        &front,
        lab.members("a[1-3]:2", &["join", "out:before", "finalize:30000", &again, "out:after", &end]),
    );
    let mut heard = Heard::default();
    heard.until(&front, "all are released", |heard| heard.done);
    assert_eq!((heard.released.len(), heard.exits.len(), session.stage()), (6, 0, Stage::Done));
    lab.touch("print");
    heard.until(&front, "all is heard", |heard| (0..6).all(|rank| heard.out(rank) == "before\nafter\n"));
    session.kill(libc::SIGKILL).unwrap();
    drop((session, front));
    eventually("the leaders have ended, and they alone", || lab.living().len() == 6);
    lab.touch("end");
    lab.is_empty_within(TIMEOUT);
}

#[test]
fn of_a_mixed_session_the_released_live_on_and_the_others_end_with_the_front_end() {
    for killed in [false, true] {
        let lab = Lab::new();
        // The master, a leader, and members of other leaders stay in the session; detached leaders
        // relay for them.
        let ours = [0, 2, 5, 7];
        let mut words = vec!["join".to_owned()];
        words.extend(ours.map(|rank| format!("only:{rank}:wait")));
        words.extend(lives_on(&lab).into_iter().skip(1));
        let mut front = Front::start(&lab, "a[1-4]", &references(&words));
        let released = (0..8).filter(|rank| !ours.contains(rank));
        front.until("four are released", |front| front.gone() == 4);
        all(&lab, "released", released.clone());
        assert_eq!(lab.programs(), 8);
        end(front, killed);
        eventually("all others have ended", || lab.living().len() == 4);
        lab.touch("print");
        all(&lab, "printed", released);
        assert_eq!(lab.living().len(), 4);
        lab.touch("end");
        lab.is_empty_within(TIMEOUT);
    }
}

#[test]
fn released_members_survive_whatever_becomes_of_those_that_carry_them() {
    for (engine, survivors) in [(Engine::Apart, 0..12), (Engine::InProgram, 6..12)] {
        let lab = Lab::new();
        let words = lives_on(&lab);
        let mut front = Front::start_with(engine, &lab, "a[1-6]", &references(&words));
        front.until("all are released", |front| front.gone() == 12);
        all(&lab, "released", 0..12);
        // The leaders are killed first; then no process is left to read.
        let leads = |pid: i32, env: &str| match engine {
            Engine::Apart => is_engine(pid),
            _ => env.contains("\0KIND=leader"),
        };
        let leaders: Vec<_> = lab.living().into_iter().filter(|(pid, env)| leads(*pid, env)).collect();
        assert_eq!(leaders.len(), 6);
        leaders.iter().for_each(|(pid, _)| kill(*pid, libc::SIGKILL));
        eventually("the leaders have ended", || lab.living().len() <= survivors.len());
        lab.touch("print");
        all(&lab, "printed", survivors.clone());
        assert_eq!(lab.living().len(), survivors.len());
        front.end();
        assert_eq!(lab.living().len(), survivors.len());
        lab.touch("end");
        lab.is_empty_within(TIMEOUT);
    }
}

#[test]
fn members_that_end_before_their_front_end_are_heard_to_the_end_released_or_not() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = [
        "join",
        "out:last words",
        "only:1:finalize:30000",
        "only:4:finalize:30000",
        "finish:30000",
        "exit:5",
    ];
    let session = launch(&front, lab.members("a[1-3]:2", &words));
    session.wait_done(TIMEOUT).unwrap();
    let mut heard = Heard::default();
    heard.until(&front, "all is heard", |heard| heard.done && heard.texts.len() == 6);
    assert_eq!(heard.released.into_iter().collect::<Vec<_>>(), [1, 4]);
    assert_eq!(heard.exits.len(), 4);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(5)));
    lab.is_empty_within(SOON);
}
