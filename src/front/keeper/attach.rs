//! A front end attaches to a session that a keeper keeps.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::Attachment;
use super::message::Launch;
use super::start::host_name;
use super::ticket::{Ticket, is_locked};
use crate::front::runtime::FrontCommand;
use crate::front::{Error, FrontEnd, Session};

impl FrontEnd {
    /// Attaches to a [detached](crate::LaunchOptions::detached) session, which this ticket file admits to.
    /// A front end that had the session before has it no more: it gets
    /// [`Event::Revoked`](crate::Event::Revoked).
    ///
    /// Everything about the session is known here as it was there: its report, its ranks, which of them have
    /// ended. Events that the front end before has not taken, messages that it has not received, follow.
    /// A session that is over is found until its time without a front end has passed, once.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use libi::{Detached, Distribution, FrontEnd, LaunchOptions};
    ///
    /// libi::agent::serve_if_asked(); // it is the keeper, too
    /// let front_end = FrontEnd::new()?;
    /// let session = match front_end.attach("daemons.ticket", Duration::from_secs(10)) {
    ///     Ok(session) => session, // they are running
    ///     Err(_) => {
    ///         let detached = Detached::new("daemons.ticket", Duration::from_secs(3600));
    ///         let options = LaunchOptions::new().detached(detached);
    ///         front_end.launch(&Distribution::new("daemon").hosts("node[1-4]"), &options)?
    ///     }
    /// };
    /// # let _ = session;
    /// # Ok::<(), libi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAttached`]: the file is missing, is not this user's or can be read by others; nothing
    /// answers where it says; the keeper is of another version of libi; or `timeout` elapsed first.
    pub fn attach(&self, ticket: impl AsRef<Path>, timeout: Duration) -> Result<Session, Error> {
        let path = ticket.as_ref();
        self.attach_to(path, None, timeout).map_err(|why| Error::NotAttached { ticket: path.to_owned(), why })
    }

    pub(super) fn attach_to(
        &self,
        path: &Path,
        launch: Option<Box<Launch>>,
        timeout: Duration,
    ) -> Result<Session, String> {
        let ticket = Ticket::read(path)?;
        if ticket.is_locked && ticket.host == host_name() && !is_locked(path) {
            return Err(format!("{}, which kept it, has ended", ticket.place()));
        }
        let (number, place) = (self.next_number(), ticket.place());
        self.runtime.with(|state| state.attaching.insert(number, None));
        let attachment = Attachment { ticket, launch, timeout };
        self.runtime.send(FrontCommand::Attach(number, Box::new(attachment)));
        let answer = self.runtime.wait(timeout, |state| state.attaching.get(&number)?.clone());
        self.runtime.with(|state| state.attaching.remove(&number));
        match answer {
            Some(Ok(layout)) => {
                let runtime = Arc::clone(&self.runtime);
                Ok(Session { runtime, number, layout, is_kept: true })
            }
            Some(Err(why)) => Err(why),
            None => {
                self.runtime.send(FrontCommand::Retire(number));
                Err(format!("{place}, which keeps it, has not answered in time"))
            }
        }
    }
}
