//! A source of which only what a filter includes is offered, or of that one part: for sources that look at neither
//! themselves.
//!
//! What is below an excluded directory is left out with it, in whatever order the source tells it. Nothing is saved of
//! what the source does to find it.

use super::around::handed_on;
use super::{ExtentMap, ScanSink, Source, SourceFile};
use crate::failure::{Failure, Result};
use crate::filter::{EXCLUDED_BY, Filter};
use crate::part;
use std::sync::Arc;
use thalweg_wire::message::{PartOf, ScanTotals};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath};

/// See the module.
pub struct FilteredSource {
    source: Arc<dyn Source>,
    filter: Filter,
    part: Option<PartOf>,
}

impl FilteredSource {
    /// What `filter` includes of `source`.
    pub fn new(source: Arc<dyn Source>, filter: Filter) -> FilteredSource {
        FilteredSource { source, filter, part: None }
    }

    /// Only this part of it, and all directories.
    #[must_use]
    pub fn only_part(self, part: Option<PartOf>) -> FilteredSource {
        FilteredSource { part, ..self }
    }

    /// Whether another part has it.
    fn is_of_others(&self, entry: &Entry) -> bool {
        self.part.is_some_and(|part| match &entry.kind {
            Kind::Directory => false,
            Kind::HardLink { first, .. } => !part::has_name(part, first),
            Kind::File { .. } | Kind::Symlink { .. } | Kind::Fifo | Kind::Device { .. } => {
                !part::has_name(part, &entry.path)
            }
        })
    }

    /// Whether a directory above is left out.
    fn is_in_excluded(&self, path: &RelativePath) -> bool {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut above = ends.filter_map(|end| RelativePath::new(bytes[..end].to_vec()).ok());
        above.any(|directory| !self.filter.decide(&directory, true).included)
    }
}

impl Source for FilteredSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut filtering = Filtering { source: self, sink, totals: ScanTotals::default() };
        let totals = self.source.scan(&mut filtering);
        // Nobody may conclude that what is another part's is gone.
        let ScanTotals { complete, empty, .. } = totals;
        ScanTotals { complete: complete && self.part.is_none(), empty, ..filtering.totals }
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        self.source.open(entry)
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        self.source.look_again(entry)
    }

    handed_on!();

    fn layout(&self, entry: &Entry) -> Result<ExtentMap> {
        self.source.layout(entry)
    }

    fn read_small(&self, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
        self.source.read_small(entry, buffer)
    }
}

struct Filtering<'a> {
    source: &'a FilteredSource,
    sink: &'a mut dyn ScanSink,
    /// Of what went on.
    totals: ScanTotals,
}

