use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn context(home: &Path) -> Context<'static> {
    Context {
        home: home.to_owned(),
        uid: 1,
        user: "me".into(),
        host_name: "front".into(),
        environment: Vec::new(),
        exists: &|_| false,
    }
}

fn home(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".ssh/d")).unwrap();
    for (name, text) in files {
        fs::write(home.path().join(".ssh").join(name), text).unwrap();
    }
    home
}

/// With `-F`, so that the configuration of this machine does not matter.
fn scan(config: &str, options: &[&str]) -> Scan {
    let home = home(&[("config", config), ("d/a.conf", "Host inc*\n"), ("d/.hidden.conf", "Match user x\n")]);
    let file = home.path().join(".ssh/config").into_os_string();
    let options = options.iter().flat_map(|option| ["-o".into(), OsString::from(option)]);
    Scan::of(&["-F".into(), file].into_iter().chain(options).collect::<Vec<_>>(), &context(home.path()))
}

#[test]
fn hosts_that_match_the_same_lines_are_one_class() {
    let scan = scan(
        "Host node* !node9\n User a\nhost=other *.site # comment\nMatch final all\n",
        &["ConnectTimeout=5"],
    );
    assert_eq!(scan.class("node1"), scan.class("node2"));
    assert_ne!(scan.class("node1"), scan.class("node9"));
    assert_eq!(scan.class("x.site"), scan.class("other"));
    assert_eq!(scan.class("node9"), Class::Shared(vec![false, false]));
}

#[test]
fn included_files_are_read() {
    for include in ["Include d/*.conf", "Include ~/.ssh/d/a.conf", "include d/a.conf"] {
        let scan = scan(&format!("{include}\nHost b\n"), &[]);
        assert_eq!(scan.class("include"), Class::Shared(vec![true, false]), "{include}");
    }
    assert_eq!(scan("Include d/missing\nInclude d/*.none\n", &[]).class("a"), Class::Shared(vec![]));
}

#[test]
fn what_may_distinguish_hosts_gives_each_a_class_of_its_own() {
    for config in [
        "Match host a*\n",
        "Match exec \"true\"\n",
        "Match !all\n",
        "Host \"a\"\n",
        "Include d/[ab].conf\n",
        "Include */a.conf\n",
        "Include ${X}\n",
        "Include config\n",
        "ControlPath ~/.ssh/%C\n",
        "HostName node1\n",
        "\"Match\" user a\n",
    ] {
        assert_eq!(scan(config, &[]).class("node1"), Class::Own("node1".into()), "{config}");
    }
    for option in ["Match all", "Host=a", "Include=x", "ControlPath=/x/%C"] {
        let class = scan("", &[option]).class("a");
        assert!(class == Class::Own("a".into()) || option == "Match all", "{option}");
    }
    let missing = Scan::of(&["-F".into(), "/nonexistent".into()], &context(Path::new("/nonexistent")));
    assert_eq!(missing.class("a"), Class::Own("a".into()));
    let none = Scan::of(&["-F".into(), "none".into()], &context(Path::new("/nonexistent")));
    assert_eq!(none, Scan::default());
}

#[test]
fn removed_algorithms_of_host_keys_are_noticed() {
    assert!(scan("HostKeyAlgorithms -ssh-rsa\n", &[]).may_shorten_host_keys);
    assert!(scan("", &["hostkeyalgorithms=-ssh-rsa"]).may_shorten_host_keys);
    let set = scan("HostKeyAlgorithms ssh-ed25519,rsa-sha2-512\n", &[]);
    assert!(set.may_set_host_keys && !set.may_shorten_host_keys);
    assert!(!scan("Host a\nUser b\n", &["Ciphers=-aes128-ctr"]).may_set_host_keys);
    for unknown in ["Include $HOME/x\n", "Include \"x\"\n"] {
        assert!(scan(unknown, &[]).may_set_host_keys, "{unknown}");
    }
}

proptest! {
    #[test]
    fn no_configuration_panics(text in "((Host|Match|Include|HostName)[ =]([a\\*\\?!~/\"%#\\[]|\\PC){0,8}\n){0,6}") {
        let _ = scan(&text, &[]).class("a");
    }
}
