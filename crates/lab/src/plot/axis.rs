//! Axes: where a figure stands, and which marks are written beside it.

use super::text::Type;
use super::unit::{Prefix, Unit, alike};

/// How distance and figure hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps, from zero unless figures are below it.
    Linear,
    /// Equal factors, marked at powers of ten. Figures of zero or less cannot stand here.
    Log10,
    /// Equal factors, marked at powers of two. Figures of zero or less cannot stand here.
    Log2,
    /// Each figure that occurs has its place, all equally far apart.
    Steps,
}

impl Scale {
    /// Whether equal distances are equal factors: then no figure is at its beginning.
    pub fn is_logarithmic(self) -> bool {
        matches!(self, Scale::Log10 | Scale::Log2)
    }
}

/// One axis of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it measures; the unit is added.
    pub label: String,
    /// In which unit the data are.
    pub unit: Unit,
    /// How distance and figure hang together.
    pub scale: Scale,
    /// Where it begins at the latest, whatever the data.
    pub from: Option<f64>,
    /// Where it ends at the soonest, whatever the data.
    pub to: Option<f64>,
}

impl Axis {
    /// One that takes its ends from the data.
    pub fn new(label: &str, unit: Unit, scale: Scale) -> Axis {
        Axis { label: label.to_owned(), unit, scale, from: None, to: None }
    }
}

/// Pixels between two marks of a vertical axis at least.
const APART_Y: f64 = 34.0;
/// Pixels between the words of two marks of a horizontal axis at least, and between the marks themselves.
const APART_X: f64 = 10.0;
const MARKS_X: f64 = 52.0;
/// Beyond so many steps there is no mark for each.
const MARKS_MAX: usize = 24;

/// Which way an axis runs: words stand above each other or beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Across,
    Up,
}

/// An axis that knows its data and its length.
pub(super) struct Ruler {
    scale: Scale,
    /// Ends, on the scale (logarithms on a logarithmic one).
    low: f64,
    high: f64,
    /// Places of [`Scale::Steps`].
    steps: Vec<f64>,
    /// Where words stand, from 0 to 1, and which.
    pub marks: Vec<(f64, String)>,
    /// Where lines of the grid stand besides, from 0 to 1.
    pub between: Vec<f64>,
    /// Label and unit.
    pub title: String,
}

impl Ruler {
    /// For these figures on `length` pixels.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, length: f64, run: Run) -> Ruler {
        let is_log = axis.scale.is_logarithmic();
        let values = values.chain(axis.from).chain(axis.to);
        let mut values: Vec<f64> =
            values.filter(|value| value.is_finite() && (!is_log || *value > 0.0)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let low = values.first().copied().unwrap_or(1.0);
        let high = values.last().copied().unwrap_or(1.0);
        match axis.scale {
            Scale::Linear => linear(axis, low.min(0.0), high, length, run),
            Scale::Log10 => log10(axis, low, high, length, run),
            Scale::Log2 => log2(axis, low, high, length, run),
            Scale::Steps => steps(axis, values, length, run),
        }
    }

    /// Where a figure stands, from 0 to 1; nowhere if the scale has no place for it.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let on_scale = match self.scale {
            Scale::Linear => value,
            Scale::Log10 | Scale::Log2 if value <= 0.0 => return None,
            Scale::Log10 => value.log10(),
            Scale::Log2 => value.log2(),
            Scale::Steps => return self.between_steps(value),
        };
        Some((on_scale - self.low) / (self.high - self.low))
    }

    fn between_steps(&self, value: f64) -> Option<f64> {
        let above = self.steps.iter().position(|step| *step >= value)?;
        let at = match above {
            _ if self.steps[above] == value => above as f64,
            0 => return None,
            _ => {
                let (low, high) = (self.steps[above - 1], self.steps[above]);
                above as f64 - 1.0 + (value - low) / (high - low)
            }
        };
        Some((at - self.low) / (self.high - self.low))
    }
}

fn ruler(axis: &Axis, low: f64, high: f64, unit: &str) -> Ruler {
    let title = match unit {
        "" => axis.label.clone(),
        unit => format!("{} ({unit})", axis.label),
    };
    Ruler { scale: axis.scale, low, high, steps: Vec::new(), marks: Vec::new(), between: Vec::new(), title }
}

