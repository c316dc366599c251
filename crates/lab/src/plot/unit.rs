//! Units: how figures are written on axes, in tables and in data files.

/// What a figure counts. Data are kept in the base unit; what is shown has a prefix that suits its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Rates: bits in a second, shown with decimal prefixes.
    BitsPerS,
    /// Sizes: bytes, shown with binary prefixes.
    Bytes,
    /// Time: seconds.
    Seconds,
    /// Shares: from 0 to 1, shown in per cent.
    Share,
    /// Ratios: how many times.
    Times,
    /// Numbers of things.
    Count,
    /// Whatever else, by its name: `files/s`.
    Other(&'static str),
}

/// A prefix: what a figure is divided by, and what stands behind it then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefix {
    /// Base units in one of these.
    pub size: f64,
    /// `Gbit/s`; nothing for numbers of things.
    pub name: &'static str,
}

const fn prefix(size: f64, name: &'static str) -> Prefix {
    Prefix { size, name }
}

const RATES: [Prefix; 5] = [
    prefix(1.0, "bit/s"),
    prefix(1e3, "kbit/s"),
    prefix(1e6, "Mbit/s"),
    prefix(1e9, "Gbit/s"),
    prefix(1e12, "Tbit/s"),
];
const SIZES: [Prefix; 6] = [
    prefix(1.0, "B"),
    prefix(1024.0, "KiB"),
    prefix(1_048_576.0, "MiB"),
    prefix(1_073_741_824.0, "GiB"),
    prefix(1_099_511_627_776.0, "TiB"),
    prefix(1_125_899_906_842_624.0, "PiB"),
];
const TIMES: [Prefix; 4] = [prefix(1e-9, "ns"), prefix(1e-6, "µs"), prefix(1e-3, "ms"), prefix(1.0, "s")];

impl Unit {
    /// The base unit's name, for data files.
    pub fn base(self) -> &'static str {
        match self {
            Unit::BitsPerS => "bit/s",
            Unit::Bytes => "bytes",
            Unit::Seconds => "s",
            Unit::Share => "share",
            Unit::Times => "times",
            Unit::Count => "count",
            Unit::Other(name) => name,
        }
    }

    /// The prefix in which a figure of this size has one to three digits before the point.
    pub fn prefix(self, value: f64) -> Prefix {
        let largest = |prefixes: &[Prefix]| {
            let fits = |prefix: &&Prefix| value.abs() * (1.0 + 1e-9) >= prefix.size;
            prefixes.iter().rev().find(fits).copied().unwrap_or(prefixes[0])
        };
        match self {
            Unit::BitsPerS => largest(&RATES),
            Unit::Bytes => largest(&SIZES),
            Unit::Seconds if value == 0.0 => TIMES[3],
            Unit::Seconds => largest(&TIMES),
            Unit::Share => prefix(0.01, "%"),
            Unit::Times => prefix(1.0, "×"),
            Unit::Count => prefix(1.0, ""),
            Unit::Other(name) => prefix(1.0, name),
        }
    }

    /// A figure with its unit: `9.41 Gbit/s`.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        let prefix = self.prefix(value);
        format!("{} {}", number(value / prefix.size), prefix.name).trim_end().to_owned()
    }
}

/// Three figures that count, no zeros behind them, thousands apart: `0.0123`, `9.41`, `26,800`. What is below a
/// hundredth is written as `1e-5`.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs().log10().floor();
    if size < -2.0 {
        let (digits, exponent) = (value / 10f64.powf(size), size as i64);
        return format!("{}e{exponent}", trimmed(&format!("{digits:.2}")));
    }
    let decimals = (2.0 - size).clamp(0.0, 6.0) as usize;
    let text = trimmed(&format!("{value:.decimals$}"));
    if value.abs() < 10_000.0 { text } else { apart(&text) }
}

/// Figures with as many digits behind the point as the one that needs most, at most three; zero is `0`.
pub fn alike(values: &[f64]) -> Vec<String> {
    let digits = |value: &f64| {
        let text = trimmed(&format!("{value:.3}"));
        text.split_once('.').map_or(0, |(_, digits)| digits.len())
    };
    let most = values.iter().map(digits).max().unwrap_or(0);
    let written = |value: &f64| match (*value == 0.0, most) {
        (true, _) => "0".to_owned(),
        (false, 0) => number(value.round()),
        (false, most) => format!("{value:.most$}"),
    };
    values.iter().map(written).collect()
}

/// Without zeros behind the point, and without the point if nothing is behind it.
fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// Thousands apart.
fn apart(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_people_write_them() {
        assert_eq!(Unit::BitsPerS.show(9.414e9), "9.41 Gbit/s");
        assert_eq!(Unit::BitsPerS.show(1e9), "1 Gbit/s");
        assert_eq!(Unit::Bytes.show(1024.0), "1 KiB");
        assert_eq!(Unit::Bytes.show(1.5 * 1_073_741_824.0), "1.5 GiB");
        assert_eq!(Unit::Seconds.show(0.016), "16 ms");
        assert_eq!(Unit::Seconds.show(0.0), "0 s");
        assert_eq!(Unit::Seconds.show(3600.0), "3600 s");
        assert_eq!(Unit::Share.show(0.975), "97.5 %");
        assert_eq!(Unit::Times.show(31.26), "31.3 ×");
        assert_eq!(Unit::Count.show(1536.0), "1536");
        assert_eq!(Unit::Other("files/s").show(26_800.0), "26,800 files/s");
        assert_eq!(Unit::Count.show(1e-5), "1e-5");
        assert_eq!(Unit::Count.show(f64::NAN), "–");
        assert_eq!(number(-1_234_567.0), "-1,234,567");
        assert_eq!((number(0.001), number(0.016)), ("1e-3".into(), "0.016".into()));
        assert_eq!(alike(&[0.0, 0.5, 1.0, 1.25]), ["0", "0.50", "1.00", "1.25"]);
        assert_eq!(alike(&[0.0, 500.0, 20_000.0]), ["0", "500", "20,000"]);
    }
}
