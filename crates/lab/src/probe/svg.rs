//! The basin as SVG: five stages from left to right, each as high as its capacity, the narrowest in another colour.
//!
//! Heights are logarithmic, which the picture says: capacities differ by factors of hundreds. What was not measured is
//! a dashed line. Colours are those of Okabe and Ito, told apart by everybody and in grey; nothing is loaded from
//! elsewhere.

use super::{Finding, Row, Stage};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 400.0;
/// The river's middle line, and what is left of its neck at least.
const MIDDLE: f64 = 205.0;
const HALF_MIN: f64 = 6.0;
const HALF_MAX: f64 = 110.0;
/// Stages so many times wider than the narrowest are as high as fits.
const DECADES: f64 = 3.0;
/// Of a stage's share of the width this part is the stage itself, the rest leads to the next.
const FLAT: f64 = 0.55;
const WATER: &str = "#56B4E9";
const NARROW: &str = "#D55E00";
const INK: &str = "#1a1a1a";

/// Draws. `title` is what was measured, `note` what the reader should know of it: when, with what.
pub fn draw(finding: &Finding, title: &str, note: &str) -> String {
    let least = finding.rows.iter().filter_map(|row| row.way_bits_per_s).fold(f64::INFINITY, f64::min);
    let half = |capacity: f64| {
        let decades = (capacity / least.max(1.0)).log10().clamp(0.0, DECADES);
        HALF_MIN + (HALF_MAX - HALF_MIN) * decades / DECADES
    };
    let step = WIDTH / Stage::ALL.len() as f64;
    let mut body = String::new();
    let mut before: Option<(f64, f64)> = None;
    for (at, row) in finding.rows.iter().enumerate() {
        let (left, right) =
            ((at as f64 + (1.0 - FLAT) / 2.0) * step, (at as f64 + 1.0 - (1.0 - FLAT) / 2.0) * step);
        let is_narrowest = finding.narrowest == Some(row.stage);
        match row.way_bits_per_s {
            Some(capacity) => {
                let half = half(capacity);
                if let Some(before) = before {
                    body.push_str(&passage(before, (left, half)));
                }
                let colour = if is_narrowest { NARROW } else { WATER };
                let _ = writeln!(
                    body,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                    MIDDLE - half,
                    right - left,
                    half * 2.0
                );
                before = Some((right, half));
            }
            None => {
                let _ = writeln!(
                    body,
                    "<line x1=\"{left:.1}\" y1=\"{MIDDLE}\" x2=\"{right:.1}\" y2=\"{MIDDLE}\" stroke=\"{INK}\" \
                     stroke-width=\"2\" stroke-dasharray=\"6 6\"/>"
                );
                before = None;
            }
        }
        body.push_str(&labels(row, (left + right) / 2.0, is_narrowest));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" fill=\"{INK}\" role=\"img\">\n<title>{0}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{0}</text>\n\
         <text x=\"16\" y=\"50\" font-size=\"13\">{1}</text>\n{body}</svg>\n",
        escaped(title),
        escaped(note)
    )
}

/// The water between two stages, from the right end of one to the left end of the next; each with half its height.
fn passage((from, other): (f64, f64), (left, half): (f64, f64)) -> String {
    let bend = (left - from) / 2.0;
    format!(
        "<path d=\"M {from:.1} {:.1} C {:.1} {:.1} {:.1} {:.1} {left:.1} {:.1} L {left:.1} {:.1} C {:.1} \
         {:.1} {:.1} {:.1} {from:.1} {:.1} Z\" fill=\"{WATER}\" fill-opacity=\"0.55\"/>\n",
        MIDDLE - other,
        from + bend,
        MIDDLE - other,
        left - bend,
        MIDDLE - half,
        MIDDLE - half,
        MIDDLE + half,
        left - bend,
        MIDDLE + half,
        from + bend,
        MIDDLE + other,
        MIDDLE + other,
    )
}

/// What a stage is called, does and lets through, below it; above it that it is the narrowest.
fn labels(row: &Row, centre: f64, is_narrowest: bool) -> String {
    let prefix = if row.way_is_at_least { "at least " } else { "" };
    let words = row.way_bits_per_s.map_or("not measured".to_owned(), |b| format!("{prefix}{}", bits(b)));
    let mark = if is_narrowest { "narrowest" } else { "" };
    let mut labels = String::new();
    for (y, size, weight, text) in [
        (MIDDLE + HALF_MAX + 26.0, 15, "bold", row.stage.name()),
        (MIDDLE + HALF_MAX + 45.0, 13, "normal", row.stage.step()),
        (MIDDLE + HALF_MAX + 64.0, 14, if is_narrowest { "bold" } else { "normal" }, &*words),
        (MIDDLE - HALF_MAX - 12.0, 14, "bold", mark),
    ] {
        let _ = writeln!(
            labels,
            "<text x=\"{centre:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" \
             text-anchor=\"middle\">{}</text>",
            escaped(text)
        );
    }
    labels
}

fn bits(bits_per_s: f64) -> String {
    let (value, unit) = match bits_per_s {
        bits if bits >= 1e9 => (bits / 1e9, "Gbit/s"),
        bits if bits >= 1e6 => (bits / 1e6, "Mbit/s"),
        bits => (bits / 1e3, "kbit/s"),
    };
    format!("{value:.2} {unit}")
}

/// Text for XML 1.0, which has no place for control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
