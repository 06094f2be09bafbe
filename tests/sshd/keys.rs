//! Which keys and certificates of hosts and users are accepted: the clients decide as ssh does, and
//! say the same of what they refuse.

use std::fs;
use std::process::{Child, Command, Stdio};

use libi::{Backend, SshClient};

use crate::{CLIENTS, TIMEOUT, joins};
use libi_testkit::labs::{Sshd, within};
use libi_testkit::table::{Row, play};

/// The address of the host that is launched, which certificates name.
const ADDRESS: &str = "127.0.1.6";

fn row<'a>(what: &'a str, backend: Backend, says: &'a [&'a str]) -> Row<'a> {
    Row::new(what, "n5", backend, says)
}

fn keygen(lab: &Sshd, args: &[&str]) {
    let done = Command::new("ssh-keygen").args(args).current_dir(lab.path("")).output().unwrap();
    assert!(done.status.success(), "ssh-keygen {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A new pair of keys.
fn key(lab: &Sshd, name: &str, passphrase: &str) -> String {
    keygen(lab, &["-q", "-t", "ed25519", "-N", passphrase, "-f", name]);
    lab.path(name)
}

/// The words of the public key in a file.
fn public(path: &str) -> String {
    let line = fs::read_to_string(format!("{path}.pub")).unwrap();
    line.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A file of known hosts.
fn known(lab: &Sshd, name: &str, line: &str) -> String {
    let path = lab.path(name);
    fs::write(&path, format!("{line}\n")).unwrap();
    format!("UserKnownHostsFile={path}")
}

/// Has an authority sign the key of the hosts; the option of a server that has this certificate.
fn certified(lab: &Sshd, name: &str, authority: &str, principal: &str, validity: &str) -> String {
    fs::copy(lab.path("host_key.pub"), lab.path(&format!("{name}.pub"))).unwrap();
    let file = format!("{name}.pub");
    keygen(lab, &["-q", "-s", authority, "-I", name, "-h", "-n", principal, "-V", validity, &file]);
    format!("HostCertificate {}", lab.path(&format!("{name}-cert.pub")))
}

#[test]
fn host_keys_are_trusted_as_known_hosts_say() {
    let Some(lab) = Sshd::up() else { return };
    CLIENTS.iter().for_each(|client| known_hosts_decide(&lab, *client));
}

fn known_hosts_decide(lab: &Sshd, client: SshClient) {
    let main = |options: &[&str]| lab.backend("main", options, client);
    let (port, host_key) = (lab.port("main"), public(&lab.path("host_key")));
    let others = format!("[127.*]:{port} {}", public(&lab.path("key")));
    let none = known(lab, "none.known", "");
    let changed = known(lab, "changed.known", &others);
    let usual = format!("[127.*]:{port} {host_key}");
    let both = known(lab, "both.known", &format!("{others}\n{usual}"));
    let revoked = known(lab, "revoked.known", &format!("@revoked * {host_key}\n{usual}"));
    let revoking = format!("RevokedHostKeys={}.pub", lab.path("host_key"));
    let hashed = known(lab, "hashed.known", &format!("[{ADDRESS}]:{port} {host_key}"));
    keygen(lab, &["-q", "-H", "-f", "hashed.known"]);
    let text = fs::read_to_string(lab.path("hashed.known")).unwrap();
    assert!(text.starts_with("|1|"), "{text}");
    let elsewhere = known(lab, "elsewhere.known", &format!("[{ADDRESS}]:{port} {host_key}"));
    keygen(lab, &["-q", "-H", "-f", "elsewhere.known"]);
    let alias = known(lab, "alias.known", &format!("the-cluster {host_key}"));

    // Only ssh itself reads such files.
    let revoking_says: &[&str] = match client {
        SshClient::Builtin => &["exited 255", "`RevokedHostKeys` is"],
        _ => &["exited 255", "host key"],
    };

    println!("{client}:");
    let rows = [
        row("the host's key is not known", main(&[&none]), &["exited 255", "unknown host key"]),
        row("the host has another key", main(&[&changed]), &["exited 255", "host key changed"]),
        row("a revoked key is known", main(&[&revoked]), &["exited 255", "host key"]),
        row("a file revokes the key", main(&[&revoking]), revoking_says),
        row("the hashed name is another's", main(&[&elsewhere]), &["exited 255", "unknown host key"])
            .host("n6"),
        row("the alias is not known", main(&["HostKeyAlias=cluster", &alias]), &["unknown host key"]),
    ];
    play(&rows, &lab.member());
    joins(lab, "the hashed name is known", main(&[&hashed]));
    joins(lab, "one of two known keys is the host's", main(&[&both]));
    joins(lab, "the alias is known", main(&["HostKeyAlias=the-cluster", &alias]));
}

#[test]
fn certificates_of_hosts_are_trusted_if_their_authority_is_and_they_are_valid() {
    let Some(lab) = Sshd::up() else { return };
    let [authority, stranger] = ["authority", "stranger"].map(|name| key(&lab, name, ""));
    let servers = [
        ("certified", &authority, ADDRESS, "-1d:+1d"),
        ("expired", &authority, ADDRESS, "-2d:-1d"),
        ("misnamed", &authority, "127.0.1.7", "-1d:+1d"),
        ("foreign", &stranger, ADDRESS, "-1d:+1d"),
    ];
    for (name, signer, principal, validity) in servers {
        lab.serve(name, &[&certified(&lab, name, signer, principal, validity)]);
    }
    let trusting = format!("@cert-authority [127.*]:* {}", public(&authority));
    let trusting = known(&lab, "authority.known", &trusting);
    for client in CLIENTS {
        let on = |server: &str| lab.backend(server, &[&trusting], *client);
        println!("{client}:");
        let refused: &[&str] = &["exited 255", "unknown host key"];
        let rows = [
            row("the certificate has expired", on("expired"), refused),
            row("the certificate is of another host", on("misnamed"), refused),
            row("the certificate is by another authority", on("foreign"), refused),
            row("there is no certificate", on("main"), refused),
        ];
        play(&rows, &lab.member());
        joins(&lab, "the certificate is valid", on("certified"));
    }
    servers.iter().for_each(|(name, ..)| lab.stop(name));
}

/// An agent with one key. It ends with this.
struct KeyAgent(Child, String);

impl KeyAgent {
    fn start(lab: &Sshd, key: &str) -> Self {
        let socket = lab.path("agent");
        let mut command = Command::new("ssh-agent");
        command.args(["-D", "-a", &socket]).stdout(Stdio::null());
        let agent = Self(command.spawn().unwrap(), socket);
        let mut add = Command::new("ssh-add");
        add.args(["-q", key]).env("SSH_AUTH_SOCK", &agent.1).stdin(Stdio::null());
        // Its socket is there before it listens.
        within(TIMEOUT, "the agent takes the key", || add.status().unwrap().success());
        agent
    }
}

impl Drop for KeyAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = fs::remove_file(&self.1);
    }
}

/// Has an authority sign a user's key.
fn sign(lab: &Sshd, authority: &str, key: &str, validity: &str) {
    let file = format!("{key}.pub");
    keygen(lab, &["-q", "-s", authority, "-I", "user", "-n", "libi-sh", "-V", validity, &file]);
}

#[test]
fn users_log_in_with_certificates_and_with_keys_in_files_and_agents() {
    let Some(lab) = Sshd::up() else { return };
    let [authority, user, expired, stored] =
        ["authority", "user", "expired", "stored"].map(|name| key(&lab, name, ""));
    let locked = key(&lab, "locked", "a passphrase");
    sign(&lab, &authority, &user, "-1d:+1d");
    sign(&lab, &authority, &expired, "-2d:-1d");
    // The key that the configuration names is refused by these; their users may not read root's files.
    let trusted = format!("TrustedUserCAKeys {authority}.pub");
    lab.serve("certificates", &["AuthorizedKeysFile none", &trusted]);
    fs::write(lab.path("some_keys"), format!("{}\n{}\n", public(&stored), public(&locked))).unwrap();
    lab.serve("some", &[&format!("AuthorizedKeysFile {}", lab.path("some_keys"))]);
    let agent = KeyAgent::start(&lab, &stored);
    let with_agent = format!("IdentityAgent={}", agent.1);
    let identity = |path: &str| format!("IdentityFile={path}");

    for client in CLIENTS {
        let on = |server: &str, options: &[&str]| lab.backend(server, options, *client);
        println!("{client}:");
        let refused: &[&str] = &["exited 255", "login denied", "Permission denied (publickey)"];
        let (no_agent, only) = ("IdentityAgent=none", "IdentitiesOnly=yes");
        let rows = [
            row(
                "the user's certificate has expired",
                on("certificates", &[&identity(&expired), no_agent]),
                refused,
            ),
            row(
                "the user's key has no certificate",
                on("certificates", &[&identity(&stored), no_agent]),
                refused,
            ),
            row("the agent's key is not one of the identities", on("some", &[&with_agent, only]), refused),
            row("the key has a passphrase", on("some", &[&identity(&locked), no_agent]), refused),
        ];
        play(&rows, &lab.member());
        joins(&lab, "the certificate is valid", on("certificates", &[&identity(&user), no_agent]));
        let named = format!("CertificateFile={user}-cert.pub");
        joins(&lab, "the certificate is named", on("certificates", &[&named, &identity(&user), no_agent]));
        joins(&lab, "the key is in a file", on("some", &[&identity(&stored), no_agent]));
        joins(&lab, "the agent has the key", on("some", &[&with_agent, "IdentitiesOnly=no"]));
        let half = lab.path("half");
        fs::copy(format!("{stored}.pub"), format!("{half}.pub")).unwrap();
        joins(
            &lab,
            "only the agent has the private half",
            on("some", &[&with_agent, &identity(&half), only]),
        );
    }
    drop(agent);
    ["certificates", "some"].iter().for_each(|name| lab.stop(name));
}
