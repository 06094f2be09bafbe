//! Launches that do not come up as asked: what their reports say of each host, and when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libi::{Distribution, Error, FrontEnd, LaunchOptions, LaunchReport};

use crate::{TIMEOUT, options};
use libi_testkit::labs::{Marked, Slurm};

/// Two members on each of four nodes.
pub(crate) const HOSTS: &str = "s[0001-0004]:2";
/// What members do that have nothing to wait for.
pub(crate) const WORDS: [&str; 2] = ["join", "finish:30000"];

/// A launch whose outcome is checked.
pub(crate) struct Launch<'a> {
    pub(crate) lab: &'a Slurm,
    pub(crate) mark: Marked,
    pub(crate) distribution: Distribution,
    pub(crate) options: LaunchOptions,
}

impl<'a> Launch<'a> {
    /// Of the members of the testkit on these hosts.
    pub(crate) fn of(lab: &'a Slurm, hosts: &str, words: &[&str]) -> Self {
        Self::of_program(lab, &lab.member(), hosts, words)
    }

    pub(crate) fn of_program(lab: &'a Slurm, program: &str, hosts: &str, words: &[&str]) -> Self {
        let mark = Marked::new();
        let distribution = mark.program(program, hosts, words);
        Self { lab, mark, distribution, options: options(lab.srun()) }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(LaunchOptions) -> LaunchOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// Launches it, and does this meanwhile. Gives the report, which has to come within this time,
    /// and whether the session is up. Then it is ended, and no step and no process is left.
    pub(crate) fn report(self, within: Duration, meanwhile: impl FnOnce()) -> (Arc<LaunchReport>, bool) {
        let lab = self.lab;
        let report = self.disturbed_beside(within, |_| meanwhile());
        lab.nothing_runs();
        let is_up = report.is_up();
        (report, is_up)
    }

    /// The same, with something that depends on the launch.
    pub(crate) fn disturbed(self, within: Duration, meanwhile: impl FnOnce(&Marked)) -> Arc<LaunchReport> {
        let lab = self.lab;
        let report = self.disturbed_beside(within, meanwhile);
        lab.nothing_runs();
        report
    }

    /// The same, beside another session.
    pub(crate) fn disturbed_beside(
        self,
        within: Duration,
        meanwhile: impl FnOnce(&Marked),
    ) -> Arc<LaunchReport> {
        let front = FrontEnd::new().unwrap();
        let began = Instant::now();
        let session = front.start(&self.distribution, &self.options).unwrap();
        meanwhile(&self.mark);
        let report = match session.wait_up(TIMEOUT) {
            Ok(report) | Err(Error::NotLaunched(report)) => report,
            Err(error) => panic!("{error}"),
        };
        let took = began.elapsed();
        println!("after {took:?}: {report}");
        assert!(took < within, "{took:?} for: {report}");
        drop((session, front));
        self.mark.nothing_is_left();
        report
    }

    /// It fails.
    pub(crate) fn fails(self, within: Duration) -> Arc<LaunchReport> {
        let (report, is_up) = self.report(within, || ());
        assert!(!is_up, "{report}");
        report
    }

    /// It comes up, with fewer hosts or with others.
    pub(crate) fn comes_up(self, within: Duration) -> Arc<LaunchReport> {
        let (report, is_up) = self.report(within, || ());
        assert!(is_up, "{report}");
        report
    }
}

/// The report says all of this of this host.
pub(crate) fn says(report: &LaunchReport, host: &str, words: &[&str]) {
    let text = report.to_string();
    let failed = report.failed().find(|(it, _)| it.name == host);
    let (_, failure) = failed.unwrap_or_else(|| panic!("{host} has not failed: {text}"));
    for words in words {
        assert!(text.contains(words), "no {words:?} in {text}");
        let own = format!("{} {}", failure.cause, failure.tail);
        assert!(own.contains(words), "{host}: no {words:?} in {own:?}");
    }
}
