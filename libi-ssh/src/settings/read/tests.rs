use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

/// What the real `ssh -G` prints with a configuration.
fn dump(config: &str, host: &str) -> Dump {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    fs::write(&file, config).unwrap();
    let mut ssh = Command::new("ssh");
    ssh.args(["-G", "-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-F"]).arg(&file).arg(host);
    let output = ssh.env("SOME", "/some").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Dump::parse(std::str::from_utf8(&output.stdout).unwrap())
}

fn exists_nothing(_: &Path) -> bool {
    false
}

fn context(exists: &(dyn Fn(&Path) -> bool + Sync)) -> Context<'_> {
    let environment = [("SSH_AUTH_SOCK", "/agent"), ("LC_ALL", "C"), ("LANG", "de"), ("SOME", "/some")];
    Context {
        home: "/home/me".into(),
        uid: 1000,
        user: "me".into(),
        host_name: "front.site".into(),
        environment: environment.map(|(name, value)| (name.into(), value.into())).to_vec(),
        exists,
    }
}

fn lists(may_be_shortened: bool) -> HostKeyLists {
    HostKeyLists::Configured { default: dump("", "a").list("HostKeyAlgorithms").unwrap(), may_be_shortened }
}

fn read(config: &str, host: &str) -> Result<Settings, Declined> {
    Settings::from_dump(&dump(config, host), host, Role::Target, &lists(false), &context(&exists_nothing))
}

fn reason(config: &str) -> String {
    read(config, "node1").unwrap_err().to_string()
}

#[test]
fn the_defaults_are_understood() {
    let settings = read("", "Node1").unwrap();
    assert_eq!((settings.named.as_str(), settings.host_name.as_str()), ("Node1", "node1"));
    assert_eq!(settings.port, 22);
    assert_eq!(settings.connect_timeout, None);
    assert_eq!(settings.trust.strict, Strict::Ask);
    assert!(settings.login.identities.contains(&PathBuf::from("/home/me/.ssh/id_ed25519")));
    assert!(settings.login.public_keys && !settings.login.identities_are_named);
    assert_eq!(settings.login.agent.as_deref(), Some(Path::new("/agent")));
    assert!(settings.algorithms.prefers_known_keys && settings.prints_notices);
    assert_eq!(settings.trust.global_files.len(), 2);
}

#[test]
fn values_tokens_and_variables_are_read() {
    let settings = read(
        "HostName %h.Site\nPort 2222\nUser you\nIdentityFile ~/k-%h-%n-%p-%r-%u-%i-%L-%l%%\n\
         IdentityFile ${SOME}/k\nIdentityFile none\nCertificateFile %d/c\nIdentityAgent $SOME\nConnectTimeout 5\n\
         ServerAliveInterval 10\nStrictHostKeyChecking accept-new\nHashKnownHosts yes\nHostKeyAlias Al\n\
         UserKnownHostsFile /known/%h /x\nSendEnv LC_* L?NG\nSetEnv A=b \"C=d e\"\nLogLevel error\nAddressFamily inet6\n\
         ProxyJump you@a:33,[::1]:55,b\nIdentitiesOnly yes\nPubkeyAuthentication no\n\
         HostKeyAlgorithms ssh-ed25519\nBindAddress 10.0.0.1\nCheckHostIP yes\n",
        "Node1",
    )
    .unwrap();
    assert_eq!(settings.host_name, "node1.site");
    let identity = "/home/me/k-node1.site-Node1-2222-you-me-1000-front-front.site%";
    assert_eq!(settings.login.identities, [Path::new(identity), Path::new("/some/k")]);
    assert_eq!(settings.login.certificates, [Path::new("/home/me/c")]);
    assert_eq!(settings.login.agent.as_deref(), Some(Path::new("/some")));
    assert!(
        settings.login.identities_are_named && settings.login.identities_only && !settings.login.public_keys
    );
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(5)));
    assert_eq!(settings.alive_interval, Some(Duration::from_secs(10)));
    assert_eq!(settings.trust.user_files, [Path::new("/known/node1.site"), Path::new("/x")]);
    assert_eq!(settings.trust.strict, Strict::AcceptNew);
    assert!(settings.trust.hashes && settings.trust.checks_address);
    assert_eq!(settings.trust.alias.as_deref(), Some("al"));
    let variables: Vec<String> =
        settings.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables, ["LC_ALL=C", "LANG=de", "A=b", "C=d e"]);
    assert!(settings.prints && !settings.prints_notices && !settings.algorithms.prefers_known_keys);
    assert_eq!(settings.family, AddressFamily::Inet6);
    let jumps: Vec<_> =
        settings.jumps.iter().map(|jump| (jump.user.as_deref(), jump.host.as_str(), jump.port)).collect();
    assert_eq!(jumps, [(Some("you"), "a", Some(33)), (None, "::1", Some(55)), (None, "b", None)]);
}

