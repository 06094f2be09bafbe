//! Commands in a session that remote shells have started.

use libi::{Agent, Command, Distribution, Event, FrontEnd, OsBytes, Policy, Programs};
use libi_testkit::local::TIMEOUT;
use libi_testkit::programs;

use crate::scene::Scene;

#[test]
fn commands_start_no_further_remote_shell() {
    let scene = Scene::new("seq 2ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let options = scene.options().agent(agent).programs(Programs::None).policy(Policy::All);
    // No launch is withdrawn in a static tree, however busy the machine is.
    let options = options.strategy("binomial".parse().unwrap());
    let session = front.launch(&Distribution::idle("n[0-15]"), &options).unwrap();
    let before = scene.lab.log().len();
    assert_eq!(before, 16, "{:?}", scene.lab.log());
    for round in 0..20 {
        let spawned = session.spawn(&Command::new("sh").args(["-c", "echo $0 on $LIBI_HOST", "x"])).unwrap();
        let mut said = Vec::new();
        loop {
            match front.next_event(TIMEOUT).unwrap() {
                Event::CommandOutput { bytes, host_name, .. } => {
                    assert_eq!(String::from_utf8(bytes).unwrap(), format!("x on {host_name}\n"));
                    said.push(host_name);
                }
                Event::CommandDone { command, .. } if command == spawned.id() => break,
                _ => {}
            }
        }
        said.sort();
        said.dedup();
        assert_eq!(said.len(), 16, "round {round}");
        assert!(spawned.wait(TIMEOUT).unwrap().is_success());
    }
    assert_eq!(scene.lab.log().len(), before, "no host was called again");
    drop((session, front));
    scene.nothing_is_left();
}