impl ScanSink for Filtering<'_> {
    /// Who is left out gets a number that nothing has: a first name of hard links is not among what is filtered here.
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        const NOBODY: EntryId = EntryId(u64::MAX);
        if self.source.is_in_excluded(&entry.path) {
            return Some(NOBODY);
        }
        let filter = &self.source.filter;
        let verdict = filter.decide(&entry.path, matches!(entry.kind, Kind::Directory));
        if !verdict.included {
            let pattern = verdict.rule.map(|rule| filter.pattern(rule)).unwrap_or_default();
            self.sink.skipped(entry.path, &format!("{EXCLUDED_BY} `{pattern}`"));
            return Some(NOBODY);
        }
        if self.source.is_of_others(&entry) {
            return Some(NOBODY);
        }
        let bytes = entry.content_bytes();
        let taken = self.sink.entry(entry)?;
        self.totals.entries += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        Some(taken)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        let is_out = self.source.is_in_excluded(&path) || !self.source.filter.decide(&path, false).included;
        if !is_out {
            self.totals.failed += 1;
            self.sink.trouble(path, failure);
        }
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        if !self.source.is_in_excluded(&path) {
            self.sink.skipped(path, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::filter::parse_filter_line;
    use thalweg_wire::Evidence;

    /// Tells a directory, what is in it behind another name, and a name that is none.
    struct Listing;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    impl Source for Listing {
        fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
            let mut totals = ScanTotals { complete: true, ..ScanTotals::default() };
            for (text, size) in [("raw", None), ("raw.txt", Some(3)), ("raw/1", Some(5)), ("keep", Some(7))] {
                let kind = match size {
                    Some(_) => Kind::File { sparse: false, marked: false },
                    None => Kind::Directory,
                };
                let evidence = Evidence { size: size.unwrap_or(0), ..Evidence::default() };
                let (id, xattrs) = (EntryId(0), Vec::new());
                let entry =
                    Entry { id, path: path(text), kind, mode: 0o644, uid: 0, gid: 0, evidence, xattrs };
                if sink.entry(entry).is_none() {
                    return ScanTotals { complete: false, ..totals };
                }
                totals.entries += 1;
                totals.bytes += size.unwrap_or(0);
            }
            for text in ["raw/odd", "odd"] {
                sink.trouble(path(text), Failure::new(FailureKind::Unsupported, "list", "it is no path"));
                totals.failed += 1;
            }
            totals
        }

        fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
            Err(Failure::new(FailureKind::NotFound, "open", "there is none").at(&entry.path))
        }

        fn look_again(&self, entry: &Entry) -> Result<Entry> {
            Ok(entry.clone())
        }
    }

    #[derive(Default)]
    struct Told(Vec<String>);

    impl ScanSink for Told {
        fn entry(&mut self, entry: Entry) -> Option<EntryId> {
            self.0.push(entry.path.to_string());
            Some(EntryId(0))
        }

        fn trouble(&mut self, path: RelativePath, _: Failure) {
            self.0.push(format!("trouble {path}"));
        }

        fn skipped(&mut self, path: RelativePath, reason: &str) {
            self.0.push(format!("skipped {path}: {reason}"));
        }
    }

    #[test]
    fn what_is_in_an_excluded_directory_is_left_out_and_not_counted() {
        let rule = parse_filter_line("- /raw/").unwrap().unwrap();
        let source = FilteredSource::new(Arc::new(Listing), Filter::new(vec![rule]).unwrap());
        let mut told = Told::default();
        let totals = source.scan(&mut told);
        assert_eq!(told.0, ["skipped raw: excluded by `/raw/`", "raw.txt", "keep", "trouble odd"]);
        assert_eq!(totals, ScanTotals { entries: 2, bytes: 10, failed: 1, complete: true, empty: 0 });
    }

    /// Tells a directory, files in it, and a second name of each.
    struct Linked;

    impl Source for Linked {
        fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
            let entry = |text: &str, kind| Entry {
                id: EntryId(0),
                path: path(text),
                kind,
                mode: 0o644,
                uid: 0,
                gid: 0,
                evidence: Evidence::default(),
                xattrs: Vec::new(),
            };
            sink.entry(entry("d", Kind::Directory));
            for number in 0..20 {
                let first = format!("d/{number}");
                let of = sink.entry(entry(&first, Kind::File { sparse: false, marked: false })).unwrap();
                sink.entry(entry(&format!("z{number}"), Kind::HardLink { first: path(&first), of }));
            }
            ScanTotals { complete: true, ..ScanTotals::default() }
        }

        fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
            Listing.open(entry)
        }

        fn look_again(&self, entry: &Entry) -> Result<Entry> {
            Listing.look_again(entry)
        }
    }

    #[test]
    fn of_a_part_its_files_come_and_all_directories_and_a_hard_link_with_its_first_name() {
        let mut met = 0;
        for number in 1..=3 {
            let source = FilteredSource::new(Arc::new(Linked), Filter::default());
            let source = source.only_part(PartOf::new(number, 3));
            let mut told = Told::default();
            let totals = source.scan(&mut told);
            assert!(!totals.complete, "what another part has would be taken for gone");
            assert_eq!(totals.entries, told.0.len() as u64);
            let (directory, others) = told.0.split_first().unwrap();
            assert_eq!(directory, "d");
            for pair in others.chunks(2) {
                let [first, second] = pair else { panic!("{pair:?} is no pair") };
                assert_eq!(first.strip_prefix("d/"), second.strip_prefix('z'));
                met += 1;
            }
        }
        assert_eq!(met, 20);
    }
}
