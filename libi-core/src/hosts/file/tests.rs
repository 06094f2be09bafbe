//! What host files mean and where they are refused.

use std::string::ToString;

use super::*;

fn folded(text: &str) -> std::string::String {
    parse_host_file(text).expect("the test's file is valid").fold()
}

#[test]
fn a_file_lists_hosts_with_comments_blank_lines_and_repeats() {
    let text = "# the cluster\n\nn1\n  n2:4   # quick\r\nn1\nn[3-4], n5 n6\n#\nn7#n8";
    assert_eq!(folded(text), "n1,n2:4,n[1,3-7]");
    assert_eq!(folded(""), "");
    assert_eq!(folded("# ä: only a comment"), "");
}

#[test]
fn open_mpi_settings_may_have_blanks_around_the_equals_sign() {
    let text = "n1 slots=4\nn2 slots = 4 max_slots=8\nn3 cpu =4\nn4 count= 4 max-slots = 9\nn5 slots=2 n6";
    assert_eq!(folded(text), "n[1-4]:4,n5:2,n6");
    assert_eq!(folded("n1 port=2222 slots=3 user-name=bob"), "bob@n1:2222:3");
}

#[test]
fn mpich_settings_name_a_user_and_are_otherwise_passed_over() {
    let text = "n1:4 user=alice ifname=ib0\nn2:4 binding=user:0,1 user=alice";
    assert_eq!(folded(text), "alice@n[1-2]:4");
}

#[test]
fn a_setting_goes_for_every_host_of_its_item() {
    assert_eq!(folded("n[1-3] slots=2 user=u"), "u@n[1-3]:2");
}

#[test]
fn mistakes_in_a_file_are_reported_with_line_and_column() {
    let unknown = || Kind::UnknownSetting("solts".to_string());
    let cases = [
        ("n1\nä n2", 2, 1, Kind::UnexpectedCharacter('ä')),
        ("# ü\nn1 solts=4", 2, 4, unknown()),
        ("n1\n\nn2 slots=0", 3, 10, Kind::ZeroCount),
        ("n1 slots=", 1, 4, Kind::MissingValue("slots".to_string())),
        ("n1 slots= # 4", 1, 4, Kind::MissingValue("slots".to_string())),
        ("n1 slots=four", 1, 10, Kind::MissingNumber),
        ("n1 port=+22", 1, 9, Kind::MissingNumber),
        ("n1 port=0", 1, 9, Kind::BadPort),
        ("n1:4 slots=4", 1, 6, Kind::DuplicateSetting("slots".to_string())),
        ("u@n1 user=v", 1, 6, Kind::DuplicateSetting("user".to_string())),
        ("n1 user=-v", 1, 9, Kind::LeadingDash),
        ("n1\nslots=4", 2, 1, Kind::SettingWithoutHost("slots".to_string())),
        ("n1\r\nn[1 # x]", 2, 4, Kind::WhiteSpaceInBrackets),
        ("n1\nn[1#2]", 2, 2, Kind::UnclosedBracket),
        ("n1\nn[0-9999999]", 2, 1, Kind::TooManyHosts),
        ("^n1", 1, 1, Kind::UnexpectedCharacter('^')),
        ("=4", 1, 1, Kind::UnexpectedCharacter('=')),
    ];
    for (text, line, column, kind) in cases {
        let error = parse_host_file(text).expect_err(text);
        assert_eq!((error.line, error.column, &error.kind), (line, column, &kind), "{text}");
    }
}

#[test]
fn the_excerpt_of_a_file_shows_the_line_at_fault() {
    let text = "n1\nn2 solts=4\r\nn3";
    let error = parse_host_file(text).expect_err("unknown setting");
    assert_eq!(error.to_string(), "host file, line 2, column 4: unknown setting `solts`");
    assert_eq!(error.excerpt(text), "n2 solts=4\n   ^");
}
