//! Meaning and errors of lists; bounds are checked before memory is allocated.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::HostListErrorKind as Kind;
use super::*;

fn list(text: &str) -> HostList {
    HostList::parse(text).expect("the test's list is valid")
}

fn shown(text: &str) -> Vec<String> {
    list(text).iter().map(|host| host.to_string()).collect()
}

/// Each item expands to the hosts listed, and they fold to the third text.
#[test]
fn lists_expand_to_their_hosts_and_fold_back() {
    let cases: &[(&str, &str, &str)] = &[
        ("", "", ""),
        (" ,\t,\r\n", "", ""),
        ("a", "a", "a"),
        ("a,,b c\n\nd", "a b c d", "a,b,c,d"),
        ("b,a,b,a", "b a b a", "b,a,b,a"),
        ("n[1,1],n1", "n1 n1 n1", "n[1,1,1]"),
        ("node[001-003,100]:8", "node001:8 node002:8 node003:8 node100:8", "node[001-003,100]:8"),
        ("n[08-11]", "n08 n09 n10 n11", "n[08-11]"),
        ("n[8-11]", "n8 n9 n10 n11", "n[8-11]"),
        ("n[098-101]", "n098 n099 n100 n101", "n[098-101]"),
        ("n[0-2]", "n0 n1 n2", "n[0-2]"),
        ("n[00-02]", "n00 n01 n02", "n[00-02]"),
        ("n1,n01,n001,n2", "n1 n01 n001 n2", "n[1,01,001,2]"),
        ("n9,n010", "n9 n010", "n[9,010]"),
        ("n3,n2,n1", "n3 n2 n1", "n[3,2,1]"),
        ("n[1-3,7-9,5]", "n1 n2 n3 n7 n8 n9 n5", "n[1-3,7-9,5]"),
        ("n[5-5]", "n5", "n5"),
        ("rack[1-2]-n[01-02]", "rack1-n01 rack1-n02 rack2-n01 rack2-n02", "rack[1-2]-n[01-02]"),
        (
            "a[1-2]b[3,5]c[7-8]",
            "a1b3c7 a1b3c8 a1b5c7 a1b5c8 a2b3c7 a2b3c8 a2b5c7 a2b5c8",
            "a[1-2]b[3,5]c[7-8]",
        ),
        ("r1n[1-2],r2n[1-3],r3n[1-3]", "r1n1 r1n2 r2n1 r2n2 r2n3 r3n1 r3n2 r3n3", "r1n[1-2],r[2-3]n[1-3]"),
        // Turning the first number fastest is not what brackets say.
        ("a1b1,a2b1,a1b2,a2b2", "a1b1 a2b1 a1b2 a2b2", "a[1-2]b1,a[1-2]b2"),
        ("n[1[0-1],2[3,5]x,7]", "n10 n11 n23x n25x n7", "n[10-11],n[23,25]x,n7"),
        ("[a[1-2],b[01-02]]", "a1 a2 b01 b02", "a[1-2],b[01-02]"),
        ("[login,1-2]", "login 1 2", "login,[1-2]"),
        ("[1-2][1-2]", "11 12 21 22", "[11-12,21-22]"),
        ("n[x-1,2-,a-bc]", "nx-1 n2- na-bc", "nx-1,n2-,na-bc"),
        ("10.0.0.[254-255],10.0.1.1", "10.0.0.254 10.0.0.255 10.0.1.1", "10.0.0.[254-255],10.0.1.1"),
        ("n1:8,n2:8,n3:4,n4", "n1:8 n2:8 n3:4 n4", "n[1-2]:8,n3:4,n4"),
        ("n*8,n:8,n*1", "n:8 n:8 n", "n:8,n:8,n"),
        ("n:2222:4,n:2222*1", "n:2222:4 n:2222:1", "n:2222:4,n:2222:1"),
        ("root@n[1-2]:4,n3:4", "root@n1:4 root@n2:4 n3:4", "root@n[1-2]:4,n3:4"),
        ("a.b@c,d@e,d@f", "a.b@c d@e d@f", "a.b@c,d@e,d@f"),
        ("[2001:db8::1],2001:db8::1", "[2001:db8::1] [2001:db8::1]", "[2001:db8::1],[2001:db8::1]"),
        ("::1*4,1:2:3:4:5:6:7:8", "[::1]:4 [1:2:3:4:5:6:7:8]", "[::1]:4,[1:2:3:4:5:6:7:8]"),
        ("u@fe80::1%eth0*2", "u@[fe80::1%eth0]:2", "u@[fe80::1%eth0]:2"),
        (
            "[fe80::1%eth0]:4,[::ffff:1.2.3.4]:22*4",
            "[fe80::1%eth0]:4 [::ffff:1.2.3.4]:22:4",
            "[fe80::1%eth0]:4,[::ffff:1.2.3.4]:22:4",
        ),
        ("99999999999999999999999,n1", "99999999999999999999999 n1", "99999999999999999999999,n1"),
        ("dead:8,be:22:4", "dead:8 be:22:4", "dead:8,be:22:4"),
        (
            "n[18446744073709551614-18446744073709551615]",
            "n18446744073709551614 n18446744073709551615",
            "n[18446744073709551614,18446744073709551615]",
        ),
    ];
    for (text, hosts, folded) in cases {
        assert_eq!(shown(text).join(" "), *hosts, "{text}");
        assert_eq!(list(text).fold(), *folded, "{text}");
        assert_eq!(list(folded), list(text), "{text}");
        for entry in &list(text) {
            assert_eq!(list(&entry.to_string()).entry(0), Some(entry), "{text}");
        }
    }
}

