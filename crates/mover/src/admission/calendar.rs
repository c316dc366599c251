//! The calendar of a way: windows that never overlap.
//!
//! A slot is a window of length `l` that opens at `o`, `o + p`, `o + 2p`, ...; in it its owner sends at the whole rate
//! of the way, and nobody else who has a slot sends.
//!
//! **Two slots never overlap** exactly if, with `g = gcd(p1, p2)` and `d = (o2 - o1) mod g`: `d >= l1` and `g - d >=
//! l2`. Proof. The distances from an opening of the first to one of the second are `o2 - o1 + a p2 - b p1` for all
//! whole `a`, `b`; by Bézout these are all numbers that leave the rest `d` when divided by `g`. Windows overlap where
//! such a distance lies within `(-l2, l1)`. The smallest that is not negative is `d`, the largest negative one `d - g`.
//! So none lies within exactly if `d >= l1` and `d - g <= -l2`. (Openings have a beginning; there are only fewer of
//! them.) J. Korst et al., "Periodic multiprocessor scheduling", PARLE 1991, has the same for machines.
//!
//! **The promise.** A burst of `n` bytes takes `n / rate`, so a window of `l = n / rate + guard` carries it, whatever
//! the others do. If bursts are ready at `r + k p` and windows open at `r + x + k p`, every burst has arrived `x + l`
//! after it was ready; the calendar takes the smallest `x` at which no window overlaps, and refuses if `x + l` is above
//! the deadline. If bytes become ready at any time, the window they wait for opens at most `p` later: `p + l`.
//!
//! Not done: windows that stand are never moved for one that comes; so an order of coming may be refused where another
//! would have fitted. Periods that have no large common divisor fit badly: the refusal says so.

use std::collections::BTreeMap;
use thalweg_wire::limits;
use thalweg_wire::message::{Rhythm, SlotWish};

/// Windows of one slot, in microseconds since the calendar's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// From one opening to the next.
    pub period: u64,
    /// When one of them opens; below the period.
    pub offset: u64,
    /// How long each is: from 1 to the period.
    pub length: u64,
}

impl Windows {
    /// Whether no window of the one ever overlaps one of the other: see the module.
    pub fn is_apart(&self, other: &Windows) -> bool {
        let common = gcd(self.period, other.period);
        let distance = (i128::from(other.offset) - i128::from(self.offset)).rem_euclid(i128::from(common));
        distance >= i128::from(self.length) && i128::from(common) - distance >= i128::from(other.length)
    }

    /// When the first window opens that does not open before `now`.
    pub fn opens(&self, now: u64) -> u64 {
        let late = (now + self.period - self.offset) % self.period;
        if late == 0 { now } else { now + self.period - late }
    }

    /// The share of all time.
    pub fn load(&self) -> f64 {
        self.length as f64 / self.period as f64
    }
}

/// What is promised to who takes a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// When it may send.
    pub windows: Windows,
    /// Bytes that a window is for.
    pub bytes: u64,
    /// From ready to arrived at worst, in microseconds.
    pub worst: u64,
    /// Whenever bytes become ready; else only if bursts are ready a period apart.
    pub is_any_time: bool,
}

/// Why a slot cannot be had, by how much, and what could.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The deadline is shorter than the burst takes with the way for itself, in microseconds.
    Deadline {
        /// What was asked.
        asked: u64,
        /// What it takes alone.
        alone: u64,
    },
    /// All slots together would be more than the way carries: shares of its time.
    Load {
        /// What this one would take.
        wanted: f64,
        /// What is left.
        left: f64,
    },
    /// There is no room for its windows where they would be early enough.
    Crowded {
        /// The shortest deadline with which the rest would fit, in microseconds.
        deadline: Option<u64>,
        /// The largest burst that would fit with everything else as asked.
        bytes: Option<u64>,
        /// A period with which the same bytes a second would fit, in microseconds.
        period: Option<u64>,
    },
    /// There are as many slots as a server may have.
    Full,
}

