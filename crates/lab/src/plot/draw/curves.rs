//! Points and lines between two axes.

use super::{Key, Part, Sample, marker, px, stroke};
use crate::plot::axis::{Ruler, Run};
use crate::plot::figure::{Across, Curves, Look, Point, Series, Way};
use crate::plot::palette::SERIES;
use crate::plot::text::Type;
use maud::{Markup, html};
use std::fmt::Write;

/// Height of the frame for its width, and what it is at least and at most, in pixels.
const SHAPE: f64 = 0.52;
const HEIGHT_MIN: f64 = 220.0;
const HEIGHT_MAX: f64 = 360.0;
/// Between words and axis.
const GAP: f64 = 7.0;
/// Stairs with more points than this have a marker only now and then.
const MARKERS_MAX: usize = 10;

pub(super) fn keys(curves: &Curves) -> Vec<Key<'_>> {
    let sample = |series: &Series| if series.way == Way::Dots { Sample::Dots } else { Sample::Line };
    // One series whose name says no more than the axis needs no legend.
    match curves.series.as_slice() {
        [only] if only.name == curves.y.label => Vec::new(),
        all => all
            .iter()
            .map(|series| Key { name: &series.name, look: series.look, sample: sample(series) })
            .collect(),
    }
}

/// The frame, in pixels, and what stands on its sides.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Ruler,
    y: Ruler,
}

impl Frame {
    /// Pixels of a point; nothing if an axis has no place for it.
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.across(self.x.place(x)?), self.up(self.y.place(y)?)))
    }

    fn across(&self, place: f64) -> f64 {
        self.left + place * self.width
    }

    fn up(&self, place: f64) -> f64 {
        self.top + (1.0 - place) * self.height
    }
}

pub(super) fn draw(curves: &Curves, width: f64) -> Part {
    let frame = frame(curves, width);
    let bottom = frame.top + frame.height;
    let mut words = Words::new(&frame, curves);
    let x_title = Type::BODY.wrap(&frame.x.title, width);
    let title_top = bottom + GAP + 2.0 * Type::BODY.line();
    let svg = html! {
        (grid(&frame))
        @for line in &curves.limits { (limit(&frame, line.across, line.at)) }
        // First what lies below: bands, then laws, lines, and points on top.
        @for series in &curves.series { (band(&frame, series)) }
        @for series in curves.series.iter().filter(|series| matches!(series.look, Look::Law(_))) {
            (line(&frame, series))
        }
        @for series in curves.series.iter().filter(|series| !matches!(series.look, Look::Law(_))) {
            (line(&frame, series))
            (points(&frame, series))
        }
        @for line in &curves.limits { (words.beside_limit(line.across, line.at, &line.label)) }
        @for remark in &curves.remarks { (words.beside_point(remark.x, remark.y, &remark.label)) }
        text class="quiet" x="0" y=(px(Type::BODY.size)) { (frame.y.title) }
        @for (at, line) in x_title.iter().enumerate() {
            text class="quiet" text-anchor="middle" y=(px(title_top + at as f64 * Type::BODY.line()))
                x=(px(middle(&frame, line, width))) { (line) }
        }
    };
    Part { svg, height: title_top + x_title.len() as f64 * Type::BODY.line() - 8.0 }
}

/// Where the axis' words are in the middle of the frame without leaving the drawing.
fn middle(frame: &Frame, words: &str, width: f64) -> f64 {
    let half = Type::BODY.width(words) / 2.0;
    (frame.left + frame.width / 2.0).min(width - half).max(half)
}

