//! What real servers and clients do when a launch cannot succeed, and what is said of it: each
//! report comes in time and names the cause in the words of the program that knows it.
//! `--nocapture` prints the table.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libi::{Backend, OsBytes, Shell, Ssh, SshClient};

use crate::CLIENTS;
use libi_testkit::labs::Sshd;
use libi_testkit::table::{Fake, Row, keep, play};

fn row<'a>(what: &'a str, backend: Backend, says: &'a [&'a str]) -> Row<'a> {
    Row::new(what, "n5", backend, says)
}

fn through(fake: &Fake, lab: &Sshd, options: &[&str], client: SshClient) -> Backend {
    let port = format!("Port={}", fake.port);
    lab.backend("main", &[options, &[port.as_str()]].concat(), client)
}

/// The client in a network of its own, which is like this.
fn in_network(lab: &Sshd, network: &str, options: &[&str], client: SshClient) -> Backend {
    let script = |program: &str| format!("ip link set lo up; {network}; exec {program} \"$@\"");
    match lab.backend("main", options, client) {
        Backend::Shell(ssh) => {
            let before = ["-n", "sh", "-c", &script("ssh"), "sh"].map(word);
            let args = before.into_iter().chain(ssh.args).collect();
            Backend::Shell(Shell { args, ..Shell::new(word("unshare")) })
        }
        Backend::Ssh(ssh) => {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let file = lab.path(&format!("client-{}", NEXT.fetch_add(1, Relaxed)));
            let script = script(&lab.client_program());
            let text = format!("#!/bin/sh\nexec unshare -n sh -c '{}' sh\n", script.replace('\'', "'\\''"));
            std::fs::write(&file, text).unwrap();
            mode(&file, 0o755);
            Backend::Ssh(Ssh { client_program: word(&file), ..ssh })
        }
        _ => unreachable!("the laboratory has another remote shell"),
    }
}

/// A client that is not there.
fn missing(lab: &Sshd, client: SshClient) -> Backend {
    match lab.ssh("main", client) {
        Backend::Ssh(ssh) if client != SshClient::OpenSsh => {
            Backend::Ssh(Ssh { client_program: word("no-such-ssh"), ..ssh })
        }
        _ => Backend::Shell(Shell { args: Vec::new(), ..Shell::new(word("no-such-ssh")) }),
    }
}

fn word(text: &str) -> OsBytes {
    OsBytes::new(text).unwrap()
}

fn mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn every_failure_is_reported_in_time_with_its_cause() {
    let Some(lab) = Sshd::up() else { return };
    CLIENTS.iter().for_each(|client| failures_are_reported(&lab, *client));
}

