//! Agents: which program leads the hosts, and what its members may be.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_char, c_int};
use libi::{Agent, Delivery, Engine, LaunchOptions, OsBytes, Programs};

use super::libi_options;
use crate::args::{self, from_c};
use crate::error::{CallError, CallResult};
use crate::object::change;
use crate::result::libi_result;
use crate::result::libi_result::LIBI_ERR_STATE;

/// Sets the program that leads each host in place of the host's first member: a path, or a name
/// that is searched in PATH there. It starts all members of its host and relays for them and for
/// the hosts below; a member may then end in any way and costs no other one. The program calls
/// libi_agent_serve_if_asked() first, as the programs libi and libi-agent do. NULL, the default:
/// libi_options_set_engine() says what leads a host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_agent(
    options: *mut libi_options,
    program: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.agent = if program.is_null() { None } else { Some(agent(program)?) };
            Ok(())
        })
    }
}

/// Which process carries a host's part of the tree, if no agent does. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_engine {
    /// The first member's own process. If it ends, crashes or executes another program, the members
    /// that depend on it end as well. Calls among the members of a host are faster: there is one hop
    /// less.
    LIBI_ENGINE_IN_PROGRAM = 0,
    /// The default: a process of its own. The process that was started on a host divides before its
    /// main(): the program is the child, a member like all others, and what it does to itself costs
    /// no other member anything. A program that loads the library while it runs is led as with
    /// LIBI_ENGINE_IN_PROGRAM; libi_report_host_info says so.
    LIBI_ENGINE_APART = 1,
}

/// cbindgen:ignore
pub type libi_engine_arg = c_int;

/// Sets which process carries a host's part of the tree; LIBI_ENGINE_APART is the default.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_engine(
    options: *mut libi_options,
    engine: libi_engine_arg,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.engine = from_c!(engine, "libi_engine", libi_engine {
                LIBI_ENGINE_IN_PROGRAM => Engine::InProgram,
                LIBI_ENGINE_APART => Engine::Apart,
            })?;
            Ok(())
        })
    }
}

/// Sends this file to hosts that do not have it at the path of the agent; each host passes it on to
/// those that it launches, and it is removed when it runs. It is read now. Not for back-ends that
/// start all hosts at once, such as srun. NULL: the agent has to be installed.
///
/// Returns LIBI_OK; LIBI_ERR_STATE without an agent; LIBI_ERR_ARGUMENT if the file cannot be read.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_agent_file(
    options: *mut libi_options,
    file: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let Some(agent) = &mut options.agent else {
                return Err(CallError::new(
                    LIBI_ERR_STATE,
                    "there is no agent: call libi_options_set_agent() first",
                ));
            };
            agent.delivery = if file.is_null() { None } else { Some(delivery(file)?) };
            Ok(())
        })
    }
}

/// Sets whether members may be any programs, which needs an agent: they are started when the session
/// goes up, and find their place in LIBI_RANK, LIBI_SIZE, LIBI_LOCAL_RANK, LIBI_LOCAL_SIZE and
/// LIBI_HOST. Those that call libi_member_init() join the session. By default all members have to.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_any_programs(
    options: *mut libi_options,
    any_programs: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.programs = if any_programs { Programs::Any } else { Programs::Linked };
            Ok(())
        })
    }
}

/// Sets whether agents start no programs, for sessions in which only commands run, with
/// libi_session_spawn(): the session is up when its agents are, and what the distributions say of
/// programs has no meaning. It needs an agent. By default they start the members. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_no_programs(
    options: *mut libi_options,
    no_programs: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.programs = if no_programs { Programs::None } else { Programs::Linked };
            Ok(())
        })
    }
}

/// # Safety
/// The pointer is that of a C string.
unsafe fn agent(program: *const c_char) -> CallResult<Agent> {
    // SAFETY: as documented.
    let program = unsafe { args::string(program, "the agent")? };
    let program = OsBytes::new(program.to_bytes());
    Ok(Agent::new(program.map_err(|error| CallError::argument(error.to_string()))?))
}

/// # Safety
/// The pointer is that of a C string.
unsafe fn delivery(file: *const c_char) -> CallResult<Delivery> {
    // SAFETY: as documented.
    let file = unsafe { args::string(file, "the file of the agent")? };
    let file = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes()));
    let bytes = std::fs::read(file);
    Ok(Delivery::of(bytes.map_err(|why| CallError::argument(format!("{}: {why}", file.display())))?))
}

/// Serves as an agent and never returns, if this process was started as one; otherwise does nothing.
/// A program that is its own agent calls it at the beginning of main(), before it starts threads or
/// uses its standard streams. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_agent_serve_if_asked() {
    libi::agent::serve_if_asked();
}
