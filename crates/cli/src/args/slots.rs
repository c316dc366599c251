//! The command line of slots.

use crate::args::places::AskArgs;
use crate::{exit, units};
use std::ffi::OsString;
use std::time::Duration;
use thalweg_mover::admission::SlotAsked;
use thalweg_wire::limits;
use thalweg_wire::message::Rhythm;

/// Options of slots.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct SlotsArgs {
    /// A place at the daemon: tw://HOST[:PORT]/EXPORT/PATH or @NAME
    #[arg(value_name = "PLACE")]
    pub place: OsString,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What a server gives away in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRate {
    /// So many bits a second.
    Given(u64),
    /// Four fifths of what this machine is measured to take.
    Measured,
}

/// Reads `RATE` or `measure`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_slot_rate(text: &str) -> Result<SlotRate, String> {
    match text {
        "measure" => Ok(SlotRate::Measured),
        rate => match units::parse_rate(rate)? {
            // A byte a second.
            0..8 => Err("a way carries more than nothing".to_owned()),
            bits => Ok(SlotRate::Given(bits)),
        },
    }
}

/// Reads `PERIOD:BYTES:DEADLINE` or `RATE:DEADLINE`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_slot(text: &str) -> Result<SlotAsked, String> {
    let time = |text: &str| match units::parse_time(text)? {
        Duration::ZERO => Err(format!("`{text}`: longer than nothing")),
        time => Ok(time),
    };
    match text.split(':').collect::<Vec<_>>()[..] {
        [period, bytes, deadline] => {
            let period_micros = u64::try_from(time(period)?.as_micros()).unwrap_or(u64::MAX);
            if !(limits::SLOT_PERIOD_MICROS_MIN..=limits::SLOT_PERIOD_MICROS_MAX).contains(&period_micros) {
                return Err("a period is from 1ms to 1min".to_owned());
            }
            let bytes = units::parse_size(bytes)?;
            if bytes == 0 {
                return Err("a burst has at least one byte".to_owned());
            }
            Ok(SlotAsked { rhythm: Rhythm::Bursts { period_micros, bytes }, deadline: time(deadline)? })
        }
        [rate, deadline] => {
            let bytes_per_s = (units::parse_rate(rate)? / 8).max(1);
            Ok(SlotAsked { rhythm: Rhythm::Steady { bytes_per_s }, deadline: time(deadline)? })
        }
        _ => Err("PERIOD:BYTES:DEADLINE, for instance 1s:20MB:300ms, or RATE:DEADLINE, for instance \
            100Mbit/s:300ms"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_bursts_or_a_rate_and_a_deadline() {
        let bursts = parse_slot("1s:20MB:300ms").unwrap();
        assert_eq!(bursts.rhythm, Rhythm::Bursts { period_micros: 1_000_000, bytes: 20_000_000 });
        assert_eq!(bursts.deadline, Duration::from_millis(300));
        let steady = parse_slot("80Mbit/s:300ms").unwrap();
        assert_eq!(steady.rhythm, Rhythm::Steady { bytes_per_s: 10_000_000 });
        for odd in ["", "1s", "1s:0:1s", "2min:1MB:1s", "10:1s", "1s:1MB:0s", "1s:1MB:1s:1s"] {
            assert!(parse_slot(odd).is_err(), "{odd}");
        }
        assert_eq!(parse_slot_rate("measure"), Ok(SlotRate::Measured));
        assert_eq!(parse_slot_rate("1Gbit/s"), Ok(SlotRate::Given(1_000_000_000)));
        assert!(parse_slot_rate("0bit/s").is_err() && parse_slot_rate("1").is_err());
    }
}
