//! Counts what a link carries, to find those that are worth a direct connection.

/// What a link carries before it is worth a direct connection, in bytes; and what a frame of a
/// call counts beside its bytes, for which remote shells take as long.
const BUSY: u32 = 128 << 10;
const FRAME_COUNTS: usize = 4 << 10;

/// What a link has carried since it is watched. A link that is not watched counts nothing.
#[derive(Debug, Default)]
pub(super) struct LinkLoad {
    /// What it carries until that is reported, while it is to be.
    until_busy: Option<u32>,
}

impl LinkLoad {
    /// Has it reported when the link has carried enough to be worth a direct connection.
    pub(super) fn watch(&mut self) {
        self.until_busy = Some(BUSY);
    }

    pub(super) fn is_watched(&self) -> bool {
        self.until_busy.is_some()
    }

    /// So many bytes are sent or received.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some(rest) = &mut self.until_busy {
            *rest = rest.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// A frame of the communication half is sent or received, that may belong to a call.
    pub(super) fn add_frame(&mut self, is_of_a_call: bool) {
        if is_of_a_call {
            self.add(FRAME_COUNTS);
        }
    }

    /// Whether the link is watched, and has carried enough; once.
    pub(super) fn take_busy(&mut self) -> bool {
        self.until_busy.take_if(|rest| *rest == 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_link_is_busy_once_after_enough_bytes_or_frames() {
        let frames = BUSY as usize / FRAME_COUNTS;
        for (bytes, calls, busy) in
            [(BUSY as usize, 0, true), (BUSY as usize - 1, 0, false), (0, frames, true)]
        {
            let mut load = LinkLoad::default();
            load.add(usize::MAX);
            assert!(!load.take_busy(), "it is not watched");
            load.watch();
            load.add(bytes);
            (0..calls).for_each(|_| load.add_frame(true));
            (0..frames).for_each(|_| load.add_frame(false));
            assert_eq!((load.take_busy(), load.take_busy()), (busy, false), "{bytes} bytes, {calls} frames");
        }
    }
}
