//! Figures as SVG: title, facts, legend, body, notes, from top to bottom, each as high as its words need on the width
//! given.
//!
//! Elements have classes and no colours ([`super::palette::stylesheet`] gives them). The same figure and width give the
//! same bytes: places are rounded to a tenth of a pixel.

mod curves;

mod bars;

mod cells;

use super::figure::{Body, Figure, Look};
use super::palette::{DASHES, HATCHES, MARKERS, SERIES};
use super::text::Type;
use maud::{Markup, html};

/// A drawing: an `svg` element, and its size in pixels.
pub struct Drawing {
    /// The element, without colours.
    pub svg: Markup,
    /// Pixels.
    pub width: f64,
    /// Pixels.
    pub height: f64,
}

/// A part of a drawing, from its own top left corner on.
struct Part {
    svg: Markup,
    height: f64,
}

/// What the legend says of a series.
struct Key<'a> {
    name: &'a str,
    look: Look,
    sample: Sample,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sample {
    Line,
    Dots,
    Bar,
}

/// Draws a figure on so many pixels' width. `id` distinguishes it from others on the same page.
pub fn draw(figure: &Figure, width: f64, id: &str) -> Drawing {
    let body = match &figure.body {
        Body::Curves(curves) => curves::draw(curves, width),
        Body::Bars(bars) => bars::draw(bars, width, id),
        Body::Cells(cells) => cells::draw(cells, width),
    };
    let keys = match &figure.body {
        Body::Curves(curves) => curves::keys(curves),
        Body::Bars(bars) => bars::keys(bars),
        Body::Cells(_) => Vec::new(),
    };
    let parts = [
        paragraph(std::slice::from_ref(&figure.title), Type::TITLE, "title", width),
        paragraph(&[figure.facts.join(" · ")], Type::BODY, "quiet", width),
        legend(&keys, width, id),
        body,
        paragraph(&figure.notes, Type::SMALL, "small quiet", width),
    ];
    let mut top = 4.0;
    let mut placed = Vec::new();
    for part in parts.into_iter().filter(|part| part.height > 0.0) {
        placed.push((top, part.svg));
        top += part.height + 8.0;
    }
    let height = top.ceil();
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", px(width), px(height)))
            width=(px(width)) height=(px(height)) role="img"
            aria-labelledby=(format!("{id}-title")) aria-describedby=(format!("{id}-desc")) {
            title id=(format!("{id}-title")) { (figure.title) }
            desc id=(format!("{id}-desc")) { (figure.description()) }
            @if let Body::Bars(bars) = &figure.body { (hatches(bars.series.len(), id)) }
            @for (top, part) in placed {
                g transform=(format!("translate(0 {})", px(top))) { (part) }
            }
        }
    };
    Drawing { svg, width, height }
}

/// Pixels, to a tenth.
fn px(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // No minus before a zero.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Texts below each other, each in as many lines as it needs.
fn paragraph(texts: &[String], kind: Type, class: &str, width: f64) -> Part {
    let lines: Vec<String> = texts.iter().flat_map(|text| kind.wrap(text, width)).collect();
    let svg = html! {
        @for (at, line) in lines.iter().enumerate() {
            text class=(class) x="0" y=(px(kind.size + at as f64 * kind.line())) { (line) }
        }
    };
    Part { svg, height: lines.len() as f64 * kind.line() }
}

/// Width of a sample in the legend, and what is between it, its words and the next.
const SAMPLE: f64 = 30.0;
const GAP: f64 = 6.0;
const APART: f64 = 18.0;
const ROW: f64 = 18.0;

fn legend(keys: &[Key], width: f64, id: &str) -> Part {
    let (mut x, mut y) = (0.0, 0.0);
    let mut placed = Vec::new();
    for key in keys {
        let name = Type::BODY.shorten(key.name, width - SAMPLE - GAP);
        let needs = SAMPLE + GAP + Type::BODY.width(&name);
        if x > 0.0 && x + needs > width {
            (x, y) = (0.0, y + ROW);
        }
        placed.push((x, y, key, name));
        x += needs + APART;
    }
    let svg = html! {
        @for (x, y, key, name) in &placed {
            g transform=(format!("translate({} {})", px(*x), px(y + ROW / 2.0))) {
                (sample(key, id))
                text x=(px(SAMPLE + GAP)) y="4" { (name) }
            }
        }
    };
    Part { svg, height: if keys.is_empty() { 0.0 } else { y + ROW } }
}

fn sample(key: &Key, id: &str) -> Markup {
    match key.sample {
        Sample::Bar => bar(key.look, 4.0, -6.0, SAMPLE - 8.0, 12.0, id),
        Sample::Line => html! {
            (stroke(key.look, &format!("M0 0H{}", px(SAMPLE))))
            @if !matches!(key.look, Look::Law(_)) { (marker(key.look, SAMPLE / 2.0, 0.0)) }
        },
        Sample::Dots => html! { (marker(key.look, SAMPLE / 2.0, 0.0)) },
    }
}

/// The line of a series.
fn stroke(look: Look, path: &str) -> Markup {
    let index = look.index() % SERIES;
    let (class, dash) = match look {
        Look::Measured(_) => (format!("s{index} line"), DASHES[index]),
        Look::Published(_) => (format!("s{index} whisker"), "1.5 3"),
        Look::Law(_) => (format!("s{index} law"), "6 4"),
    };
    html! { path class=(class) d=(path) stroke-dasharray=[(!dash.is_empty()).then_some(dash)] {} }
}

/// One marker of a series.
fn marker(look: Look, x: f64, y: f64) -> Markup {
    let index = look.index() % SERIES;
    let kind = if matches!(look, Look::Published(_)) { "ring" } else { "dot" };
    html! {
        path class=(format!("s{index} {kind}")) d=(MARKERS[index])
            transform=(format!("translate({} {})", px(x), px(y))) {}
    }
}

/// A bar: full and hatched if measured, hollow if published.
fn bar(look: Look, x: f64, y: f64, width: f64, height: f64, id: &str) -> Markup {
    let index = look.index() % SERIES;
    let is_hollow = !matches!(look, Look::Measured(_));
    let class = format!("s{index} {}", if is_hollow { "ring" } else { "bar" });
    let [x, y, width, height] = [x, y, width.max(1.0), height].map(px);
    html! {
        rect class=(class) x=(x) y=(y) width=(width) height=(height) {}
        @if !is_hollow && !HATCHES[index].is_empty() {
            rect x=(x) y=(y) width=(width) height=(height) fill=(format!("url(#{id}-hatch{index})")) {}
        }
    }
}

/// What [`bar`] fills with.
fn hatches(count: usize, id: &str) -> Markup {
    html! {
        defs {
            @for (index, hatch) in HATCHES.iter().enumerate().take(count).filter(|(_, hatch)| !hatch.is_empty()) {
                pattern id=(format!("{id}-hatch{index}")) width="6" height="6" patternUnits="userSpaceOnUse" {
                    path class="hatch" d=(hatch) {}
                }
            }
        }
    }
}
