//! How many hosts are done, as a bar on the terminal; elsewhere nothing is shown.
//!
//! The bar is the last line of the terminal. Anything else is printed after [`Progress::clear`], and
//! the bar comes back below it when there is news to show.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// See the [module](self).
pub(crate) struct Progress {
    hosts: usize,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// The progress of something that is done for so many hosts.
    pub(crate) fn of(hosts: usize) -> Self {
        Self { hosts, bar: None }
    }

    /// Shows how many are done, and what that means.
    pub(crate) fn show(&mut self, done: usize, what: String) {
        let bar = self.bar.get_or_insert_with(|| new_bar(self.hosts));
        bar.set_message(what);
        bar.set_position(done as u64);
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(hosts: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(hosts as u64), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("[{bar:30}] {pos} of {len} hosts {msg}") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
