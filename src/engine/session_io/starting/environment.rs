//! The environment that processes inherit, and the variables of their own distributions in it.

use libi_core::dist::{EnvVar, OsBytes};
use libi_launch::backend::{HOST_ENV, LINK_ENV};
use libi_launch::delivery::DIRECTORY_ENV;
use libi_launch::machine::Node;
use libi_launch::options::APART_ENV;
use libi_launch::process::Environment;
use libi_launch::quote::DEATH_SIGNAL_ENV;

/// Names the variables of a leader's own distribution, separated by `=`. The processes it starts
/// may belong to other distributions. Set only if distributions differ in their variables.
const OWN_NAMES_ENV: &str = "LIBI_OWN";
/// Prefix of variables with the values that a leader's distribution has replaced.
const REPLACED_PREFIX: &str = "LIBI_BEFORE_";

/// The variables of a leader, with the list of their names if distributions differ.
pub(super) fn with_names(variables: &[EnvVar], node: &Node) -> Vec<EnvVar> {
    let mut all = variables.to_vec();
    if node.programs().iter().any(|other| other.env != variables) {
        let names: Vec<_> = variables.iter().map(|variable| variable.name().as_bytes()).collect();
        all.extend(variable(OWN_NAMES_ENV.as_bytes(), &names.join(&b'=')));
    }
    all
}

/// The values that the named variables have in this environment, which the distribution replaces.
pub(super) fn replaced_variables(variables: &[EnvVar], environment: &Environment) -> Vec<EnvVar> {
    let own = variables.iter().find(|variable| variable.name().as_bytes() == OWN_NAMES_ENV.as_bytes());
    let names = own.map(|own| own.value().as_bytes()).unwrap_or_default();
    let before = names.split(|byte| *byte == b'=').filter_map(|name| {
        variable(&[REPLACED_PREFIX.as_bytes(), name].concat(), environment.value(name)?.as_bytes())
    });
    before.collect()
}

pub(in crate::engine::session_io) fn variable(name: &[u8], value: &[u8]) -> Option<EnvVar> {
    EnvVar::new(OsBytes::new(name).ok()?, OsBytes::new(value).ok()?).ok()
}

/// The environment of this process, without what was meant for this process alone.
pub(crate) fn inherited() -> Environment {
    let all = Environment::inherited();
    let meant = |variable: &&EnvVar| {
        let name = variable.name().as_bytes();
        ![LINK_ENV, HOST_ENV, DEATH_SIGNAL_ENV, OWN_NAMES_ENV, APART_ENV, DIRECTORY_ENV]
            .map(str::as_bytes)
            .contains(&name)
            && !name.starts_with(REPLACED_PREFIX.as_bytes())
    };
    all.variables().iter().filter(meant).cloned().collect()
}

/// The environment that this process would have without its distribution. Processes that it starts
/// for its session get this and the variables of their own distribution.
pub(crate) fn inherited_by_members() -> Environment {
    without_distribution(&Environment::inherited(), inherited())
}

/// Removes from the environment what comes from the distribution, and restores what it replaced.
fn without_distribution(all: &Environment, inherited: Environment) -> Environment {
    let names = all.value(OWN_NAMES_ENV.as_bytes()).map(OsBytes::as_bytes).unwrap_or_default();
    let names = names.split(|byte| *byte == b'=');
    let rest = names.fold(inherited, Environment::without);
    rest.with(all.variables().iter().filter_map(|kept| {
        let name = kept.name().as_bytes().strip_prefix(REPLACED_PREFIX.as_bytes())?;
        variable(name, kept.value().as_bytes())
    }))
}
