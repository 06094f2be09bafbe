use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use russh::keys::{Certificate, PublicKey};
use tempfile::TempDir;

use super::judge::{Judgement, Verdict};
use super::*;
use crate::settings::Strict;

/// Made by `ssh-keygen`.
struct Keys {
    dir: TempDir,
}

impl Keys {
    fn new(names: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind) in names {
            keygen(dir.path(), &["-q", "-t", kind, "-N", "", "-C", "c", "-f", name]);
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn line(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap().trim().to_owned()
    }

    fn key(&self, name: &str) -> PublicKey {
        PublicKey::from_openssh(&self.line(name)).unwrap()
    }

    fn certificate(&self, name: &str, options: &[&str]) -> Certificate {
        let public = format!("{name}.pub");
        let arguments = [&["-q", "-s", "ca", "-I", "id"], options, &[public.as_str()]].concat();
        keygen(self.dir.path(), &arguments);
        Certificate::from_openssh(&fs::read_to_string(self.path(&format!("{name}-cert.pub"))).unwrap())
            .unwrap()
    }

    fn trust(&self, strict: Strict, text: &str) -> Trust {
        fs::write(self.path("known"), text).unwrap();
        Trust {
            strict,
            user_files: vec![self.path("known")],
            global_files: vec![PathBuf::from("/nonexistent")],
            alias: None,
            checks_address: false,
            hashes: false,
            trusts_loopback: false,
            rsa_bits: 1024,
            authority_signatures: vec!["ssh-ed25519".into(), "rsa-sha2-512".into()],
            revoked: None,
        }
    }
}

fn keygen(dir: &Path, arguments: &[&str]) {
    let made = Command::new("ssh-keygen").current_dir(dir).args(arguments).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn asked<'a>(offered: Offered<'a>, port: u16) -> Asked<'a> {
    Asked {
        host: "node1",
        port,
        address: Some("10.0.0.1".parse().unwrap()),
        offered,
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
    }
}

fn check(trust: &Trust, key: &PublicKey, port: u16) -> Judgement {
    judge(&KnownHosts::default(), trust, &asked(Offered::Key(key), port))
}

fn texts(judgement: &Judgement) -> Vec<&str> {
    judgement.messages.iter().map(|message| message.text.as_str()).collect()
}

#[test]
fn names_patterns_ports_and_markers_are_found() {
    let keys = Keys::new(&[("a", "ed25519"), ("b", "ecdsa")]);
    let (a, b) = (keys.line("a"), keys.line("b"));
    let trust = keys.trust(
        Strict::Yes,
        &format!(
            "# comment\n\nNode1,other {a}\r\n  node? {b}\n!node1,* {a}\nnode2 {a}\n[node1]:2222 {b}\n\
             @cert-authority * {b}\n@revoked\tnode1 {a}\n@other node1 {a}\n@revoked @revoked node1 {a}\n\
             node1 ssh-rsa {}\nnode1\nnode1 ssh-ed25519 !!!\nnode1 1024 35 123",
            a.split(' ').nth(1).unwrap()
        ),
    );
    let found = |name| {
        let known = KnownHosts::default().lookup(&trust, name);
        known.iter().map(|entry| (entry.line, entry.marker)).collect::<Vec<_>>()
    };
    assert_eq!(
        found("node1"),
        [(3, Marker::Plain), (4, Marker::Plain), (8, Marker::Authority), (9, Marker::Revoked)]
    );
    assert_eq!(found("[node1]:2222"), [(5, Marker::Plain), (7, Marker::Plain), (8, Marker::Authority)]);
}

#[test]
fn names_that_ssh_keygen_has_hashed_are_found() {
    let keys = Keys::new(&[("a", "ed25519")]);
    let a = keys.line("a");
    let mut trust = keys.trust(Strict::Yes, &format!("node1,node2 {a}\n[node3]:22222 {a}\n"));
    keygen(keys.dir.path(), &["-H", "-f", "known"]);
    assert!(fs::read_to_string(&trust.user_files[0]).unwrap().starts_with("|1|"));
    let hosts = KnownHosts::default();
    for (name, lines) in [("node1", 1), ("node2", 1), ("[node3]:22222", 1), ("node3", 0)] {
        assert_eq!(hosts.lookup(&trust, name).len(), lines);
    }
    trust.hashes = true;
    learn(&trust.user_files[0], &["Node4".into()], &keys.key("a").to_bytes().unwrap(), true).unwrap();
    let found =
        Command::new("ssh-keygen").args(["-F", "node4", "-f"]).arg(&trust.user_files[0]).output().unwrap();
    assert!(found.status.success());
    assert_eq!(hosts.lookup(&trust, "node4").len(), 1, "a file is read again when it has changed");
}