/// The windows of all slots.
#[derive(Debug, Clone)]
pub struct Calendar {
    bytes_per_s: u64,
    held: BTreeMap<u64, Promise>,
    next: u64,
}

impl Calendar {
    /// Of a way that carries so many bytes a second, at least 1.
    pub fn new(bytes_per_s: u64) -> Calendar {
        Calendar { bytes_per_s: bytes_per_s.max(1), held: BTreeMap::new(), next: 0 }
    }

    /// What the way carries, in bytes a second.
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    /// What is promised, by the numbers that [`Calendar::hold`] gave.
    pub fn held(&self) -> impl Iterator<Item = (u64, &Promise)> {
        self.held.iter().map(|(number, promise)| (*number, promise))
    }

    /// The share of the way's time that is taken.
    pub fn load(&self) -> f64 {
        self.held.values().map(|promise| promise.windows.load()).sum()
    }

    /// What can be promised to who wishes this at `now`. Nothing is taken yet.
    ///
    /// # Errors
    /// Why nothing.
    pub fn admit(&self, wish: &SlotWish, now: u64) -> Result<Promise, Refusal> {
        if self.held.len() >= limits::SLOTS_MAX {
            return Err(Refusal::Full);
        }
        match wish.rhythm {
            Rhythm::Bursts { period_micros, bytes } => {
                let asked = Sought::of(wish, now, period_micros, bytes);
                self.place(&asked).map_err(|refused| self.explain(&asked, refused))
            }
            Rhythm::Steady { bytes_per_s } => self.admit_steady(wish, now, bytes_per_s),
        }
    }

    /// Whether what was promised with other windows in place may be held with these.
    pub fn has_room_for(&self, promise: &Promise) -> bool {
        let is_apart = |other: &Promise| promise.windows.is_apart(&other.windows);
        self.held.len() < limits::SLOTS_MAX && self.held.values().all(is_apart)
    }

    /// Takes what was promised; the number gives it back.
    pub fn hold(&mut self, promise: Promise) -> u64 {
        self.next += 1;
        self.held.insert(self.next, promise);
        self.next
    }

    /// Gives a slot back.
    pub fn release(&mut self, number: u64) -> Option<Promise> {
        self.held.remove(&number)
    }

    /// A byte waits for at most one period, and its window is as long as what came in a period takes: the longest
    /// period of those that fit the others and keep the deadline.
    fn admit_steady(&self, wish: &SlotWish, now: u64, bytes_per_s: u64) -> Result<Promise, Refusal> {
        let share = bytes_per_s as f64 / self.bytes_per_s as f64;
        let free = 1.0 - self.load();
        if share > free {
            return Err(Refusal::Load { wanted: share, left: free.max(0.0) });
        }
        let room = wish.deadline_micros.saturating_sub(wish.guard_micros + ROUNDING);
        let longest = ((room as f64 / (1.0 + share)) as u64).min(limits::SLOT_PERIOD_MICROS_MAX);
        let mut periods: Vec<u64> =
            self.periods().into_iter().flat_map(|period| parts(period, longest)).collect();
        periods.push(longest);
        periods.retain(|&period| period >= limits::SLOT_PERIOD_MICROS_MIN);
        periods.sort_unstable_by(|a, b| b.cmp(a));
        periods.dedup();
        let mut refused = Refusal::Deadline {
            asked: wish.deadline_micros,
            alone: limits::SLOT_PERIOD_MICROS_MIN + wish.guard_micros,
        };
        let mut last = None;
        for period in periods.into_iter().take(PERIODS_TRIED_MAX) {
            let bytes = (u128::from(bytes_per_s) * u128::from(period)).div_ceil(1_000_000) as u64;
            let asked = Sought::of(wish, now, period, bytes);
            match self.place(&asked) {
                // Its bytes are ready at any time: no other promise is of use.
                Ok(promise) if promise.is_any_time => return Ok(promise),
                Ok(_) => {}
                Err(why) => (refused, last) = (why, Some(asked)),
            }
        }
        Err(match last {
            Some(asked) => self.explain(&asked, refused),
            None => refused,
        })
    }

