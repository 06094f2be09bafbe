//! Properties of host lists: folding is the inverse of parsing, brackets mean what a plain reading
//! of them means, and no text makes the parser panic.

use libi_core::hosts::file::parse_host_file;
use libi_core::hosts::job::{
    parse_grid_engine_hostfile, parse_lsf_mcpu_hosts, parse_pbs_nodefile, parse_slurm,
};
use libi_core::hosts::{HostList, HostRef, fold_names};
use proptest::prelude::*;

/// The invariants of every list.
fn check(list: &HostList) {
    let folded = list.fold();
    assert_eq!(HostList::parse(&folded).as_ref(), Ok(list), "folded to {folded}");
    assert_eq!(list.to_string(), folded);
    let written: Vec<String> = list.iter().map(|host| host.to_string()).collect();
    let written = written.join(",");
    assert!(folded.len() <= written.len() + list.len(), "{folded} is no shorter than {written}");
    assert_eq!(HostList::parse(&written).as_ref(), Ok(list));
}

/// Names in which numbers, padding and words meet, few enough for neighbours to be alike.
fn name() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0u64..14).prop_map(|n| n.to_string()),
        (5u64..14).prop_map(|n| format!("{n:02}")),
        (97u64..103).prop_map(|n| format!("{n:03}")),
        Just("18446744073709551615".to_string()),
        Just("99999999999999999999".to_string()),
    ];
    let word = prop::sample::select(vec!["n", "r", "a-", "_", ".", "x.y-"]);
    prop_oneof![
        8 => (word.clone(), number.clone()).prop_map(|(w, n)| format!("{w}{n}").trim_start_matches('-').into()),
        6 => (word.clone(), number.clone(), word.clone(), number.clone())
            .prop_map(|(w, n, v, m)| format!("{w}{n}{v}{m}")),
        2 => (number.clone(), word, number).prop_map(|(n, w, m)| format!("{n}{w}{m}")),
        2 => "[a-zA-Z0-9_.][a-zA-Z0-9_.-]{0,5}",
        1 => any::<[u16; 8]>().prop_map(|parts| std::net::Ipv6Addr::from(parts).to_string()),
        1 => (any::<u16>(), "[a-z0-9.-]{1,4}").prop_map(|(n, zone)| format!("fe80::{n:x}%{zone}")),
    ]
}

type Entry = (Option<String>, String, Option<u16>, u32);

fn entry() -> impl Strategy<Value = Entry> {
    let user = prop_oneof![6 => Just(None), 1 => Just(Some("u".into())), 1 => Just(Some("root.1".into()))];
    let port = prop_oneof![6 => Just(None), 1 => Just(Some(22)), 1 => (1u16..).prop_map(Some)];
    let count = prop_oneof![6 => Just(1), 2 => 2u32..4, 1 => 1u32..];
    (user, name(), port, count)
}

fn build(entries: &[Entry]) -> HostList {
    let mut list = HostList::new();
    for (user, name, port, count) in entries {
        let host = HostRef { user: user.as_deref(), name, port: *port, count: *count };
        list.push(host).expect("the strategy makes valid entries");
    }
    list
}

/// An expression and the names that it stands for by the definition.
type Expression = (String, Vec<String>);

fn range() -> impl Strategy<Value = Expression> {
    (0u64..120, 0u64..6, 0usize..4).prop_map(|(lo, more, width)| {
        let names: Vec<String> = (lo..=lo + more).map(|n| format!("{n:0width$}")).collect();
        // A padded lower end pads all; an unpadded one must not be given by accident.
        (format!("{}-{}", names[0], names[names.len() - 1]), names)
    })
}

fn one(text: String) -> Expression {
    (text.clone(), vec![text])
}

fn concatenation(parts: Vec<Expression>) -> Expression {
    parts.into_iter().fold((String::new(), vec![String::new()]), |(text, names), (next, ends)| {
        let joined = names.iter().flat_map(|name| ends.iter().map(move |end| format!("{name}{end}")));
        (text + &next, joined.collect())
    })
}

fn group(alternatives: Vec<Expression>) -> Expression {
    let (texts, names): (Vec<String>, Vec<Vec<String>>) = alternatives.into_iter().unzip();
    (format!("[{}]", texts.join(",")), names.concat())
}