#[test]
fn an_unknown_key_is_refused_or_learned() {
    let keys = Keys::new(&[("a", "ed25519")]);
    let a = keys.key("a");
    let yes = check(&keys.trust(Strict::Yes, ""), &a, 22);
    assert_eq!(yes.verdict, Verdict::Unknown);
    assert_eq!(
        texts(&yes),
        [
            "No ED25519 host key is known for node1 and you have requested strict checking.",
            "Host key verification failed."
        ]
    );
    let ask = check(&keys.trust(Strict::Ask, ""), &a, 22);
    assert_eq!(texts(&ask), ["Host key verification failed."]);
    for strict in [Strict::AcceptNew, Strict::No] {
        let trust = keys.trust(strict, "# no end of line");
        let judgement = check(&trust, &a, 2222);
        assert!(judgement.accepted && judgement.messages.is_empty());
        let learned = judgement.learned.unwrap();
        let added = "Warning: Permanently added '[node1]:2222' (ED25519) to the list of known hosts.";
        assert_eq!(learned.added.text, added);
        learn(&trust.user_files[0], &learned.names, &learned.blob, false).unwrap();
        let again = check(&trust, &a, 2222);
        assert!(again.accepted && again.learned.is_none());
    }
}

#[test]
fn a_changed_key_is_refused_in_the_words_of_ssh() {
    let keys = Keys::new(&[("a", "ed25519"), ("b", "ecdsa")]);
    let trust = keys.trust(Strict::AcceptNew, &format!("# first\nnode1 {}\n", keys.line("b")));
    let a = keys.key("a");
    let judgement = check(&trust, &a, 22);
    assert!(!judgement.accepted && judgement.learned.is_none());
    let file = trust.user_files[0].clone();
    assert_eq!(judgement.verdict, Verdict::Changed { file: file.clone(), line: 2 });
    let file = file.display();
    let expected = format!(
        "{0}\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{0}\n\
         IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\n\
         Someone could be eavesdropping on you right now (man-in-the-middle attack)!\n\
         It is also possible that a host key has just been changed.\n\
         The fingerprint for the ED25519 key sent by the remote host is\n{1}.\n\
         Please contact your system administrator.\n\
         Add correct host key in {file} to get rid of this message.\n\
         Offending ECDSA key in {file}:2\n  remove with:\n  ssh-keygen -f \"{file}\" -R \"node1\"\n\
         Host key for node1 has changed and you have requested strict checking.\n\
         Host key verification failed.",
        "@".repeat(59),
        a.fingerprint(russh::keys::HashAlg::Sha256)
    );
    assert_eq!(texts(&judgement).join("\n"), expected);
    let no = check(&Trust { strict: Strict::No, ..trust }, &a, 22);
    assert!(no.accepted && no.learned.is_none());
}

#[test]
fn a_key_of_the_default_port_holds_for_others_unless_another_is_known() {
    let keys = Keys::new(&[("a", "ed25519"), ("b", "ed25519")]);
    let trust = keys.trust(Strict::Yes, &format!("node1 {}\n", keys.line("a")));
    assert!(check(&trust, &keys.key("a"), 2222).accepted);
    let other = check(&trust, &keys.key("b"), 2222);
    assert_eq!(other.verdict, Verdict::Unknown, "not changed: the port may be another host");
    assert_eq!(other.messages.len(), 2);
}

#[test]
fn a_revoked_key_is_refused_whatever_else_is_known() {
    let keys = Keys::new(&[("a", "ed25519")]);
    let a = keys.line("a");
    let trust = keys.trust(Strict::AcceptNew, &format!("node1 {a}\n@revoked * {a}\n"));
    let judgement = check(&trust, &keys.key("a"), 22);
    assert!(!judgement.accepted);
    assert!(matches!(judgement.verdict, Verdict::Revoked { line: 2, .. }));
    assert_eq!(texts(&judgement)[3], "The ED25519 host key for node1 is marked as revoked.");
}

#[test]
fn a_certificate_is_accepted_only_for_its_host_and_time() {
    let keys = Keys::new(&[("ca", "ed25519"), ("a", "ed25519"), ("b", "ed25519")]);
    let trust = keys.trust(Strict::Yes, &format!("@cert-authority node* {}\n", keys.line("ca")));
    let check = |trust: &Trust, options: &[&str]| {
        let certificate = keys.certificate("a", options);
        judge(&KnownHosts::default(), trust, &asked(Offered::Certificate(&certificate), 22))
    };
    let always = ["-V", "20200101:20400101"];
    let good = check(&trust, &[&["-h", "-n", "node1"], &always[..]].concat());
    assert!(good.accepted, "{good:?}");
    for (options, reason) in [
        (&["-n", "node1", "-V", "20200101:20400101"][..], "Certificate invalid: not a host certificate"),
        (&["-h", "-n", "node1", "-V", "20200101:20210101"], "Certificate invalid: expired"),
        (&["-h", "-n", "node1", "-V", "20390101:20400101"], "Certificate invalid: not yet valid"),
        (
            &["-h", "-n", "node2", "-V", "20200101:20400101"],
            "Certificate invalid: name is not a listed principal",
        ),
        (&["-h", "-V", "20200101:20400101"], "Certificate lacks principal list"),
    ] {
        let refused = check(&trust, options);
        assert!(!refused.accepted);
        assert_eq!(texts(&refused)[0], reason);
        assert_eq!(
            texts(&refused)[1],
            "No ED25519 host key is known for node1 and you have requested strict checking."
        );
    }
    let weak = Trust { authority_signatures: vec!["rsa-sha2-512".into()], ..trust };
    let options = ["-h", "-n", "node1", "-V", "20200101:20400101"];
    assert_eq!(texts(&check(&weak, &options))[0], "Certificate signed with disallowed algorithm");
    let other = keys.trust(Strict::Yes, &format!("@cert-authority node* {}\n", keys.line("b")));
    assert!(!check(&other, &options).accepted);
    let plain = keys.trust(Strict::Yes, &format!("node1 {}\n", keys.line("a")));
    assert!(check(&plain, &options).accepted, "the key of a certificate may be known by itself");
}

