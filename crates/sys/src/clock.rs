//! The clock of the day. It may be set, forward and back: it says when something was, and never how long it took.

use std::time::{Duration, SystemTime};

/// Time since 1970-01-01 UTC, leap seconds not counted; 0 by a clock that stands before.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same in whole seconds.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// A moment for people and programs, in UTC: `2026-11-20T17:55:54Z`.
pub fn moment(seconds_since_1970: i64) -> String {
    // Howard Hinnant, "chrono-compatible low-level date algorithms": civil from days, years beginning in March.
    let (days, second) = (seconds_since_1970.div_euclid(86400), seconds_since_1970.rem_euclid(86400));
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The way back: the beginning of a day, `2026-11-20`, in UTC, in seconds since 1970. `None` for what is no day from
/// then on.
pub fn day(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = days_from_civil(year, month, day) * 86400;
    // What is no day (February 30) is another by then.
    let is_it = moment(seconds).strip_suffix("T00:00:00Z") == Some(text);
    u64::try_from(seconds).ok().filter(|_| is_it)
}

/// Days since 1970 (Howard Hinnant, as above: years begin in March).
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_comes_back_from_its_text_and_what_is_none_is_refused() {
        for days in [0, 58, 59, 11_016, 20_784, 47_540] {
            let text = moment(days * 86400);
            assert_eq!(day(&text[..10]), u64::try_from(days * 86400).ok(), "{text}");
        }
        assert_eq!(day("2026-11-20"), Some(1_795_132_800));
        for odd in ["", "2026", "2026-02-30", "2026-13-01", "1969-12-31", "2026-11-20T", "2026/11/20"] {
            assert_eq!(day(odd), None, "{odd}");
        }
    }
}
