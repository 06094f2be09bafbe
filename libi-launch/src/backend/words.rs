//! The words of command lines: what back-ends put there for the link, and operands that no option
//! parser takes for options.

use libi_core::dist::{EnvVar, OsBytes};

use super::{CommandWriter, LINK_ENV, LINK_STDIO, SpecError};
use crate::machine::{HostSpec, Program};
use crate::options::{AGENT_ARG, KEEPER_ARG};

/// One of libi's own variables. Name and value are literals without NUL.
pub(super) fn env_var(name: &str, value: &str) -> Vec<EnvVar> {
    let word = |text: &str| OsBytes::try_from(text).ok();
    let env_var = word(name).zip(word(value)).and_then(|(name, value)| EnvVar::new(name, value).ok());
    env_var.into_iter().collect()
}

/// The command line for a remote shell whose standard streams become the link.
pub(super) fn remote_command(program: &Program, written: CommandWriter) -> OsBytes {
    let mut env = program.env.clone();
    // An agent that is told nothing else has its link there, and a keeper what it is told.
    let asks = |arg: &str| program.args.last().is_some_and(|last| last.as_bytes() == arg.as_bytes());
    if !asks(AGENT_ARG) && !asks(KEEPER_ARG) {
        env.extend(env_var(LINK_ENV, LINK_STDIO));
    }
    written(program.cwd.as_ref(), &env, &program.executable, &program.args)
}

/// A word that no option parser takes for an option.
pub(super) fn operand(what: &'static str, text: &str) -> Result<OsBytes, SpecError> {
    let refused = || SpecError::OptionLike { what, text: text.to_owned() };
    if text.starts_with('-') {
        return Err(refused());
    }
    OsBytes::try_from(text).map_err(|_| refused())
}

/// The names of hosts, for a program that starts all of them and knows no users and ports.
pub(super) fn names_only(program: &OsBytes, hosts: &[&HostSpec]) -> Result<OsBytes, SpecError> {
    let no_option = |what| Err(SpecError::NoOption(program.clone(), what));
    if hosts.iter().any(|host| host.user.is_some()) {
        return no_option("user");
    }
    if hosts.iter().any(|host| host.port.is_some()) {
        return no_option("port");
    }
    let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
    operand("host", &names.join(","))
}