#[test]
fn what_is_not_understood_is_declined_by_name() {
    for (config, expected) in [
        ("ProxyCommand nc %h %p", "`ProxyCommand` is set"),
        ("ForwardAgent yes", "`ForwardAgent` is `yes`"),
        ("PubkeyAuthentication unbound", "`PubkeyAuthentication` is `unbound`"),
        ("HostbasedAuthentication yes", "`HostbasedAuthentication` is `yes`"),
        ("PKCS11Provider /x.so", "`PKCS11Provider` is `/x.so`"),
        ("AddKeysToAgent yes", "`AddKeysToAgent` is `true`"),
        ("VerifyHostKeyDNS yes", "`VerifyHostKeyDNS` is `true`"),
        ("CanonicalizeHostname yes", "`CanonicalizeHostname` is `true`"),
        ("Compression yes", "`Compression` is `yes`"),
        ("RekeyLimit 1G", "`RekeyLimit` is `1073741824 0`"),
        ("RevokedHostKeys /x", "`RevokedHostKeys` is `/x`"),
        ("KnownHostsCommand /bin/x", "`KnownHostsCommand` is `/bin/x`"),
        ("LogLevel DEBUG", "`LogLevel` is `DEBUG`"),
        ("StdinNull yes", "`StdinNull` is `yes`"),
        ("SessionType none", "`SessionType` is `none`"),
        ("IdentityFile %C", "`IdentityFile` has a path that is not understood: `%C`"),
        ("IdentityFile ~you/k", "`IdentityFile` has a path that is not understood: `~you/k`"),
        ("UserKnownHostsFile \"/a b\"", "`UserKnownHostsFile` has a path that is not understood: `/a b`"),
        ("StrictHostKeyChecking no\nUserKnownHostsFile none", "`UserKnownHostsFile` is `none`"),
    ] {
        assert_eq!(reason(config), expected, "{config}");
    }
    let text = format!("{}\nnewkeyword yes\n", "batchmode yes");
    let unknown =
        Settings::from_dump(&Dump::parse(&text), "a", Role::Target, &lists(false), &context(&exists_nothing));
    assert_eq!(unknown, Err(Declined::Keyword("newkeyword".into())));
    assert_eq!(
        Settings::from_dump(&Dump::parse(""), "a", Role::Target, &lists(false), &context(&exists_nothing)),
        Err(Declined::Missing("BatchMode"))
    );
}

#[test]
fn forwardings_that_are_cleared_do_not_matter() {
    assert!(read("LocalForward 8080 localhost:80\nDynamicForward 1080\n", "a").is_ok());
}

