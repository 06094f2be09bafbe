//! What became of a launch.

use std::ffi::CString;
use std::ptr::null;
use std::sync::{Arc, OnceLock};

use libc::c_char;
use libi::{Failure, HostReport, LaunchReport};

use crate::args::{OutParam, c_string, micros};
use crate::failure::{FailureView, libi_failure};
use crate::object::{self, OwnedPart, ask, give, handle, with};
use crate::result::{CallError, LIBI_NONE, libi_micros, libi_result};

/// What became of a launch, host by host. It does not change any more, and any number of threads may use it. Since 0.1.
pub struct libi_report {
    _opaque: (),
}

handle!(libi_report, "report", Report);

/// A report, and its texts as far as somebody has asked for them.
pub struct Report {
    report: Arc<LaunchReport>,
    names: Vec<CString>,
    failures: Vec<Option<OwnedPart<libi_failure>>>,
    replaced: Vec<([CString; 2], OwnedPart<libi_failure>)>,
    flat: Option<(CString, OwnedPart<libi_failure>)>,
    text: OnceLock<CString>,
    json: OnceLock<CString>,
    svg: OnceLock<CString>,
}

impl Report {
    fn new(report: Arc<LaunchReport>) -> Self {
        let part = |failure: &Failure| OwnedPart::new(FailureView::new(failure));
        let replaced = report.replaced().iter();
        Self {
            names: report.hosts().iter().map(|host| c_string(&host.name)).collect(),
            failures: report.hosts().iter().map(|host| host.failure.as_ref().map(part)).collect(),
            replaced: replaced
                .map(|one| ([c_string(&one.name), c_string(&one.by)], part(&one.failure)))
                .collect(),
            flat: report.flat().map(|flat| (c_string(&flat.host), part(&flat.failure))),
            text: OnceLock::new(),
            json: OnceLock::new(),
            svg: OnceLock::new(),
            report,
        }
    }
}

/// A report for C.
pub(crate) fn give_report(report: Arc<LaunchReport>) -> *mut libi_report {
    give(Report::new(report))
}

/// What a getter says of a host; `nothing` if there is no such host.
///
/// # Safety
/// The report is NULL, or what C was given.
unsafe fn of_host<R: Copy>(
    report: *const libi_report,
    host: usize,
    nothing: R,
    body: impl FnOnce(&HostReport) -> R,
) -> R {
    // SAFETY: as this function asks.
    unsafe { ask(report, nothing, |report| report.report.hosts().get(host).map_or(nothing, body)) }
}

/// Frees it; NULL is fine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_free(report: *mut libi_report) {
    // SAFETY: as the header asks.
    unsafe { object::free(report) }
}

/// All of it for people: what failed is grouped by its cause, with the hosts folded, the evidence quoted, and what to do next. NULL
/// if the report is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_text(report: *const libi_report) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| {
            report.text.get_or_init(|| c_string(&report.report.to_string())).as_ptr()
        })
    }
}

/// The number of its session; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_session(report: *const libi_report) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(report, 0, |report| report.report.session().0) }
}

/// Whether the session came up. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_is_up(report: *const libi_report) -> bool {
    // SAFETY: as the header asks.
    unsafe { ask(report, false, |report| report.report.is_up()) }
}

/// How long it took until that was certain; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_took(report: *const libi_report) -> libi_micros {
    // SAFETY: as the header asks.
    unsafe { ask(report, -1, |report| micros(report.report.took())) }
}

/// How many hosts the session has, each counted once. They are numbered from 0, as in libi_session_layout(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_hosts(report: *const libi_report) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(report, 0, |report| report.names.len()) }
}

/// How many of them have joined. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_joined(report: *const libi_report) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(report, 0, |report| report.report.joined()) }
}

/// A host's name; that of the spare, if one has taken its place. NULL if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_name(report: *const libi_report, host: usize) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(report, null(), |report| report.names.get(host).map_or(null(), |name| name.as_ptr())) }
}

/// How many members a host has; 0 if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_members(report: *const libi_report, host: usize) -> u32 {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, 0, |host| host.members) }
}

/// How often the launch of a host was begun; 0 also if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_attempts(report: *const libi_report, host: usize) -> u32 {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, 0, |host| host.attempts) }
}

