//! What real servers and clients do when a launch cannot succeed, and what is said of it: each verdict comes in time and names
//! the cause in the words of whoever knows it. `--nocapture` prints the table.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use libi::{Distribution, Error, FrontEnd, LaunchOptions, LaunchReport, Links, Rules, Shell, Via, Word};

use crate::lab::{Marked, Sshd};

/// How long a host may say nothing.
const GREET: Duration = Duration::from_secs(4);
/// How long everything else may take, on a machine that does much else.
const SLACK: Duration = Duration::from_secs(8);
const DEADLINE: Duration = Duration::from_secs(60);

/// A launch that fails.
struct Row<'a> {
    what: &'a str,
    host: String,
    via: Via,
    change: Box<dyn Fn(&mut Distribution) + 'a>,
    /// What is done when there is a verdict, before nothing may be left.
    then: Box<dyn Fn() + 'a>,
    /// Each has to be in the verdict.
    says: &'a [&'a str],
    within: Duration,
}

impl<'a> Row<'a> {
    fn new(what: &'a str, via: Via, says: &'a [&'a str]) -> Self {
        Self {
            what,
            host: "n5".to_owned(),
            via,
            change: Box::new(|_| ()),
            then: Box::new(|| ()),
            says,
            within: SLACK,
        }
    }

    fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    fn user(self, user: &str) -> Self {
        let host = format!("{user}@{}", self.host);
        self.host(&host)
    }

    fn with(mut self, change: impl Fn(&mut Distribution) + 'a) -> Self {
        self.change = Box::new(change);
        self
    }

    fn then(mut self, then: impl Fn() + 'a) -> Self {
        self.then = Box::new(then);
        self
    }

    /// Only libi itself can know.
    fn hangs(mut self) -> Self {
        self.within = GREET + SLACK;
        self
    }

    /// Launches it, and gives the verdict.
    fn play(&self, member: &str) -> Arc<LaunchReport> {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let mut members = mark.program(member, &self.host, &["join", "finish:30000"]);
        (self.change)(&mut members);
        let rules = Rules { greet: GREET, attempts: 1, grace: Duration::from_secs(1), ..Rules::default() };
        let options = LaunchOptions {
            via: self.via.clone(),
            deadline: DEADLINE,
            rules,
            links: Links::Channel,
            ..LaunchOptions::default()
        };
        let launched = front.launch(&[members], &options);
        (self.then)();
        match launched {
            Err(Error::NotLaunched(report)) => report,
            Err(error) => panic!("{}: {error}", self.what),
            Ok(_) => panic!("{} does not keep it from joining", self.what),
        }
    }
}

/// A server that is none: what it does with those who connect. It ends with this.
struct Fake {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl Fake {
    fn new(serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.1.6:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                if over.load(SeqCst) {
                    break;
                }
                serve(caller);
            }
        });
        Self { port, is_over }
    }

    fn via(&self, lab: &Sshd, options: &[&str]) -> Via {
        let port = format!("Port={}", self.port);
        lab.via("main", &[options, &[port.as_str()]].concat())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(("127.0.1.6", self.port));
    }
}

/// Keeps whom it is given until they hang up.
fn keep(mut caller: TcpStream) {
    std::thread::spawn(move || while caller.read(&mut [0; 512]).is_ok_and(|count| count > 0) {});
}

/// ssh in a network of its own, which is like this.
fn in_network(lab: &Sshd, network: &str, options: &[&str]) -> Via {
    let Via::Shell(ssh) = lab.via("main", options) else { unreachable!("that is what it is") };
    let script = format!("ip link set lo up; {network}; exec ssh \"$@\"");
    let before = ["-n", "sh", "-c", &script, "sh"].map(|word| Word::new(word).unwrap());
    let args = before.into_iter().chain(ssh.args).collect();
    Via::Shell(Shell { args, ..Shell::new(Word::new("unshare").unwrap()) })
}

fn word(text: &str) -> Word {
    Word::new(text).unwrap()
}

fn mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The longest line of a table's column is this long.
fn cut(text: &str) -> String {
    text.chars().take(150).collect()
}