#[test]
fn kerberos_declines_only_where_credentials_may_exist() {
    let config = "GSSAPIAuthentication yes";
    assert!(read(config, "a").is_ok());
    let cache = |file: &Path| file == Path::new("/tmp/krb5cc_1000");
    let refused = Settings::from_dump(&dump(config, "a"), "a", Role::Target, &lists(false), &context(&cache));
    assert_eq!(refused.unwrap_err().to_string(), "`GSSAPIAuthentication` may use Kerberos credentials");
    let mut with_variable = context(&exists_nothing);
    with_variable.environment.push(("KRB5CCNAME".into(), "x".into()));
    assert!(
        Settings::from_dump(&dump(config, "a"), "a", Role::Target, &lists(false), &with_variable).is_err()
    );
}

#[test]
fn a_shared_connection_declines_only_while_it_exists() {
    let dump = dump("ControlPath /run/cm-%h\nControlMaster no", "node1");
    let there = |file: &Path| file == Path::new("/run/cm-node1");
    let read = |exists: &(dyn Fn(&Path) -> bool + Sync)| {
        Settings::from_dump(&dump, "node1", Role::Target, &lists(false), &context(exists))
    };
    assert!(read(&exists_nothing).is_ok());
    assert_eq!(read(&there), Err(Declined::SharedConnection("/run/cm-node1".into())));
}

#[test]
fn security_keys_decline() {
    let there = |file: &Path| file == Path::new("/home/me/.ssh/id_ed25519_sk");
    let refused = Settings::from_dump(&dump("", "a"), "a", Role::Target, &lists(false), &context(&there));
    assert!(matches!(refused, Err(Declined::SecurityKey(_))));
}

#[test]
fn a_list_of_host_keys_that_may_be_a_change_of_the_default_declines() {
    let removed = dump("HostKeyAlgorithms -ssh-ed25519", "a");
    let context = context(&exists_nothing);
    assert_eq!(
        Settings::from_dump(&removed, "a", Role::Target, &lists(true), &context),
        Err(Declined::HostKeyOrder)
    );
    let added = dump("HostKeyAlgorithms +ssh-dss", "a");
    assert!(
        Settings::from_dump(&added, "a", Role::Target, &lists(true), &context)
            .unwrap()
            .algorithms
            .prefers_known_keys
    );
}

#[test]
fn another_host_is_read_from_the_same_dump_if_the_name_stands_for_itself() {
    let config = "IdentityFile ~/k-%h\nUser me\n";
    let first = dump(config, "Node1");
    assert_eq!(first.renamed("Node1", "Node2").unwrap(), dump(config, "Node2"));
    assert_eq!(dump("HostName %h.site", "node1").renamed("node1", "node2"), None);
    assert_eq!(dump("User node1", "node1").renamed("node1", "node2"), None);
    assert_eq!(dump("UserKnownHostsFile /k-%h", "node1").renamed("node1", "node2"), None);
    let short = dump("", "a1");
    assert_eq!(short.renamed("a1", "a2").unwrap(), dump("", "a2"), "hmac-sha1 holds no name");
    assert_eq!(
        dump("HostName fixed", "node1").renamed("node1", "node2").unwrap(),
        dump("HostName fixed", "node2")
    );
}

proptest! {
    #[test]
    fn no_dump_panics(text in "((identityfile|userknownhostsfile|port|setenv|proxyjump|hostname|user|batchmode) [~%$\\{\\}@:\\[\\]a-z0-9 =/,]{0,12}\n|\\PC{0,20}\n){0,12}") {
        let context = Context {
            home: "/h".into(), uid: 1, user: "u".into(), host_name: "l".into(), environment: Vec::new(),
            exists: &exists_nothing,
        };
        let lists = HostKeyLists::Configured { default: Vec::new(), may_be_shortened: false };
        let base = "batchmode yes\nhostname a\nuser b\nciphers a\nmacs a\nkexalgorithms a\nhostkeyalgorithms a\n\
                    pubkeyacceptedalgorithms a\ncasignaturealgorithms a\n";
        for text in [text.clone(), format!("{base}{text}")] {
            let dump = Dump::parse(&text);
            let _ = Settings::from_dump(&dump, "a", Role::Target, &lists, &context);
            let _ = dump.renamed("a", "b");
        }
    }
}
