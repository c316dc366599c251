//! How much room words take: measured with the letters that PNGs are drawn with, so that nothing overlaps.

use std::sync::LazyLock;
use ttf_parser::Face;

/// What text is set in; the later ones are as wide as the first.
pub const FAMILY: &str = "Arimo, 'Liberation Sans', Arial, Helvetica, sans-serif";

/// Letters to measure and to draw with.
pub(super) const REGULAR: &[u8] = include_bytes!("font/Arimo-Regular.ttf");
pub(super) const BOLD: &[u8] = include_bytes!("font/Arimo-Bold.ttf");

/// Letters that travel with SVG and HTML.
const REGULAR_WEB: &[u8] = include_bytes!("font/Arimo-Regular.woff2");
const BOLD_WEB: &[u8] = include_bytes!("font/Arimo-Bold.woff2");

static FACES: LazyLock<[Option<Face<'static>>; 2]> =
    LazyLock::new(|| [REGULAR, BOLD].map(|data| Face::parse(data, 0).ok()));

/// How words are set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Type {
    /// Height of the letters with their line, in pixels.
    pub size: f64,
    /// Whether they are bold.
    pub is_bold: bool,
}

impl Type {
    /// Labels, legends.
    pub const BODY: Type = Type { size: 12.0, is_bold: false };
    /// Names of groups.
    pub const STRONG: Type = Type { size: 12.0, is_bold: true };
    /// Notes.
    pub const SMALL: Type = Type { size: 11.0, is_bold: false };
    /// What a figure is called.
    pub const TITLE: Type = Type { size: 16.0, is_bold: true };

    /// From one line of text to the next, in pixels.
    pub fn line(self) -> f64 {
        self.size * 1.35
    }

    /// The width of a line of text in pixels. A letter that the font has not is taken to be as wide as an `m`.
    pub fn width(self, text: &str) -> f64 {
        let Some(face) = &FACES[usize::from(self.is_bold)] else {
            // The letters are part of the program and parsed by a test; this keeps a figure readable all the same.
            return text.chars().count() as f64 * self.size * 0.6;
        };
        let advance = |letter: char| {
            let glyph = face.glyph_index(letter).or_else(|| face.glyph_index('m'));
            glyph.and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(0.0, f64::from)
        };
        text.chars().map(advance).sum::<f64>() / f64::from(face.units_per_em()) * self.size
    }

    /// Lines of at most `width` pixels, broken between words; a word that is wider is cut.
    pub fn wrap(self, text: &str, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut line = String::new();
        for word in text.split_whitespace() {
            let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            if self.width(&longer) <= width {
                line = longer;
                continue;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line = word.to_owned();
            while self.width(&line) > width && line.chars().count() > 1 {
                let head = self.head(&line, width);
                lines.push(line[..head].to_owned());
                line = line[head..].to_owned();
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
        lines
    }

    /// One line of at most `width` pixels; what is cut is shown by an ellipsis.
    pub fn shorten(self, text: &str, width: f64) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let head = self.head(text, width - self.width("…"));
        format!("{}…", text[..head].trim_end())
    }

    /// Bytes of the letters that fit; one letter at least.
    fn head(self, text: &str, width: f64) -> usize {
        let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let first = text.chars().next().map_or(0, char::len_utf8);
        ends.take_while(|end| self.width(&text[..*end]) <= width).last().unwrap_or(first)
    }
}

/// The letters as CSS, for a page or a drawing that takes nothing from elsewhere.
pub fn font_face() -> String {
    use base64::Engine;
    let face = |data: &[u8], weight: &str| {
        let data = base64::engine::general_purpose::STANDARD.encode(data);
        format!(
            "@font-face {{ font-family: Arimo; font-weight: {weight}; \
             src: url(data:font/woff2;base64,{data}) format('woff2') }}\n"
        )
    };
    face(REGULAR_WEB, "400") + &face(BOLD_WEB, "700")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_there_and_have_their_widths() {
        assert!(FACES.iter().all(Option::is_some));
        // Arimo is as wide as Helvetica: a digit is 1139 of 2048 units.
        assert!((Type::BODY.width("0123456789") - 10.0 * 12.0 * 1139.0 / 2048.0).abs() < 1e-9);
        assert!(Type::TITLE.width("Rate") > Type::BODY.width("Rate"));
        for sign in "×µ≤≥→−αθ·…°²".chars() {
            assert!(FACES[0].as_ref().unwrap().glyph_index(sign).is_some(), "{sign}");
        }
    }

    #[test]
    fn lines_fit_and_no_word_is_lost() {
        let text = "Throughput against the round-trip time, default and tuned buffers";
        let lines = Type::BODY.wrap(text, 120.0);
        assert!(lines.len() > 1);
        assert!(lines.iter().all(|line| Type::BODY.width(line) <= 120.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        let lines = Type::BODY.wrap("a verylongwordthatfitsnowhere", 40.0);
        assert!(lines.iter().all(|line| Type::BODY.width(line) <= 40.0), "{lines:?}");
        assert_eq!(Type::BODY.wrap("", 40.0), Vec::<String>::new());
    }

    #[test]
    fn what_is_cut_says_so() {
        let short = Type::BODY.shorten("a name that is long", 60.0);
        assert!(short.ends_with('…') && Type::BODY.width(&short) <= 60.0, "{short}");
        assert_eq!(Type::BODY.shorten("short", 60.0), "short");
    }
}
