//! Reading again what was there before: told while it lasts.
//!
//! Nothing that an earlier attempt left is believed before it was read and compared, at both ends; that takes as long
//! as reading takes, and whoever waits shall see that it goes on.

use std::time::{Duration, Instant};

/// Less is read before anybody could read what is told of it.
const TOLD_FROM_BYTES: u64 = 16 << 20;
/// Between two tellings.
const EVERY: Duration = Duration::from_secs(10);

/// How far it is, and when that was told.
#[derive(Debug)]
pub struct Reread {
    what: String,
    of: u64,
    told: Option<Instant>,
}

impl Reread {
    /// Of so many bytes of what is called that.
    pub fn new(what: String, of: u64) -> Reread {
        Reread { what, of, told: None }
    }

    /// So many are read: what to tell of it, if it is time.
    pub fn look(&mut self, done: u64, now: Instant) -> Option<String> {
        let is_due = self.told.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if self.of < TOLD_FROM_BYTES || !is_due {
            return None;
        }
        let is_first = self.told.replace(now).is_none();
        let (what, of) = (&self.what, self.of);
        Some(match is_first {
            true => format!("reading {of} bytes of {what} again, to go on behind them"),
            false => format!("{} % of them are read", done.saturating_mul(100) / of.max(1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_at_once_and_then_now_and_then() {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut small = Reread::new("x".into(), TOLD_FROM_BYTES - 1);
        assert_eq!(small.look(0, now), None);
        let mut large = Reread::new("run7.dat".into(), 1 << 30);
        let told = large.look(0, now).unwrap();
        assert_eq!(told, "reading 1073741824 bytes of run7.dat again, to go on behind them");
        assert_eq!(large.look(1 << 28, later(9)), None);
        assert_eq!(large.look(1 << 29, later(10)).unwrap(), "50 % of them are read");
        assert_eq!(large.look(1 << 30, later(19)), None);
    }
}
