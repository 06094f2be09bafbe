//! Any programs through real ssh: agents that are installed, and agents that are sent.

use libi::{Agent, Delivery, Exit, FrontEnd, LaunchOptions, OsBytes, Programs, SshClient};
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::{native, programs};

use crate::{drawn_clients, options};

fn with(lab: &Sshd, client: SshClient, agent: Agent) -> LaunchOptions {
    options(lab.ssh("main", client)).agent(agent).programs(Programs::Any)
}

/// Runs a script on these hosts; what each rank has printed.
fn run(options: &LaunchOptions, hosts: &str, script: &str) -> Vec<String> {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let distribution = mark.program("sh", hosts, &["-c", script]);
    let session = launch_with(&front, &[distribution], options);
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    let said = (0..session.size()).map(|rank| heard.out(rank)).collect();
    drop((session, front));
    mark.nothing_is_left();
    said
}

#[test]
fn any_program_runs_on_64_hosts_and_every_line_arrives() {
    let Some(lab) = Sshd::up() else { return };
    let agent = lab.bring(programs::agent(), "agent");
    let agent = Agent::new(OsBytes::try_from(agent.as_str()).unwrap());
    let script = "echo $LIBI_RANK of $LIBI_SIZE on $LIBI_HOST; umask; echo last";
    for client in drawn_clients() {
        let said = run(&with(&lab, *client, agent.clone()), "127.0.1.[1-64]", script);
        for (rank, said) in said.iter().enumerate() {
            let first = format!("{rank} of 64 on 127.0.1.{}\n", rank + 1);
            assert!(said.starts_with(&first) && said.ends_with("\nlast\n"), "{client}: {said}");
        }
    }
}

#[test]
fn an_agent_is_sent_along_the_tree_to_hosts_that_lack_it() {
    let Some(lab) = Sshd::up() else { return };
    // A copy without symbols, as packages install it.
    let small = native::scratch().join("small-agent");
    let strip = std::process::Command::new("strip").arg("-o").arg(&small).arg(programs::agent()).status();
    assert!(strip.unwrap().success());
    let file = std::fs::read(&small).unwrap();
    std::fs::remove_file(&small).unwrap();
    println!("{} bytes", file.len());
    let agent = Agent::new(OsBytes::try_from("/no/such/libi-agent").unwrap()).delivery(Delivery::of(file));
    drawn_clients().iter().for_each(|client| is_sent(&with(&lab, *client, agent.clone())));
}

fn is_sent(options: &LaunchOptions) {
    let options = options.clone().strategy("kary:3".parse().unwrap());
    let said = run(
        &options,
        "127.0.1.[1-16]",
        "readlink /proc/$PPID/exe; ls $(dirname $(readlink /proc/$PPID/exe)) 2>&1 | head -c 12",
    );
    for said in said {
        let mut lines = said.lines();
        let exe = lines.next().unwrap();
        assert!(exe.contains("/libi-agent.") && exe.ends_with("/agent (deleted)"), "{said}");
        assert_eq!(lines.next(), Some("ls: cannot a"), "its directory is gone: {said}");
    }
}
