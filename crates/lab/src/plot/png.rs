//! The SVG of a figure as pixels, with the letters that its words were measured with.

use super::text::{BOLD, REGULAR};
use super::{Figure, Letters, page};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree, fontdb};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Pixels of the picture to a pixel of the figure at most: a figure is then some 12,000 pixels wide.
const SCALE_MAX: f32 = 16.0;

static LETTERS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut letters = fontdb::Database::new();
    letters.load_font_data(REGULAR.to_vec());
    letters.load_font_data(BOLD.to_vec());
    letters.set_sans_serif_family("Arimo");
    Arc::new(letters)
});

/// Why there is no picture.
#[derive(Debug)]
pub enum Error {
    /// The renderer does not understand the drawing: a mistake here.
    Drawing(usvg::Error),
    /// The picture would have no pixels, or too many.
    Size,
    /// It cannot be packed.
    Pack(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Drawing(error) => write!(f, "the drawing cannot be rendered: {error}"),
            Error::Size => write!(f, "the picture would have no pixels or too many"),
            Error::Pack(why) => write!(f, "the picture cannot be packed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// A figure as a PNG file, `scale` pixels of the picture to a pixel of the figure (2 is good for screens, 4 for print;
/// 16 at most).
///
/// # Errors
/// If `scale` is out of its bounds.
pub fn png(figure: &Figure, width: f64, scale: f32) -> Result<Vec<u8>, Error> {
    if !(scale > 0.0 && scale <= SCALE_MAX) {
        return Err(Error::Size);
    }
    let tree = tree(figure, width)?;
    let size = tree.size();
    let pixels = |side: f32| (side * scale).ceil() as u32;
    let mut picture = Pixmap::new(pixels(size.width()), pixels(size.height())).ok_or(Error::Size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut picture.as_mut());
    picture.encode_png().map_err(|error| Error::Pack(error.to_string()))
}

/// The drawing as the renderer understands it.
pub(super) fn tree(figure: &Figure, width: f64) -> Result<Tree, Error> {
    let options =
        Options { font_family: "Arimo".to_owned(), fontdb: Arc::clone(&LETTERS), ..Options::default() };
    Tree::from_str(&page(figure, width, Letters::Known), &options).map_err(Error::Drawing)
}
