use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// An `ssh` that counts how often it is asked.
struct Counting {
    dir: TempDir,
}

impl Counting {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config"), config).unwrap();
        Self::script(&dir, "exec ssh \"$@\"");
        Self { dir }
    }

    fn script(dir: &TempDir, end: &str) {
        let count = dir.path().join("count");
        let program = dir.path().join("ssh");
        fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> {}\n{end}\n", count.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("ssh")
    }

    fn options(&self) -> Vec<OsString> {
        let config = self.dir.path().join("config").into_os_string();
        ["-T".into(), "-F".into(), config, "-o".into(), "BatchMode=yes".into()].to_vec()
    }

    fn count(&self) -> usize {
        fs::read_to_string(self.dir.path().join("count")).unwrap().lines().count()
    }

    fn asker(&self) -> Arc<Asker> {
        Arc::new(Asker::new(Context {
            home: self.dir.path().to_owned(),
            uid: 1,
            user: "me".into(),
            host_name: "front".into(),
            environment: Vec::new(),
            exists: &|_| false,
        }))
    }

    async fn ask(&self, asker: &Asker, host: &str) -> Result<Settings, Declined> {
        let program = self.program();
        let options = self.options();
        let question = Question { program: program.as_os_str(), options: &options, host, role: Role::Target };
        asker.settings(question).await
    }
}

#[tokio::test]
async fn one_answer_serves_all_hosts_of_a_class() {
    let ssh = Arc::new(Counting::new("IdentityFile ~/%h\nHost other*\nUser you\n"));
    let asker = ssh.asker();
    let mut tasks = Vec::new();
    for index in 0..50 {
        let (ssh, asker) = (Arc::clone(&ssh), Arc::clone(&asker));
        tasks.push(tokio::spawn(async move { ssh.ask(&asker, &format!("node{index}")).await.unwrap() }));
    }
    for (index, task) in tasks.into_iter().enumerate() {
        let settings = task.await.unwrap();
        assert_eq!(settings.host_name, format!("node{index}"));
        assert_eq!(settings.login.identities, [ssh.dir.path().join(format!("node{index}"))]);
    }
    assert_eq!(ssh.count(), 1);
    assert_eq!(ssh.ask(&asker, "other1").await.unwrap().user, "you");
    assert_eq!(ssh.count(), 2);
}

#[tokio::test]
async fn the_default_algorithms_of_host_keys_are_asked_for_once_if_others_are_configured() {
    let ssh = Counting::new("Host set*\nHostKeyAlgorithms ssh-ed25519\n");
    let asker = ssh.asker();
    for (host, count, is_default) in [("set1", 2, false), ("set2", 2, false), ("node", 3, true)] {
        let settings = ssh.ask(&asker, host).await.unwrap();
        assert_eq!((ssh.count(), settings.algorithms.prefers_known_keys), (count, is_default), "{host}");
    }
}

#[tokio::test]
async fn hosts_whose_names_are_in_a_value_are_asked_for_by_themselves() {
    let ssh = Counting::new("HostName %h.site\n");
    let asker = ssh.asker();
    for host in ["node1", "node2", "node2"] {
        assert_eq!(ssh.ask(&asker, host).await.unwrap().host_name, format!("{host}.site"));
    }
    assert_eq!(ssh.count(), 2);
}

#[tokio::test]
async fn a_derived_answer_is_the_one_that_ssh_would_have_given() {
    let config =
        "Host a* b*\nUser u\nPort 2222\nHost c\nHostName fixed\nHost *\nSendEnv LC_*\nControlPath /x/%h-%p\n";
    let (derived, asked) = (Counting::new(config), Counting::new(config));
    let asker = derived.asker();
    for host in ["anode", "bnode", "Anode", "c", "d", "fixed", "A"] {
        let each = asked.asker();
        let mut expected = asked.ask(&each, host).await;
        // The directories of the two configurations differ.
        if let Ok(settings) = &mut expected {
            settings.login.identities = derived.ask(&asker, host).await.unwrap().login.identities;
        }
        assert_eq!(derived.ask(&asker, host).await, expected);
    }
}

#[tokio::test]
async fn an_ssh_that_fails_declines() {
    let ssh = Counting::new("Nonsense yes\n");
    let refused = ssh.ask(&ssh.asker(), "a").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("`ssh -G` says: ") && text.contains("onsense"), "{text}");
    Counting::script(&ssh.dir, "printf '\\377'");
    assert_eq!(ssh.ask(&ssh.asker(), "a").await, Err(Declined::NotAnswered("prints what is not text")));
    fs::remove_file(ssh.program()).unwrap();
    assert_eq!(ssh.ask(&ssh.asker(), "a").await, Err(Declined::NotAnswered("could not be started")));
    assert!(!Path::new(&ssh.program()).exists());
}