fn linear(axis: &Axis, low: f64, high: f64, length: f64, run: Run) -> Ruler {
    let high = if high > low { high } else { low + 1.0 };
    let prefix = axis.unit.prefix(low.abs().max(high.abs()));
    // The densest marks whose words have room; two at the very least.
    for step in steps_of_ten(high - low, prefix) {
        let (first, last) = ((low / step).floor(), ((high / step) - 1e-9).ceil());
        let count = (last - first) as usize + 1;
        let mut ruler = ruler(axis, first * step, last * step, prefix.name);
        let figures: Vec<f64> = (0..count).map(|at| (first + at as f64) * step / prefix.size).collect();
        let words = alike(&figures).into_iter().enumerate();
        ruler.marks = words.map(|(at, words)| (at as f64 / (count - 1) as f64, words)).collect();
        if count <= 3 || fits(&ruler.marks, length, run) {
            return ruler;
        }
    }
    ruler(axis, low, high, prefix.name)
}

/// 1, 2 and 5 times powers of ten, rising, from a twentieth of the span on.
fn steps_of_ten(span: f64, prefix: Prefix) -> impl Iterator<Item = f64> {
    let start = (span / prefix.size / 20.0).log10().floor() as i32;
    let times = [1.0, 2.0, 5.0];
    (start..start + 4)
        .flat_map(move |power| times.map(|times| times * 10f64.powi(power) * prefix.size))
        .filter(move |step| span / step <= MARKS_MAX as f64)
}

fn log10(axis: &Axis, low: f64, high: f64, length: f64, run: Run) -> Ruler {
    let is_short = high / low < 100.0;
    let (low, high) = (round_125(low, false), round_125(high, true));
    let high = if high > low { high } else { low * 10.0 };
    let mut ruler = ruler(axis, low.log10(), high.log10(), "");
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let inside = |value: &f64| (low * 0.999..=high * 1.001).contains(value);
    let all = |times: &[f64], every: i32| -> Vec<f64> {
        let powers = powers.clone().filter(|power| power.rem_euclid(every) == 0);
        powers
            .flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)))
            .filter(inside)
            .collect()
    };
    let fine: &[f64] = if is_short { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let tries = [(fine, 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3), (&[1.0], 6)];
    for (times, every) in tries {
        ruler.marks = marks(&ruler, axis.unit, &all(times, every));
        if fits(&ruler.marks, length, run) {
            break;
        }
    }
    let nine: Vec<f64> = (1..10).map(f64::from).collect();
    ruler.between = all(&nine, 1).into_iter().filter_map(|value| ruler.place(value)).collect();
    ruler
}

fn log2(axis: &Axis, low: f64, high: f64, length: f64, run: Run) -> Ruler {
    let (low, high) = (low.log2().floor(), high.log2().ceil());
    let high = if high > low { high } else { low + 1.0 };
    let mut ruler = ruler(axis, low, high, "");
    let powers = low as i32..=high as i32;
    // Divisors of ten, so that 1 KiB, 1 MiB and so on are among them.
    for every in [1, 2, 5, 10, 20] {
        let at: Vec<f64> = powers
            .clone()
            .filter(|power| power.rem_euclid(every) == 0)
            .map(|p| f64::from(p).exp2())
            .collect();
        ruler.marks = marks(&ruler, axis.unit, &at);
        if fits(&ruler.marks, length, run) {
            break;
        }
    }
    ruler.between = powers.filter_map(|power| ruler.place(f64::from(power).exp2())).collect();
    ruler
}

fn steps(axis: &Axis, values: Vec<f64>, length: f64, run: Run) -> Ruler {
    // Half a step of room on both sides.
    let mut ruler = ruler(axis, -0.5, values.len().max(1) as f64 - 0.5, "");
    ruler.steps = values;
    for every in 1..=ruler.steps.len().max(1) {
        let at: Vec<f64> = ruler.steps.iter().copied().step_by(every).collect();
        ruler.marks = marks(&ruler, axis.unit, &at);
        if fits(&ruler.marks, length, run) {
            break;
        }
    }
    ruler
}

