//! The basin as a drawing: the stages in the order of a byte's journey, each as wide as what it would let through.
//!
//! Widths are logarithmic: capacities of stages differ by factors of hundreds. The narrowest is marked. On a terminal
//! with blocks and, unless `NO_COLOR` is set, colour; elsewhere in plain characters.

use console::Style;
use thalweg_mover::basin::width::Width;
use thalweg_mover::basin::{Place, Verdict};

/// Columns where nobody says otherwise.
const COLUMNS: usize = 80;
/// Fewer are not drawn in.
const COLUMNS_MIN: usize = 40;
/// Columns for the name and place of a stage, and for its rate.
const NAME: usize = 24;
const RATE: usize = 12;
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
    let narrowest = narrowest(widths, verdict);
    let bar = |(at, width): (usize, &Width)| Bar {
        name: name(width),
        bytes_per_s: Some(width.bytes_per_s),
        is_at_least: false,
        is_narrowest: Some(at) == narrowest,
    };
    draw_bars(&widths.iter().enumerate().map(bar).collect::<Vec<_>>(), look)
}

/// The lines of stages that are known from elsewhere.
pub fn draw_bars(bars: &[Bar], look: Look) -> Vec<String> {
    let least = bars.iter().filter_map(|bar| bar.bytes_per_s).fold(f64::INFINITY, f64::min).max(1.0);
    let room = look.columns.saturating_sub(NAME + RATE + 4).max(4);
    let (block, mark) = if look.is_terminal { ('█', "◀") } else { ('#', "<") };
    bars.iter()
        .map(|bar| {
            let name = &bar.name;
            let Some(bytes_per_s) = bar.bytes_per_s else {
                return format!("{name:<NAME$} {:>RATE$}  ?", "-");
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
            format!("{name:<NAME$} {rate:>RATE$}{more} {line} {mark}").trim_end().to_owned()
        })
        .collect()
}

/// The one that the verdict names; a verdict about a whole machine marks the busiest stage there.
fn narrowest(widths: &[Width], verdict: &Verdict) -> Option<usize> {
    let narrow = &verdict.narrowest;
    let named = |width: &Width| width.stage == narrow.stage && width.place == narrow.place;
    let there = |width: &Width| narrow.place == Place::Both || width.place == narrow.place;
    widths.iter().position(named).or_else(|| {
        let busiest = widths.iter().enumerate().filter(|(_, width)| there(width));
        busiest.max_by(|(_, a), (_, b)| a.busy.total_cmp(&b.busy)).map(|(at, _)| at)
    })
}

/// Stage and place.
pub fn name(width: &Width) -> String {
    match width.place {
        Place::Path => width.stage.to_owned(),
        place => format!("{} ({})", width.stage, place.name()),
    }
}

/// A rate that fits its column.
pub fn rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    match bits {
        bits if !bits.is_finite() => "-".to_owned(),
        bits if bits >= 1e12 => "> 1 Tbit/s".to_owned(),
        bits if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}
