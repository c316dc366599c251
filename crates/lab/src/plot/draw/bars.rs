//! Bars beside each other, lying, so that names of any length have room; dots in their places on a logarithmic axis.

use super::{Key, Part, Sample, bar, marker, px};
use crate::plot::axis::{Ruler, Run};
use crate::plot::figure::{BarSeries, Bars, Value};
use crate::plot::text::Type;
use maud::{Markup, html};
use std::fmt::Write;

/// Height of a bar, and between groups, in pixels.
const BAR: f64 = 15.0;
const BETWEEN: f64 = 12.0;
/// Names of groups stand beside their bars if they need no larger part of the width.
const BESIDE: f64 = 0.3;
/// From the axis to those that stand over their bars.
const FROM_AXIS: f64 = 4.0;
/// Half of the words of the first mark, which on a logarithmic axis have a unit, stand before the axis.
const FIRST_MARK: f64 = 26.0;
/// From the middle of a dot to its edge.
const DOT: f64 = 5.0;

pub(super) fn keys(bars: &Bars) -> Vec<Key<'_>> {
    if bars.series.len() < 2 {
        return Vec::new();
    }
    let sample = if bars.axis.scale.is_logarithmic() { Sample::Dots } else { Sample::Bar };
    bars.series.iter().map(|series| Key { name: &series.name, look: series.look, sample }).collect()
}

pub(super) fn draw(bars: &Bars, width: f64, id: &str) -> Part {
    let names = bars.groups.iter().map(|name| Type::BODY.width(name)).fold(0.0, f64::max);
    let is_beside = names + 10.0 <= width * BESIDE;
    let is_log = bars.axis.scale.is_logarithmic();
    let first = if is_log { FIRST_MARK } else { 1.0 };
    let left = if is_beside { first.max(names + 10.0) } else { first };
    let values = || bars.series.iter().flat_map(|series| series.values.iter().flatten());
    let figure = |value: &Value| bars.axis.unit.show(value.value);
    let figures = values().map(|value| Type::SMALL.width(&figure(value))).fold(0.0, f64::max);
    let room = width - left - figures - 12.0;
    let ends = values().flat_map(|value| {
        let (low, high) = value.interval.unwrap_or((value.value, value.value));
        [low, value.value, high]
    });
    let ruler = Ruler::new(&bars.axis, ends, room, Run::Across);
    let across = |value: f64| left + ruler.place(value).unwrap_or(0.0) * room;

    let header = if is_beside { 0.0 } else { Type::STRONG.line() };
    let group = header + bars.series.len() as f64 * (BAR + 2.0) + BETWEEN;
    let bottom = bars.groups.len() as f64 * group;
    let mut lines = String::new();
    for (at, _) in &ruler.marks {
        let _ = write!(lines, "M{} 0V{}", px(left + at * room), px(bottom));
    }
    // Between powers, as curves have them.
    let mut ticks = String::new();
    for at in &ruler.between {
        let _ = write!(ticks, "M{} {}v-4", px(left + at * room), px(bottom));
    }
    let one = |series: &BarSeries, value: &Value, top: f64| -> Markup {
        let end = across(value.value);
        let shown = value.interval.map_or(end, |(_, high)| end.max(across(high)));
        // Whatever the axis has no place for has no dot.
        let has_dot = is_log && ruler.place(value.value).is_some();
        let shown = if has_dot { shown.max(end + DOT) } else { shown };
        html! {
            @if !is_log { (bar(series.look, left, top, end - left, BAR, id)) }
            @if let Some((low, high)) = value.interval {
                path class="interval" d=(format!(
                    "M{} {}v6m0 -3H{}m0 -3v6", px(across(low)), px(top + BAR / 2.0 - 3.0), px(across(high))
                )) {}
            }
            @if has_dot { (marker(series.look, end, top + BAR / 2.0)) }
            text class="small halo" x=(px(shown + 5.0)) y=(px(top + BAR - 4.0)) { (figure(value)) }
        }
    };
    let svg = html! {
        path class="grid" d=(lines) {}
        @for (at, name) in bars.groups.iter().enumerate() {
            @let top = at as f64 * group + BETWEEN / 2.0;
            @if is_beside {
                @let middle = top + bars.series.len() as f64 * (BAR + 2.0) / 2.0;
                text text-anchor="end" x=(px(left - 8.0)) y=(px(middle + 3.0)) { (name) }
            } @else {
                @let x = left + FROM_AXIS;
                text class="strong halo" x=(px(x)) y=(px(top + Type::STRONG.size - 1.0)) {
                    (Type::STRONG.shorten(name, width - x))
                }
            }
            @for (nth, series) in bars.series.iter().enumerate() {
                @if let Some(Some(value)) = series.values.get(at) {
                    (one(series, value, top + header + nth as f64 * (BAR + 2.0)))
                }
            }
        }
        path class="axis" d=(format!("M{} 0V{}H{}{ticks}", px(left), px(bottom), px(left + room))) {}
        @for (at, words) in &ruler.marks {
            @let x = (left + at * room).max(Type::BODY.width(words) / 2.0);
            text text-anchor="middle" x=(px(x)) y=(px(bottom + 17.0)) { (words) }
        }
        text class="quiet" text-anchor="middle" x=(px(left + room / 2.0)) y=(px(bottom + 35.0)) { (ruler.title) }
    };
    Part { svg, height: bottom + 40.0 }
}