/// Largest of 1, 2 and 5 times a power of ten that is not above, or smallest that is not below.
fn round_125(value: f64, is_up: bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0];
    let exact = 1.0 + 1e-9;
    let found = match is_up {
        true => times.iter().find(|times| *times * power * exact >= value),
        false => times.iter().rev().find(|times| *times * power <= value * exact),
    };
    found.unwrap_or(&1.0) * power
}

fn marks(ruler: &Ruler, unit: Unit, values: &[f64]) -> Vec<(f64, String)> {
    values.iter().filter_map(|value| Some((ruler.place(*value)?, unit.show(*value)))).collect()
}

/// Whether no words touch.
fn fits(marks: &[(f64, String)], length: f64, run: Run) -> bool {
    marks.windows(2).all(|pair| {
        let [(one, first), (two, second)] = pair else { return true };
        let words = (Type::BODY.width(first) + Type::BODY.width(second)) / 2.0 + APART_X;
        let least = if run == Run::Up { APART_Y } else { words.max(MARKS_X) };
        (two - one).abs() * length >= least
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(ruler: &Ruler) -> Vec<&str> {
        ruler.marks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_has_one_unit() {
        let axis = Axis::new("Rate", Unit::BitsPerS, Scale::Linear);
        let ruler = Ruler::new(&axis, [6.6e9, 97.7e9].into_iter(), 300.0, Run::Up);
        assert_eq!(ruler.title, "Rate (Gbit/s)");
        assert_eq!(words(&ruler), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ruler.place(50e9), Some(0.5));
    }

    #[test]
    fn powers_of_two_have_binary_units_and_room() {
        let axis = Axis::new("File size", Unit::Bytes, Scale::Log2);
        let values = (10..=40).map(|power| f64::from(power).exp2());
        let ruler = Ruler::new(&axis, values.clone(), 600.0, Run::Across);
        assert_eq!(words(&ruler).first(), Some(&"1 KiB"));
        assert_eq!(words(&ruler).last(), Some(&"1 TiB"));
        let narrow = Ruler::new(&axis, values, 240.0, Run::Across);
        assert_eq!(words(&narrow), ["1 KiB", "1 MiB", "1 GiB", "1 TiB"]);
    }

    #[test]
    fn a_logarithmic_axis_has_no_place_for_zero_and_steps_have() {
        let axis = Axis::new("Loss", Unit::Count, Scale::Log10);
        let ruler = Ruler::new(&axis, [0.0, 1e-5, 1e-3].into_iter(), 400.0, Run::Across);
        assert_eq!(words(&ruler), ["1e-5", "1e-4", "1e-3"]);
        assert_eq!((ruler.place(0.0), ruler.place(1e-4)), (None, Some(0.5)));
        let axis = Axis { scale: Scale::Steps, ..axis };
        let ruler = Ruler::new(&axis, [0.0, 1e-5, 1e-3].into_iter(), 400.0, Run::Across);
        assert_eq!(words(&ruler), ["0", "1e-5", "1e-3"]);
        assert_eq!(ruler.place(1e-5), Some(0.5));
    }

    #[test]
    fn marks_never_touch_whatever_the_data() {
        for (low, high) in [(0.001, 0.0011), (1.0, 1e12), (3.0, 7.0), (5.0, 5.0), (0.0, 0.0)] {
            for scale in [Scale::Linear, Scale::Log10, Scale::Log2, Scale::Steps] {
                let axis = Axis::new("Time", Unit::Seconds, scale);
                let ruler = Ruler::new(&axis, [low, high].into_iter(), 300.0, Run::Across);
                assert!(!ruler.marks.is_empty(), "{low} {high} {scale:?}");
                assert!(
                    fits(&ruler.marks, 300.0, Run::Across) || ruler.marks.len() <= 3,
                    "{low} {high} {scale:?}"
                );
                assert!(ruler.marks.iter().all(|(at, _)| (-1e-6..=1.0 + 1e-6).contains(at)));
            }
        }
    }
}
