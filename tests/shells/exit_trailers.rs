//! Launches through a shell that has no exit status, as rsh: hosts say how their programs have
//! ended.

use libi::{Backend, Exit, LaunchOptions, LinkPolicy, Rsh, Stream};

use crate::scene::{Outcome, Scene, word};

const HOSTS: &str = "n[00-15]:2";

/// The same options, with the stand-in called as rsh.
fn as_rsh(scene: &Scene, links: LinkPolicy) -> LaunchOptions {
    let options = scene.options();
    let Some(Backend::Shell(shell)) = options.backend.clone() else {
        unreachable!("that is what scenes have")
    };
    let rsh = Rsh { program: shell.program, args: shell.args, cost: shell.cost, ..Rsh::new() };
    options.backend(Backend::Rsh(rsh)).links(links).allow_plain(true)
}

/// How leaders have ended. No trailer shows up in their output.
fn ends(outcome: &Outcome) -> Vec<Exit> {
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    for text in outcome.printed.values() {
        assert!(!text.contains("libi ended") && !text.contains('\x1e'), "{text:?}");
    }
    outcome.exits.iter().filter(|(rank, _)| rank.0 % 2 == 0).map(|(_, exit)| *exit).collect()
}

#[test]
fn leaders_end_as_their_hosts_say_and_not_as_the_shell_does() {
    for links in [LinkPolicy::Channel, LinkPolicy::Auto] {
        for (word, exit) in
            [("exit:3", Exit::Code(3)), ("exit:255", Exit::Code(255)), ("signal:9", Exit::Signal(9))]
        {
            let scene = Scene::new("seq 1ms\nrem 10ms");
            let work = ["err:early", "join", "out:out {rank}", "err:err {rank}", "finish:20000", word];
            let outcome = scene.play(HOSTS, &work, &as_rsh(&scene, links));
            assert_eq!(ends(&outcome), vec![exit; 16], "{word}, {links:?}");
            for rank in (0..32).step_by(2) {
                let (out, err) = (outcome.printed(rank, Stream::Out), outcome.printed(rank, Stream::Err));
                assert_eq!(
                    (out, err),
                    (&*format!("early\nout {rank}\n"), &*format!("err {rank}\n")),
                    "{rank}: {:#?}",
                    outcome.report
                );
            }
        }
    }
}

#[test]
fn what_rsh_says_of_a_slow_connection_is_not_output() {
    const SLOW: &str =
        "printf 'Trying 10.0.0.1 port 514...' >&2; sleep 0.2; echo ' Connected.' >&2; exec env \"$@\"";
    let scene = Scene::new("seq 1ms\nrem 10ms");
    let mut options = as_rsh(&scene, LinkPolicy::Channel);
    let Some(Backend::Rsh(rsh)) = &mut options.backend else { unreachable!("it was set") };
    rsh.program = word("sh");
    rsh.args.splice(..0, ["-c", SLOW, "sh"].map(word));
    let outcome = scene.play("n0", &["join", "err:err {rank}", "finish:20000"], &options);
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(outcome.printed(0, Stream::Err), "err 0\n");
}

#[test]
fn whatever_shells_print_before_and_behind_it_an_end_is_found() {
    let scene = Scene::new(
        "seq 1ms\nrem 10ms\nfault *1 banner-before Welcome!\nfault *2 banner-after You are logged out.\n\
         fault *3 warn Warning: added\nfault *4 garbage 50000\nfault *5 relay\nfault *6 \
         banner-before \\x1elibi ended\n\
         fault *7 relay\nfault *7 banner-after You are logged out.",
    );
    let outcome =
        scene.play(HOSTS, &["join", "finish:20000", "exit:3"], &as_rsh(&scene, LinkPolicy::Channel));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(outcome.report.joined(), 16, "{}", outcome.report);
    assert!(outcome.exits.values().all(|exit| *exit == Exit::Code(3)), "{:?}", outcome.exits);
    for rank in (0..32).step_by(2) {
        let out = outcome.printed(rank, Stream::Out);
        match rank / 2 % 10 {
            1 => assert_eq!(out, "Welcome!\n"),
            4 => assert!(out.len() > 1_000, "{}", out.len()),
            6 => assert!(out.starts_with("\x1elibi ended"), "{out:?}"),
            _ => assert_eq!(out, "", "{rank}"),
        }
    }
}
