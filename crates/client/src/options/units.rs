//! Numbers with units, read and written. Sizes are bytes, rates decimal bits per second; a bare number as a
//! rate is an error.

use std::time::Duration;
use thalweg_mover::admission::SlotAsked;
pub use thalweg_sys::clock::moment;
use thalweg_wire::limits;
use thalweg_wire::message::Rhythm;

/// Reads a size: `4096`, `64K`, `64KiB`, `10MB`, `1.5GiB`. `K`, `M`, `G`, `T`, `P` alone are binary, as everywhere.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: f64 = match unit {
        "" | "B" => 1.0,
        "K" | "k" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        "T" | "TiB" => 1_099_511_627_776.0,
        "P" | "PiB" => 1_125_899_906_842_624.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "PB" => 1e15,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of size (B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB)"
            ));
        }
    };
    whole(number * factor)
}

/// Reads a rate in bits per second: `100Mbit/s`, `10Gbit`, `1.25GB/s`, rsync's `1.5M` (MiB/s).
///
/// # Errors
/// What is wrong, in words.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: f64 = match unit.strip_suffix("/s").unwrap_or(unit) {
        "bit" => 1.0,
        "kbit" | "Kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        "B" => 8.0,
        "kB" | "KB" => 8e3,
        "MB" => 8e6,
        "GB" => 8e9,
        "KiB" => 8.0 * 1024.0,
        "MiB" => 8.0 * 1_048_576.0,
        "GiB" => 8.0 * 1_073_741_824.0,
        // As rsync takes them: bytes, in powers of 1024.
        "K" | "k" => 8.0 * 1024.0,
        "M" | "m" => 8.0 * 1_048_576.0,
        "G" | "g" => 8.0 * 1_073_741_824.0,
        // rsync's word for no limit.
        "" if number == 0.0 => {
            return Err("0 is no rate: for no limit leave the option out".into());
        }
        "" => {
            return Err(
                "a rate needs a unit, for instance `100Mbit/s` or `10MB/s` (rsync's `1000` is `1000KiB/s`)"
                    .into(),
            );
        }
        _ => {
            return Err(format!("`{unit}` is not a unit of rate (kbit/s, Mbit/s, Gbit/s, kB/s, MB/s, GB/s)"));
        }
    };
    whole(number * factor)
}

/// Reads a rate as [`parse_rate`], or `none` or `0` for no limit.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_limit(text: &str) -> Result<Option<u64>, String> {
    match text {
        "none" | "0" => Ok(None),
        text => parse_rate(text).map(Some),
    }
}

/// Mark of packets that go after all others (RFC 8622), which scavengers have.
pub const LOWER_EFFORT: u8 = 1;

/// Reads a mark of packets: a number from 0 to 63, or a name of RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622
/// (LE).
///
/// # Errors
/// What is wrong, in words.
pub fn parse_dscp(text: &str) -> Result<u8, String> {
    let odd =
        || format!("`{text}` is no DSCP: a number from 0 to 63, or BE, LE, EF, VA, CS0 to CS7, AF11 to AF43");
    let name = text.to_ascii_uppercase();
    let digits = |prefix: &str| name.strip_prefix(prefix).map(|digits| digits.as_bytes().to_vec());
    match (name.as_str(), digits("CS").as_deref(), digits("AF").as_deref()) {
        ("BE" | "DF", ..) => Ok(0),
        ("LE", ..) => Ok(LOWER_EFFORT),
        ("EF", ..) => Ok(46),
        ("VA", ..) => Ok(44),
        (_, Some([class @ b'0'..=b'7']), _) => Ok((class - b'0') * 8),
        (_, _, Some([class @ b'1'..=b'4', drop @ b'1'..=b'3'])) => Ok((class - b'0') * 8 + (drop - b'0') * 2),
        _ => name.parse().ok().filter(|dscp| *dscp <= thalweg_wire::limits::DSCP_MAX).ok_or_else(odd),
    }
}

/// The longest time that is read: a century, which any clock can be moved by.
pub const TIME_MAX: Duration = Duration::from_secs(36_500 * 86_400);