#[test]
fn mistakes_are_reported_with_their_column() {
    let cases: &[(&str, usize, Kind)] = &[
        ("node[1-4],x[9-3]", 13, Kind::RangeBackwards { from: 9, to: 3 }),
        ("ä", 1, Kind::UnexpectedCharacter('ä')),
        ("a,bä,c", 4, Kind::UnexpectedCharacter('ä')),
        ("a b\u{a0}c", 4, Kind::UnexpectedCharacter('\u{a0}')),
        ("a,-b", 3, Kind::LeadingDash),
        ("-u@b", 1, Kind::LeadingDash),
        ("u@-b", 3, Kind::LeadingDash),
        ("[a,-b]c", 4, Kind::LeadingDash),
        ("-[1-2]", 1, Kind::LeadingDash),
        ("@b", 1, Kind::MissingUser),
        ("u@", 3, Kind::MissingHost),
        ("u@,b", 3, Kind::MissingHost),
        ("a, :8", 4, Kind::MissingHost),
        ("u@v@w", 4, Kind::UnexpectedCharacter('@')),
        ("a,n[1-2", 4, Kind::UnclosedBracket),
        ("n[", 2, Kind::UnclosedBracket),
        ("n[1[2", 4, Kind::UnclosedBracket),
        ("n]", 2, Kind::StrayBracket),
        ("n[1]]", 5, Kind::StrayBracket),
        ("]", 1, Kind::StrayBracket),
        ("n[]", 3, Kind::EmptyAlternative),
        ("n[1,,2]", 5, Kind::EmptyAlternative),
        ("n[1,]", 5, Kind::EmptyAlternative),
        ("n[[1]]", 3, Kind::BareNestedBracket),
        ("n[1, 2]", 5, Kind::WhiteSpaceInBrackets),
        ("n[1 n2", 4, Kind::WhiteSpaceInBrackets),
        ("n[1:2]", 4, Kind::UnexpectedCharacter(':')),
        ("n[a@b]", 4, Kind::UnexpectedCharacter('@')),
        ("n[1-2x]", 6, Kind::RangeTail),
        ("n[1-2-3]", 6, Kind::RangeTail),
        ("n[1-03]", 3, Kind::RangePadding),
        ("n[001-03]", 3, Kind::RangePadding),
        ("n[1-18446744073709551616]", 5, Kind::NumberTooLarge),
        ("n[000000000000000000001-2]", 3, Kind::NumberTooLarge),
        ("n:", 3, Kind::MissingNumber),
        ("n:22:", 6, Kind::MissingNumber),
        ("n*,m", 3, Kind::MissingNumber),
        ("n:x", 3, Kind::UnexpectedCharacter('x')),
        ("n:8x", 4, Kind::UnexpectedCharacter('x')),
        ("n:1:2:3", 6, Kind::UnexpectedCharacter(':')),
        ("n*4:2", 4, Kind::UnexpectedCharacter(':')),
        ("n:0", 3, Kind::ZeroCount),
        ("n:22:0", 6, Kind::ZeroCount),
        ("n:4294967296", 3, Kind::CountTooLarge),
        ("n:0:4", 3, Kind::BadPort),
        ("n:65536:4", 3, Kind::BadPort),
        ("[::g]", 2, Kind::BadAddress),
        ("[1:2]", 2, Kind::BadAddress),
        ("[::1%]", 2, Kind::BadAddress),
        (":::", 1, Kind::BadAddress),
        ("::1::2", 1, Kind::BadAddress),
        ("::1x", 4, Kind::UnexpectedCharacter('x')),
        ("[::1]x", 6, Kind::UnexpectedCharacter('x')),
        ("::1%e:4", 6, Kind::BareAddressSuffix),
        ("a,n[1-9][0-99999999]", 9, Kind::TooManyHosts),
        ("[0-9999999],a", 13, Kind::TooManyHosts),
        ("a\nb\nc;", 6, Kind::UnexpectedCharacter(';')),
    ];
    for (text, column, kind) in cases {
        let error = HostList::parse(text).expect_err(text);
        assert_eq!((error.column, &error.kind), (*column, kind), "{text}");
    }
}

