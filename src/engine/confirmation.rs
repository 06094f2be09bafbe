//! Whether the other end of a direct link has what was sent, by its own word.
//!
//! | state | something is sent | a request is sent | the answer to it arrives |
//! |---|---|---|---|
//! | unasked | unasked | asked | |
//! | asked | unasked | asked | given |
//! | given | unasked | | |

/// Whether the other end has confirmed that it has received everything. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// It was not asked since something was sent.
    #[default]
    Unasked,
    /// It was asked by the request of this number.
    Asked(u64),
    Given,
}

impl Confirmation {
    /// Something is sent that the other end has not confirmed.
    pub(super) fn sent(&mut self) {
        *self = Self::Unasked;
    }

    /// The other end was asked, by the frame queued last.
    pub(super) fn asked(&mut self, number: u64) {
        *self = Self::Asked(number);
    }

    /// The other end has confirmed what was sent before the request of this number.
    pub(super) fn answered(&mut self, number: u64) {
        if *self == Self::Asked(number) {
            *self = Self::Given;
        }
    }

    pub(super) fn is_given(self) -> bool {
        self == Self::Given
    }

    /// Whether it was not asked since something was sent.
    pub(super) fn may_be_asked(self) -> bool {
        self == Self::Unasked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_the_last_request_confirms_and_only_until_more_is_sent() {
        let mut confirmation = Confirmation::default();
        confirmation.answered(0);
        assert!(confirmation.may_be_asked() && !confirmation.is_given());
        confirmation.asked(1);
        confirmation.asked(2);
        confirmation.answered(1);
        assert!(!confirmation.is_given() && !confirmation.may_be_asked());
        confirmation.answered(2);
        assert!(confirmation.is_given());
        confirmation.sent();
        confirmation.answered(2);
        assert!(confirmation.may_be_asked());
    }
}
