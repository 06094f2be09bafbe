//! What follows when members are lost, chosen anew while the session runs.

use libi_launch::options::OnLoss;

use super::{Error, FrontCommand, Session};

impl Session {
    /// Chooses what follows when a member is lost from now on. The session may end by a loss or not at any
    /// time, as a debugger does that needs all processes for a while:
    ///
    /// | launched with | may be changed to |
    /// |---|---|
    /// | [`OnLoss::Continue`] | [`OnLoss::End`], and back |
    /// | [`OnLoss::Fail`], [`OnLoss::End`] | [`OnLoss::End`], [`OnLoss::Fail`] |
    ///
    /// Whether calls go on after a loss stays as it was at the launch: members keep what others may need from
    /// their first call on. A loss of which the front end hears later follows the new choice; losses before
    /// it have had their consequences.
    ///
    /// # Errors
    /// The choice is not possible in this session, or the session has ended.
    pub fn set_on_loss(&self, on_loss: OnLoss) -> Result<(), Error> {
        self.runtime.with(|state| {
            let status = state.sessions.get_mut(&self.number).ok_or(Error::Closed)?;
            if on_loss != OnLoss::End && (on_loss == OnLoss::Continue) != status.calls_continue {
                return Err(Error::OnLossFixed(on_loss));
            }
            status.on_loss = on_loss;
            Ok(())
        })?;
        if self.is_kept {
            self.runtime.send(FrontCommand::OnLoss(self.number, on_loss));
        }
        Ok(())
    }
}
