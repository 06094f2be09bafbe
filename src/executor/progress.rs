//! The choice between a thread of libi and the calls of the program.

/// How the runtime makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A background thread of libi, in which all signals are blocked.
    #[default]
    Thread,
    /// The caller drives the runtime: wait until the [descriptor] is readable or the [timeout] has
    /// elapsed, then [dispatch]. Calls that wait drive it as well. Use a thread that lives as long as
    /// the process, preferably the main thread: otherwise processes that never join may survive when
    /// this process is killed.
    ///
    /// [descriptor]: crate::FrontEnd::descriptor
    /// [timeout]: crate::FrontEnd::next_timeout
    /// [dispatch]: crate::FrontEnd::dispatch
    Manual,
}
