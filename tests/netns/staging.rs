//! Files that are staged to hosts that share no file system.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use libi::{
    Agent, Cause, Delivery, Distribution, Exit, FrontEnd, LaunchOptions, OsBytes, Policy, Programs, Staging,
};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::{native, programs};

use crate::options;

/// The hosts get memory of their own, of this size, where files may be staged.
fn with_private_mounts(network: &Network, host: &str, size: &str) {
    for place in ["/dev/shm", "/tmp"] {
        network.run(host, &format!("mount -t tmpfs -o mode=1777,size={size} tmpfs {place}"));
    }
}

/// What is in the places of a host.
fn staged(network: &Network, host: &str) -> String {
    network.run(host, "ls -d /dev/shm/libi-* /tmp/libi-* 2>/dev/null || :")
}

/// A directory for what is compiled.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = native::scratch().join(format!("netns-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (file, made) = (self.0.join(format!("{name}.c")), self.0.join(name));
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg(&file).arg("-o").arg(&made).arg("-L").arg(&self.0).args(flags);
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
        made
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An agent that is sent to each host.
fn sent_agent() -> Agent {
    let agent = Agent::new(OsBytes::try_from("/no/such/libi-agent").unwrap());
    agent.delivery(Delivery::of(fs::read(programs::agent()).unwrap()))
}