#[test]
fn an_error_reads_well_and_its_excerpt_points_at_it() {
    let text = "node[1-4],x[9-3]";
    let error = HostList::parse(text).expect_err("runs backwards");
    let said = "host list, column 13: the range 9-3 runs backwards; write it in ascending order";
    assert_eq!(error.to_string(), said);
    assert_eq!(error.excerpt(text), "node[1-4],x[9-3]\n            ^");
}

#[test]
fn an_excerpt_of_a_long_line_is_shortened_around_the_caret() {
    let text = format!("{}x[9-3]{}", "node\t".repeat(40), ",ü".repeat(400));
    let error = HostList::parse(&text).expect_err("runs backwards");
    let excerpt = error.excerpt(&text);
    let (shown, caret) = excerpt.split_once('\n').expect("two lines");
    assert!(shown.starts_with('…') && shown.ends_with('…') && shown.chars().count() < 90);
    assert_eq!(shown.chars().nth(caret.chars().count() - 1), Some('9'));
    // Another text than the one that was read is no reason to panic.
    assert!(error.excerpt("").ends_with('^'));
}

#[test]
fn names_may_be_as_long_as_the_domain_name_system_allows() {
    let longest = "x".repeat(MAX_NAME);
    assert_eq!(list(&longest).entry(0).map(|host| host.name.len()), Some(MAX_NAME));
    for text in [format!("{longest}x"), format!("{longest}[1-2]"), format!("u@{longest}x")] {
        let error = HostList::parse(&text).expect_err("too long");
        assert_eq!(error.kind, Kind::NameTooLong);
    }
}

#[test]
fn what_a_bracket_expands_to_is_measured_exactly() {
    for text in ["n[0-12]", "n[08-101]", "[a[1-3]b,cc]x[9-10,5]", "n[1[0-9],2[0-4]x]y", "[ab,c][d,efg]"] {
        let mut parser = syntax::Parser::new(text);
        let size = parser.item().expect("a valid item").size;
        let hosts = list(text);
        let lengths: Vec<u64> = hosts.iter().map(|host| host.name.len() as u64).collect();
        assert_eq!(size.hosts, hosts.len() as u64, "{text}");
        assert_eq!(size.text, lengths.iter().sum::<u64>(), "{text}");
        assert_eq!(Some(size.longest), lengths.into_iter().max(), "{text}");
        assert_eq!(
            (hosts.text.capacity(), hosts.entries.capacity()),
            (hosts.text.len(), hosts.len()),
            "{text}"
        );
    }
}

/// The measuring saturates, and the tree of an item is all that was built.
#[test]
fn expansions_beyond_the_bounds_are_refused_from_the_syntax() {
    let cases = [
        "n[0-18446744073709551615]".to_string(),
        "[0-9]".repeat(253),
        "[0-18446744073709551615]".repeat(12),
        "[0-9999999],".repeat(1000),
        format!("n[{}0]", "0,".repeat(MAX_HOSTS)),
    ];
    for text in cases {
        let error = HostList::parse(&text).expect_err("too many");
        assert_eq!(error.kind, Kind::TooManyHosts);
    }
    let error = HostList::parse(&format!("{}[1-9999999]", "x".repeat(200))).expect_err("too much text");
    assert_eq!(error.kind, Kind::TextTooLong);
}

