//! Which of the streams takes the next piece of a flow. Pure: time and what a socket holds come in as arguments.
//!
//! What few streams carry goes by the first of them: a connection that carried something lately has a window for it;
//! another one begins slowly, a round trip for each doubling. But what the first one's window has no room for waits in
//! its socket for as long, while the others' windows lie empty: then it is theirs. So a flow that begins has the first
//! windows of all its streams, and one that runs evenly keeps one of them wide.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a piece is left to a stream that is thought to be idle.
pub const LEFT_MAX: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug, Default)]
pub struct Choice {
    /// Streams that found nothing to do, and whose sockets have sent all they were given.
    idle: BTreeSet<u16>,
    /// Since when a piece is left to one of them.
    left: Option<Instant>,
}

/// What a stream is to do that asks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take the first piece that waits.
    Take,
    /// Leave it to others; look again after at most [`LEFT_MAX`] if something is left.
    Leave {
        /// Others may have left it to this one, and are to look again.
        is_news: bool,
    },
}

impl Choice {
    /// `waiting` pieces wait; `is_behind`: the stream's socket holds bytes that its window has no room for.
    pub fn ask(&mut self, stream: u16, waiting: usize, is_behind: bool, now: Instant) -> Verdict {
        let was_idle = self.idle.remove(&stream);
        let better = match is_behind {
            true => self.idle.len(),
            false => self.idle.range(..stream).count(),
        };
        // One that is idle here may be at work for another transfer.
        let is_left_long = self.left.is_some_and(|since| now.saturating_duration_since(since) >= LEFT_MAX);
        if waiting > better || (waiting > 0 && is_left_long) {
            self.left = None;
            return Verdict::Take;
        }
        if !is_behind {
            self.idle.insert(stream);
        }
        self.left = if waiting > 0 { self.left.or(Some(now)) } else { None };
        Verdict::Leave { is_news: is_behind && was_idle && waiting > 0 }
    }

    /// Whether a piece is left to a stream that is thought to be idle.
    pub fn is_left(&self) -> bool {
        self.left.is_some()
    }

    /// A stream is gone.
    pub fn forget(&mut self, stream: u16) {
        self.idle.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAVE: Verdict = Verdict::Leave { is_news: false };

    fn all_idle(streams: u16, now: Instant) -> Choice {
        let mut choice = Choice::default();
        for stream in 0..streams {
            assert_eq!(choice.ask(stream, 0, false, now), LEAVE);
        }
        choice
    }

    #[test]
    fn one_piece_goes_by_the_first_stream_whoever_asks_first() {
        let now = Instant::now();
        let mut choice = all_idle(4, now);
        assert_eq!(choice.ask(3, 1, false, now), LEAVE);
        assert!(choice.is_left());
        assert_eq!(choice.ask(0, 1, false, now), Verdict::Take);
        assert!(!choice.is_left());
    }

    #[test]
    fn many_pieces_go_by_as_many_streams() {
        let now = Instant::now();
        let mut choice = all_idle(4, now);
        assert_eq!(choice.ask(2, 3, false, now), Verdict::Take);
        assert_eq!(choice.ask(3, 2, false, now), LEAVE);
        assert_eq!(choice.ask(1, 2, false, now), Verdict::Take);
        assert_eq!(choice.ask(0, 1, false, now), Verdict::Take);
    }

    #[test]
    fn what_the_first_ones_window_has_no_room_for_is_the_next_ones() {
        let now = Instant::now();
        let mut choice = all_idle(3, now);
        assert_eq!(choice.ask(1, 1, false, now), LEAVE, "the first is thought to be idle");
        assert_eq!(choice.ask(0, 1, true, now), Verdict::Leave { is_news: true });
        assert_eq!(choice.ask(0, 1, true, now), LEAVE, "told once");
        assert_eq!(choice.ask(1, 1, false, now), Verdict::Take);
        assert_eq!(choice.ask(1, 1, true, now), LEAVE);
        assert_eq!(choice.ask(2, 1, false, now), Verdict::Take);
        assert_eq!(choice.ask(0, 1, true, now), Verdict::Take, "all are behind: nobody is better");
    }

    #[test]
    fn more_than_the_idle_ones_can_take_is_taken_by_those_behind_too() {
        let now = Instant::now();
        let mut choice = all_idle(3, now);
        assert_eq!(choice.ask(0, 3, true, now), Verdict::Take);
        assert_eq!(choice.ask(0, 2, true, now), LEAVE);
    }

    #[test]
    fn a_piece_is_not_left_for_long() {
        let now = Instant::now();
        let mut choice = all_idle(2, now);
        assert_eq!(choice.ask(1, 1, false, now), LEAVE);
        assert_eq!(choice.ask(1, 1, false, now + LEFT_MAX / 2), LEAVE);
        assert_eq!(choice.ask(1, 1, false, now + LEFT_MAX), Verdict::Take);
        let mut choice = all_idle(2, now);
        choice.forget(0);
        assert_eq!(choice.ask(1, 1, false, now), Verdict::Take, "a stream that is gone is left nothing");
    }
}