    /// The earliest windows that are apart from all others.
    fn place(&self, asked: &Sought) -> Result<Promise, Refusal> {
        let length = self.length(asked.bytes, asked.guard);
        let is_any_time = length.is_some_and(|length| asked.period + length <= asked.deadline);
        let alone = length.unwrap_or(u64::MAX);
        let (Some(length), true) = (length, alone <= asked.deadline) else {
            return Err(Refusal::Deadline { asked: asked.deadline, alone });
        };
        let (wanted, left) = (length as f64 / asked.period as f64, 1.0 - self.load());
        if length > asked.period || wanted > left + f64::EPSILON {
            return Err(Refusal::Load { wanted, left: left.max(0.0) });
        }
        let latest = match is_any_time {
            true => asked.earliest.saturating_add(asked.period),
            false => asked.ready.saturating_add(asked.deadline - length),
        };
        let opens = self.search(asked.period, length, asked.earliest, latest).ok_or_else(Refusal::crowded)?;
        let windows = Windows { period: asked.period, offset: opens % asked.period, length };
        let worst = if is_any_time { asked.period + length } else { opens - asked.ready + length };
        Ok(Promise { windows, bytes: asked.bytes, worst, is_any_time })
    }

    /// The first opening from `earliest` to `latest` at which no window overlaps. Each step goes exactly as far as the
    /// slot that is in the way forces it to, so no opening that would do is passed over.
    fn search(&self, period: u64, length: u64, earliest: u64, latest: u64) -> Option<u64> {
        let last = latest.min(earliest.saturating_add(period));
        let mut opens = earliest;
        let mut steps = 0;
        'again: while opens <= last {
            let windows = Windows { period, offset: opens % period, length };
            for other in self.held.values().map(|promise| &promise.windows) {
                if windows.is_apart(other) {
                    continue;
                }
                let common = gcd(period, other.period);
                steps += 1;
                if other.length.saturating_add(length) > common || steps > STEPS_MAX {
                    return None;
                }
                // Where we open between two of its openings, as the common divisor sees them.
                let behind =
                    (i128::from(opens) - i128::from(other.offset)).rem_euclid(i128::from(common)) as u64;
                opens += match behind < other.length {
                    true => other.length - behind,
                    false => common - behind + other.length,
                };
                continue 'again;
            }
            return Some(opens);
        }
        None
    }

    /// What would fit, where the windows as asked do not.
    fn explain(&self, asked: &Sought, refused: Refusal) -> Refusal {
        let Refusal::Crowded { .. } = refused else { return refused };
        let length = self.length(asked.bytes, asked.guard).unwrap_or(u64::MAX);
        let deadline = self
            .search(asked.period, length, asked.earliest, u64::MAX)
            .map(|opens| opens - asked.ready + length)
            .filter(|&deadline| deadline <= limits::SLOT_DEADLINE_MICROS_MAX);
        // To a thousandth: more digits would help nobody.
        let bytes_of = |parts: u64| (u128::from(asked.bytes) * u128::from(parts) / 1000) as u64;
        let parts = largest(999, |parts| self.place(&Sought { bytes: bytes_of(parts), ..*asked }).is_ok());
        let bytes = parts.map(bytes_of).filter(|&bytes| bytes > 0);
        let rescaled = |period: u64| {
            let bytes = u128::from(asked.bytes) * u128::from(period) / u128::from(asked.period);
            self.place(&Sought { period, bytes: bytes as u64, ..*asked }).is_ok()
        };
        let mut periods = self.periods();
        periods.retain(|&period| period != asked.period);
        periods.sort_unstable_by_key(|period| period.abs_diff(asked.period));
        let period = periods.into_iter().take(PERIODS_TRIED_MAX).find(|&period| rescaled(period));
        Refusal::Crowded { deadline, bytes, period }
    }

    /// How long a window for so many bytes is; `None`: longer than any period.
    fn length(&self, bytes: u64, guard: u64) -> Option<u64> {
        let micros = (u128::from(bytes) * 1_000_000).div_ceil(u128::from(self.bytes_per_s));
        let length = u64::try_from(micros).ok()?.checked_add(guard)?.max(1);
        (length <= limits::SLOT_DEADLINE_MICROS_MAX).then_some(length)
    }

    fn periods(&self) -> Vec<u64> {
        let mut periods: Vec<u64> = self.held.values().map(|promise| promise.windows.period).collect();
        periods.sort_unstable();
        periods.dedup();
        periods
    }
}