#[test]
fn brackets_nest_to_the_stated_depth_and_no_deeper() {
    let nested = |depth: usize| format!("{}{}", "a[b".repeat(depth), "]".repeat(depth));
    assert_eq!(list(&nested(MAX_DEPTH)).len(), 1);
    let error = HostList::parse(&nested(MAX_DEPTH + 1)).expect_err("too deep");
    assert_eq!((error.kind, error.column), (Kind::NestedTooDeep, 3 * MAX_DEPTH + 2));
    assert!(HostList::parse(&"a[".repeat(1_000_000)).is_err());
    assert!(HostList::parse(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn a_name_of_as_many_brackets_as_fit_needs_little_stack() {
    let text = "[a]".repeat(MAX_NAME);
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let thread = small.spawn(move || list(&text).len()).expect("a thread can be started");
    assert_eq!(thread.join().expect("the stack is large enough"), 1);
}

/// The bytes looked at are counted, not the time.
#[test]
fn reading_looks_at_every_byte_a_fixed_number_of_times() {
    let hostile = [
        "a",
        "a,",
        "a ",
        "a:1,",
        "a*1 ",
        "u@a,",
        "[",
        "a[",
        "a[1,",
        "1",
        "::",
        ":",
        "[::1],",
        "::1,",
        "[a",
        "1-",
        "[1-2],",
        "]",
        "=",
        "a[b[c[1,2]]],",
        "a:a",
        "%",
        "@",
    ];
    for piece in hostile {
        let text = piece.repeat(10_000);
        let mut parser = syntax::Parser::new(&text);
        while parser.seek_item() && parser.item().is_ok() {}
        assert!(parser.bytes_visited.get() <= 6 * text.len() + 20, "{piece}: {}", parser.bytes_visited.get());
    }
}

#[test]
fn a_user_in_front_of_a_bracket_is_stored_once() {
    let hosts = list("someone@n[1-3],someone@n4");
    assert_eq!(hosts.text, "someonen1n2n3n4");
}

#[test]
fn pushing_checks_what_parsing_checks() {
    let mut hosts = HostList::new();
    let n1 = HostRef { user: Some("u"), name: "n1", port: Some(22), count: 3 };
    hosts.push(n1).expect("a valid entry");
    hosts.push(HostRef::new("fe80::1%eth0")).expect("a valid entry");
    let refused = [
        (HostRef::new(""), Kind::MissingHost),
        (HostRef::new("-x"), Kind::LeadingDash),
        (HostRef::new("a,b"), Kind::UnexpectedCharacter(',')),
        (HostRef::new("a:b"), Kind::BadAddress),
        (HostRef::new("[a]"), Kind::UnexpectedCharacter('[')),
        (HostRef { user: Some(""), ..n1 }, Kind::MissingUser),
        (HostRef { user: Some("-u"), ..n1 }, Kind::LeadingDash),
        (HostRef { port: Some(0), ..n1 }, Kind::BadPort),
        (HostRef { count: 0, ..n1 }, Kind::ZeroCount),
    ];
    for (host, kind) in refused {
        assert_eq!(hosts.push(host), Err(kind));
    }
    assert_eq!(hosts.fold(), "u@n1:22:3,[fe80::1%eth0]");
    assert_eq!(hosts.processes(), 4);
}

#[test]
fn lists_are_equal_if_their_entries_are() {
    assert_eq!(list("n[1-3]:2"), list("n1*2 n2*2 n3*2"));
    assert_ne!(list("n[1-3]"), list("n[1-3]:2"));
    assert_ne!(list("n1,n2"), list("n2,n1"));
    assert_ne!(list("a@b"), list("b"));
}

#[test]
fn entries_can_be_walked_from_both_ends() {
    let hosts = list("a,b,c");
    let mut iter = hosts.iter();
    assert_eq!(iter.len(), 3);
    assert_eq!(iter.next_back(), Some(HostRef::new("c")));
    assert_eq!(iter.next(), Some(HostRef::new("a")));
    assert_eq!((iter.len(), hosts.entry(1), hosts.entry(3)), (1, Some(HostRef::new("b")), None));
}

#[test]
fn folding_names_for_people_takes_any_text() {
    assert_eq!(fold_names(["node017", "node018", "login"]), "node[017-018],login");
    assert_eq!(fold_names([]), "");
    assert_eq!(fold_names(["fe80::1", "fe80::2"]), "fe80::1,fe80::2");
    for odd in ["ä1[", "[1", "1]", ",", "", "ü", "1ü"] {
        let folded = fold_names([odd, odd, "x", odd]);
        assert!(folded.contains(odd), "{odd}: {folded}");
    }
}

#[test]
fn a_list_travels_as_its_folded_text_and_is_checked_on_arrival() {
    let hosts = list("u@n[001-100]:8,[::1]");
    let bytes = postcard::to_allocvec(&hosts).expect("it can be written");
    assert!(bytes.len() < 30);
    assert_eq!(postcard::from_bytes::<HostList>(&bytes), Ok(hosts));
    let forged = postcard::to_allocvec("n[9-1]").expect("it can be written");
    assert!(postcard::from_bytes::<HostList>(&forged).is_err());
}
