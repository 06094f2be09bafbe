//! The interface of 2011 as its users meet it: C++ programs that know nothing of libi but
//! `libi/libi_api.h`, launched on this machine, through the stand-in shell, and through a real ssh.
//!
//! The program is in `tests/legacy/`: `front.cpp` and `states.cpp` have a scene for each test here,
//! `member.cpp` what its members do. What is not as it should be they say themselves, and end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "legacy/scene.rs"]
mod scene;

use std::time::Duration;

use libi_testkit::native::Link;
use nix::sys::signal::Signal;

use libi_testkit::native;
use scene::{Ground, Scene, Survivors, TIMEOUT, grounds};

#[test]
fn the_header_is_what_sources_of_2011_expect_and_leaves_all_other_names_to_them() {
    for standard in ["-std=c++98", "-std=c++11", "-std=c++17", "-std=c++20"] {
        let name = format!("legacy-header{standard}");
        let program = native::compile(&name, &["tests/legacy/header.cpp"], Link::Shared, &[standard]);
        let ended = native::run::<&str>(&program, &[], TIMEOUT);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{standard}");
    }
}

#[test]
fn both_headers_are_understood_together_in_either_order() {
    let sources = ["tests/legacy/header_first.cpp", "tests/legacy/header_last.cpp"];
    for standard in ["-std=c++11", "-std=c++17", "-std=c++20"] {
        let program = native::compile(&format!("legacy-both{standard}"), &sources, Link::Shared, &[standard]);
        assert_eq!(native::run::<&str>(&program, &[], TIMEOUT).code, Some(0), "{standard}");
    }
}

#[test]
fn a_program_in_c_is_told_which_header_to_include() {
    let source = native::scratch().join(format!("legacy-{}.c", std::process::id()));
    std::fs::write(&source, "#include <libi/libi_api.h>\n").unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-fsyntax-only", "-I"]).arg(native::root().join("include")).arg(&source);
    let said = compiler.output().unwrap();
    std::fs::remove_file(source).unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("in C, include libi.h"), "{said}");
}

#[test]
fn every_state_has_its_code_and_a_launch_that_fails_leaves_nothing() {
    for ground in grounds() {
        Scene::new(&ground, "states").is_good();
    }
}

#[test]
fn every_call_does_what_it_did_between_members_of_several_programs() {
    for ground in grounds() {
        Scene::new(&ground, "talk").is_good();
    }
}

#[test]
fn members_of_two_sessions_leave_and_live_on_without_the_front_end() {
    for ground in grounds() {
        let scene = Scene::new(&ground, "overlay");
        let pids = scene.is_good();
        let survivors = Survivors(pids.lines().map(|pid| pid.parse().unwrap()).collect());
        let pids = &survivors.0;
        assert_eq!(pids.len(), 13, "{ground:?}");
        scene.leave("gone");
        let names = || (0..11).map(|rank| format!("o{rank}")).chain((0..2).map(|rank| format!("i{rank}")));
        for name in names() {
            scene.awaits(&format!("{name}.lives"));
            scene.awaits(&format!("{name}.daemon"));
        }
        assert!(pids.iter().all(|pid| scene::is_alive(*pid)), "{ground:?}");
        scene.leave("over");
        names().for_each(|name| scene.awaits(&format!("{name}.ends")));
        scene::are_gone(pids);
    }
}

#[test]
fn an_overlay_network_loses_a_host_in_its_middle_and_goes_on_as_it_did() {
    for ground in grounds() {
        let mut running = Scene::new(&ground, "network").start();
        let pids = running.pids(8);
        running.scene.awaits("count.8");
        // Of the second host, whose first process has two others below it.
        pids[2..4].iter().for_each(|pid| scene::kill(*pid, Signal::SIGKILL));
        running.scene.awaits("count.6");
        let left: Vec<i32> = pids.iter().copied().filter(|pid| !pids[2..4].contains(pid)).collect();
        assert!(left.iter().all(|pid| scene::is_alive(*pid)), "{ground:?}");
        running.scene.leave("over");
        let ended = running.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ground:?}");
        scene::are_gone(&pids);
    }
}

#[test]
fn nothing_is_left_when_the_front_end_is_killed() {
    for ground in grounds() {
        let mut running = Scene::new(&ground, "stay").start();
        let pids = running.pids(4);
        running.kill();
        scene::are_gone(&pids);
    }
}

#[test]
fn a_master_that_is_killed_is_an_error_of_every_call_and_no_signal() {
    for ground in grounds() {
        let mut running = Scene::new(&ground, "stay").start();
        let pids = running.pids(4);
        scene::kill(pids[0], Signal::SIGKILL);
        let ended = running.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ground:?}");
        scene::are_gone(&pids);
    }
}

#[test]
fn members_come_back_together_from_talking_to_the_front_end_and_forks_of_either_are_their_own() {
    for ground in grounds() {
        Scene::new(&ground, "together").is_good();
    }
}

#[test]
fn a_member_that_is_killed_is_an_error_of_whoever_waits_for_it() {
    for ground in grounds() {
        Scene::new(&ground, "lose").is_good();
    }
}

#[test]
fn a_session_that_is_finalized_ends_but_for_those_who_have_left() {
    for ground in grounds() {
        Scene::new(&ground, "finalize").is_good();
    }
}