#[test]
fn every_failure_has_a_verdict_in_time_that_names_the_cause() {
    let Some(lab) = Sshd::up() else { return };
    let lab = &*lab;
    let main = |options: &[&str]| lab.via("main", options);

    let no_keys = "UserKnownHostsFile=/dev/null";
    // The client's own key is certainly not the server's.
    let client_key = std::fs::read_to_string(lab.path("key.pub")).unwrap();
    let others = lab.path("others.known_hosts");
    std::fs::write(&others, format!("[127.*]:{} {client_key}", lab.port("main"))).unwrap();
    let changed = format!("UserKnownHostsFile={others}");

    let stranger = lab.path("host_key"); // nobody is let in by that
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
                nft add chain inet t c '{ type filter hook input priority 0; }'; nft add rule inet t c tcp dport 22 drop";
    let barred = "ip route add unreachable 10.9.9.0/24";
    let far = ["ConnectTimeout=2"];
    let missing = Shell { args: Vec::new(), ..Shell::new(word("no-such-ssh")) };

    // Its shell goes on when it is let, and what it starts then is not wanted any more.
    let let_go = || {
        let gate = std::fs::File::options().write(true).open(lab.home(&hangs).join("gate"));
        gate.and_then(|mut gate| gate.write_all(b"\n")).unwrap();
    };
    let rows = [
        Row::new("the name does not resolve", main(&[]), &["Could not resolve hostname"])
            .host("no-such-host.invalid"),
        Row::new("nobody listens at the port", main(&["Port=1"]), &["Connection refused"]),
        Row::new("packets vanish", in_network(lab, lost, &far), &["Connection timed out"]).host("10.9.9.9"),
        Row::new(
            "packets vanish, and ssh is patient",
            in_network(lab, lost, &[]),
            &["timed out while starting"],
        )
        .host("10.9.9.9")
        .hangs(),
        Row::new("there is no network", in_network(lab, "true", &far), &["Network is unreachable"])
            .host("10.9.9.9"),
        Row::new("there is no route", in_network(lab, barred, &far), &["No route to host"]).host("10.9.9.9"),
        Row::new("the host's key is not known", main(&[no_keys]), &["the host's key is not known"]),
        Row::new("the host's key has changed", main(&[&changed]), &["the host's key has changed"]),
        Row::new("the user's key is refused", lab.via("strict", &[]), &["Permission denied"]),
        Row::new("the server wants a password", lab.via("passwords", &[]), &["Permission denied (password)"]),
        Row::new(
            "two keys are one too many",
            lab.via("impatient", &[&stranger_key]),
            &["Too many authentication failures"],
        ),
        Row::new("the user does not exist", main(&[]), &["Permission denied"]).user("libi-nobody"),
        Row::new("the user's shell does not exist", main(&[]), &["Permission denied"]).user(&no_shell),
        Row::new(
            "the user's shell is nologin",
            main(&[]),
            &["exited 1", "This account is currently not available"],
        )
        .user(&no_login),
        Row::new("MaxStartups are taken", lab.via("full", &[]), &["exited 255", "Connection "]).hangs(),
        Row::new("MaxSessions is 0", lab.via("nosessions", &[]), &["exited 255", "open failed"]),
        Row::new(
            "ForceCommand is another program",
            lab.via("other", &[]),
            &["exited 0 without joining", "this is a mail server"],
        ),
        Row::new(
            "sshd is killed when it has started the command",
            lab.via("dying", &[]),
            &["exited 255", "the connection broke"],
        ),
        Row::new(
            "the server leaves in the midst of its greeting",
            leaving.via(lab, &[]),
            &["exited 255", "Connection "],
        )
        .hangs(),
        Row::new("the server leaves at once", gone.via(lab, &[]), &["exited 255", "Connection "]).hangs(),
        Row::new("the server says nothing", silent.via(lab, &[]), &["timed out while starting"]).hangs(),
        Row::new(
            "the server says nothing, and ssh is not patient",
            silent.via(lab, &far),
            &["exited 255", "timed out"],
        ),
        Row::new("the server is something else", web.via(lab, &[]), &["exited 255", "invalid"]),
        Row::new("there is no such ssh here", Via::Shell(missing), &["cannot be started", "no-such-ssh"]),
        Row::new("ssh does not know an option", main(&["NoSuchOption=1"]), &["exited 255", "line 0"]),
        Row::new("the proxy ends", main(&["ProxyCommand=false"]), &["exited 255", "UNKNOWN port 65535"])
            .hangs(),
        Row::new("there is no such program", main(&[]), &["exited 127", "/no/such/program"])
            .with(|members| members.executable = word("/no/such/program")),
        Row::new("the program cannot be executed", main(&[]), &["exited 126", "Permission denied"])
            .with(|members| members.executable = word(&not_executable)),
        Row::new(
            "the directory does not exist",
            main(&[]),
            &["exited 125", "cannot change to directory /no/such/directory"],
        )
        .with(|members| members.cwd = Some(word("/no/such/directory"))),
        Row::new("the profile exits", main(&[]), &["exited 3", "this host is being serviced"]).user(&exits),
        Row::new("the profile hangs", main(&[]), &["timed out while starting"])
            .user(&hangs)
            .hangs()
            .then(let_go),
        Row::new(
            "there may be no more processes",
            main(&[]),
            &["exited 70", "Resource temporarily unavailable"],
        )
        .user(&poor),
        Row::new("the program ends before it joins", main(&[]), &["exited 7"])
            .with(|members| members.args = vec![word("exit:7")]),
        // It knows nothing of us, so it ends when it likes.
        Row::new("the program never joins", main(&[]), &["timed out while starting"])
            .with(|members| members.args = vec![word("sleep:6000")])
            .hangs(),
        Row::new("the program is not one of ours", main(&[]), &["exited 0 without joining"])
            .with(|members| members.executable = word("/bin/true")),
    ];
    let mut wrong = Vec::new();
    for row in &rows {
        let began = Instant::now();
        let report = row.play(&lab.member());
        let (took, failure) = (began.elapsed(), report.hosts()[0].failure.as_ref().unwrap());
        let verdict = report.to_string();
        let line = verdict.lines().nth(1).unwrap_or_default().trim();
        println!("{:48} {:>8.3} s  {}", row.what, took.as_secs_f64(), cut(line));
        let missing: Vec<_> = row.says.iter().filter(|words| !verdict.contains(**words)).collect();
        if !missing.is_empty() || took > row.within {
            wrong.push(format!("{}: {missing:?} missing, {took:?}:\n{verdict}\n{failure:?}", row.what));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
    assert!(rows.len() >= 20);
    drop(occupant);
    for server in ["strict", "passwords", "nosessions", "other", "dying", "impatient", "full"] {
        lab.stop(server);
    }
}