/// Reads a time: `30`, `30s`, `10min`, `2h`, `500ms`, `280us`; at most [`TIME_MAX`].
///
/// # Errors
/// What is wrong, in words.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86400.0,
        _ => return Err(format!("`{unit}` is not a unit of time (us, ms, s, min, h, d)")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= TIME_MAX => Ok(time),
        Err(error) if seconds < 0.0 => Err(error.to_string()),
        _ => Err("a time is at most a century, 36500d".to_owned()),
    }
}

/// The shortest time after which a link may count as lost: with less, one that stands would be cut whenever a program
/// had to wait for a processor.
pub const STALL_MIN: Duration = Duration::from_millis(100);

/// Reads a time as [`parse_time`], of at least [`STALL_MIN`]: without a sign of life, or without progress, for so long.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_stall(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        time if time >= STALL_MIN => Ok(time),
        _ => Err("at least 100ms: nothing comes at once over a network".to_owned()),
    }
}

/// The shortest time for which a consumer of frames may take nothing before it is passed over: one with a name says
/// what it took when that is synced, up to a second later, and a disk may be slow.
pub const BLOCK_MIN: Duration = Duration::from_secs(5);

/// Reads a time as [`parse_time`], of at least [`BLOCK_MIN`].
///
/// # Errors
/// What is wrong, in words.
pub fn parse_block_max(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        time if time >= BLOCK_MIN => Ok(time),
        _ => Err("at least 5s: a consumer says that it took a frame when it has synced it".to_owned()),
    }
}

/// Reads the ports that may be listened at, `LOW-HIGH`: both count.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let odd = || "two ports, LOW-HIGH".to_owned();
    let (low, high) = text.split_once('-').ok_or_else(odd)?;
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if 0 < low && low <= high => Ok((low, high)),
        _ => Err(odd()),
    }
}

/// Reads `PERIOD:BYTES:DEADLINE` or `RATE:DEADLINE`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_slot(text: &str) -> Result<SlotAsked, String> {
    let time = |text: &str| match parse_time(text)? {
        Duration::ZERO => Err(format!("`{text}`: longer than nothing")),
        time => Ok(time),
    };
    match text.split(':').collect::<Vec<_>>()[..] {
        [period, bytes, deadline] => {
            let period_micros = u64::try_from(time(period)?.as_micros()).unwrap_or(u64::MAX);
            if !(limits::SLOT_PERIOD_MICROS_MIN..=limits::SLOT_PERIOD_MICROS_MAX).contains(&period_micros) {
                return Err("a period is from 1ms to 1min".to_owned());
            }
            let bytes = parse_size(bytes)?;
            if bytes == 0 {
                return Err("a burst has at least one byte".to_owned());
            }
            Ok(SlotAsked { rhythm: Rhythm::Bursts { period_micros, bytes }, deadline: time(deadline)? })
        }
        [rate, deadline] => {
            let bytes_per_s = (parse_rate(rate)? / 8).max(1);
            Ok(SlotAsked { rhythm: Rhythm::Steady { bytes_per_s }, deadline: time(deadline)? })
        }
        _ => Err("PERIOD:BYTES:DEADLINE, for instance 1s:20MB:300ms, or RATE:DEADLINE, for instance \
            100Mbit/s:300ms"
            .to_owned()),
    }
}

/// Reads a share: `0.001`, `1e-5`, `0.1%`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share: f64 = number.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    match (0.0..=1.0).contains(&(share * factor)) {
        true => Ok(share * factor),
        false => Err("a share is from 0 to 1, or 0% to 100%".into()),
    }
}

/// Reads work of a computer in floating-point operations: `34TFLOP`, `0.5PFLOP`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_work(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "FLOP" => 1.0,
        "kFLOP" => 1e3,
        "MFLOP" => 1e6,
        "GFLOP" => 1e9,
        "TFLOP" => 1e12,
        "PFLOP" => 1e15,
        "EFLOP" => 1e18,
        _ => return Err(format!("`{unit}` is not a unit of work (GFLOP, TFLOP, PFLOP, ...)")),
    };
    Ok(number * factor)
}

/// Reads the speed of a computer in floating-point operations a second: `10TFLOP/s`, `10TFLOPS`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_speed(text: &str) -> Result<f64, String> {
    let work = text.trim().strip_suffix("/s").or_else(|| text.trim().strip_suffix('S'));
    parse_work(work.ok_or("a speed is work in a second, for instance `10TFLOP/s`")?)
}