#[test]
fn messages_are_received_in_their_order_when_their_sender_has_long_ended() {
    for ground in grounds() {
        let printed = Scene::new(&ground, "late").is_good();
        let mut lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("printed by")).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["printed by 0", "printed by 1", "printed by 2", "printed by 3"], "{ground:?}");
    }
}

#[test]
fn a_member_that_ends_is_there_for_others_until_they_have_left() {
    for ground in grounds() {
        Scene::new(&ground, "carry").is_good();
    }
}

#[test]
fn hosts_may_have_long_names_and_ipv6_addresses() {
    let long = "n".repeat(250);
    let hosts = [long.as_str(), "fe80::1%eth0", "[2001:db8::1]", "me@n1"];
    Scene::on(&Ground::shell(""), "talk", &hosts).is_good();
    // This host has no such names, which is a code.
    let hosts = [long.as_str(), "2001:db8::1", "n1.invalid", "n2.invalid"];
    let ground = Ground::ssh_unnamed("-oConnectTimeout=1 -F /dev/null");
    assert_eq!(Scene::on(&ground, "environment", &hosts).is_good(), "not launched\n");
}

#[test]
fn the_front_end_obeys_its_environment_and_hands_it_on() {
    let asked = [("LIBI_TREE_TYPE", "-1"), ("LIBI_REMOTE_TIME", "0.1"), ("XPLAT_REMCMD", "nice")];
    let ground = asked.iter().fold(Ground::shell(""), |ground, (name, value)| ground.with(name, value));
    let printed = Scene::new(&ground, "environment").is_good();
    let own: i32 = native::run::<&str>("nice", &[], TIMEOUT).out.trim().parse().unwrap();
    let expected: String = (0..4)
        .map(|rank| {
            // What a niced host launches here is twice as nice, or as nice as can be.
            let nice = (own + if rank == 0 { 10 } else { 20 }).min(19);
            format!(
                "{rank} LIBI_TREE_TYPE=-1 XPLAT_REMCMD=nice LIBI_DEBUG=- LIBI_TEST_SHELL_HOST=n{rank} \
                 SSH_CONNECTION=- nice={nice}\n"
            )
        })
        .collect();
    assert_eq!(printed, expected);
    // The first launches all others.
    let calls = ground.calls();
    assert_eq!(calls, ["front n0", "n0 n1", "n0 n2", "n0 n3"]);
    let ground = Ground::shell("").with("LIBI_TREE_TYPE", "1");
    Scene::new(&ground, "environment").is_good();
    assert_eq!(ground.calls(), ["front n0", "n0 n1", "n1 n2", "n2 n3"]);
}

#[test]
fn options_of_the_remote_shell_are_split_as_they_were() {
    let ground = Ground::shell("").with("XPLAT_RSH_ARGS", r#"-o "A B=c" -p 2\2"#);
    let printed = Scene::new(&ground, "environment").is_good();
    assert_eq!(printed.lines().count(), 4);
}

#[test]
fn what_fails_is_said_to_whoever_asks_for_it_and_where() {
    let broken = "fault n2 refuse permission";
    let quiet = Scene::new(&Ground::shell(broken), "environment");
    assert_eq!(quiet.is_good(), "not launched\n");

    let loud = Ground::shell(broken).with("LIBI_DEBUG", "1");
    let ended = Scene::new(&loud, "environment").run();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "not launched\n"));
    for part in ["libi: LIBI_fe_launch: ", "n2", "Permission denied"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }

    let scene = Scene::new(&loud, "environment");
    let ended = scene.with("LIBI_DEBUG_DIR", scene.directory()).run();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let written = scene.read_all("libi.");
    assert!(written.contains("libi: LIBI_fe_launch: ") && written.contains("Permission denied"), "{written}");
}

#[test]
fn this_machine_among_others_is_launched_without_ssh() {
    let Some(ground) = Ground::ssh() else { return };
    let args = ground.value("XPLAT_RSH_ARGS");
    let ground = ground.with("XPLAT_RSH_ARGS", &args).without("XPLAT_RSH");
    let printed = Scene::on(&ground, "environment", &["localhost", "n1", "n2", "n1"]).is_good();
    let by_ssh: Vec<bool> = printed.lines().map(|line| !line.contains("SSH_CONNECTION=-")).collect();
    assert_eq!(by_ssh, [false, true, true, true], "{printed}");
}

#[test]
fn build_systems_that_name_the_library_of_the_original_find_an_empty_one() {
    let directory = native::root().join("libi-ffi/legacy");
    assert_eq!(std::fs::read(directory.join("libxplat.a")).unwrap(), b"!<arch>\n");
    let path = format!("-L{}", directory.display());
    for link in [Link::Shared, Link::Static] {
        let flags = [path.as_str(), "-lxplat"];
        native::compile("legacy-xplat", &["tests/legacy/header.cpp"], link, &flags);
    }
}

#[test]
fn the_example_does_what_it_says() {
    let program = native::compile("legacy-example", &["examples/cpp/legacy.cpp"], Link::Shared, &[]);
    let ended = native::run(&program, &["localhost", "127.0.0.2"], Duration::from_secs(60));
    let expected = std::fs::read_to_string(native::root().join("examples/cpp/legacy.out")).unwrap();
    assert_eq!((ended.code, ended.err.as_str(), ended.out), (Some(0), "", expected));
}
