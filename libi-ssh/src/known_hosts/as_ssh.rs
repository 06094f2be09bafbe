//! Compares each judgement with the real `ssh`, which logs in to an `sshd` on a pipe. Without an
//! installed `sshd` nothing is compared.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use russh::keys::{Certificate, PublicKey};

use super::*;
use crate::settings::Strict;

const SSHD: &str = "/usr/sbin/sshd";

fn keygen(dir: &Path, arguments: &[&str]) {
    assert!(Command::new("ssh-keygen").current_dir(dir).args(arguments).status().unwrap().success());
}

/// What `ssh` prints about the key of the host.
fn printed(dir: &Path, strict: &str) -> Vec<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    let mut ssh = Command::new("ssh");
    ssh.args([
        "-F",
        "none",
        "-T",
        "-p",
        "2222",
        "-o",
        "BatchMode=yes",
        "-o",
        "GlobalKnownHostsFile=/dev/null",
    ]);
    ssh.args(["-o", &format!("UserKnownHostsFile={}", at("known"))]);
    ssh.args(["-o", &format!("ProxyCommand={SSHD} -i -f {}", at("sshd"))]);
    ssh.args(["-o", &format!("StrictHostKeyChecking={strict}"), "-o", "IdentityFile=none"]);
    let output = ssh.args(["Node1", "true"]).env_remove("SSH_AUTH_SOCK").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap().replace("\r\n", "\n");
    text.lines().filter(|line| !line.contains("Permission denied")).map(str::to_owned).collect()
}

/// What the judgement prints, with what the learned key leads to.
fn judged(dir: &Path, strict: Strict, offered: Offered<'_>) -> Vec<String> {
    let trust = Trust {
        strict,
        user_files: vec![dir.join("known")],
        global_files: Vec::new(),
        alias: None,
        checks_address: false,
        hashes: false,
        trusts_loopback: false,
        rsa_bits: 1024,
        authority_signatures: vec!["ssh-ed25519".into()],
        revoked: None,
    };
    let asked = Asked { host: "node1", port: 2222, address: None, offered, now: SystemTime::now() };
    let judgement = judge(&KnownHosts::default(), &trust, &asked);
    let mut messages = judgement.messages;
    if let Some(learned) = judgement.learned {
        learn(&trust.user_files[0], &learned.names, &learned.blob, false).unwrap();
        messages.push(learned.added);
    }
    messages.iter().flat_map(|message| message.text.lines()).map(str::to_owned).collect()
}

/// Versions differ in how they tell to remove a line.
fn same(lines: &[String]) -> Vec<String> {
    let keep = |line: &&String| !line.contains("remove with:") && !line.contains("ssh-keygen");
    lines.iter().filter(keep).cloned().collect()
}

#[test]
fn every_judgement_has_the_words_of_ssh_and_leaves_the_same_file() {
    if !Path::new(SSHD).exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, kind) in [("host", "ed25519"), ("other", "ecdsa")] {
        keygen(dir, &["-q", "-t", kind, "-N", "", "-f", name]);
    }
    let host_key = dir.join("host").display().to_string();
    fs::write(
        dir.join("sshd"),
        format!("HostKey {host_key}\nUsePAM no\nStrictModes no\nAuthorizedKeysFile none\n"),
    )
    .unwrap();
    let public = |name: &str| fs::read_to_string(dir.join(format!("{name}.pub"))).unwrap().trim().to_owned();
    let (host, other) = (public("host"), public("other"));
    let key = PublicKey::from_openssh(&host).unwrap();
    let unreadable_declared = host.replacen("ssh-ed25519", "ssh-rsa", 1);
    for known in [
        String::new(),
        format!("[node1]:2222 {host}\n"),
        format!("[NODE?]:2222,!x {host}\n"),
        format!("[node1]:2222 {other}\n"),
        format!("[node1]:2222 {other}\n[node1]:2222 {host}\n"),
        format!("node1 {host}\n"),
        format!("node1 {other}\n"),
        format!("NODE1 {host}\n[node1]:2222 {other}"),
        format!("@revoked * {host}\n"),
        format!("node1 {host}\n@revoked node1 {host}\n"),
        format!("@cert-authority * {host}\n"),
        format!("[node1]:2222 {unreadable_declared}\n"),
        format!("@nonsense [node1]:2222 {other}\n \t[node1]:2222\t{host} with a comment\r\n"),
        format!("[node1]:2222 1024 35 1234\n[node1]:2222 ssh-ed25519 AAAA\n|1|x|y {host}\n"),
    ] {
        for (name, strict) in [
            ("yes", Strict::Yes),
            ("ask", Strict::Ask),
            ("accept-new", Strict::AcceptNew),
            ("no", Strict::No),
        ] {
            let file = dir.join("known");
            fs::write(&file, &known).unwrap();
            let theirs = (printed(dir, name), fs::read_to_string(&file).unwrap());
            fs::write(&file, &known).unwrap();
            let ours = (judged(dir, strict, Offered::Key(&key)), fs::read_to_string(&file).unwrap());
            assert_eq!((same(&ours.0), &ours.1), (same(&theirs.0), &theirs.1), "{name}: {known}");
        }
    }
}

#[test]
fn certificates_are_refused_in_the_words_of_ssh() {
    if !Path::new(SSHD).exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["host", "ca", "other"] {
        keygen(dir, &["-q", "-t", "ed25519", "-N", "", "-f", name]);
    }
    let at = |name: &str| dir.join(name).display().to_string();
    let config = format!(
        "HostKey {}\nHostCertificate {}\nUsePAM no\nStrictModes no\nAuthorizedKeysFile none\n",
        at("host"),
        at("host-cert.pub")
    );
    fs::write(dir.join("sshd"), config).unwrap();
    let public = |name: &str| fs::read_to_string(dir.join(format!("{name}.pub"))).unwrap().trim().to_owned();
    let (host, authority, other) = (public("host"), public("ca"), public("other"));
    for options in [
        &["-h", "-n", "node1,node2"][..],
        &["-h", "-n", "node2"],
        &["-h", "-n", "node1", "-V", "20200101:20210101"],
        &["-h", "-n", "node1", "-V", "20990101:21000101"],
    ] {
        keygen(dir, &[&["-q", "-s", "ca", "-I", "id"], options, &["host.pub"]].concat());
        let certificate = Certificate::from_openssh(&public("host-cert")).unwrap();
        for known in [
            format!("@cert-authority *node* {authority}\n"),
            format!("@cert-authority *node* {other}\n"),
            format!("@cert-authority *node* {authority}\n[node1]:2222 {host}\n"),
            format!("@cert-authority *node* {authority}\n[node1]:2222 {other}\n"),
            format!("@cert-authority node1 {authority}\n"),
            format!("@cert-authority *node* {authority}\n@revoked * {host}\n"),
            format!("@cert-authority *node* {authority}\n@revoked * {authority}\n"),
        ] {
            for (name, strict) in [("yes", Strict::Yes), ("accept-new", Strict::AcceptNew)] {
                let file = dir.join("known");
                fs::write(&file, &known).unwrap();
                let theirs = (printed(dir, name), fs::read_to_string(&file).unwrap());
                fs::write(&file, &known).unwrap();
                let ours = judged(dir, strict, Offered::Certificate(&certificate));
                let ours = (ours, fs::read_to_string(&file).unwrap());
                let theirs = (same(&theirs.0), theirs.1);
                assert_eq!((same(&ours.0), ours.1), theirs, "{name}, {options:?}: {known}");
            }
        }
    }
}
