//! The words of `libi run` that users of other launchers know, where they clash with no option.
//!
//! Options of one dash and several letters are those of mpiexec and mpirun; the parser of options
//! would read `-np 4` as `-n p`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{ArgAction, Command};

/// What other launchers call an option.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("-np", "--processes"),
    ("-ppn", "--per-host"),
    ("-host", "--hosts"),
    ("-hosts", "--hosts"),
    ("-hostfile", "--hostfile"),
    ("-machinefile", "--hostfile"),
    ("-wdir", "--directory"),
    ("-wd", "--directory"),
];

/// The subcommands whose options have other names.
const LAUNCHING: [&str; 2] = ["run", "shell"];

/// Replaces other names of options of `libi run` and `libi shell` in a command line, up to the program.
pub(crate) fn replace_other_names(words: Vec<OsString>, command_line: &Command) -> Vec<OsString> {
    let launches = words.get(1).and_then(|word| word.to_str()).filter(|name| LAUNCHING.contains(name));
    let Some(launching) = launches.and_then(|name| command_line.find_subcommand(name)) else { return words };
    let with_value = options_with_value(launching);
    let (mut replaced, mut is_value, mut is_over) = (Vec::with_capacity(words.len()), false, false);
    for (place, word) in words.into_iter().enumerate() {
        let is_option = place >= 2 && !is_over && !is_value && word.as_bytes().first() == Some(&b'-');
        is_over |= place >= 2 && !is_value && (!is_option || word == *"--");
        let other = OTHER_NAMES.iter().find(|(name, _)| is_option && word == **name);
        let word = other.map_or(word, |(_, name)| OsString::from(name));
        is_value = is_option && with_value.contains(&word);
        replaced.push(word);
    }
    replaced
}

/// The options whose value is the next word.
fn options_with_value(run: &Command) -> BTreeSet<OsString> {
    let takes_value = |arg: &&clap::Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let mut names = BTreeSet::new();
    for arg in run.get_arguments().filter(|arg| !arg.is_positional()).filter(takes_value) {
        let long = arg.get_long_and_visible_aliases().unwrap_or_default();
        let hidden = arg.get_all_aliases().unwrap_or_default();
        names.extend(long.into_iter().chain(hidden).map(|name| OsString::from(format!("--{name}"))));
        let short = arg.get_short_and_visible_aliases().unwrap_or_default();
        names.extend(short.into_iter().map(|name| OsString::from(format!("-{name}"))));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn replaced(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = replace_other_names(words, &crate::command_line());
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn other_names_are_replaced_up_to_the_program() {
        for (line, expected) in [
            ("libi run -np 4 hostname", "libi run --processes 4 hostname"),
            ("libi run -hostfile f -ppn 2 ls -np 3", "libi run --hostfile f --per-host 2 ls -np 3"),
            ("libi run -w a,b -wdir /tmp -- -np", "libi run -w a,b --directory /tmp -- -np"),
            ("libi run --env -np -l tool", "libi run --env -np -l tool"),
            ("libi shell -hostfile f -w a", "libi shell --hostfile f -w a"),
            ("libi hosts -np", "libi hosts -np"),
            ("libi run", "libi run"),
        ] {
            assert_eq!(replaced(line), expected);
        }
    }

    #[test]
    fn every_name_leads_to_an_option() {
        let command_line = crate::command_line();
        let known = options_with_value(command_line.find_subcommand("run").unwrap());
        for (_, name) in OTHER_NAMES {
            assert!(known.contains(OsStr::new(name)), "{name}");
        }
    }
}