/// The number of the host that has launched a host; -1 if that was the front end, or nobody has come to it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_launcher(report: *const libi_report, host: usize) -> i64 {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, -1, |host| host.launcher.map_or(-1, |launcher| i64::from(launcher.0))) }
}

/// From the beginning of the launch until a host's own was started; -1 if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_started(report: *const libi_report, host: usize) -> libi_micros {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, -1, |host| micros(host.started)) }
}

/// From then until its leader said hello; -1 if it did not. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_greeted(report: *const libi_report, host: usize) -> libi_micros {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, -1, |host| host.hello.map_or(-1, micros)) }
}

/// From then until all its members were up; -1 if they were not. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_joined(report: *const libi_report, host: usize) -> libi_micros {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, -1, |host| host.joined.map_or(-1, micros)) }
}

/// 1 if the link to whoever has launched a host is direct, 0 if it is the channel that the host was started with in place of that,
/// -1 if it was not to be direct or that was not decided yet. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host_direct(report: *const libi_report, host: usize) -> i32 {
    // SAFETY: as the header asks.
    unsafe { of_host(report, host, -1, |host| host.direct.map_or(-1, i32::from)) }
}

/// Why a host is not in the session; NULL if it is. It is the report's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_failure(report: *const libi_report, host: usize) -> *const libi_failure {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| {
            report.failures.get(host).and_then(Option::as_ref).map_or(null(), OwnedPart::shown)
        })
    }
}

/// How often a spare has taken a host's place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replaced(report: *const libi_report) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(report, 0, |report| report.replaced.len()) }
}

/// Which host that was, of the replacements counted from 0; -1 if there were not as many. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replaced_host(report: *const libi_report, index: usize) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, -1, |report| {
            report.report.replaced().get(index).map_or(-1, |replaced| i64::from(replaced.host.0))
        })
    }
}

/// What the host was called until then; NULL if there were not as many. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replaced_name(
    report: *const libi_report,
    index: usize,
) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| report.replaced.get(index).map_or(null(), |one| one.0[0].as_ptr()))
    }
}

/// What the spare is called; NULL if there were not as many. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replaced_by(report: *const libi_report, index: usize) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| report.replaced.get(index).map_or(null(), |one| one.0[1].as_ptr()))
    }
}

/// Why it was replaced; NULL if there were not as many. It is the report's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replaced_failure(
    report: *const libi_report,
    index: usize,
) -> *const libi_failure {
    // SAFETY: as the header asks.
    unsafe { ask(report, null(), |report| report.replaced.get(index).map_or(null(), |one| one.1.shown())) }
}

/// If hosts turned out not to be able to launch each other, so that the front end has launched them: the host at which that was
/// noticed. NULL otherwise. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_flat_host(report: *const libi_report) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(report, null(), |report| report.flat.as_ref().map_or(null(), |flat| flat.0.as_ptr())) }
}

/// The first launch of that host that failed; NULL if there is no such host. It is the report's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_flat_failure(report: *const libi_report) -> *const libi_failure {
    // SAFETY: as the header asks.
    unsafe { ask(report, null(), |report| report.flat.as_ref().map_or(null(), |flat| flat.1.shown())) }
}

/// What a launch has cost, as measured: see libi_options_set_cost().
///
/// Returns LIBI_OK, or LIBI_NONE if too few hosts were launched to say. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_cost(
    report: *const libi_report,
    seq: *mut libi_micros,
    rem: *mut libi_micros,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(report, |report| {
            let (seq, rem) = (OutParam::new(seq, -1, "seq")?, OutParam::new(rem, -1, "rem")?);
            let cost = report.report.cost();
            let cost = cost.ok_or_else(|| CallError::new(LIBI_NONE, "too few hosts were launched to say"))?;
            seq.put(micros(cost.seq));
            rem.put(micros(cost.rem));
            Ok(())
        })
    }
}

/// The timeline of the launch as Chrome trace JSON, which "libi trace" reads as well; NULL if the report is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_json(report: *const libi_report) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| {
            report.json.get_or_init(|| c_string(&report.report.timeline().chrome_json())).as_ptr()
        })
    }
}

/// The timeline of the launch drawn, as SVG, beside what was predicted; NULL if the report is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_svg(report: *const libi_report) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe {
        ask(report, null(), |report| {
            report.svg.get_or_init(|| c_string(&report.report.timeline().svg())).as_ptr()
        })
    }
}
