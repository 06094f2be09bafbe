//! Carries out the starts of a launching process. The states are in the [crate].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use libi_launch::ssh_client::{ClientAnswer, ClientRequest, ClientStart};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::Streams;
use crate::message_socket::MessageSocket;

/// What carrying out a start comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing was done, and the streams are as they were.
    Declined {
        /// What cannot be done, as a clause.
        why: String,
        /// Whether it would be the same for every other host.
        of_all: bool,
    },
    /// The exit status.
    Ended(i32),
}

/// Serves the launching process at the other end of the socket until that is closed, and all
/// connections that are to outlive it have ended. `carry_out` is given a start and its streams, and tells
/// by the last parameter when it takes the start.
pub(crate) async fn serve<F, C>(socket: MessageSocket, carry_out: C) -> io::Result<()>
where
    C: Fn(ClientStart, Streams, Taken) -> F,
    F: Future<Output = Outcome> + Send + 'static,
{
    let (over, is_over) = watch::channel(false);
    let mut starts = JoinSet::new();
    loop {
        let next = tokio::select! {
            next = socket.next::<ClientStart>() => next,
            Some(_) = starts.join_next() => continue,
        };
        // What is no start cannot be answered either; the launching process sees that it has no other end.
        let Ok(Some((start, fds))) = next else { break };
        let Ok([stdin, stdout, stderr, answers]) = <[OwnedFd; 4]>::try_from(fds) else { continue };
        let answers = Arc::new(MessageSocket::new(answers)?);
        let taken = Taken(Arc::clone(&answers));
        let outcome = carry_out(start, Streams { stdin, stdout, stderr }, taken);
        starts.spawn(attend(answers, outcome, is_over.clone()));
    }
    let _ = over.send(true); // without receivers there is nothing to end
    while starts.join_next().await.is_some() {}
    Ok(())
}

/// Tells the launching process that a start is taken.
pub(crate) struct Taken(Arc<MessageSocket>);

impl Taken {
    /// From now on, the streams are in use.
    pub(crate) fn tell(self) {
        let _ = self.0.send(&ClientAnswer::Taken); // it is seen elsewhere that no other end is left
    }
}

/// Carries out one start, unless the launching process closes its socket before.
async fn attend(
    answers: Arc<MessageSocket>,
    outcome: impl Future<Output = Outcome>,
    mut is_over: watch::Receiver<bool>,
) {
    if answers.send(&ClientAnswer::Received).is_err() {
        return;
    }
    let given_up = async {
        let request = tokio::select! {
            request = answers.next::<ClientRequest>() => request.ok().flatten(),
            () = ended(&mut is_over) => answers.pending(),
        };
        if let Some((ClientRequest::Keep, _)) = request {
            // Nothing ends it any more but the command itself.
            std::future::pending::<()>().await;
        }
    };
    let answer = tokio::select! {
        () = given_up => return,
        outcome = outcome => match outcome {
            Outcome::Declined { why, of_all } => ClientAnswer::Declined { why, of_all },
            Outcome::Ended(code) => ClientAnswer::Ended(code),
        },
    };
    let _ = answers.send(&answer); // nothing is left to do if there is no other end
}

/// Returns when the launching process has ended, or has closed its socket.
async fn ended(is_over: &mut watch::Receiver<bool>) {
    let _ = is_over.wait_for(|over| *over).await; // without a sender it has ended as well
}

#[cfg(test)]
mod tests;