fn frame(curves: &Curves, width: f64) -> Frame {
    let kept = || curves.series.iter().filter(|series| !matches!(series.look, Look::Law(_)));
    let all = || if kept().next().is_none() { &curves.series[..] } else { &[] };
    let points = || kept().chain(all()).flat_map(|series| &series.points);
    let ys = points().flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.y, point.y));
        [point.y, low, high]
    });
    let of =
        |across: Across| curves.limits.iter().filter(move |line| line.across == across).map(|line| line.at);
    let ys = ys.chain(of(Across::Level));
    let xs = points().map(|point| point.x).chain(of(Across::Upright));
    let height = (width * SHAPE).clamp(HEIGHT_MIN, HEIGHT_MAX);
    let y = Ruler::new(&curves.y, ys, height, Run::Up);
    // Half of the words of the first and the last mark across stand beyond the frame; two rounds settle both sides, for
    // there are no more marks on less room.
    let widest = y.marks.iter().map(|(_, words)| Type::BODY.width(words)).fold(0.0, f64::max);
    let (mut left, mut right) = ((widest + GAP + 2.0).ceil(), 10.0);
    let mut x = Ruler::new(&curves.x, xs.clone(), width - left - right, Run::Across);
    for _ in 0..2 {
        let inner = width - left - right;
        let half = |words: &str| Type::BODY.width(words) / 2.0 + 1.0;
        let before = x.marks.iter().map(|(at, words)| half(words) - at * inner);
        let beyond = x.marks.iter().map(|(at, words)| half(words) - (1.0 - at) * inner);
        (left, right) = (before.fold(left, f64::max).ceil(), beyond.fold(right, f64::max).ceil());
        x = Ruler::new(&curves.x, xs.clone(), width - left - right, Run::Across);
    }
    let inner = width - left - right;
    Frame { left, top: Type::BODY.line() + GAP + 2.0, width: inner, height, x, y }
}

fn grid(frame: &Frame) -> Markup {
    let (left, right) = (frame.left, frame.left + frame.width);
    let (top, bottom) = (frame.top, frame.top + frame.height);
    let mut lines = String::new();
    for (at, _) in &frame.y.marks {
        let _ = write!(lines, "M{} {}H{}", px(left), px(frame.up(*at)), px(right));
    }
    for (at, _) in &frame.x.marks {
        let _ = write!(lines, "M{} {}V{}", px(frame.across(*at)), px(top), px(bottom));
    }
    // Between powers there are only short strokes: a page full of lines hides the data.
    let mut ticks = String::new();
    for at in &frame.y.between {
        let _ = write!(ticks, "M{} {}h4", px(left), px(frame.up(*at)));
    }
    for at in &frame.x.between {
        let _ = write!(ticks, "M{} {}v-4", px(frame.across(*at)), px(bottom));
    }
    html! {
        path class="grid" d=(lines) {}
        path class="axis" d=(format!("M{} {}V{}H{}{ticks}", px(left), px(top), px(bottom), px(right))) {}
        @for (at, words) in &frame.y.marks {
            text text-anchor="end" x=(px(left - GAP)) y=(px(frame.up(*at) + 4.0)) { (words) }
        }
        @for (at, words) in &frame.x.marks {
            text text-anchor="middle" x=(px(frame.across(*at))) y=(px(bottom + GAP + Type::BODY.size)) { (words) }
        }
    }
}

fn limit(frame: &Frame, across: Across, at: f64) -> Markup {
    let path = match across {
        Across::Level => frame
            .y
            .place(at)
            .map(|at| format!("M{} {}h{}", px(frame.left), px(frame.up(at)), px(frame.width))),
        Across::Upright => frame
            .x
            .place(at)
            .map(|at| format!("M{} {}v{}", px(frame.across(at)), px(frame.top), px(frame.height))),
    };
    html! { @if let Some(path) = path { path class="law" d=(path) stroke-dasharray="4 3" {} } }
}

fn band(frame: &Frame, series: &Series) -> Markup {
    let ends: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter_map(|point| {
            let (low, high) = point.interval?;
            let (x, low) = frame.at(point.x, low)?;
            Some((x, low, frame.at(point.x, high)?.1))
        })
        .collect();
    if series.way != Way::Line || ends.len() < 2 {
        return html! {};
    }
    let above = ends.iter().map(|(x, _, high)| format!("{} {}", px(*x), px(*high)));
    let below = ends.iter().rev().map(|(x, low, _)| format!("{} {}", px(*x), px(*low)));
    let path = above.chain(below).collect::<Vec<_>>().join("L");
    html! { path class=(format!("s{} band", series.look.index() % SERIES)) d=(format!("M{path}z")) {} }
}

fn line(frame: &Frame, series: &Series) -> Markup {
    let path = match series.way {
        Way::Dots => String::new(),
        Way::Stairs => stairs(frame, &series.points),
        Way::Line => straight(frame, &series.points),
    };
    html! { @if !path.is_empty() { (stroke(series.look, &path)) } }
}