fn expression() -> impl Strategy<Value = Expression> {
    // No `a-c`, which looks like a range.
    let word = || "[a-z_.]([a-z-]?|-[-]|[a-z][a-z-])".prop_map(one);
    let leaf = prop_oneof![word(), range(), "[0-9]{1,4}".prop_map(one)];
    let alternative = leaf.prop_recursive(3, 12, 3, move |inner| {
        let nested = prop::collection::vec(inner, 1..3).prop_map(group);
        let first = prop_oneof!["[a-z0-9]{1,2}".prop_map(one), range()];
        (first, nested).prop_map(|(first, nested)| concatenation(vec![first, nested]))
    });
    let group = prop::collection::vec(alternative, 1..4).prop_map(group);
    prop::collection::vec(prop_oneof![word(), group], 1..4).prop_map(concatenation)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn folding_random_entries_is_undone_by_parsing(entries in prop::collection::vec(entry(), 0..40)) {
        check(&build(&entries));
    }

    #[test]
    fn folding_names_of_few_kinds_is_undone_by_parsing(
        numbers in prop::collection::vec((0u8..3, 0u8..3, 0u8..3), 0..60),
    ) {
        let names: Vec<String> = numbers.iter().map(|(a, b, c)| format!("r{a}s{b:02}n{c}")).collect();
        let mut list = HostList::new();
        for name in &names {
            list.push(HostRef::new(name)).expect("a valid name");
        }
        check(&list);
        prop_assert_eq!(fold_names(names.iter().map(String::as_str)), list.fold());
    }

    #[test]
    fn an_expression_stands_for_the_names_of_its_plain_reading((text, names) in expression()) {
        let list = HostList::parse(&text).expect(&text);
        prop_assert_eq!(list.iter().map(|host| host.name).collect::<Vec<_>>(), names);
        check(&list);
    }

    #[test]
    fn what_people_write_comes_back_as_written(
        (a, b, c) in (1u32..50, 1u32..50, 1u32..90),
        (na, nb, nc) in (1u32..4, 1u32..4, 1u32..12),
        count in 1u32..9,
    ) {
        let text = format!("row[{a}-{}]-rack[{b:02}-{:02}].n[{c:03}-{:03}]", a + na, b + nb, c + nc);
        let text = if count == 1 { text } else { format!("admin@{text}:{count}") };
        prop_assert_eq!(HostList::parse(&text).expect("it is valid").fold(), text);
    }

    #[test]
    fn text_of_the_lists_own_letters_is_read_or_refused_but_never_panics(
        text in "[ab01989,\\[\\]:*@%.\\- \n=#(xf)ä]{0,80}",
    ) {
        survive(&text);
    }

    #[test]
    fn pieces_of_lists_in_any_order_are_read_or_refused_but_never_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "node", "[1-3]", "[01-10,7]", "[", "]", ",", " ", ":8", ":22:2", "*3", "u@", "::1", "[::1]", "%eth0",
            "a", "0-9", "1-", "-", "99999999999999999999999", "slots=2", " slots = 3", "user=b", "\n", "#", "2(x3)",
        ]), 0..24),
    ) {
        survive(&pieces.concat());
    }

    #[test]
    fn any_text_at_all_is_read_or_refused_but_never_panics(text in any::<String>()) {
        survive(&text);
    }
}

fn survive(text: &str) {
    let outcomes = [
        HostList::parse(text),
        parse_host_file(text),
        parse_pbs_nodefile(text),
        parse_lsf_mcpu_hosts(text),
        parse_grid_engine_hostfile(text),
        parse_slurm("n[1-3]", Some(text)),
        parse_slurm(text, Some("1(x2),3")),
    ];
    for outcome in outcomes {
        match outcome {
            // Bounds are tested elsewhere; folding millions in every case would take minutes.
            Ok(list) if list.len() <= 100_000 => check(&list),
            Ok(_) => {}
            Err(error) => {
                let _ = error.to_string();
                let excerpt = error.excerpt(text);
                assert!(excerpt.ends_with('^') && excerpt.lines().count() <= 2, "{excerpt}");
            }
        }
    }
    let _ = fold_names(text.split(','));
}
