//! What the ssh that is installed makes of the options, as it says itself (`ssh -G`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use libi_core::wire::{Kind, Limits, Parsed, decode_control, encode_control, parse};

use super::super::Backend;
use super::super::tests::{host, program, word};
use super::*;

/// A configuration that would break a launch in every way that one can.
const NASTY: &str = "
IgnoreUnknown SomethingNew
SomethingNew yes
Host *
  BatchMode no
  RequestTTY force
  EscapeChar ~
  ForwardX11 yes
  Tunnel yes
  LocalForward 8080 localhost:80
  RemoteForward 8081 localhost:80
  DynamicForward 1080
  ExitOnForwardFailure yes
  PermitLocalCommand yes
  LocalCommand echo connected
  ControlMaster auto
  ControlPersist yes
  ConnectTimeout 1000
  Compression yes
  GSSAPIAuthentication yes
  UpdateHostKeys yes
  KexAlgorithms diffie-hellman-group14-sha256
";

/// The same configuration says who is trusted, which is to stay so.
const TRUST: [(&str, &str); 9] = [
    ("StrictHostKeyChecking", "accept-new"),
    ("UserKnownHostsFile", "/keys/known"),
    ("IdentityFile", "/keys/mine"),
    ("IdentitiesOnly", "yes"),
    ("IdentityAgent", "/keys/agent"),
    ("ForwardAgent", "yes"),
    ("ProxyJump", "gate.example"),
    ("GSSAPIDelegateCredentials", "yes"),
    ("ControlPath", "/keys/open"),
];

/// A configuration file in a directory of its own.
struct Config(PathBuf);

impl Config {
    fn new(text: &str) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("libi-ssh-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let config = Self(directory);
        std::fs::write(config.0.join("config"), text).unwrap();
        config
    }

    fn nasty() -> Self {
        let trust = TRUST.map(|(name, value)| format!("  {name} {value}\n"));
        Self::new(&[NASTY, &trust.concat()].concat())
    }

    fn word(&self) -> OsBytes {
        word(self.0.join("config").to_str().unwrap())
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The settings with which ssh would make this launch, each name in small letters; nothing if there
/// is no ssh.
fn settings(ssh: &Ssh, task: &HostSpec) -> Option<BTreeMap<String, String>> {
    let spec = ssh.spawn_spec(task, &program()).unwrap();
    let words = spec.args.iter().map(ToString::to_string);
    let output = match Command::new("ssh").arg("-G").args(words).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "ssh: {error}, with CI=true");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("onfiguration"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().filter_map(|line| line.split_once(' ')).map(own).collect())
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_lowercase(), value.to_owned())
}

fn options(spec: &SpawnSpec) -> Vec<String> {
    let args: Vec<_> = spec.args.iter().map(ToString::to_string).collect();
    args.windows(2).filter(|pair| pair[0] == "-o").map(|pair| pair[1].clone()).collect()
}

#[test]
fn no_configuration_keeps_ssh_from_being_a_plain_pipe() {
    let config = Config::nasty();
    for profile in [SshProfile::Own, SshProfile::Fast] {
        let ssh = Ssh { config: Some(config.word()), profile, ..Ssh::new() };
        let Some(settings) = settings(&ssh, &host("n1", None, None)) else { return };
        for (name, value) in [
            ("batchmode", "yes"),
            ("requesttty", "false"),
            ("escapechar", "none"),
            ("clearallforwardings", "yes"),
            ("forwardx11", "no"),
            ("tunnel", "false"),
            ("permitlocalcommand", "no"),
            ("controlmaster", "false"),
            ("connecttimeout", "10"),
            ("hostname", "n1"),
        ] {
            assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name} with {profile}");
        }
        for forward in ["localforward", "remoteforward", "dynamicforward"] {
            assert_eq!(settings.get(forward), None, "{profile}");
        }
    }
}

#[test]
fn who_is_trusted_is_the_users_in_both_profiles() {
    let config = Config::nasty();
    for profile in [SshProfile::Own, SshProfile::Fast] {
        let ssh = Ssh { config: Some(config.word()), profile, ..Ssh::new() };
        let Some(settings) = settings(&ssh, &host("n1", None, None)) else { return };
        for (name, value) in TRUST {
            assert_eq!(settings.get(&name.to_lowercase()).map(String::as_str), Some(value), "{name}");
        }
    }
}

