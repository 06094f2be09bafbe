//! The report of a launch.

use std::ffi::CString;
use std::ptr::null;
use std::sync::{Arc, OnceLock};

use libc::c_char;
use libi::{Failure, LaunchReport};

use crate::args::micros;
use crate::error::CallError;
use crate::failure::{FailureView, libi_failure};
use crate::object::{self, OwnedPart, ask, give, handle, query};
use crate::result::libi_micros;
use crate::result::libi_result::{self, LIBI_NONE};
use crate::text::c_string;

/// The result of a launch, host by host. It does not change, and any number of threads may use
/// it. Since 0.1.
pub struct libi_report {
    _opaque: (),
}

handle!(libi_report, "report", ReportView);

/// A report, and its parts as C reads them. The long texts are made on demand.
pub struct ReportView {
    report: Arc<LaunchReport>,
    names: Vec<CString>,
    failures: Vec<Option<OwnedPart<libi_failure>>>,
    replaced: Vec<([CString; 2], OwnedPart<libi_failure>)>,
    flat: Option<(CString, OwnedPart<libi_failure>)>,
    text: OnceLock<CString>,
    json: OnceLock<CString>,
    svg: OnceLock<CString>,
}

pub(crate) fn give_report(report: Arc<LaunchReport>) -> *mut libi_report {
    let part = |failure: &Failure| OwnedPart::new(FailureView::new(failure, &report.reason(failure)));
    let replaced = report.replaced().iter();
    give(ReportView {
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
    })
}

/// A report as a whole. Strings and failures belong to the report. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_report_info {
    /// The number of the session.
    pub session: u32,
    /// The number of hosts, each counted once. They are numbered from 0, as in the layout.
    pub hosts: u32,
    /// How many of them have joined.
    pub joined: u32,
    /// How many hosts were replaced by spares.
    pub replacements: u32,
    /// Whether the session came up.
    pub is_up: bool,
    /// The duration of the launch.
    pub took: libi_micros,
    /// The measured cost, as in libi_options_set_cost(); -1 if too few hosts were launched.
    pub cost_seq: libi_micros,
    /// The other part of the measured cost; -1 as well.
    pub cost_rem: libi_micros,
    /// If hosts could not launch each other, so that the front end has launched all of them: the
    /// name of the host on which that was noticed. Otherwise NULL.
    pub flat_host: *const c_char,
    /// The first launch by that host that failed; otherwise NULL.
    pub flat_failure: *const libi_failure,
}

/// The launch of a host. Strings and failures belong to the report. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_report_host_info {
    /// Its name; that of the spare, if one has replaced it.
    pub name: *const c_char,
    /// The number of members on it.
    pub members: u32,
    /// How often its launch was begun.
    pub attempts: u32,
    /// The number of the host that has launched it; -1 if that was the front end, or if its
    /// launch has not begun.
    pub launcher: i64,
    /// From the beginning of the launch to the start of this host.
    pub started: libi_micros,
    /// From its start to the hello of its leader; -1 if there was none.
    pub hello: libi_micros,
    /// From the hello until all its members were up; -1 if they were not.
    pub joined: libi_micros,
    /// 1 if its link to the host that launched it is direct; 0 if it is the channel of the remote
    /// shell, although it was to be direct; -1 otherwise.
    pub direct: i32,
    /// Whether its first member's own process carries its part of the tree, although the launch has
    /// LIBI_ENGINE_APART.
    pub in_program: bool,
    /// Why it has not joined; NULL if it has.
    pub failure: *const libi_failure,
}

/// The replacement of a host by a spare. Strings and failures belong to the report. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_report_replacement_info {
    /// The number of the host.
    pub host: u32,
    /// The name that failed.
    pub name: *const c_char,
    /// The name of the spare.
    pub spare: *const c_char,
    /// Why it was replaced.
    pub failure: *const libi_failure,
}

/// Frees a report. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_free(report: *mut libi_report) {
    // SAFETY: as documented in the header.
    unsafe { object::free(report) }
}

/// Fills *info with the report as a whole. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_query(
    report: *const libi_report,
    info: *mut libi_report_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(report, info, size, |view| {
            let (report, flat) = (&view.report, view.flat.as_ref());
            let cost = report.cost().map(|cost| (micros(cost.seq), micros(cost.rem)));
            let (cost_seq, cost_rem) = cost.unwrap_or((-1, -1));
            let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            Ok(libi_report_info {
                session: report.session().0,
                hosts: count(view.names.len()),
                joined: count(report.joined()),
                replacements: count(view.replaced.len()),
                is_up: report.is_up(),
                took: micros(report.took()),
                cost_seq,
                cost_rem,
                flat_host: flat.map_or(null(), |flat| flat.0.as_ptr()),
                flat_failure: flat.map_or(null(), |flat| flat.1.as_ptr()),
            })
        })
    }
}

/// Fills *info with a host.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_host(
    report: *const libi_report,
    host: u32,
    info: *mut libi_report_host_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(report, info, size, |view| {
            let at = host as usize;
            let none = || CallError::new(LIBI_NONE, "there is no such host");
            let (host, name) = view.report.hosts().get(at).zip(view.names.get(at)).ok_or_else(none)?;
            let failure = view.failures.get(at).and_then(Option::as_ref);
            Ok(libi_report_host_info {
                name: name.as_ptr(),
                members: host.members,
                attempts: host.attempts,
                launcher: host.launcher.map_or(-1, |launcher| i64::from(launcher.0)),
                started: micros(host.started),
                hello: host.hello.map_or(-1, micros),
                joined: host.joined.map_or(-1, micros),
                direct: host.direct.map_or(-1, i32::from),
                in_program: host.in_program,
                failure: failure.map_or(null(), OwnedPart::as_ptr),
            })
        })
    }
}

/// Fills *info with a replacement, counted from 0.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such replacement. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_replacement(
    report: *const libi_report,
    index: u32,
    info: *mut libi_report_replacement_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(report, info, size, |view| {
            let at = index as usize;
            let none = || CallError::new(LIBI_NONE, "there is no such replacement");
            let found = view.report.replaced().get(at).zip(view.replaced.get(at));
            let (replaced, ([name, spare], failure)) = found.ok_or_else(none)?;
            Ok(libi_report_replacement_info {
                host: replaced.host.0,
                name: name.as_ptr(),
                spare: spare.as_ptr(),
                failure: failure.as_ptr(),
            })
        })
    }
}

/// The report for people: failures grouped by cause, with the hosts folded, the evidence quoted,
/// and a hint. NULL for NULL. The string belongs to the report. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_text(report: *const libi_report) -> *const c_char {
    // SAFETY: as documented in the header.
    unsafe {
        ask(report, null(), |view| view.text.get_or_init(|| c_string(&view.report.to_string())).as_ptr())
    }
}

/// The timeline of the launch as Chrome trace JSON, which "libi trace" reads too. NULL for NULL.
/// The string belongs to the report. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_json(report: *const libi_report) -> *const c_char {
    // SAFETY: as documented in the header.
    unsafe {
        ask(report, null(), |view| {
            view.json.get_or_init(|| c_string(&view.report.timeline().chrome_json())).as_ptr()
        })
    }
}

/// The timeline of the launch as SVG, beside its prediction. NULL for NULL. The string belongs to
/// the report. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_report_svg(report: *const libi_report) -> *const c_char {
    // SAFETY: as documented in the header.
    unsafe {
        ask(report, null(), |view| view.svg.get_or_init(|| c_string(&view.report.timeline().svg())).as_ptr())
    }
}