/// Units of sizes, each 1024 of the one before.
const SIZE_UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A size for people: `1.50 GiB`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < SIZE_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {}", SIZE_UNITS[unit]) }
}

/// A size as [`parse_size`] reads it, exact: `64KiB`.
pub fn typed_size(bytes: u64) -> String {
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024 && value.is_multiple_of(1024) && unit + 1 < SIZE_UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", SIZE_UNITS[unit])
}

/// Which sizes an option takes, its bounds among them: `from 64KiB to 64MiB`.
pub fn size_range(least: u64, most: u64) -> String {
    format!("from {} to {}", typed_size(least), typed_size(most))
}

/// A size for people in decimal units: `1.08 PB`.
pub fn decimal_size(bytes: f64) -> String {
    scaled(bytes, "B")
}

/// A rate for people, both ways: `3.21 Gbit/s (401 MB/s)`.
pub fn rate(bytes: u64, seconds: f64) -> String {
    let per_second = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    format!("{} ({})", scaled(per_second * 8.0, "bit/s"), scaled(per_second, "B/s"))
}

/// A rate of bits a second for people: `3.21 Gbit/s`.
pub fn bit_rate(bits_per_s: f64) -> String {
    scaled(bits_per_s, "bit/s")
}

/// A time for people: `1.20 s`, `23.0 ms`, `29.0 h`.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s >= 172_800.0 => (seconds / 86_400.0, "d"),
        s if s >= 7200.0 => (seconds / 3600.0, "h"),
        s if s >= 600.0 => (seconds / 60.0, "min"),
        s if s >= 1.0 || s == 0.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        s if s >= 1e-6 => (seconds * 1e6, "us"),
        _ => (seconds * 1e9, "ns"),
    };
    let digits = if value.abs() >= 100.0 { 0 } else { 2 };
    format!("{value:.digits$} {unit}")
}

/// A share for people: `64 %`, `0.0046 %`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    // What sums and differences leave of nothing is nothing, without a sign.
    let percent = if percent.abs() < 1e-9 { 0.0 } else { percent };
    match percent.abs() {
        p if p >= 10.0 => format!("{percent:.0} %"),
        p if p >= 0.1 || p == 0.0 => format!("{percent:.1} %"),
        p => {
            let digits = (1.0 - p.log10().floor()).min(12.0) as usize;
            format!("{percent:.digits$} %")
        }
    }
}

/// So many of something, for people: `1 frame`, `1,200 frames`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// So many entries, in words.
pub fn entries(number: u64) -> String {
    counted(number, "entry", "entries")
}

/// So many files, in words.
pub fn files(number: u64) -> String {
    counted(number, "file", "files")
}

/// A whole number with thousands set apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        v if v >= 1e15 => (v / 1e15, "P"),
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = if value >= 100.0 { 0 } else { 2 };
    format!("{value:.digits$} {prefix}{unit}")
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, text[at..].trim()))
}

