//! The basin as a drawing: the stages in the order of a byte's journey, each as wide as what it would let through.
//!
//! Widths are logarithmic: capacities of stages differ by factors of hundreds. The narrowest is marked. On a terminal
//! with blocks and, unless `NO_COLOR` is set, colour; elsewhere in plain characters.

use console::Style;
use thalweg_mover::basin::width::Width;
use thalweg_mover::basin::{Verdict, Where};

/// Columns where nobody says otherwise.
const COLUMNS: usize = 80;
/// Fewer are not drawn in.
const COLUMNS_MIN: usize = 40;
/// Columns for the name and place of a stage, which is cut where that leaves a bar no room, and for its rate.
const NAME: usize = 24;
const RATE: usize = 12;
/// Columns of a bar and of what stands between all of them: what a line has beside name and rate at least.
const BESIDE: usize = 6;
/// Stages this many times wider than the narrowest are drawn as wide as fits.
const DECADES: f64 = 3.0;

/// How it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Columns of the terminal.
    pub columns: usize,
    /// Whether there is a terminal.
    pub is_terminal: bool,
    /// Whether it may be coloured.
    pub is_coloured: bool,
}

impl Look {
    /// Of stdout.
    pub fn of_stdout() -> Look {
        let term = console::Term::stdout();
        let columns = term.size_checked().map_or(COLUMNS, |(_, columns)| usize::from(columns));
        Look {
            columns: columns.max(COLUMNS_MIN),
            is_terminal: term.is_term(),
            is_coloured: term.is_term() && console::colors_enabled(),
        }
    }
}

/// A stage as it is drawn.
pub struct Bar {
    /// What stands before it.
    pub name: String,
    /// Content bytes a second that it lets through; `None`: nobody knows.
    pub bytes_per_s: Option<f64>,
    /// The rate is only known to be at least that.
    pub is_at_least: bool,
    /// It is marked.
    pub is_narrowest: bool,
}

/// Its lines.
pub fn draw(widths: &[Width], verdict: &Verdict, look: Look) -> Vec<String> {
    let narrow = &verdict.narrowest;
    let bar = |width: &Width| {
        let is_narrowest = width.stage == narrow.stage && width.place == narrow.place;
        // What went through it while it was at work: more can, where it is not held to be the narrowest.
        let is_at_least = !is_narrowest && width.bytes_per_s < narrow.bytes_per_s;
        Bar { name: name(width), bytes_per_s: Some(width.bytes_per_s), is_at_least, is_narrowest }
    };
    let mut bars: Vec<Bar> = widths.iter().map(bar).collect();
    // A CPU or the plan is no stage of a journey.
    if !bars.iter().any(|bar| bar.is_narrowest) {
        bars.push(Bar {
            name: name_at(&narrow.stage, narrow.place),
            bytes_per_s: Some(narrow.bytes_per_s),
            is_at_least: false,
            is_narrowest: true,
        });
    }
    let mut lines = draw_bars(&bars, look);
    if bars.iter().any(|bar| bar.is_at_least) {
        lines.push("(+: at least)".to_owned());
    }
    lines
}

/// The lines of stages that are known from elsewhere.
pub fn draw_bars(bars: &[Bar], look: Look) -> Vec<String> {
    let least = bars.iter().filter_map(|bar| bar.bytes_per_s).fold(f64::INFINITY, f64::min).max(1.0);
    let names = look.columns.saturating_sub(RATE + BESIDE).min(NAME);
    // Three of these are for the mark and what is before it, or stay free.
    let room = look.columns.saturating_sub(names + RATE + 4).max(3);
    let (block, mark) = if look.is_terminal { ('█', "◀") } else { ('#', "<") };
    bars.iter()
        .map(|bar| {
            let name = &bar.name;
            let Some(bytes_per_s) = bar.bytes_per_s else {
                return format!("{name:<names$.names$} {:>RATE$}  ?", "-");
            };
            let decades = (bytes_per_s / least).log10().clamp(0.0, DECADES);
            let length = 1 + (decades / DECADES * (room - 3) as f64) as usize;
            let line: String = std::iter::repeat_n(block, length).collect();
            let line = match look.is_coloured {
                true if bar.is_narrowest => {
                    Style::new().red().bold().force_styling(true).apply_to(line).to_string()
                }
                true => Style::new().cyan().force_styling(true).apply_to(line).to_string(),
                false => line,
            };
            let mark = if bar.is_narrowest { mark } else { "" };
            let rate = rate(bytes_per_s);
            let more = if bar.is_at_least { "+" } else { " " };
            format!("{name:<names$.names$} {rate:>RATE$}{more} {line} {mark}").trim_end().to_owned()
        })
        .collect()
}

