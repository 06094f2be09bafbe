//! Messages that a thread has received, until the program asks for them.
//!
//! | event | data | answer | next call |
//! |---|---|---|---|
//! | [`Message::Data`] | kept, in order | - | [`Mailbox::data`] returns the first |
//! | [`Message::Release`] | - | the last one is kept | [`Mailbox::answer`] returns it |
//! | the sender is lost | kept | kept | what is there, then the failure |

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use libi::Bytes;

use super::codes::{ESUBCOM, ETOUT};
use super::messages::Message;
use crate::compat::{CallError, CallResult, lock};

#[derive(Debug, Default)]
struct Mail {
    data: VecDeque<Bytes>,
    answer: Option<u32>,
    over: Option<String>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

impl Mailbox {
    pub(super) fn put(&self, message: Message) {
        let mut mail = lock(&self.mail);
        match message {
            Message::Data(data) => mail.data.push_back(data),
            Message::Release(number) => mail.answer = Some(number),
        }
        self.changed.notify_all();
    }

    /// Nothing comes any more, for this reason.
    pub(super) fn close(&self, why: String) {
        lock(&self.mail).over.get_or_insert(why);
        self.changed.notify_all();
    }

    /// The next data.
    pub(super) fn data(&self, timeout: Duration) -> CallResult<Bytes> {
        self.take(timeout, |mail| mail.data.pop_front())
    }

    /// The answer to a release.
    pub(super) fn answer(&self, timeout: Duration) -> CallResult<u32> {
        self.take(timeout, |mail| mail.answer.take())
    }

    fn take<T>(&self, timeout: Duration, take: impl Fn(&mut Mail) -> Option<T>) -> CallResult<T> {
        let (mut taken, mut why) = (None, None);
        let goes_on = |mail: &mut Mail| {
            taken = take(mail);
            why.clone_from(&mail.over);
            taken.is_none() && why.is_none()
        };
        let mail = lock(&self.mail);
        drop(self.changed.wait_timeout_while(mail, timeout, goes_on).unwrap_or_else(PoisonError::into_inner));
        match (taken, why) {
            (Some(taken), _) => Ok(taken),
            (None, Some(why)) => Err(CallError::new(ESUBCOM, why)),
            (None, None) => Err(CallError::new(ETOUT, format!("nothing has come within {timeout:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_is_there_also_when_nothing_comes_any_more() {
        let mailbox = Mailbox::default();
        assert_eq!(mailbox.data(Duration::ZERO).unwrap_err().code, ETOUT);
        [Message::Data("a".into()), Message::Release(3), Message::Data("b".into())]
            .into_iter()
            .for_each(|message| mailbox.put(message));
        mailbox.close("it is lost".to_owned());
        assert_eq!(mailbox.data(Duration::MAX).unwrap(), "a");
        assert_eq!(mailbox.answer(Duration::MAX).unwrap(), 3);
        assert_eq!(mailbox.data(Duration::MAX).unwrap(), "b");
        assert_eq!(mailbox.data(Duration::MAX).unwrap_err().text, "it is lost");
        assert_eq!(mailbox.answer(Duration::MAX).unwrap_err().code, ESUBCOM);
    }

    #[test]
    fn a_caller_that_waits_is_woken() {
        let mailbox = std::sync::Arc::new(Mailbox::default());
        let other = std::sync::Arc::clone(&mailbox);
        let waits = std::thread::spawn(move || other.data(Duration::from_secs(60)));
        mailbox.put(Message::Data("a".into()));
        assert_eq!(waits.join().unwrap().unwrap(), "a");
    }
}