fn whole(value: f64) -> Result<u64, String> {
    if value.is_finite() && (0.0..=9e18).contains(&value) {
        Ok(value as u64)
    } else {
        Err("out of range".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_lowest_and_a_highest() {
        assert_eq!(parse_ports("50000-50010"), Ok((50_000, 50_010)));
        assert_eq!(parse_ports("7 - 7"), Ok((7, 7)));
        for odd in ["", "7", "0-7", "8-7", "7-65536", "7-8-9", "-7"] {
            assert!(parse_ports(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn sizes_are_binary_unless_they_say_otherwise() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("1.5 GiB"), Ok(1_610_612_736));
        assert_eq!(parse_size("10MB"), Ok(10_000_000));
        assert_eq!((parse_size("1PB"), parse_size("1PiB")), (Ok(1_000_000_000_000_000), Ok(1 << 50)));
        assert!(parse_size("10 parsecs").is_err());
        assert!(parse_size("-1").is_err());
    }

    #[test]
    fn a_rate_has_a_unit() {
        assert_eq!(parse_rate("100Mbit/s"), Ok(100_000_000));
        assert_eq!(parse_rate("10 MB/s"), Ok(80_000_000));
        assert!(parse_rate("100").is_err());
        assert!(parse_rate("100Mb").is_err());
        assert!(parse_rate("0").is_err_and(|why| why.contains("leave the option out")));
        assert_eq!(parse_limit("0"), Ok(None));
        assert_eq!(parse_rate("1.5m"), Ok(12_582_912));
        assert_eq!(parse_limit("none"), Ok(None));
        assert_eq!(parse_limit("1kbit"), Ok(Some(1000)));
    }

    #[test]
    fn bounds_are_told_as_they_are_typed() {
        assert_eq!(size_range(64 << 10, 256 << 20), "from 64KiB to 256MiB");
        for bytes in [0, 1, 1023, 1024, 1025, 3 << 19, (1 << 30) + 1, 1 << 50] {
            assert_eq!(parse_size(&typed_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn marks_have_names_and_numbers() {
        let named = [
            ("ef", 46),
            ("AF11", 10),
            ("AF43", 38),
            ("CS1", 8),
            ("cs7", 56),
            ("LE", 1),
            ("63", 63),
            ("be", 0),
        ];
        for (name, dscp) in named {
            assert_eq!(parse_dscp(name), Ok(dscp), "{name}");
        }
        for odd in ["64", "-1", "AF44", "AF51", "CS8", "CS", "", "EF1"] {
            assert!(parse_dscp(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_one_or_of_a_hundred() {
        assert_eq!(parse_share("1e-5"), Ok(1e-5));
        assert_eq!(parse_share("50%"), Ok(0.5));
        for bad in ["1.5", "-0.1", "101%", "nan", "x"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn work_and_speed_have_units() {
        assert_eq!(parse_work("34TFLOP"), Ok(34e12));
        assert_eq!(parse_speed("10 TFLOP/s"), Ok(10e12));
        assert_eq!(parse_speed("10TFLOPS"), Ok(10e12));
        for bad in ["34", "34T", "10TFLOP/h"] {
            assert!(parse_work(bad).is_err() && parse_speed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_at_most_what_a_clock_can_be_moved_by() {
        assert_eq!(parse_time("36500d"), Ok(TIME_MAX));
        for bad in ["36501d", "10000000000000000000s", "99999999999999999999999999d"] {
            assert!(parse_time(bad).is_err_and(|why| why.contains("at most a century")), "{bad}");
        }
    }

    #[test]
    fn a_stall_in_which_nothing_could_come_is_refused() {
        assert_eq!((parse_stall("100ms"), parse_stall("30")), (Ok(STALL_MIN), Ok(Duration::from_secs(30))));
        for bad in ["0", "0s", "1ms", "99ms"] {
            assert!(parse_stall(bad).is_err_and(|why| why.contains("at least 100ms")), "{bad}");
        }
        assert!(parse_stall("36501d").is_err() && parse_stall("x").is_err());
    }

    #[test]
    fn a_consumer_that_syncs_before_it_says_that_it_took_something_is_not_passed_over_meanwhile() {
        assert_eq!(parse_block_max("5s"), Ok(BLOCK_MIN));
        for bad in ["0", "1s", "4999ms"] {
            assert!(parse_block_max(bad).is_err_and(|why| why.contains("at least 5s")), "{bad}");
        }
        assert!(parse_block_max("36501d").is_err() && parse_block_max("x").is_err());
    }

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (seconds, shown) in
            [(0.0, "0.00 s"), (1.2, "1.20 s"), (0.023, "23.00 ms"), (104_400.0, "29.00 h"), (3e-7, "300 ns")]
        {
            assert_eq!(time(seconds), shown);
        }
    }

    #[test]
    fn shares_are_shown_with_two_digits() {
        for (value, shown) in [(1.28, "128 %"), (0.021, "2.1 %"), (4.6e-5, "0.0046 %"), (0.0, "0.0 %")] {
            assert_eq!(share(value), shown);
        }
        for nothing in [-0.0, 1e-16, -1e-16] {
            assert_eq!(share(nothing), "0.0 %");
        }
        assert_eq!(share(-4.6e-5), "-0.0046 %");
    }

    #[test]
    fn moments_are_those_of_date() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(moment(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn numbers_are_shown_with_units() {
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(rate(125_000_000, 1.0), "1.00 Gbit/s (125 MB/s)");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!((entries(1), entries(0)), ("1 entry".to_owned(), "0 entries".to_owned()));
        assert_eq!((files(1), files(1200)), ("1 file".to_owned(), "1,200 files".to_owned()));
    }

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
    }
}
