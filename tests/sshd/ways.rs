//! Ways to a host: through other hosts, and by the algorithms that both ends have.

use libi::{Backend, SshClient};

use crate::{CLIENTS, joins};
use libi_testkit::labs::Sshd;
use libi_testkit::table::{Row, play};

fn row<'a>(what: &'a str, backend: Backend, says: &'a [&'a str]) -> Row<'a> {
    Row::new(what, "n5", backend, says)
}

#[test]
fn hosts_are_reached_through_jump_hosts() {
    let Some(lab) = Sshd::up() else { return };
    lab.serve("nojumps", &["AllowTcpForwarding no"]);
    lab.serve("strict", &["AuthorizedKeysFile none"]);
    for client in CLIENTS {
        let on = |server: &str, jump: &str| lab.backend(server, &[&format!("ProxyJump={jump}")], *client);
        // Its own port, not that of the jump host.
        let behind = lab.backend("main", &[&format!("ProxyJump=n9:{}", lab.port("main")), "Port=1"], *client);
        println!("{client}:");
        let rows = [
            row(
                "nothing listens at the jump host",
                on("main", "n9:1"),
                &["exited 255", "Connection refused"],
            )
            .hangs(),
            row("the jump host refuses the key", on("strict", "n9"), &["exited 255", "Permission denied"])
                .hangs(),
            row(
                "the jump host forwards nothing",
                on("nojumps", "n9"),
                &["exited 255", "closed before login"],
            )
            .hangs(),
            row("nothing listens behind the jump host", behind, &["exited 255", "Connection refused"])
                .hangs(),
        ];
        play(&rows, &lab.member());
        joins(&lab, "through one host", on("main", "n9"));
        joins(&lab, "through two hosts", on("main", "n9,libi-sh@n8"));
    }
    ["nojumps", "strict"].iter().for_each(|name| lab.stop(name));
}

#[test]
fn algorithms_are_those_that_both_ends_have() {
    let Some(lab) = Sshd::up() else { return };
    lab.serve("modern", &["KexAlgorithms curve25519-sha256", "Ciphers chacha20-poly1305@openssh.com"]);
    let old = ["KexAlgorithms diffie-hellman-group14-sha256", "Ciphers aes128-ctr", "MACs hmac-sha2-256"];
    lab.serve("old", &old);
    for client in CLIENTS {
        algorithms_are_agreed(&lab, *client);
    }
    ["modern", "old"].iter().for_each(|name| lab.stop(name));
}

fn algorithms_are_agreed(lab: &Sshd, client: SshClient) {
    let on = |server: &str, options: &[&str]| lab.backend(server, options, client);
    println!("{client}:");
    let none: &[&str] = &["exited 255", "no algorithm in common", "Unable to negotiate with 127.0.1.6"];
    let rows = [
        row("no key exchange in common", on("modern", &["KexAlgorithms=ecdh-sha2-nistp256"]), none),
        row("no cipher in common", on("modern", &["Ciphers=aes256-ctr"]), none),
        row("no code in common", on("old", &["MACs=hmac-sha2-512"]), none),
        row("no host key in common", on("modern", &["HostKeyAlgorithms=rsa-sha2-256"]), none),
    ];
    play(&rows, &lab.member());
    joins(lab, "a modern server", on("modern", &[]));
    joins(lab, "an old server", on("old", &[]));
}
