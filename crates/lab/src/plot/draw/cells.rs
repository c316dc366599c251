//! A table whose cells are shaded by their figures: dark is much.

use super::{Part, px};
use crate::plot::figure::Cells;
use crate::plot::text::Type;
use crate::plot::unit::alike;
use maud::html;

/// Height of a row in pixels.
const ROW: f64 = 26.0;
/// The lightest and the deepest shade; between them it follows the figure.
const SHADES: (f64, f64) = (0.06, 1.0);
/// From this shade on, words have the colour that is readable on it.
const DEEP: f64 = 0.55;

pub(super) fn draw(cells: &Cells, width: f64) -> Part {
    let shown = || cells.values.iter().flatten().flatten();
    let most = shown().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = shown().copied().fold(f64::INFINITY, f64::min);
    let prefix = cells.unit.prefix(most);
    let names = cells.rows.iter().chain([&cells.row_title]);
    let left = names.map(|name| Type::BODY.width(name)).fold(0.0, f64::max).min(width * 0.4) + 10.0;
    let column = (width - left) / cells.columns.len().max(1) as f64;
    let words = alike(&shown().map(|value| round(value / prefix.size)).collect::<Vec<_>>());
    let mut words = words.iter();
    let shade = |value: f64| {
        let part = if most > least { (value - least) / (most - least) } else { 1.0 };
        SHADES.0 + part * (SHADES.1 - SHADES.0)
    };
    let title = match prefix.name {
        "" => cells.label.clone(),
        unit => format!("{} ({unit})", cells.label),
    };
    let top = 2.0 * Type::BODY.line() + 12.0;
    let middle = |at: usize| left + (at as f64 + 0.5) * column;
    let svg = html! {
        text class="quiet" x="0" y=(px(Type::BODY.size)) { (Type::BODY.shorten(&title, left + column)) }
        text class="quiet" text-anchor="end" x=(px(width)) y=(px(Type::BODY.size)) { (cells.column_title) }
        text class="quiet" x="0" y=(px(top - 6.0)) { (cells.row_title) }
        @for (at, name) in cells.columns.iter().enumerate() {
            text text-anchor="middle" x=(px(middle(at))) y=(px(top - 6.0)) { (Type::BODY.shorten(name, column - 2.0)) }
        }
        @for (row, name) in cells.rows.iter().enumerate() {
            @let y = top + row as f64 * ROW;
            text text-anchor="end" x=(px(left - 8.0)) y=(px(y + ROW / 2.0 + 4.0)) {
                (Type::BODY.shorten(name, left - 10.0))
            }
            @for (at, value) in cells.values.get(row).into_iter().flatten().enumerate() {
                @if let Some(value) = value {
                    rect class="shade" x=(px(left + at as f64 * column + 1.0)) y=(px(y + 1.0)) rx="2"
                        width=(px(column - 2.0)) height=(px(ROW - 2.0)) fill-opacity=(format!("{:.2}", shade(*value))) {}
                    text class=[(shade(*value) >= DEEP).then_some("on-shade")] text-anchor="middle" x=(px(middle(at)))
                        y=(px(y + ROW / 2.0 + 4.0)) { (words.next().map_or("", String::as_str)) }
                }
            }
        }
    };
    Part { svg, height: top + cells.rows.len() as f64 * ROW }
}

/// To three figures.
fn round(value: f64) -> f64 {
    let unit = 10f64.powf(2.0 - value.abs().max(f64::MIN_POSITIVE).log10().floor());
    (value * unit).round() / unit
}