/// Stage and place.
pub fn name(width: &Width) -> String {
    name_at(width.stage, width.place)
}

fn name_at(stage: &str, place: Where) -> String {
    match place {
        Where::Path => stage.to_owned(),
        Where::Both => format!("{stage} (this machine)"),
        place => format!("{stage} ({})", place.name()),
    }
}

/// A rate that fits its column. What would round to one more digit than that has room for is told a step up.
pub fn rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    match bits {
        bits if !bits.is_finite() => "-".to_owned(),
        bits if bits >= 1e12 => "> 1 Tbit/s".to_owned(),
        bits if bits >= 999.95e9 => "1.00 Tbit/s".to_owned(),
        bits if bits >= 99.995e9 => format!("{:.1} Gbit/s", bits / 1e9),
        bits if bits >= 999.95e6 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 999.95e3 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::basin::{Cause, Narrow};

    const PLAIN: Look = Look { columns: 80, is_terminal: false, is_coloured: false };

    fn width(stage: &'static str, place: Where, bytes_per_s: f64) -> Width {
        Width {
            stage,
            place,
            busy: 0.5,
            input: 0.0,
            output: 0.0,
            cpu_s: 0.0,
            bytes: 0,
            items: 1,
            threads: 2,
            queue_max: None,
            bytes_per_s,
        }
    }

    fn verdict(stage: &str, place: Where, cause: Cause, bytes_per_s: f64) -> Verdict {
        let narrowest = Narrow {
            stage: stage.into(),
            place,
            cause,
            busy: 0.9,
            bytes_per_s,
            entries_per_s: 1.0,
            heat: None,
        };
        let (knob, sentence) = (String::new(), String::new());
        Verdict { narrowest, next: None, factor: 1.0, factor_low: None, knob, sentence }
    }

    /// Columns of a line: stage, rate with its unit, bar, mark.
    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_cpu_that_is_the_narrowest_is_drawn_at_its_own_rate_and_no_stage_is_marked_for_it() {
        let widths = [width("read", Where::Source, 3e9), width("write", Where::Destination, 2e9)];
        let lines = draw(&widths, &verdict("cpu", Where::Both, Cause::Cpu, 1e9), PLAIN);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(words(&lines[2]), ["cpu", "(this", "machine)", "8.00", "Gbit/s", "#", "<"]);
        assert!(!lines[0].contains('<') && !lines[1].contains('<'), "{lines:?}");
    }

    #[test]
    fn what_is_drawn_narrower_than_the_marked_is_said_to_let_through_no_less() {
        let widths = [width("path", Where::Path, 1e9), width("write", Where::Destination, 2e9)];
        let lines = draw(&widths, &verdict("write", Where::Destination, Cause::DestinationDisk, 2e9), PLAIN);
        assert_eq!(words(&lines[0])[..3], ["path", "8.00", "Gbit/s+"], "{lines:?}");
        assert!(lines[1].ends_with('<') && !lines[1].contains('+'), "{lines:?}");
        assert_eq!(lines[2..], ["(+: at least)"]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_all_bars_begin_at_one_column() {
        let digits = [1.0, 1.6235, 9.9949, 9.9951, 9.9996];
        let rates = (3..12).flat_map(|power| digits.map(|digits| digits * 10f64.powi(power)));
        let names = ["path", "read back (destination)", "cpu quota (this machine)"];
        let bar = |(at, bits_per_s): (usize, f64)| Bar {
            name: names[at % names.len()].to_owned(),
            bytes_per_s: Some(bits_per_s / 8.0),
            is_at_least: at.is_multiple_of(2),
            is_narrowest: true,
        };
        let bars: Vec<Bar> = rates.enumerate().map(bar).collect();
        for columns in COLUMNS_MIN..=200 {
            let lines = draw_bars(&bars, Look { columns, ..PLAIN });
            let begin = lines[0].find('#');
            for line in &lines {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
                assert_eq!(line.find('#'), begin, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn a_rate_that_rounds_up_to_one_more_digit_still_fits_its_column() {
        let told = [999.96e3, 999.96e6, 99.996e9, 162.4e9, 999.96e9, 2e12].map(|bits| rate(bits / 8.0));
        let expected =
            ["1.0 Mbit/s", "1.00 Gbit/s", "100.0 Gbit/s", "162.4 Gbit/s", "1.00 Tbit/s", "> 1 Tbit/s"];
        assert_eq!(told, expected);
    }
}