/// Straight lines, cut where they leave the frame.
fn straight(frame: &Frame, points: &[Point]) -> String {
    let places: Vec<Option<(f64, f64)>> =
        points.iter().map(|point| Some((frame.x.place(point.x)?, frame.y.place(point.y)?))).collect();
    let mut path = String::new();
    let mut pen = None;
    for pair in places.windows(2) {
        let &[Some(one), Some(two)] = pair else { continue };
        let Some((begin, end)) = inside(one, two) else { continue };
        if pen != Some(begin) {
            let _ = write!(path, "M{} {}", px(frame.across(begin.0)), px(frame.up(begin.1)));
        }
        let _ = write!(path, "L{} {}", px(frame.across(end.0)), px(frame.up(end.1)));
        pen = Some(end);
    }
    path
}

/// The part of a line that is between 0 and 1 both ways (Liang and Barsky, 1984).
fn inside(one: (f64, f64), two: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
    let (dx, dy) = (two.0 - one.0, two.1 - one.1);
    let (mut begin, mut end) = (0.0f64, 1.0f64);
    // A point on the border is inside, whatever rounding says.
    let slack = 1e-9;
    for (step, room) in [(-dx, one.0), (dx, 1.0 - one.0), (-dy, one.1), (dy, 1.0 - one.1)] {
        let room = room + slack;
        if step == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if step < 0.0 {
            begin = begin.max(room / step);
        } else {
            end = end.min(room / step);
        }
    }
    let at = |part: f64| (one.0 + part * dx, one.1 + part * dy);
    let begin_at = if begin == 0.0 { one } else { at(begin) };
    let end_at = if end == 1.0 { two } else { at(end) };
    (begin <= end).then_some((begin_at, end_at))
}

fn stairs(frame: &Frame, points: &[Point]) -> String {
    let mut path = String::new();
    for (x, y) in points.iter().filter_map(|point| frame.at(point.x, point.y)) {
        match path.is_empty() {
            true => {
                let _ = write!(path, "M{} {}V{}", px(x), px(frame.up(0.0)), px(y));
            }
            false => {
                let _ = write!(path, "H{}V{}", px(x), px(y));
            }
        }
    }
    if !path.is_empty() {
        let _ = write!(path, "H{}", px(frame.left + frame.width));
    }
    path
}

fn points(frame: &Frame, series: &Series) -> Markup {
    let every = match series.way {
        Way::Stairs => series.points.len().div_ceil(MARKERS_MAX).max(1),
        Way::Line | Way::Dots => 1,
    };
    let last = series.points.len().saturating_sub(1);
    let shown = series.points.iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last);
    html! {
        @for (_, point) in shown {
            @if let Some((x, y)) = frame.at(point.x, point.y) {
                (whisker(frame, series, point, x))
                (marker(series.look, x, y))
            }
        }
    }
}

fn whisker(frame: &Frame, series: &Series, point: &Point, x: f64) -> Markup {
    let ends =
        point.interval.and_then(|(low, high)| Some((frame.at(point.x, low)?.1, frame.at(point.x, high)?.1)));
    html! {
        @if let Some((low, high)) = ends {
            path class=(format!("s{} whisker", series.look.index() % SERIES))
                d=(format!("M{} {}h6m-3 0V{}m-3 0h6", px(x - 3.0), px(low), px(high))) {}
        }
    }
}

/// Words inside the frame: each takes the first place in which it covers least.
struct Words<'a> {
    frame: &'a Frame,
    /// Points and lines: left, top, right, bottom.
    taken: Vec<[f64; 4]>,
    /// Words that are there already.
    words: Vec<[f64; 4]>,
}

/// How much worse it is to cover words, or to leave the frame, than to cover a part of a line.
const WORSE: usize = 1000;

impl<'a> Words<'a> {
    fn new(frame: &'a Frame, curves: &Curves) -> Words<'a> {
        let around = |(x, y): (f64, f64)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0];
        let mut taken = Vec::new();
        for series in &curves.series {
            let places: Vec<(f64, f64)> =
                series.points.iter().filter_map(|point| frame.at(point.x, point.y)).collect();
            taken.extend(places.iter().copied().map(around));
            let drawn = match series.way {
                Way::Dots => Vec::new(),
                Way::Line => places,
                Way::Stairs => corners(frame, &places),
            };
            taken.extend(drawn.windows(2).flat_map(|pair| along(pair[0], pair[1])).map(around));
        }
        let title = Type::BODY.width(&frame.y.title);
        Words { frame, taken, words: vec![[0.0, 0.0, title, Type::BODY.line()]] }
    }

