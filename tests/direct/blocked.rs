//! Hosts that cannot connect to their parent, because they have a network of their own without a
//! route.

use libi::{Cause, Error, FrontEnd, LinkPolicy, Policy};
use libi_core::plan;

use libi_testkit::testbed::{Testbed, follow, is_root, launch, members, soon};

/// All hosts but the first, whichever node launches them.
const CUT_OFF: [&str; 4] =
    ["/bin/sh", "-c", "for word; do [ \"$word\" != n0 ] || exec \"$@\"; done; exec unshare -n \"$@\"", "sh"];

#[test]
fn a_host_that_must_connect_directly_and_cannot_is_unreachable() {
    if !is_root() {
        return;
    }
    let testbed = Testbed::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options_with(LinkPolicy::Direct, &CUT_OFF);
    let error = front.launch_all(&[members("n[0-3]", &["join", "wait"])], &options).err().unwrap();
    let Error::NotLaunched(report) = error else { panic!("{error}") };
    assert!(report.hosts()[0].failure.is_none(), "{report}");
    for host in &report.hosts()[1..] {
        assert_eq!(host.failure.as_ref().unwrap().cause, Cause::Unreachable, "{report}");
    }
    assert!(report.to_string().contains("n[1-3]"), "{report}");
    // A host that may do without a direct link continues.
    let options = options.policy(Policy::AtLeast(1));
    let session = launch(&front, "n[0-3]", &["join", "finish:20000"], &options);
    assert_eq!(session.report().unwrap().joined(), 1);
    assert_eq!(follow(&front).exits.len(), 1);
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_host_that_cannot_connect_directly_keeps_its_channel_and_the_report_says_so() {
    if !is_root() {
        return;
    }
    let testbed = Testbed::new("seq 30ms\nrem 60ms");
    let front = FrontEnd::new().unwrap();
    let options =
        testbed.options_with(LinkPolicy::Auto, &CUT_OFF).strategy(plan::Strategy::Static(plan::Shape::Flat));
    let words = ["join", "count:50000", "finish:30000"];
    let session = launch(&front, "n[0-9]", &words, &options);
    let outcome = follow(&front);
    assert_eq!((outcome.exits.len(), outcome.out.len()), (10, 10));
    soon("the first is direct", || session.links().direct == 1);
    let report = session.report().unwrap();
    let fell_back: Vec<&str> = report.fell_back().map(|host| host.name.as_str()).collect();
    // Several may be trying when the first has failed.
    assert!(!fell_back.is_empty() && !fell_back.contains(&"n0"), "{report}");
    assert!(report.to_string().contains("cannot connect directly"), "{report}");
    // Hosts launched later are not asked to try.
    let not_asked = report.hosts().iter().filter(|host| host.direct.is_none()).count();
    assert!(not_asked >= 3, "{not_asked} were not asked to try: {report}");
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_master_that_must_connect_directly_and_cannot_is_named() {
    if !is_root() {
        return;
    }
    let testbed = Testbed::new("");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options_with(LinkPolicy::Direct, &["unshare", "-n"]);
    let error = front.launch_all(&[members("n[0-3]", &["join", "wait"])], &options).err().unwrap();
    let Error::NotLaunched(report) = error else { panic!("{error}") };
    assert_eq!(report.hosts()[0].failure.as_ref().unwrap().cause, Cause::Unreachable, "{report}");
    drop(front);
    testbed.nothing_is_left();
}
