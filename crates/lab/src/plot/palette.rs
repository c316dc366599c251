//! Colours, markers and dashes: what tells one series from another, on a screen, in print, in grey, and for eyes that
//! see colours otherwise.
//!
//! The colours are those of Okabe and Ito (*Color Universal Design*, 2008), without yellow, which is too light for
//! lines on paper, and with purple, orange and sky blue a little darker than theirs for the same reason. No figure
//! rests on colour alone: each has its own marker, dash pattern and hatch. In drawings elements have classes only;
//! [`stylesheet`] gives them colours, for light or dark grounds.

use super::text::FAMILY;
use std::fmt::Write;

/// How many series differ in every way; later ones begin again.
pub const SERIES: usize = 7;

/// One colour of a series, on light and on dark ground: the dark one is lighter, with the same hue, so that both have a
/// contrast of at least 3 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// Its English name.
    pub name: &'static str,
    /// On white, as in print.
    pub light: &'static str,
    /// On nearly black.
    pub dark: &'static str,
}

/// In the order in which series take them.
pub const COLOURS: [Colour; SERIES] = [
    Colour { name: "blue", light: "#0072b2", dark: "#4ea6dc" },
    Colour { name: "vermillion", light: "#d55e00", dark: "#f0823c" },
    Colour { name: "bluish green", light: "#009e73", dark: "#22bf93" },
    Colour { name: "reddish purple", light: "#b8609a", dark: "#dd97bd" },
    Colour { name: "orange", light: "#c98a00", dark: "#f0b429" },
    Colour { name: "sky blue", light: "#3d9cd2", dark: "#93d0f3" },
    Colour { name: "black", light: "#000000", dark: "#f4f4f4" },
];

/// Lengths of strokes and gaps in pixels, as SVG's `stroke-dasharray` wants them; the first is a full line.
pub const DASHES: [&str; SERIES] = ["", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 3"];

/// A marker's outline around (0, 0), as SVG's path data; each covers about the same area.
pub const MARKERS: [&str; SERIES] = [
    // circle
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
    // square
    "M-3.3 -3.3h6.6v6.6h-6.6z",
    // triangle up
    "M0 -4.4L4.2 3.2H-4.2z",
    // diamond
    "M0 -4.7L4.7 0L0 4.7L-4.7 0z",
    // triangle down
    "M0 4.4L4.2 -3.2H-4.2z",
    // upright cross
    "M-1.5 -4.3h3v2.8h2.8v3h-2.8v2.8h-3v-2.8h-2.8v-3h2.8z",
    // slanting cross
    "M-4.2 -2.3L-2.3 -4.2L0 -1.9L2.3 -4.2L4.2 -2.3L1.9 0L4.2 2.3L2.3 4.2L0 1.9L-2.3 4.2L-4.2 2.3L-1.9 0z",
];

/// What bars are hatched with in a tile of 6 by 6 pixels, as SVG's path data; the first is plain.
pub const HATCHES: [&str; SERIES] = [
    "",
    "M-1 7L7 -1M-1 1L1 -1M5 7L7 5",
    "M-1 -1L7 7M5 -1L7 1M-1 5L1 7",
    "M0 3H6",
    "M3 0V6",
    "M0 3H6M3 0V6",
    "M-1 7L7 -1M-1 -1L7 7",
];

/// Grounds, inks and lines of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Behind everything.
    pub ground: &'static str,
    /// Words and figures.
    pub ink: &'static str,
    /// Words that matter less: at least 4.5 to 1 on the ground.
    pub quiet: &'static str,
    /// Grid lines.
    pub grid: &'static str,
    /// Axes and what published figures are drawn with.
    pub axis: &'static str,
    /// What is marked: the narrowest stage.
    pub marked: &'static str,
    /// The deepest shade of a table of shades.
    pub shade: &'static str,
    /// Words on it.
    pub on_shade: &'static str,
    is_dark: bool,
}

/// For paper and bright screens.
pub const LIGHT: Theme = Theme {
    ground: "#ffffff",
    ink: "#1b1f24",
    quiet: "#59616b",
    grid: "#e3e6ea",
    axis: "#70777f",
    marked: "#d55e00",
    shade: "#0072b2",
    on_shade: "#ffffff",
    is_dark: false,
};

/// For dark screens.
pub const DARK: Theme = Theme {
    ground: "#14181d",
    ink: "#e9ecef",
    quiet: "#a2abb5",
    grid: "#2c333b",
    axis: "#8b949e",
    marked: "#f0823c",
    shade: "#4ea6dc",
    on_shade: "#0b0e11",
    is_dark: true,
};