#[test]
fn the_fast_profile_sets_what_it_says_and_nothing_else() {
    let config = Config::nasty();
    let [own, fast] = [SshProfile::Own, SshProfile::Fast].map(|profile| {
        settings(&Ssh { config: Some(config.word()), profile, ..Ssh::new() }, &host("n1", None, None))
    });
    let (Some(own), Some(fast)) = (own, fast) else { return };
    let differ = |other: &BTreeMap<String, String>| -> Vec<String> {
        fast.iter()
            .filter(|(name, value)| other.get(*name) != Some(value))
            .map(|(name, _)| name.clone())
            .collect()
    };
    assert_eq!(differ(&own), ["compression", "gssapiauthentication", "kexalgorithms", "updatehostkeys"]);
    assert_eq!(own["kexalgorithms"], "diffie-hellman-group14-sha256");
    for name in ["compression", "gssapiauthentication"] {
        assert_eq!(fast[name], "no");
    }
    assert_eq!(fast["updatehostkeys"], "false");

    // Everything that ssh would offer by itself is still offered.
    let operand = Config::new("");
    let operand = Ssh { config: Some(operand.word()), ..Ssh::new() };
    let all = settings(&operand, &host("n1", None, None)).unwrap();
    let sorted = |list: &str| {
        let mut all: Vec<_> = list.split(',').map(str::to_owned).collect();
        all.sort_unstable();
        all
    };
    let kex = &fast["kexalgorithms"];
    assert!(kex.starts_with("curve25519-sha256,curve25519-sha256@libssh.org,"), "{kex}");
    assert_eq!(sorted(kex), sorted(&all["kexalgorithms"]));
}

#[test]
fn options_of_a_host_come_before_those_of_the_session_and_these_before_ours() {
    let some = |hosts: &str, option: &str| SshHosts {
        hosts: HostList::parse(hosts).unwrap(),
        options: vec![word(option)],
    };
    let ssh = Ssh {
        profile: SshProfile::Fast,
        options: vec![word("LogLevel=ERROR"), word("Compression=yes"), word("BatchMode=no")],
        hosts: vec![some("n[1-3]", "LogLevel=VERBOSE"), some("me@n2", "ConnectTimeout=77")],
        connect_timeout: Duration::from_millis(1_200),
        ..Ssh::new()
    };
    let cases = [
        (host("n1", None, None), ["VERBOSE", "2"]),
        (host("n2", Some("me"), None), ["VERBOSE", "77"]),
        (host("n2", Some("you"), None), ["VERBOSE", "2"]),
        (host("n4", None, None), ["ERROR", "2"]),
    ];
    for (task, [level, timeout]) in cases {
        let Some(settings) = settings(&ssh, &task) else { return };
        assert_eq!((settings["loglevel"].as_str(), settings["connecttimeout"].as_str()), (level, timeout));
        assert_eq!((settings["compression"].as_str(), settings["batchmode"].as_str()), ("yes", "yes"));
    }
}

#[test]
fn user_port_and_address_are_those_of_the_host_list() {
    let config = Config::new("Host *\n  User other\n  Port 99\n");
    let ssh = Ssh { config: Some(config.word()), options: vec![word("User=third")], ..Ssh::new() };
    for name in ["n1", "2001:db8::7", "fe80::1%eth0", "192.0.2.1"] {
        let Some(settings) = settings(&ssh, &host(name, Some("me"), Some(2222))) else { return };
        let seen = ["user", "port", "hostname"].map(|name| settings[name].as_str());
        assert_eq!(seen, ["me", "2222", name]);
    }
    for task in [host("-oProxyCommand=x", None, None), host("n", Some("-v"), None)] {
        assert!(matches!(ssh.spawn_spec(&task, &program()), Err(SpecError::OptionLike { .. })));
    }
}

#[test]
fn what_is_always_set_was_known_to_ssh_4_3() {
    let old = [
        "BatchMode",
        "ClearAllForwardings",
        "ConnectTimeout",
        "ControlMaster",
        "EscapeChar",
        "ForwardX11",
        "PermitLocalCommand",
        "Tunnel",
    ];
    let spec = Ssh::new().spawn_spec(&host("n1", Some("me"), Some(22)), &program()).unwrap();
    for option in options(&spec) {
        assert!(old.contains(&option.split('=').next().unwrap()), "{option}");
    }
    let letters: Vec<_> =
        spec.args.iter().map(ToString::to_string).filter(|arg| arg.starts_with('-')).collect();
    assert!(letters.iter().all(|letter| ["-T", "-l", "-p", "-o"].contains(&letter.as_str())), "{letters:?}");
}

#[test]
fn no_nested_ssh_asks_questions() {
    let spec = Ssh::new().spawn_spec(&host("n1", None, None), &program()).unwrap();
    let env: Vec<_> = spec.env.iter().map(|set| format!("{}={}", set.name(), set.value())).collect();
    assert_eq!(env, ["SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force"]);
    assert_eq!((spec.channel, spec.cwd), (Channel::Streams, None));
}

#[test]
fn it_travels_as_it_is() {
    let hosts = vec![SshHosts { hosts: HostList::parse("n[1-9]").unwrap(), options: vec![word("Port=2")] }];
    let ssh = Ssh { hosts, profile: SshProfile::Fast, config: Some(word("/c")), ..Ssh::new() };
    let backend = Backend::Ssh(ssh);
    let mut sent = Vec::new();
    encode_control(&mut sent, Kind::Control, 0, &backend, &Limits::AUTHENTICATED).unwrap();
    let Ok(Parsed::Frame { frame, .. }) = parse(&sent, &Limits::AUTHENTICATED) else { panic!("no frame") };
    assert_eq!(decode_control::<Backend>(&frame).unwrap(), backend);
    for profile in [SshProfile::Own, SshProfile::Fast] {
        assert_eq!(profile.to_string().parse(), Ok(profile));
    }
    assert!("faster".parse::<SshProfile>().is_err());
}
