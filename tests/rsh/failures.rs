//! What real rsh servers and clients do when a launch cannot succeed, and what is said of it: each
//! report comes in time and names the cause. `--nocapture` prints the table.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use libi::{Backend, FrontEnd, OsBytes, Rsh};
use nix::libc::linger;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};

use crate::options;
use libi_testkit::labs::{Marked, Rshd, within};
use libi_testkit::table::{Fake, HELLO_TIMEOUT, Row, keep, play};

fn row<'a>(what: &'a str, backend: Backend, says: &'a [&'a str]) -> Row<'a> {
    Row::new(what, "127.0.1.5", backend, says)
}

fn word(text: &str) -> OsBytes {
    OsBytes::new(text).unwrap()
}

/// rsh, called by another program, which is given these words before it.
fn called_by(lab: &Rshd, program: &str, words: &[&str]) -> Backend {
    let rsh = lab.rsh("main");
    let before = words.iter().map(|text| word(text));
    let args = before.chain(rsh.args.iter().cloned()).collect();
    Backend::Rsh(Rsh { program: word(program), args, ..rsh })
}

/// rsh in a network of its own, which is like this.
fn in_network(lab: &Rshd, network: &str) -> Backend {
    called_by(lab, "unshare", &["-n", "sh", "-c", &format!("{network}; exec rsh \"$@\""), "sh"])
}

/// What listens on each port that rsh could use.
fn all_ports() -> Vec<TcpListener> {
    (512..1024).filter_map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()).collect()
}

/// Does as rshd does, until the command could begin; then it resets both connections.
fn breaks(mut caller: TcpStream) {
    let mut said = Vec::new();
    let mut byte = [0];
    while said.iter().filter(|byte| **byte == 0).count() < 4
        && caller.read(&mut byte).is_ok_and(|count| count > 0)
    {
        said.push(byte[0]);
    }
    let port = String::from_utf8_lossy(said.split(|byte| *byte == 0).next().unwrap()).parse().unwrap();
    let beside = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let free = (512..1024).rev().any(|port| {
        use std::os::fd::AsRawFd;
        bind(beside.as_raw_fd(), &SockaddrIn::new(127, 0, 1, 6, port)).is_ok()
    });
    assert!(free, "there is a port");
    {
        use std::os::fd::AsRawFd;
        connect(beside.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
    }
    caller.write_all(b"\0").unwrap();
    // It is in the midst of it when it hears that.
    caller.read_exact(&mut [0; 16]).unwrap();
    reset(caller.into());
    reset(beside);
}

/// Closes it so that the other end hears of a failure.
fn reset(connection: OwnedFd) {
    let at_once = linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&connection, sockopt::Linger, &at_once).unwrap();
    drop(connection);
}