    fn beside_limit(&mut self, across: Across, at: f64, label: &str) -> Markup {
        let frame = self.frame;
        let bottom = frame.top + frame.height;
        let label = &Type::SMALL.shorten(label, frame.width - 12.0);
        let width = Type::SMALL.width(label);
        let corners: Vec<(f64, f64)> = match across {
            Across::Level => {
                let Some(y) = frame.y.place(at).map(|at| frame.up(at)) else { return html! {} };
                let room = frame.width - width - 10.0;
                let ends = [1.0, 0.0, 0.5, 0.75, 0.25].map(|part| frame.left + 6.0 + part * room);
                let above = ends.map(|x| (x, y - 16.0));
                above.into_iter().chain(ends.map(|x| (x, y + 3.0))).collect()
            }
            Across::Upright => {
                let Some(x) = frame.x.place(at).map(|at| frame.across(at)) else { return html! {} };
                let heights = [frame.top + 2.0, frame.top + 18.0, frame.top + 34.0, bottom - 18.0];
                heights.iter().flat_map(|y| [(x + 4.0, *y), (x - width - 4.0, *y)]).collect()
            }
        };
        self.put(label, &corners)
    }

    fn beside_point(&mut self, x: f64, y: f64, label: &str) -> Markup {
        let Some((x, y)) = self.frame.at(x, y) else { return html! {} };
        let width = Type::SMALL.width(label);
        let corners = [
            (x + 8.0, y - 18.0),
            (x - width - 8.0, y - 18.0),
            (x + 8.0, y + 5.0),
            (x - width - 8.0, y + 5.0),
            (x - width / 2.0, y - 24.0),
            (x - width / 2.0, y + 10.0),
        ];
        self.put(label, &corners)
    }

    fn put(&mut self, label: &str, corners: &[(f64, f64)]) -> Markup {
        let (width, height) = (Type::SMALL.width(label), 14.0);
        let frame = self.frame;
        let fit = |(x, y): (f64, f64)| {
            let x = x.min(frame.left + frame.width - width).max(frame.left + 2.0);
            [x, y, x + width, y + height]
        };
        let touch = |place: &[f64; 4], other: &[f64; 4]| {
            place[0] < other[2] && other[0] < place[2] && place[1] < other[3] && other[1] < place[3]
        };
        let covers = |place: &[f64; 4]| -> usize {
            let leaves = place[1] < 0.0 || place[3] > frame.top + frame.height;
            let words = self.words.iter().filter(|other| touch(place, other)).count() + usize::from(leaves);
            words * WORSE + self.taken.iter().filter(|other| touch(place, other)).count()
        };
        let Some(place) = corners.iter().map(|corner| fit(*corner)).min_by_key(covers) else {
            return html! {};
        };
        self.words.push(place);
        html! { text class="small halo" x=(px(place[0])) y=(px(place[1] + 11.0)) { (label) } }
    }
}

/// Where stairs turn, from the bottom to the right border.
fn corners(frame: &Frame, places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners = Vec::new();
    let mut y = frame.up(0.0);
    for &(x, next) in places {
        corners.extend([(x, y), (x, next)]);
        y = next;
    }
    corners.extend((!places.is_empty()).then_some((frame.left + frame.width, y)));
    corners
}

/// Points on the way between two.
fn along(one: (f64, f64), two: (f64, f64)) -> impl Iterator<Item = (f64, f64)> {
    let steps = ((two.0 - one.0).hypot(two.1 - one.1) / 10.0).min(200.0) as usize;
    (1..=steps).map(move |step| {
        let part = step as f64 / (steps + 1) as f64;
        (one.0 + part * (two.0 - one.0), one.1 + part * (two.1 - one.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_border_and_only_there() {
        assert_eq!(inside((0.0, 0.0), (1.0, 1.0)), Some(((0.0, 0.0), (1.0, 1.0))));
        let ((x, y), end) = inside((0.0, 2.0), (1.0, 0.0)).unwrap();
        assert!((x - 0.5).abs() < 1e-6 && (y - 1.0).abs() < 1e-6 && end == (1.0, 0.0));
        assert_eq!(inside((0.0, 2.0), (1.0, 3.0)), None);
    }
}
