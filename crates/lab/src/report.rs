//! From result files to figures and one HTML report.
//!
//! [`figures`] says which figures fit a result, with what the papers measured beside it where they have numbers
//! (`papers.toml`); [`html`] puts figures, tables and what was measured where on one page that takes nothing from
//! elsewhere.

pub mod papers;

mod reading;

mod suite;
pub use suite::OF_CHORE;

mod files_fit;
pub use files_fit::{FLAT, FilesFit, SHOWS_NOTHING, Verdict};

mod build;

mod paper_comparison;

mod page;
pub use page::html;

use crate::bench::record::Results;
use crate::plot::Figure;

/// The figures of the first result that is not foreign, or of all if all are; foreign ones (imported from other
/// programs) stand in the same figures.
pub fn figures(results: &[Results]) -> Vec<Figure> {
    sections(results).into_iter().flat_map(|section| section.figures).collect()
}

/// A question as a sentence of its own: suites begin theirs with a small letter, for they stand behind a name.
pub fn sentence(question: &str) -> String {
    let mut letters = question.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// One result with its figures.
struct Section<'a> {
    results: &'a Results,
    figures: Vec<Figure>,
}

/// Each own result with its figures, then the foreign ones, whose samples stand in those figures as well.
fn sections(all: &[Results]) -> Vec<Section<'_>> {
    let (foreign, own): (Vec<&Results>, Vec<&Results>) = all.iter().partition(|results| results.is_foreign());
    let own = own.into_iter();
    let own = own.map(|results| Section { results, figures: build::figures(results, &foreign) });
    let others = foreign.iter().map(|results| Section { results, figures: build::figures(results, &[]) });
    let mut sections: Vec<Section<'_>> = own.chain(others).collect();
    // Two results of one suite: names of figures stay different.
    let mut seen = std::collections::BTreeMap::new();
    for figure in sections.iter_mut().flat_map(|section| &mut section.figures) {
        let count = seen.entry(figure.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            figure.name = format!("{}-{count}", figure.name);
        }
    }
    sections
}

#[cfg(test)]
mod tests;