#[test]
fn an_address_with_another_key_is_refused_if_it_is_checked() {
    let keys = Keys::new(&[("a", "ed25519"), ("b", "ed25519")]);
    let (a, b) = (keys.line("a"), keys.line("b"));
    let checked = |strict, text: &str| Trust { checks_address: true, ..keys.trust(strict, text) };
    let differs = checked(Strict::Yes, &format!("node1 {a}\n10.0.0.1 {b}\n"));
    let refused = check(&differs, &keys.key("a"), 22);
    assert!(!refused.accepted);
    assert_eq!(texts(&refused)[1], "Exiting, you have requested strict checking.");
    let new = check(&checked(Strict::AcceptNew, ""), &keys.key("a"), 22);
    assert_eq!(new.learned.unwrap().names, ["node1,10.0.0.1"]);
    let learned = check(&checked(Strict::Yes, &format!("node1 {a}\n")), &keys.key("a"), 22);
    assert!(learned.accepted);
    assert_eq!(learned.learned.unwrap().names, ["10.0.0.1"]);
}

#[test]
fn short_rsa_keys_are_refused() {
    let keys = Keys::new(&[("a", "rsa")]);
    let trust = Trust { rsa_bits: 4096, ..keys.trust(Strict::Yes, &format!("node1 {}\n", keys.line("a"))) };
    let refused = check(&trust, &keys.key("a"), 22);
    assert_eq!(texts(&refused), ["Bad server host key: Invalid key length"]);
    assert!(check(&Trust { rsa_bits: 1024, ..trust }, &keys.key("a"), 22).accepted);
}

#[test]
fn algorithms_of_known_keys_go_first() {
    let keys = Keys::new(&[("r", "rsa"), ("e", "ed25519")]);
    let list = ["ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"];
    let list: Vec<String> = list.map(str::to_owned).to_vec();
    let order = |prefers, text: &str| {
        let trust = keys.trust(Strict::Yes, text);
        order_of_host_key_algorithms(&list, prefers, &KnownHosts::default().lookup(&trust, "node1")).join(" ")
    };
    let rsa = keys.line("r");
    let verbatim = list.join(" ");
    assert_eq!(order(true, ""), verbatim);
    assert_eq!(order(false, &format!("node1 {rsa}\n")), verbatim);
    assert_eq!(order(true, &format!("node1 {rsa}\nnode1 {}\n", keys.line("e"))), verbatim);
    assert_eq!(
        order(true, &format!("node1 {rsa}\n")),
        "rsa-sha2-512 ssh-ed25519-cert-v01@openssh.com ssh-ed25519 ecdsa-sha2-nistp256"
    );
    assert!(order(true, &format!("node1 {rsa}\n@revoked * {rsa}\n")).starts_with("ssh-ed25519-cert"));
    assert!(
        order(true, &format!("node1 {rsa}\n@cert-authority * {rsa}\n"))
            .starts_with("ssh-ed25519-cert-v01@openssh.com rsa-sha2-512")
    );
}

#[test]
fn a_new_directory_and_file_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let keys = Keys::new(&[("a", "ed25519")]);
    let file = keys.path(".ssh/known_hosts");
    learn(&file, &["a".into()], &keys.key("a").to_bytes().unwrap(), false).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
}

proptest! {
    #[test]
    fn no_file_panics(text in "(@(revoked|cert-authority)? |\\|1\\||[!*?,a\\[\\]: \t\r\n#=|@]|ssh-rsa|AAAA|\\PC){0,60}") {
        let lines = Lines::parse(text.into_bytes());
        let _ = lines.lookup("a", Path::new("f")).count();
    }

    #[test]
    fn no_bytes_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Lines::parse(text).lookup("a", Path::new("f")).count();
    }

    #[test]
    fn patterns_match_as_the_plain_definition_says(name in "[ab]{0,8}", pattern in "[ab*?]{0,8}") {
        fn defined(name: &[u8], pattern: &[u8]) -> bool {
            match (pattern, name) {
                ([], name) => name.is_empty(),
                ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| defined(&name[taken..], rest)),
                ([b'?', rest @ ..], [_, name @ ..]) => defined(name, rest),
                ([first, rest @ ..], [byte, name @ ..]) => first == byte && defined(name, rest),
                _ => false,
            }
        }
        prop_assert_eq!(matches(name.as_bytes(), pattern.as_bytes()), defined(name.as_bytes(), pattern.as_bytes()));
    }
}