#[test]
fn every_failure_is_reported_in_time_with_its_cause() {
    let Some(lab) = Rshd::up() else { return };
    let lab = &*lab;
    let main = || lab.backend("main");
    let at = |fake: &Fake| Backend::Rsh(lab.at(fake.port));

    let not_executable = lab.path("not-executable");
    std::fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&not_executable, std::fs::Permissions::from_mode(0o644)).unwrap();
    let no_trust = lab.user("notrust", "/bin/sh");
    lab.write_home(&no_trust, ".rhosts", "stranger root\n");
    let no_shell = lab.user("noshell", "/no/such/shell");
    let no_login = lab.user("nologin", "/usr/sbin/nologin");
    let exits = lab.user("exits", "/bin/bash");
    lab.write_home(&exits, ".bashrc", "echo this host is being serviced; exit 3\n");
    let hangs = lab.user("hangs", "/bin/bash");
    lab.write_home(&hangs, ".bashrc", "mkfifo ~/gate; read -r _ <~/gate\n");
    let poor = lab.user("poor", "/bin/bash");
    lab.write_home(&poor, ".bashrc", "ulimit -u 1\n");
    let gate = lab.path(&format!("home/{hangs}/gate"));
    let let_go = || drop(std::fs::File::options().write(true).open(&gate).unwrap());

    lab.serve("few", 1);
    let few = lab.port("few");
    for _ in 0..4 {
        let mut call = TcpStream::connect(("127.0.1.5", few)).unwrap();
        call.set_read_timeout(Some(HELLO_TIMEOUT)).unwrap();
        // A client that calls from a port above 1023 gets nothing but EOF.
        assert!(!call.read(&mut [0]).is_ok_and(|count| count > 0));
    }

    let gone = Fake::new(drop);
    let silent = Fake::new(keep);
    let web = Fake::new(|mut caller| {
        let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        keep(caller);
    });
    let breaking = Fake::new(breaks);
    let lost = "ip link set lo up; ip addr add 10.9.9.9/32 dev lo; nft add table inet t; \
                nft add chain inet t c '{ type filter hook input priority 0; }'; nft add rule \
                inet t c ip daddr 10.9.9.9 drop";
    let barred = "ip link set lo up; ip route add unreachable 10.9.9.0/24";
    let missing = Backend::Rsh(Rsh { program: word("/no/such/rsh"), ..lab.rsh("main") });
    let old = Backend::Rsh(Rsh { args: vec![word("-X")], ..lab.rsh("main") });
    let quiet = Rsh { args: lab.rsh("main").args[1..].to_vec(), ..lab.rsh("main") };

    let rows = [
        row("the host's name is unknown", main(), &["unknown host name", "Name or service not known"])
            .host("no-such-host.invalid"),
        row("nothing listens", main(), &["connection refused", "Connection refused"]).host("127.0.1.99"),
        row(
            "nothing listens, and rsh is not asked why",
            Backend::Rsh(quiet),
            &["remote shell failed", "Could not make a connection"],
        )
        .host("127.0.1.99"),
        row(
            "inetd takes no more calls",
            Backend::Rsh(lab.at(few)),
            &["connection closed before login", "inetd.conf"],
        ),
        row("there is no way", in_network(lab, barred), &["no route to host", "No route to host"])
            .host("10.9.9.9"),
        row("there is no network", in_network(lab, ":"), &["no route to host", "Network is unreachable"])
            .host("10.9.9.9"),
        row("what is sent is lost", in_network(lab, lost), &["timed out while starting"])
            .host("10.9.9.9")
            .hangs(),
        row("the server says nothing", at(&silent), &["timed out while starting"]).host("127.0.1.6").hangs(),
        row(
            "the server leaves at once",
            at(&gone),
            &["connection closed before login", "Didn't receive NULL byte"],
        )
        .host("127.0.1.6"),
        row(
            "the server is something else",
            at(&web),
            &["connection closed before login", "Didn't receive NULL byte"],
        )
        .host("127.0.1.6"),
        row(
            "the connection is reset in the midst",
            at(&breaking),
            &["login ended before the program started"],
        )
        .host("127.0.1.6"),
        row("the user does not exist", main(), &["login denied", "Authentication failure", ".rhosts"])
            .user("no-such-user"),
        row("the user trusts others", main(), &["login denied", "Authentication failure", ".rhosts"])
            .user(&no_trust),
        row("there is no port left", main(), &["no local port left", "Address already in use"]),
        row(
            "rsh may not use ports below 1024",
            called_by(
                lab,
                "setpriv",
                &["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs", "rsh"],
            ),
            &["no permission to use a port below 1024", "set-user-ID"],
        ),
        row("rsh is not there", missing, &["remote shell not found"]),
        row("rsh does not know an option", old, &["rejects an option", "invalid option -- 'X'"]),
        row("there is no such shell", main(), &["login ended before the program started"]).user(&no_shell),
        row(
            "the login shell refuses logins",
            main(),
            &["login ended before", "This account is currently not available"],
        )
        .user(&no_login),
        row("the profile exits", main(), &["login ended before", "this host is being serviced"]).user(&exits),
        row("the profile hangs", main(), &["timed out while starting"]).user(&hangs).hangs().then(let_go),
        row("there may be no more processes", main(), &["login ended before"]).user(&poor),
        row("the program is missing", main(), &["program not found", "exited 127"])
            .with(|members| members.executable = word("/no/such/program")),
        row("the program is not executable", main(), &["program not executable", "exited 126"])
            .with(|members| members.executable = word(&not_executable)),
        row(
            "the directory does not exist",
            main(),
            &["cannot enter the directory", "exited 125", "/no/such/directory"],
        )
        .with(|members| members.cwd = Some(word("/no/such/directory"))),
        row("the program ends before it joins", main(), &["exited 7 before joining"])
            .with(|members| members.args = vec![word("exit:7")]),
        row("the program ends with 255", main(), &["exited 255 before joining"])
            .with(|members| members.args = vec![word("exit:255")]),
        row("the program is killed before it joins", main(), &["was killed by signal 9 before joining"])
            .with(|members| members.args = vec![word("signal:9")]),
        // It knows nothing of us, so it ends when it likes.
        row("the program never joins", main(), &["timed out while starting"])
            .with(|members| members.args = vec![word("sleep:6000")])
            .hangs(),
        row("the program is not one of ours", main(), &["exited 0 without joining"])
            .with(|members| members.executable = word("/bin/true")),
    ];
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut without_ports = Vec::new();
    for row in rows {
        match row.what() {
            "there is no port left" => without_ports.push(row),
            _ if without_ports.is_empty() => before.push(row),
            _ => after.push(row),
        }
    }
    assert!(before.len() + after.len() >= 20);
    play(&before, &lab.member());
    let occupants = all_ports();
    play(&without_ports, &lab.member());
    drop(occupants);
    play(&after, &lab.member());
    lab.stop("few");
    drop((gone, silent, web, breaking));
    lab.nothing_is_left();
}

#[test]
fn a_launch_that_finds_no_port_goes_on_when_there_are_some() {
    let Some(lab) = Rshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let calls = lab.path("calls");
    let _ = std::fs::remove_file(&calls);
    let count = format!("rsh \"$@\"; status=$?; echo \"$status $*\" >>{calls}; exit $status");
    let members = mark.program(&lab.member(), "127.0.1.[1-4]", &["join", "finish:30000"]);
    let backend = called_by(&lab, "sh", &["-c", &count, "sh"]);
    let occupants = all_ports();
    let session = front.start(&members, &options(backend)).unwrap();
    // Others may be refused before the first host is.
    let is_refusal = |line: &str| line.starts_with("1 ") && line.split(' ').any(|word| word == "127.0.1.1");
    within(HELLO_TIMEOUT, "rsh to the first host has failed", || {
        std::fs::read_to_string(&calls).is_ok_and(|calls| calls.lines().any(is_refusal))
    });
    drop(occupants);
    session.wait_up(crate::TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
    let report = session.report().unwrap();
    assert!(report.joined() == 4 && report.hosts()[0].attempts > 1, "{report}");
    drop((session, front));
    mark.nothing_is_left();
    lab.nothing_is_left();
}