/// Windows that are looked for.
#[derive(Debug, Clone, Copy)]
struct Sought {
    period: u64,
    bytes: u64,
    guard: u64,
    deadline: u64,
    /// When a burst is ready.
    ready: u64,
    /// When the first window may open: not before now, and not before what is a little late is ready.
    earliest: u64,
}

impl Sought {
    fn of(wish: &SlotWish, now: u64, period: u64, bytes: u64) -> Sought {
        let ready = now.saturating_sub(wish.ready_ago_micros);
        let (guard, deadline) = (wish.guard_micros, wish.deadline_micros);
        Sought { period, bytes, guard, deadline, ready, earliest: now.saturating_add(guard) }
    }
}

/// Steps of one search: each is a window that was in the way, and is compared with up to [`limits::SLOTS_MAX`] slots.
/// Far more than are needed where windows are not tiny against their periods; who has found no place by then is
/// refused.
const STEPS_MAX: u32 = 2000;
/// Periods that are tried for one wish.
const PERIODS_TRIED_MAX: usize = 16;
/// Microseconds that rounding up may add to a window.
const ROUNDING: u64 = 2;

/// The largest whole parts of a period that are not above `longest`.
fn parts(period: u64, longest: u64) -> impl Iterator<Item = u64> {
    /// Parts of one period that are tried.
    const PARTS_MAX: usize = 4;
    let fewest = period.div_ceil(longest.max(1)).max(1);
    (fewest..fewest.saturating_add(1000))
        .filter(move |part| period.is_multiple_of(*part))
        .map(move |part| period / part)
        .take(PARTS_MAX)
}

/// The largest number up to `most` for which it holds, by halving: what holds for one holds for all below.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match holds(middle) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    (low > 0).then_some(low)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Refusal {
    fn crowded() -> Refusal {
        Refusal::Crowded { deadline: None, bytes: None, period: None }
    }
}

/// By how much it does not fit, and what would: for people.
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |micros: u64| micros as f64 / 1e6;
        match self {
            Refusal::Deadline { asked, alone } => {
                let (asked, alone) = (seconds(*asked), seconds(*alone));
                write!(
                    f,
                    "of its deadline {asked:.3} s are left for waiting and sending, and with the way for itself \
                    it takes {alone:.3} s: {:.3} s too long",
                    alone - asked
                )
            }
            Refusal::Load { wanted, left } => write!(
                f,
                "it would take {:.1} % of the way's time, and {:.1} % are left: {:.1} % too much",
                wanted * 100.0,
                left * 100.0,
                (wanted - left) * 100.0
            ),
            Refusal::Full => write!(f, "there are {} slots, as many as a server has", limits::SLOTS_MAX),
            Refusal::Crowded { deadline, bytes, period } => {
                write!(f, "there is no room for its windows between those that stand")?;
                let mut fits = Vec::new();
                fits.extend(deadline.map(|micros| {
                    format!(
                        "{:.3} s for waiting and sending instead of what its deadline leaves",
                        seconds(micros)
                    )
                }));
                fits.extend(bytes.map(|bytes| format!("bursts of at most {bytes} bytes")));
                fits.extend(period.map(|micros| {
                    format!("the same bytes a second in bursts every {:.3} s", seconds(micros))
                }));
                match fits.is_empty() {
                    true => write!(f, "; nothing close to it would fit"),
                    false => write!(f, "; what would fit: {}", fits.join(", or ")),
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "calendar/tests.rs"]
mod tests;
