//! Figures as SVG, PNG and CSV.
//!
//! A [`Figure`] says what is shown: title, facts, axes with units, series with their intervals, notes. Drawing it
//! decides nothing but where things stand. SVG is drawn here, with letters that are measured, so that no words touch;
//! the PNG is that SVG, rendered with the same letters. Why no charting library: `docs/decisions/0009-figures.md`.
//!
//! The same figure gives the same bytes. Nothing is taken from the machine it is drawn on: no fonts, no clock, no
//! locale.

pub mod unit;

pub mod palette;

pub mod text;

mod axis;
pub use axis::{Axis, Scale};

mod figure;
pub use figure::{
    Across, BarSeries, Bars, Body, Cells, Curves, Figure, Limit, Look, Point, Remark, Series, Value, Way,
};

pub mod draw;

mod csv;
pub use csv::csv;

mod png;
pub use png::{Error as PngError, png};

use maud::{PreEscaped, html};
use palette::{LIGHT, stylesheet};
use text::font_face;

/// Pixels from side to side of a figure that stands alone.
pub const WIDTH: f64 = 760.0;

/// Around a figure that stands alone, in pixels.
const MARGIN: f64 = 14.0;

/// Whether letters travel in the SVG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Within,
    Known,
}

/// A figure as an SVG file: dark on white, its letters within, nothing from elsewhere.
pub fn svg(figure: &Figure, width: f64) -> String {
    page(figure, width, Letters::Within)
}

fn page(figure: &Figure, width: f64, letters: Letters) -> String {
    let drawing = draw::draw(figure, width - 2.0 * MARGIN, &figure.name);
    let height = drawing.height + 2.0 * MARGIN;
    let mut style = stylesheet(&LIGHT, "");
    if letters == Letters::Within {
        style.insert_str(0, &font_face());
    }
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) {
            style { (PreEscaped(style)) }
            rect class="ground" width=(width) height=(height) {}
            svg x=(MARGIN) y=(MARGIN) width=(drawing.width) height=(drawing.height) { (drawing.svg) }
        }
    };
    inert(&svg.into_string())
}

/// Without control characters, which no terminal shall act on and XML has no place for.
pub fn inert(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests;
