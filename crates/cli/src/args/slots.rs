//! The command line of slots.

use crate::args::places::AskArgs;
use crate::{exit, units};
use std::ffi::OsString;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_given_or_measured() {
        assert_eq!(parse_slot_rate("measure"), Ok(SlotRate::Measured));
        assert_eq!(parse_slot_rate("1Gbit/s"), Ok(SlotRate::Given(1_000_000_000)));
        assert!(parse_slot_rate("0bit/s").is_err() && parse_slot_rate("1").is_err());
    }
}