fn failures_are_reported(lab: &Sshd, client: SshClient) {
    let on = |server: &str, options: &[&str]| lab.backend(server, options, client);
    let main = |options: &[&str]| on("main", options);
    let through = |fake, options: &[&str]| through(fake, lab, options, client);
    let in_network = |network, options: &[&str]| in_network(lab, network, options, client);

    let no_keys = "UserKnownHostsFile=/dev/null";
    // The client's own key is certainly not the server's.
    let client_key = std::fs::read_to_string(lab.path("key.pub")).unwrap();
    let others = lab.path("others.known_hosts");
    std::fs::write(&others, format!("[127.*]:{} {client_key}", lab.port("main"))).unwrap();
    let changed = format!("UserKnownHostsFile={others}");

    let stranger = lab.path("host_key"); // accepted by no server
    let stranger_key = format!("IdentityFile={stranger}");
    let not_executable = lab.path("not-executable");
    std::fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    mode(&not_executable, 0o644);

    let no_shell = lab.user("noshell", "/no/such/shell");
    let no_login = lab.user("nologin", "/usr/sbin/nologin");
    let exits = lab.user("exits", "/bin/bash");
    lab.write_home(&exits, ".bashrc", "echo this host is being serviced >&2; exit 3\n");
    let hangs = lab.user("hangs", "/bin/bash");
    lab.write_home(&hangs, ".bashrc", "mkfifo ~/gate; read -r _ <~/gate\n");
    let poor = lab.user("poor", "/bin/bash");
    lab.write_home(&poor, ".bashrc", "ulimit -u 1\n");

    lab.serve("passwords", &["AuthenticationMethods password", "PasswordAuthentication yes"]);
    lab.serve("nosessions", &["MaxSessions 0"]);
    lab.serve("other", &["ForceCommand echo this is a mail server"]);
    lab.serve("dying", &["ForceCommand kill -KILL $PPID"]);
    lab.serve("strict", &["AuthorizedKeysFile none"]);
    lab.serve("impatient", &["MaxAuthTries 1"]);
    lab.serve("full", &["MaxStartups 1:100:1"]);
    let full = lab.port("full");
    let occupant = TcpStream::connect(("127.0.0.1", full)).unwrap();
    // As soon as it has heard something it counts.
    (&occupant).read_exact(&mut [0; 4]).unwrap();

    let silent = Fake::new(keep);
    let web = Fake::new(|mut caller| {
        let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\0\r\n");
        keep(caller);
    });
    let leaving = Fake::new(|mut caller| {
        let _ = caller.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        let _ = caller.read(&mut [0; 8]);
    });
    let gone = Fake::new(drop);

    let lost = "ip addr add 10.9.9.9/32 dev lo; nft add table inet t; \
                nft add chain inet t c '{ type filter hook input priority 0; }'; nft add rule \
                inet t c tcp dport 22 drop";
    let barred = "ip route add unreachable 10.9.9.0/24";
    let far = ["ConnectTimeout=2"];
    // Only ssh itself starts programs to connect.
    let proxy_says: &[&str] = match client {
        SshClient::Builtin => &["exited 255", "`ProxyCommand` is set"],
        _ => &["exited 255", "UNKNOWN port 65535"],
    };

    // Its shell goes on when it is let, and what it starts then is not wanted any more.
    let let_go = || {
        let gate = std::fs::File::options().read(true).write(true).open(lab.home(&hangs).join("gate"));
        gate.and_then(|mut gate| gate.write_all(b"\n")).unwrap();
    };
    let rows = [
        row("the name does not resolve", main(&[]), &["Could not resolve hostname"])
            .host("no-such-host.invalid"),
        row("nothing listens at the port", main(&["Port=1"]), &["Connection refused"]),
        row("packets vanish", in_network(lost, &far), &["Connection timed out"]).host("10.9.9.9"),
        row("packets vanish, and ssh has no timeout", in_network(lost, &[]), &["timed out while starting"])
            .host("10.9.9.9")
            .hangs(),
        row("there is no network", in_network("true", &far), &["Network is unreachable"]).host("10.9.9.9"),
        row("there is no route", in_network(barred, &far), &["No route to host"]).host("10.9.9.9"),
        row("the host's key is not known", main(&[no_keys]), &["unknown host key"]),
        row("the host's key has changed", main(&[&changed]), &["host key changed"]),
        row("the user's key is refused", on("strict", &[]), &["Permission denied"]),
        row("the server wants a password", on("passwords", &[]), &["Permission denied (password)"]),
        row(
            "two keys are one too many",
            on("impatient", &[&stranger_key]),
            &["Too many authentication failures"],
        ),
        row("the user does not exist", main(&[]), &["Permission denied"]).user("libi-nobody"),
        row("the user's shell does not exist", main(&[]), &["Permission denied"]).user(&no_shell),
        row(
            "the user's shell is nologin",
            main(&[]),
            &["exited 1", "This account is currently not available"],
        )
        .user(&no_login),
        row("MaxStartups are taken", on("full", &[]), &["exited 255", "Connection "]).hangs(),
        row("MaxSessions is 0", on("nosessions", &[]), &["exited 255", "open failed"]),
        row(
            "ForceCommand is another program",
            on("other", &[]),
            &["exited 0 without joining", "this is a mail server"],
        ),
        row(
            "sshd is killed when it has started the command",
            on("dying", &[]),
            &["exited 255", "connection lost"],
        ),
        row(
            "the server closes in the middle of its banner",
            through(&leaving, &[]),
            &["exited 255", "Connection "],
        )
        .hangs(),
        row("the server leaves at once", through(&gone, &[]), &["exited 255", "Connection "]).hangs(),
        row("the server says nothing", through(&silent, &[]), &["timed out while starting"]).hangs(),
        row(
            "the server says nothing, and ssh has a timeout",
            through(&silent, &far),
            &["exited 255", "timed out"],
        ),
        row("the server is something else", through(&web, &[]), &["exited 255", "invalid"]),
        row("there is no such ssh here", missing(lab, client), &["cannot be started", "no-such-ssh"]),
        row("ssh does not know an option", main(&["NoSuchOption=1"]), &["exited 255", "line 0"]),
        row("the proxy ends", main(&["ProxyCommand=false"]), proxy_says).hangs(),
        row("there is no such program", main(&[]), &["exited 127", "/no/such/program"])
            .with(|members| members.executable = word("/no/such/program")),
        row("program not executable", main(&[]), &["exited 126", "Permission denied"])
            .with(|members| members.executable = word(&not_executable)),
        row(
            "the directory does not exist",
            main(&[]),
            &["exited 125", "cannot change to directory /no/such/directory"],
        )
        .with(|members| members.cwd = Some(word("/no/such/directory"))),
        row("the profile exits", main(&[]), &["exited 3", "this host is being serviced"]).user(&exits),
        row("the profile hangs", main(&[]), &["timed out while starting"]).user(&hangs).hangs().then(let_go),
        row("there may be no more processes", main(&[]), &["exited 70", "Resource temporarily unavailable"])
            .user(&poor),
        row("the program ends before it joins", main(&[]), &["exited 7"])
            .with(|members| members.args = vec![word("exit:7")]),
        // It knows nothing of us, so it ends when it likes.
        row("the program never joins", main(&[]), &["timed out while starting"])
            .with(|members| members.args = vec![word("sleep:6000")])
            .hangs(),
        row("the program is not one of ours", main(&[]), &["exited 0 without joining"])
            .with(|members| members.executable = word("/bin/true")),
    ];
    println!("{client}:");
    play(&rows, &lab.member());
    assert!(rows.len() >= 20);
    drop(occupant);
    for server in ["strict", "passwords", "nosessions", "other", "dying", "impatient", "full"] {
        lab.stop(server);
    }
}