impl Theme {
    /// The colour of a series.
    pub fn series(&self, index: usize) -> &'static str {
        let colour = COLOURS[index % SERIES];
        if self.is_dark { colour.dark } else { colour.light }
    }
}

/// What gives the classes of a drawing their colours. Every rule begins with `scope`, so that several drawings, or two
/// themes, can stand on one page; an empty one is for a drawing that stands alone.
///
/// Classes: `ink`, `quiet`, `strong` words; `grid`, `axis` lines; `s0` to `s6` with `line`, `whisker`, `band`, `bar`,
/// `dot` (filled), `ring` (hollow) or `law` for series; `law` for what a model or a paper says; `halo` for words over
/// lines; `marked`; `shade`.
pub fn stylesheet(theme: &Theme, scope: &str) -> String {
    let mut css = String::new();
    let mut rule = |names: &str, style: &str| {
        let names: Vec<String> = names.split(',').map(|name| format!("{scope}{name}")).collect();
        let _ = writeln!(css, "{} {{ {style} }}", names.join(", "));
    };
    rule("text", &format!("font-family: {FAMILY}; font-size: 12px; fill: {}", theme.ink));
    rule(".ground", &format!("fill: {}", theme.ground));
    rule(".strong", "font-weight: bold");
    rule(".title", "font-size: 16px; font-weight: bold");
    rule(".small", "font-size: 11px");
    rule(".quiet", &format!("fill: {}", theme.quiet));
    rule(".grid", &format!("stroke: {}; stroke-width: 1; fill: none", theme.grid));
    rule(".axis", &format!("stroke: {}; stroke-width: 1; fill: none", theme.axis));
    rule(".law", &format!("stroke: {}; stroke-width: 1.4; fill: none", theme.axis));
    rule(".marked", &format!("fill: {}", theme.marked));
    rule(".marked-line", &format!("stroke: {}; stroke-width: 2; fill: none", theme.marked));
    rule(".shade", &format!("fill: {}", theme.shade));
    rule(".on-shade", &format!("fill: {}", theme.on_shade));
    rule(
        ".halo",
        &format!(
            "stroke: {}; stroke-width: 3.5; stroke-linejoin: round; paint-order: stroke fill",
            theme.ground
        ),
    );
    rule(".interval", &format!("stroke: {}; stroke-width: 1.3; fill: none", theme.ink));
    rule(".hatch", &format!("stroke: {}; stroke-width: 1.3; fill: none", theme.ground));
    for series in 0..SERIES {
        let colour = theme.series(series);
        rule(&format!(".s{series}.line"), &format!("stroke: {colour}; stroke-width: 2; fill: none"));
        rule(&format!(".s{series}.whisker"), &format!("stroke: {colour}; stroke-width: 1.3; fill: none"));
        rule(
            &format!(".s{series}.law"),
            &format!("stroke: {colour}; stroke-width: 1.3; stroke-opacity: 0.85; fill: none"),
        );
        rule(&format!(".s{series}.band"), &format!("fill: {colour}; fill-opacity: 0.16"));
        rule(&format!(".s{series}.bar"), &format!("fill: {colour}"));
        rule(
            &format!(".s{series}.dot"),
            &format!("fill: {colour}; stroke: {}; stroke-width: 0.8", theme.ground),
        );
        rule(
            &format!(".s{series}.ring"),
            &format!("fill: {}; stroke: {colour}; stroke-width: 1.6", theme.ground),
        );
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(colour: &str) -> [f64; 3] {
        let channel = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        [channel(1), channel(3), channel(5)]
    }

    /// WCAG 2.2, relative luminance.
    fn luminance(colour: &str) -> f64 {
        let linear = |value: f64| {
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = channels(colour).map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn lines_stand_out_and_words_are_readable_on_both_grounds() {
        for theme in [LIGHT, DARK] {
            for (series, colour) in COLOURS.iter().enumerate() {
                let contrast = contrast(theme.series(series), theme.ground);
                assert!(contrast >= 2.9, "{}: {contrast:.2}", colour.name);
            }
            for words in [theme.ink, theme.quiet] {
                assert!(contrast(words, theme.ground) >= 4.5, "{words}");
            }
            assert!(contrast(theme.on_shade, theme.shade) >= 4.5);
        }
    }

    #[test]
    fn neighbouring_series_differ_in_everything_but_the_line_of_the_first() {
        for index in 1..SERIES {
            assert_ne!(DASHES[index - 1], DASHES[index]);
            assert_ne!(MARKERS[index - 1], MARKERS[index]);
            assert_ne!(HATCHES[index - 1], HATCHES[index]);
        }
    }
}