/// An agent that every host has, so that it takes no room where files are staged.
fn installed_agent(network: &Network) -> Agent {
    let path = Path::new(&network.member()).with_file_name("agent");
    fs::copy(programs::agent(), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Agent::new(OsBytes::new(path.as_os_str().as_bytes()).unwrap())
}

fn with_files(network: &Network, agent: Agent, staging: Staging) -> LaunchOptions {
    options(network.backend()).agent(agent).programs(Programs::Any).stage(staging)
}

/// Runs a program on three hosts; each prints this.
fn prints(options: &LaunchOptions, program: &Path, expected: &str) {
    let front = FrontEnd::new().unwrap();
    let session = launch_with(&front, &[Distribution::new(program).hosts("h[1-3]")], options);
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    (0..session.size()).for_each(|rank| assert_eq!(heard.out(rank), expected, "rank {rank}"));
}

#[test]
fn executables_and_private_libraries_reach_hosts_that_share_no_files() {
    let Some(network) = Network::of(3) else { return };
    let hosts = ["h1", "h2", "h3"];
    hosts.iter().for_each(|host| with_private_mounts(&network, host, "400m"));
    let scratch = Scratch::new("programs");
    let main = |what: &str| format!("#include <stdio.h>\n{what}");
    let large = "static const char text[20000000] = { 'x', 1 };\n\
                 int main(int count, char **words) { (void)words; return printf(\"%c\\n\", text[count - 1]) < 0; }";
    let large = scratch.compile("large", &main(large), &["-static"]);
    assert!(fs::metadata(&large).unwrap().len() > 20_000_000);
    prints(&with_files(&network, sent_agent(), Staging::new().file(&large).unwrap()), &large, "x\n");

    let place = scratch.0.to_str().unwrap().to_owned();
    let path = format!("-Wl,-rpath,{place}");
    for (name, number) in [("one", 1), ("two", 2), ("three", 3)] {
        let source = format!("int {name}(void) {{ return {number}; }}");
        scratch.compile(&format!("lib{name}.so"), &source, &["-shared", "-fPIC"]);
    }
    let source = "int one(void); int two(void); int three(void);\n\
                  int main(void) { return printf(\"%d\\n\", one() + two() + three()) < 0; }";
    let dynamic = scratch.compile("dynamic", &main(source), &["-lone", "-ltwo", "-lthree", &path]);
    let staging = Staging::new().file(&dynamic).unwrap().with_libraries().unwrap();
    assert_eq!(staging.files().len(), 4);
    let options = with_files(&network, sent_agent(), staging);
    // From here on the libraries are nowhere but in the staged files.
    ["one", "two", "three"].iter().for_each(|name| {
        fs::remove_file(scratch.0.join(format!("lib{name}.so"))).unwrap();
    });
    prints(&options, &dynamic, "6\n");
    hosts.iter().for_each(|host| assert_eq!(staged(&network, host), "", "{host}"));
}

/// How many bytes a host has sent since it exists.
fn sent_by(network: &Network, host: &str) -> u64 {
    let count =
        "sed 's/:/ /' /proc/net/dev | awk 'NR > 2 && $1 != \"lo\" { sent += $10 } END { print sent }'";
    let counted = network.run(host, count);
    counted.trim().parse().unwrap_or_else(|_| panic!("{host} has sent {counted:?}"))
}

#[test]
fn a_long_file_leaves_each_host_once_whatever_the_tree() {
    const LENGTH: u64 = 20_000_000;
    let Some(network) = Network::of(6) else { return };
    let hosts = ["h1", "h2", "h3", "h4", "h5", "h6"];
    hosts.iter().for_each(|host| with_private_mounts(&network, host, "400m"));
    let scratch = Scratch::new("long");
    let data = scratch.0.join("data");
    fs::File::create(&data).unwrap().set_len(LENGTH).unwrap();
    let agent = installed_agent(&network);
    for tree in ["flat", "late"] {
        let before = hosts.map(|host| sent_by(&network, host));
        let staging = Staging::new().file(&data).unwrap();
        let options = with_files(&network, agent.clone(), staging).strategy(tree.parse().unwrap());
        let front = FrontEnd::new().unwrap();
        let sizes = Distribution::new("sh").args(["-c", "wc -c <$LIBI_STAGE/data"]).hosts("h[1-6]");
        let session = launch_with(&front, &[sizes], &options);
        let heard = Heard::all(&front);
        (0..session.size()).for_each(|rank| assert_eq!(heard.out(rank), format!("{LENGTH}\n")));
        drop((session, front));
        let sent: [u64; 6] = std::array::from_fn(|host| sent_by(&network, hosts[host]) - before[host]);
        let copies = sent.map(|bytes| bytes / LENGTH);
        assert_eq!(copies.iter().sum::<u64>(), 5, "{tree}: {sent:?}");
        assert!(copies.iter().all(|count| *count <= 1), "{tree}: {sent:?}");
    }
}

#[test]
fn a_long_file_arrives_where_some_hosts_or_none_reach_each_other() {
    const LENGTH: u64 = 4_000_000;
    let Some(network) = Network::of(4) else { return };
    let scratch = Scratch::new("walls");
    let data = scratch.0.join("data");
    fs::File::create(&data).unwrap().set_len(LENGTH).unwrap();
    let agent = installed_agent(&network);
    let stages = || {
        let options = with_files(&network, agent.clone(), Staging::new().file(&data).unwrap());
        let front = FrontEnd::new().unwrap();
        let sizes = Distribution::new("sh").args(["-c", "wc -c <$LIBI_STAGE/data"]).hosts("h[1-4]");
        let session = launch_with(&front, &[sizes], &options);
        let heard = Heard::all(&front);
        (0..session.size()).for_each(|rank| assert_eq!(heard.out(rank), format!("{LENGTH}\n")));
    };
    for (from, to) in [("h2", "h3"), ("h3", "h2"), ("h3", "h4"), ("h4", "h2")] {
        network.drop_from_to(from, to, 100, "tcp");
    }
    stages();
    network.drop_from_to(ALL, ALL, 100, "tcp");
    stages();
}

#[test]
fn a_full_disk_costs_its_host_and_is_the_cause() {
    let Some(network) = Network::of(3) else { return };
    with_private_mounts(&network, "h1", "400m");
    with_private_mounts(&network, "h2", "8m");
    with_private_mounts(&network, "h3", "400m");
    network.run("h2", "mount -t tmpfs -o mode=1777,size=8m tmpfs $(getent passwd libi-net | cut -d: -f6)");
    let scratch = Scratch::new("full");
    let data = scratch.0.join("data");
    fs::File::create(&data).unwrap().set_len(16_000_000).unwrap();
    let agent = installed_agent(&network);
    let options = with_files(&network, agent, Staging::new().file(&data).unwrap()).policy(Policy::AtLeast(2));
    let front = FrontEnd::new().unwrap();
    let sizes = Distribution::new("sh").args(["-c", "wc -c <$LIBI_STAGE/data"]).hosts("h[1-3]");
    let session = launch_with(&front, &[sizes], &options);
    let report = session.report().unwrap();
    let failed: Vec<_> =
        report.failed().map(|(host, failure)| (host.name.as_str(), failure.cause.clone())).collect();
    let [("h2", Cause::NotStaged(why))] = &failed[..] else { panic!("{report}") };
    assert!(why.contains("/dev/shm: ") && why.contains("No space left on device"), "{why}");
    let heard = Heard::all(&front);
    assert_eq!([heard.out(0), heard.out(2)], ["16000000\n", "16000000\n"]);
    drop((session, front));
    ["h1", "h2", "h3"].iter().for_each(|host| assert_eq!(staged(&network, host), "", "{host}"));
}
