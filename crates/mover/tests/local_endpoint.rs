//! The local endpoint, from outside: a whole transfer, one step after the other, without threads or wire.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use thalweg_mover::FailureKind;
use thalweg_mover::endpoint::local::{
    DestinationPlace, LocalDestination, LocalSource, STAGING_NAME, ScanOptions, SourceRoot,
};
use thalweg_mover::endpoint::{Conclusion, Decision, Destination, PartialFile, Ready, ScanSink, Source};
use thalweg_mover::manifest::Filter;
use thalweg_sys::{Dir, Links};
use thalweg_wire::digest::{self, Rule, Tree};
use thalweg_wire::message::{
    Check, Failure, FilterRule, Outcome, Preserve, ScanTotals, SourceForm, Terms, VerifyLevel,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath};

const CHUNK: u64 = 64 << 10;

fn everything() -> Preserve {
    Preserve {
        mode: true,
        owner: true,
        times: true,
        xattrs: true,
        symlinks: true,
        hard_links: true,
        holes: true,
        devices: true,
    }
}

fn terms() -> Terms {
    Terms {
        chunk_bytes: CHUNK,
        segment_bytes: CHUNK as u32,
        verify: VerifyLevel::Written,
        check: Check::Evidence,
        preserve: everything(),
        delete_max: None,
        compress: false, rate_bytes_per_s: None,
        dry_run: false,
        ignore_existing: false,
        update: false,
        job_key: [5; 16],
    }
}

fn options() -> ScanOptions {
    ScanOptions {
        filter: Filter::default(),
        only: Vec::new(),
        preserve: everything(),
        one_file_system: false,
        follow_links: false,
    }
}

fn filter(rules: &[(bool, &str)]) -> Filter {
    let rules = rules.iter().map(|&(include, p)| FilterRule { include, pattern: p.to_owned() });
    Filter::new(rules.collect()).unwrap()
}

fn path(text: &[u8]) -> RelativePath {
    RelativePath::new(text.to_vec()).unwrap()
}

/// A source of the contents of `root`.
fn contents(root: &Path) -> LocalSource {
    contents_with(root, options())
}

fn contents_with(root: &Path, options: ScanOptions) -> LocalSource {
    let root = SourceRoot { path: root.to_path_buf(), contents: true, below: None };
    LocalSource::open(vec![root], options).unwrap()
}

#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    troubles: Vec<(RelativePath, Failure)>,
    skipped: Vec<(RelativePath, String)>,
    stop_after: Option<usize>,
}

impl Found {
    fn paths(&self) -> Vec<&[u8]> {
        self.entries.iter().map(|entry| entry.path.as_bytes()).collect()
    }

    fn entry(&self, path: &str) -> &Entry {
        self.entries.iter().find(|entry| entry.path.as_bytes() == path.as_bytes()).unwrap()
    }

    fn reason(&self, path: &str) -> &str {
        &self.skipped.iter().find(|(skipped, _)| skipped.as_bytes() == path.as_bytes()).unwrap().1
    }
}

impl ScanSink for Found {
    fn entry(&mut self, mut entry: Entry) -> Option<EntryId> {
        if self.stop_after.is_some_and(|stop| self.entries.len() >= stop) {
            return None;
        }
        let id = EntryId(self.entries.len() as u64);
        entry.id = id;
        entry.check().unwrap();
        self.entries.push(entry);
        Some(id)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.troubles.push((path, failure));
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        self.skipped.push((path, reason.to_owned()));
    }
}

fn scan(source: &LocalSource) -> (Found, ScanTotals) {
    let mut found = Found::default();
    let totals = source.scan(&mut found);
    assert_eq!(totals.entries, found.entries.len() as u64);
    (found, totals)
}

struct To {
    path: PathBuf,
    trailing_slash: bool,
    terms: Terms,
    state: Option<PathBuf>,
    protect: Filter,
}

fn to(path: &Path) -> To {
    To {
        path: path.to_path_buf(),
        trailing_slash: false,
        terms: terms(),
        state: None,
        protect: Filter::default(),
    }
}

fn open(to: To, form: &SourceForm) -> Result<LocalDestination, Failure> {
    let place = DestinationPlace { path: to.path, below: None };
    LocalDestination::open(place, form, to.trailing_slash, to.terms, to.state, to.protect)
}

struct Copied {
    outcomes: BTreeMap<Vec<u8>, Outcome>,
    conclusion: Conclusion,
    fresh: u64,
    resumed_chunks: u64,
}

impl Copied {
    fn failure(&self, path: &str) -> &Failure {
        match &self.outcomes[path.as_bytes()] {
            Outcome::Failed(failure) => failure,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn assert_whole(&self) -> &Self {
        for (path, outcome) in &self.outcomes {
            assert!(
                matches!(outcome, Outcome::Done { .. } | Outcome::Unchanged { .. }),
                "{}: {outcome:?}",
                String::from_utf8_lossy(path)
            );
        }
        assert!(self.conclusion.troubles.is_empty(), "{:?}", self.conclusion.troubles);
        assert!(self.conclusion.revised.is_empty(), "{:?}", self.conclusion.revised);
        self
    }

    fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        for outcome in self.outcomes.values() {
            if let Outcome::Done { losses: lost, .. } = outcome {
                losses.extend(lost.iter().map(|loss| format!("{}: {}", loss.what, loss.why)));
            }
        }
        losses
    }
}

/// The whole way: `before` sees each entry between its content and its name.
fn copy_with(source: &LocalSource, to: To, mut before: impl FnMut(&Entry)) -> Copied {
    let dry_run = to.terms.dry_run;
    let destination = open(to, &source.form()).unwrap();
    let (found, totals) = scan(source);
    let mut copied =
        Copied { outcomes: BTreeMap::new(), conclusion: Conclusion::default(), fresh: 0, resumed_chunks: 0 };
    for entry in &found.entries {
        let outcome = match &entry.kind {
            Kind::HardLink { .. } => destination.link(entry),
            _ => match destination.decide(entry) {
                Decision::Settled { outcome, made } => {
                    assert!(!(made && dry_run));
                    if made {
                        destination.sync(&[], 0).unwrap();
                    }
                    outcome
                }
                Decision::Fresh => {
                    copied.fresh += 1;
                    if dry_run {
                        done(None, Vec::new())
                    } else {
                        move_file(source, &destination, entry, None, &mut before)
                    }
                }
                Decision::Resume { partial, present } => {
                    copied.resumed_chunks += present.len() as u64;
                    move_file(source, &destination, entry, Some((partial, present)), &mut before)
                }
            },
        };
        destination.settled(entry, &outcome);
        copied.outcomes.insert(entry.path.as_bytes().to_vec(), outcome);
    }
    copied.conclusion = destination.conclude(totals.complete);
    destination.close(true);
    copied
}

fn copy(source: &LocalSource, to: To) -> Copied {
    copy_with(source, to, |_| {})
}

fn done(digest: Option<Digest>, losses: Vec<thalweg_wire::message::Loss>) -> Outcome {
    Outcome::Done { digest, losses }
}

type Present = (std::sync::Arc<dyn PartialFile>, Vec<(u64, Digest)>);

fn move_file(
    source: &LocalSource,
    destination: &LocalDestination,
    entry: &Entry,
    resumed: Option<Present>,
    before: &mut impl FnMut(&Entry),
) -> Outcome {
    match try_move_file(source, destination, entry, resumed, before) {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::Failed(failure),
    }
}

fn try_move_file(
    source: &LocalSource,
    destination: &LocalDestination,
    entry: &Entry,
    resumed: Option<Present>,
    before: &mut impl FnMut(&Entry),
) -> Result<Outcome, Failure> {
    let size = entry.evidence.size;
    let sparse = matches!(entry.kind, Kind::File { sparse: true, .. });
    if resumed.is_none() && !sparse && size <= CHUNK {
        let mut buffer = vec![0; size as usize];
        source.read_small(entry, &mut buffer)?;
        let digest = Digest(*blake3::hash(&buffer).as_bytes());
        let staged = destination.stage(3, entry, &buffer)?;
        destination.sync(&[], 1)?;
        assert_eq!(destination.read_staged_back(&staged, size).unwrap(), digest);
        before(entry);
        let losses = destination.finish(entry, Ready::Staged(staged), digest)?;
        destination.sync(&[], 0)?;
        return Ok(done(Some(digest), losses));
    }
    let (partial, digest) = write_chunks(source, destination, entry, resumed, u64::MAX)?;
    before(entry);
    let losses = destination.finish(entry, Ready::Partial(partial), digest.unwrap())?;
    destination.sync(&[], 0)?;
    Ok(done(digest, losses))
}

/// Writes, syncs and records up to `chunks_max` missing chunks.
fn write_chunks(
    source: &LocalSource,
    destination: &LocalDestination,
    entry: &Entry,
    resumed: Option<Present>,
    chunks_max: u64,
) -> Result<(std::sync::Arc<dyn PartialFile>, Option<Digest>), Failure> {
    let size = entry.evidence.size;
    let marked = matches!(entry.kind, Kind::File { marked: true, .. });
    let rule = Rule { file_bytes: size, segment_bytes: CHUNK, marked };
    let file = source.open(entry)?;
    let (partial, present) = match resumed {
        Some(resumed) => resumed,
        None => (destination.begin(entry)?, Vec::new()),
    };
    let mut tree = Tree::new(size, CHUNK);
    for (chunk, digest) in present {
        tree.insert(chunk, digest);
    }
    let mut recorded = Vec::new();
    let missing: Vec<u64> = tree.missing().into_iter().flat_map(|(a, b)| a..b).collect();
    for chunk in missing.into_iter().take(chunks_max as usize) {
        let at = chunk * CHUNK;
        let mut buffer = vec![0; digest::chunk_length(chunk, size, CHUNK) as usize];
        assert_eq!(file.read_at(&mut buffer, at).unwrap(), buffer.len());
        // As the engine does: what is a hole at the source is told, not written.
        if !digest::is_zero(&buffer) {
            partial.write_at(&buffer, at).unwrap();
        }
        let digest = rule.segment(at, &buffer).unwrap();
        tree.insert(chunk, digest);
        recorded.push((chunk, digest));
    }
    assert_eq!(file.evidence().unwrap(), entry.evidence);
    destination.sync(std::slice::from_ref(&partial), 0)?;
    for &(chunk, digest) in &recorded {
        let mut buffer = vec![0; digest::chunk_length(chunk, size, CHUNK) as usize];
        let read = partial.read_back(&mut buffer, chunk * CHUNK).unwrap();
        assert_eq!(rule.segment(chunk * CHUNK, &buffer[..read]), Some(digest));
    }
    destination.record(&[(partial.number(), recorded)])?;
    Ok((partial, tree.root()))
}

/// Content, modes, times and links of a tree, for comparison.
fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    fill_picture(root, root, &mut picture);
    picture
}

fn fill_picture(root: &Path, at: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    let meta = fs::symlink_metadata(at).unwrap();
    let kind = meta.file_type();
    let what = if kind.is_dir() {
        "directory".to_owned()
    } else if kind.is_symlink() {
        format!("link to {:?}", fs::read_link(at).unwrap())
    } else if kind.is_file() {
        format!("file {}", blake3::hash(&fs::read(at).unwrap()))
    } else {
        format!("{kind:?}")
    };
    let mode = if kind.is_symlink() { 0 } else { meta.mode() };
    let line =
        format!("{what} {mode:o} {}:{} {}.{:09}", meta.uid(), meta.gid(), meta.mtime(), meta.mtime_nsec());
    picture.insert(at.strip_prefix(root).unwrap().to_path_buf(), line);
    if kind.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            fill_picture(root, &entry.unwrap().path(), picture);
        }
    }
}

fn is_root() -> bool {
    thalweg_sys::usage::effective_uid() == 0
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

struct Trees {
    _scratch: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
    state: PathBuf,
}

fn trees() -> Trees {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name| scratch.path().join(name);
    let (source, target, state) = (at("source"), at("target"), at("state"));
    fs::create_dir(&source).unwrap();
    Trees { source, target, state, _scratch: scratch }
}

fn set_mtime(path: &Path, seconds: u64, nanos: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with some of everything that an unprivileged user can make.
fn varied(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("a/small"), "small").unwrap();
    fs::write(root.join("a/none"), "").unwrap();
    fs::write(root.join("a/b/large"), noise(5 * CHUNK as usize + 77, 1)).unwrap();
    fs::write(root.join("a/b/exact"), noise(2 * CHUNK as usize, 2)).unwrap();
    fs::write(root.join("read-only"), "x").unwrap();
    fs::set_permissions(root.join("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::hard_link(root.join("a/small"), root.join("z-second-name")).unwrap();
    symlink("a/small", root.join("link")).unwrap();
    symlink("/nonexistent/\u{e9}", root.join("dangling")).unwrap();
    for name in
        [&b"\xff\xfe"[..], b"new\nline", b"-rf", b"\x1b[31m", b" ", b"*?[", b"a\\b", "\u{202e}x".as_bytes()]
    {
        fs::write(root.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(root.join("n".repeat(255)), "long").unwrap();
    set_mtime(&root.join("a/small"), 1_000_000_000, 123_456_789);
    set_mtime(&root.join("a"), 1_100_000_000, 7);
    set_mtime(&root.join("a/b"), 1, 0);
    fs::set_permissions(root.join("a/b/c"), fs::Permissions::from_mode(0o1755)).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o500)).unwrap();
}

mod scanning {
    use super::*;

    #[test]
    fn names_come_in_byte_order_and_parents_first() {
        let trees = trees();
        varied(&trees.source);
        let (found, totals) = scan(&contents(&trees.source));
        assert!(totals.complete);
        assert_eq!(totals.failed, 0);
        let as_components = |path: &[u8]| path.split(|&b| b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let got: Vec<_> = found.paths().iter().skip(1).map(|path| as_components(path)).collect();
        let mut sorted = got.clone();
        sorted.sort();
        assert_eq!(got, sorted);
        assert!(found.entries[0].path.is_root());
    }

    #[test]
    fn without_a_trailing_slash_the_name_of_the_root_comes_first() {
        let trees = trees();
        fs::create_dir(trees.source.join("d")).unwrap();
        fs::write(trees.source.join("d/f"), "x").unwrap();
        let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
        let source = LocalSource::open(vec![root], options()).unwrap();
        assert_eq!(source.form(), SourceForm::Many);
        let (found, _) = scan(&source);
        assert_eq!(found.paths(), [&b"source"[..], b"source/d", b"source/d/f"]);
        let mut buffer = [0; 1];
        source.read_small(found.entry("source/d/f"), &mut buffer).unwrap();
        assert_eq!(&buffer, b"x");
    }

    #[test]
    fn a_single_file_has_a_form_of_its_own() {
        let trees = trees();
        let file = trees.source.join("f");
        fs::write(&file, "x").unwrap();
        let root = SourceRoot { path: file, contents: false, below: None };
        let source = LocalSource::open(vec![root], options()).unwrap();
        assert_eq!(source.form(), SourceForm::Single { name: b"f".to_vec() });
        assert_eq!(scan(&source).0.paths(), [b"f"]);
    }

    #[test]
    fn two_roots_of_one_name_are_refused_and_both_named() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("x/same")).unwrap();
        fs::create_dir_all(trees.source.join("y/same")).unwrap();
        let root = |path: &str| SourceRoot { path: trees.source.join(path), contents: false, below: None };
        let failure = LocalSource::open(vec![root("x/same"), root("y/same")], options()).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.cause.contains("x/same") && failure.cause.contains("y/same"), "{failure}");
        assert!(LocalSource::open(vec![root("x"), root("y")], options()).is_ok());
    }

    #[test]
    fn merged_roots_give_each_name_once_and_say_so() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("x/both")).unwrap();
        fs::create_dir_all(trees.source.join("y/both")).unwrap();
        fs::write(trees.source.join("y/mine"), "m").unwrap();
        let root = |path: &str| SourceRoot { path: trees.source.join(path), contents: true, below: None };
        let source = LocalSource::open(vec![root("x"), root("y")], options()).unwrap();
        let (found, totals) = scan(&source);
        assert_eq!(found.paths(), [&b""[..], b"both", b"mine"]);
        assert_eq!((found.troubles.len(), totals.complete), (1, false));
        source.read_small(found.entry("mine"), &mut [0]).unwrap();
    }

    #[test]
    fn an_excluded_directory_is_named_once_and_not_entered() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("skip/deep")).unwrap();
        fs::write(trees.source.join("keep.o"), "").unwrap();
        fs::write(trees.source.join("a.o"), "").unwrap();
        let filter = filter(&[(true, "keep.o"), (false, "*.o"), (false, "skip/")]);
        let (found, totals) = scan(&contents_with(&trees.source, ScanOptions { filter, ..options() }));
        assert_eq!(found.paths(), [&b""[..], b"keep.o"]);
        assert_eq!(found.reason("skip"), "excluded by `skip/`");
        assert_eq!(found.reason("a.o"), "excluded by `*.o`");
        assert_eq!(found.skipped.len(), 2);
        assert!(totals.complete);
    }

    #[test]
    fn only_what_is_listed_comes_with_the_directories_above_it() {
        let trees = trees();
        varied(&trees.source);
        let only =
            vec![path(b"a/b/large"), path(b"link"), path(b"a/small"), path(b"empty"), path(b"missing")];
        let (found, totals) = scan(&contents_with(&trees.source, ScanOptions { only, ..options() }));
        assert_eq!(found.paths(), [&b""[..], b"a", b"a/b", b"a/b/large", b"link", b"a/small", b"empty"]);
        assert_eq!(totals.failed, 1);
        assert_eq!(found.troubles[0].1.kind, FailureKind::NotFound);
        assert!(!totals.complete);
    }

    #[test]
    fn second_names_name_the_first() {
        let trees = trees();
        varied(&trees.source);
        let (found, _) = scan(&contents(&trees.source));
        let first = found.entry("a/small").id;
        assert_eq!(found.entry("z-second-name").kind, Kind::HardLink { first: path(b"a/small"), of: first });
        let preserve = Preserve { hard_links: false, ..everything() };
        let (found, _) = scan(&contents_with(&trees.source, ScanOptions { preserve, ..options() }));
        assert!(matches!(found.entry("z-second-name").kind, Kind::File { .. }));
    }

    #[test]
    fn sockets_and_what_was_not_asked_for_are_skipped_with_a_reason() {
        let trees = trees();
        let _socket = std::os::unix::net::UnixListener::bind(trees.source.join("socket")).unwrap();
        let dir = Dir::open(&trees.source).unwrap();
        dir.make_fifo(b"fifo", 0o600).unwrap();
        symlink("x", trees.source.join("link")).unwrap();
        fs::create_dir(trees.source.join(std::ffi::OsStr::from_bytes(STAGING_NAME))).unwrap();
        let (found, totals) = scan(&contents(&trees.source));
        assert_eq!(found.paths(), [&b""[..], b"fifo", b"link"]);
        assert_eq!(found.skipped.len(), 2);
        assert!(totals.complete);
        let preserve = Preserve { devices: false, symlinks: false, ..everything() };
        let (found, _) = scan(&contents_with(&trees.source, ScanOptions { preserve, ..options() }));
        assert_eq!(found.paths(), [b""]);
        assert!(found.reason("fifo").contains("FIFO") && found.reason("link").contains("link"));
        assert_eq!(found.reason("socket"), "a socket");
    }

    #[test]
    fn holes_are_seen() {
        let trees = trees();
        let file = fs::File::create(trees.source.join("holes")).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"island", 2 << 30).unwrap();
        fs::write(trees.source.join("full"), noise(8192, 3)).unwrap();
        let (found, totals) = scan(&contents(&trees.source));
        assert_eq!(found.entry("holes").kind, Kind::File { sparse: true, marked: true });
        assert_eq!(found.entry("full").kind, Kind::File { sparse: false, marked: false });
        assert_eq!(totals.bytes, (1 << 40) + 8192);
    }

    #[test]
    fn attributes_and_acls_come_along() {
        let trees = trees();
        let dir = Dir::open(&trees.source).unwrap();
        fs::write(trees.source.join("f"), "x").unwrap();
        if dir.set_xattr(b"f", b"user.k", b"v\0w").is_err() {
            eprintln!("skipped: no attributes on this file system");
            return;
        }
        let (found, _) = scan(&contents(&trees.source));
        let xattrs = &found.entry("f").xattrs;
        assert!(xattrs.iter().any(|x| x.name == b"user.k" && x.value == b"v\0w"));
    }

    #[test]
    fn an_unreadable_directory_is_trouble_and_the_rest_goes_on() {
        if is_root() {
            eprintln!("skipped: root may read everything; see the test that drops its rights");
            return;
        }
        let trees = trees();
        fs::create_dir(trees.source.join("closed")).unwrap();
        fs::write(trees.source.join("z"), "").unwrap();
        fs::set_permissions(trees.source.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let (found, totals) = scan(&contents(&trees.source));
        fs::set_permissions(trees.source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(found.paths(), [&b""[..], b"closed", b"z"]);
        assert_eq!(found.troubles[0].1.kind, FailureKind::Permission);
        assert!(!totals.complete && totals.failed == 1);
    }

    #[test]
    fn a_sink_that_has_enough_stops_the_scan() {
        let trees = trees();
        varied(&trees.source);
        let mut found = Found { stop_after: Some(3), ..Found::default() };
        let totals = contents(&trees.source).scan(&mut found);
        assert_eq!(totals.entries, 3);
        assert!(!totals.complete);
    }

    #[test]
    fn two_thousand_levels_are_scanned_and_read() {
        let trees = trees();
        let name = b"level-with-a-name-of-forty-bytes--------";
        let mut dir = Dir::open(&trees.source).unwrap();
        for _ in 0..2000 {
            dir.make_dir(name, 0o755).unwrap();
            dir = dir.open_beneath(name, Links::Refuse).unwrap();
        }
        dir.create_new(b"bottom", 0o644).unwrap().write_all_at(b"deep", 0).unwrap();
        drop(dir);
        let source = contents(&trees.source);
        let (found, totals) = scan(&source);
        assert!(totals.complete, "{:?}", found.troubles);
        assert_eq!(found.entries.len(), 2002);
        let bottom = found.entries.last().unwrap();
        let mut buffer = [0; 4];
        source.read_small(bottom, &mut buffer).unwrap();
        assert_eq!(&buffer, b"deep");
        // And written again at the other side.
        copy(&source, to(&trees.target)).assert_whole();
        let (there, _) = scan(&contents(&trees.target));
        assert_eq!(there.paths(), found.paths());
        for root in [&trees.source, &trees.target] {
            remove_deep(root);
        }
    }

    /// std removes trees by recursion with one descriptor a level.
    fn remove_deep(root: &Path) {
        let status = std::process::Command::new("rm").arg("-rf").arg(root).status().unwrap();
        assert!(status.success());
    }

    #[test]
    fn a_flat_directory_of_many_names_is_bounded_and_quick_to_begin() {
        let trees = trees();
        let dir = Dir::open(&trees.source).unwrap();
        dir.create_new(b"original", 0o644).unwrap();
        // Links are the quickest names to make; a file takes 65,000 of them on ext4.
        for number in 0..70_000u32 {
            if number % 30_000 == 0 {
                dir.create_new(format!("base{number}").as_bytes(), 0o644).unwrap();
            }
            let base = format!("base{}", number / 30_000 * 30_000);
            dir.make_link(base.as_bytes(), &dir, format!("{number:08}").as_bytes()).unwrap();
        }
        struct First(Instant, Option<Duration>, u64);
        impl ScanSink for First {
            fn entry(&mut self, _: Entry) -> Option<EntryId> {
                self.1.get_or_insert(self.0.elapsed());
                self.2 += 1;
                Some(EntryId(self.2))
            }
            fn trouble(&mut self, _: RelativePath, failure: Failure) {
                panic!("{failure}");
            }
            fn skipped(&mut self, _: RelativePath, _: &str) {}
        }
        let source = contents(&trees.source);
        let mut first = First(Instant::now(), None, 0);
        let totals = source.scan(&mut first);
        assert!(totals.complete);
        assert_eq!(first.2, 70_000 + 3 + 1 + 1);
        assert!(first.1.unwrap() < Duration::from_millis(100), "{:?}", first.1);
    }

    #[test]
    fn a_file_that_changed_since_the_scan_is_not_read() {
        let trees = trees();
        let file = trees.source.join("f");
        fs::write(&file, "one").unwrap();
        let source = contents(&trees.source);
        let (found, _) = scan(&source);
        let entry = found.entry("f");
        let mtime = fs::metadata(&file).unwrap().modified().unwrap();
        // Same length, and the time set back.
        fs::write(&file, "two").unwrap();
        fs::File::open(&file).unwrap().set_modified(mtime).unwrap();
        assert_eq!(source.read_small(entry, &mut [0; 3]).unwrap_err().kind, FailureKind::Changed);
        assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
        let now = source.look_again(entry).unwrap();
        assert_eq!((now.id, &now.path), (entry.id, &entry.path));
        source.read_small(&now, &mut [0; 3]).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(source.look_again(entry).unwrap_err().kind, FailureKind::NotFound);
        symlink("/etc/passwd", &file).unwrap();
        assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
        fs::remove_file(&file).unwrap();
        Dir::open(&trees.source).unwrap().make_fifo(b"f", 0o600).unwrap();
        assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
    }

    #[test]
    fn a_file_changed_just_now_is_left_to_age_before_it_is_read() {
        let trees = trees();
        let source = contents(&trees.source);
        fs::write(trees.source.join("f"), "x").unwrap();
        let start = Instant::now();
        let (found, _) = scan(&source);
        source.read_small(found.entry("f"), &mut [0]).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10), "{:?}", start.elapsed());
        let start = Instant::now();
        source.read_small(found.entry("f"), &mut [0]).unwrap();
        assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    }

    #[test]
    fn links_are_followed_when_asked_and_loops_end() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("real/sub")).unwrap();
        fs::write(trees.source.join("real/sub/f"), "x").unwrap();
        symlink("real", trees.source.join("to-dir")).unwrap();
        symlink("to-dir/sub/f", trees.source.join("to-file")).unwrap();
        symlink("..", trees.source.join("real/loop")).unwrap();
        symlink("nowhere", trees.source.join("dangling")).unwrap();
        let source = contents_with(&trees.source, ScanOptions { follow_links: true, ..options() });
        let (found, totals) = scan(&source);
        let paths = found.paths();
        for expected in [&b"to-dir/sub/f"[..], b"to-file", b"real/sub/f"] {
            assert!(paths.contains(&expected));
        }
        assert_eq!(found.entry("to-file").evidence.size, 1);
        source.read_small(found.entry("to-file"), &mut [0]).unwrap();
        source.read_small(found.entry("to-dir/sub/f"), &mut [0]).unwrap();
        assert!(found.reason("real/loop").contains("above it"));
        assert_eq!(found.troubles.len(), 1);
        assert_eq!(totals.failed, 1);
    }

    #[test]
    fn an_export_is_not_left() {
        let trees = trees();
        fs::write(trees.source.join("secret"), "x").unwrap();
        fs::create_dir_all(trees.source.join("export/d")).unwrap();
        symlink("../secret", trees.source.join("export/out")).unwrap();
        symlink("..", trees.source.join("export/up")).unwrap();
        let open = |path: &str, contents: bool| {
            let below = Some(Dir::open(&trees.source.join("export")).unwrap());
            let root = SourceRoot { path: path.into(), contents, below };
            LocalSource::open(vec![root], options())
        };
        assert!(open("../secret", false).is_err());
        assert!(open("up/secret", false).is_err());
        assert!(open("up", true).is_err());
        assert!(open("/d", true).is_ok());
        let source = open("", true).unwrap();
        let (found, _) = scan(&source);
        assert_eq!(found.paths(), [&b""[..], b"d", b"out", b"up"]);
        let mut stolen = found.entry("out").clone();
        stolen.kind = Kind::File { sparse: false, marked: false };
        assert!(source.open(&stolen).is_err());
        stolen.path = path(b"up/secret");
        assert!(source.open(&stolen).is_err());
    }
}

mod copying {
    use super::*;

    #[test]
    fn a_varied_tree_arrives_exactly_and_the_second_run_sends_nothing() {
        let trees = trees();
        varied(&trees.source);
        let source = contents(&trees.source);
        let first = copy(&source, to(&trees.target));
        first.assert_whole();
        assert!(first.losses().is_empty(), "{:?}", first.losses());
        assert_eq!(picture(&trees.source), picture(&trees.target));
        assert_eq!(
            fs::metadata(trees.target.join("a/small")).unwrap().ino(),
            fs::metadata(trees.target.join("z-second-name")).unwrap().ino()
        );
        assert!(!trees.target.join(".thalweg-staging").exists());

        let second = copy(&source, to(&trees.target));
        second.assert_whole();
        assert_eq!(second.fresh, 0);
        assert!(second.outcomes.values().all(|outcome| matches!(outcome, Outcome::Unchanged { .. })));
        assert_eq!(picture(&trees.source), picture(&trees.target));
    }

    #[test]
    fn it_works_on_every_file_system_here() {
        if !is_root() {
            eprintln!("skipped: mounting needs root");
            return;
        }
        for (make, kind) in
            [("mkfs.ext4 -qF", "ext4"), ("mkfs.xfs -qf", "xfs"), ("mkfs.btrfs -qf", "btrfs"), ("", "tmpfs")]
        {
            let Some(mount) = Mount::new(make, kind) else {
                eprintln!("skipped: {kind} cannot be mounted here");
                continue;
            };
            let trees = trees();
            varied(&trees.source);
            let holes = fs::File::create(trees.source.join("holes")).unwrap();
            holes.set_len(40 << 20).unwrap();
            holes.write_all_at(b"island", 20 << 20).unwrap();
            drop(holes);
            let target = mount.path.join("made/by/us");
            let source = contents(&trees.source);
            let first = copy(&source, to(&target));
            first.assert_whole();
            assert!(first.losses().is_empty(), "{kind}: {:?}", first.losses());
            assert_eq!(picture(&trees.source), picture(&target), "{kind}");
            assert!(fs::metadata(target.join("holes")).unwrap().blocks() * 512 < 1 << 20, "{kind}");
            let second = copy(&source, to(&target));
            assert_eq!(second.assert_whole().fresh, 0, "{kind}");
        }
    }

    /// A file system of its own in a file, gone at the end.
    struct Mount {
        path: PathBuf,
        _scratch: tempfile::TempDir,
    }

    impl Mount {
        fn new(make: &str, kind: &str) -> Option<Mount> {
            let scratch = tempfile::tempdir().ok()?;
            let (image, path) = (scratch.path().join("image"), scratch.path().join("mount"));
            fs::create_dir(&path).ok()?;
            let run = |command: String| {
                let status = std::process::Command::new("sh").arg("-c").arg(command).output().ok()?.status;
                status.success().then_some(())
            };
            if kind == "tmpfs" {
                run(format!("mount -t tmpfs none {}", path.display()))?;
            } else {
                fs::File::create(&image).ok()?.set_len(400 << 20).ok()?;
                run(format!("{make} {0} && mount -o loop {0} {1}", image.display(), path.display()))?;
            }
            Some(Mount { path, _scratch: scratch })
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(&self.path).status();
        }
    }

    #[test]
    fn a_mount_below_the_root_gets_a_staging_directory_of_its_own() {
        if !is_root() {
            eprintln!("skipped: mounting needs root");
            return;
        }
        let Some(mount) = Mount::new("", "tmpfs") else {
            eprintln!("skipped: tmpfs cannot be mounted here");
            return;
        };
        let trees = trees();
        fs::create_dir_all(trees.source.join("mount/below/deeper")).unwrap();
        fs::write(trees.source.join("mount/below/deeper/small"), "s").unwrap();
        fs::write(trees.source.join("mount/large"), noise(3 * CHUNK as usize, 5)).unwrap();
        symlink("x", trees.source.join("mount/below/link")).unwrap();
        let target = mount.path.parent().unwrap().to_path_buf();
        let copied = copy(&contents(&trees.source), to(&target));
        copied.assert_whole();
        assert_eq!(fs::read(mount.path.join("below/deeper/small")).unwrap(), b"s");
        assert!(!mount.path.join(".thalweg-staging").exists());
        assert!(!target.join(".thalweg-staging").exists());
        assert_eq!(
            fs::metadata(&mount.path).unwrap().modified().unwrap(),
            fs::metadata(trees.source.join("mount")).unwrap().modified().unwrap()
        );
    }

    #[test]
    fn a_single_file_takes_the_name_of_a_path_that_is_no_directory() {
        let trees = trees();
        let file = trees.source.join("f");
        fs::write(&file, "x").unwrap();
        let source = || {
            let root = SourceRoot { path: file.clone(), contents: false, below: None };
            LocalSource::open(vec![root], options()).unwrap()
        };
        copy(&source(), to(&trees.target.join("deep/renamed"))).assert_whole();
        assert_eq!(fs::read(trees.target.join("deep/renamed")).unwrap(), b"x");
        copy(&source(), to(&trees.target.join("deep"))).assert_whole();
        assert_eq!(fs::read(trees.target.join("deep/f")).unwrap(), b"x");
        copy(&source(), To { trailing_slash: true, ..to(&trees.target.join("dir")) }).assert_whole();
        assert_eq!(fs::read(trees.target.join("dir/f")).unwrap(), b"x");
        // Over another file, and again.
        fs::write(trees.target.join("other"), "old and longer").unwrap();
        copy(&source(), to(&trees.target.join("other"))).assert_whole();
        assert_eq!(fs::read(trees.target.join("other")).unwrap(), b"x");
        assert_eq!(copy(&source(), to(&trees.target.join("other"))).fresh, 0);
    }

    #[test]
    fn a_destination_that_is_a_file_is_no_directory() {
        let trees = trees();
        fs::write(&trees.target, "in the way").unwrap();
        for path in [trees.target.clone(), trees.target.join("below")] {
            let failure = open(to(&path), &SourceForm::Many).err().unwrap();
            assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
        }
        let dangling = trees.source.join("dangling");
        symlink("nowhere", &dangling).unwrap();
        assert_eq!(open(to(&dangling), &SourceForm::Many).err().unwrap().kind, FailureKind::Conflict);
        assert!(!trees.source.join("nowhere").exists());
    }

    #[test]
    fn a_dry_run_decides_and_makes_nothing() {
        let trees = trees();
        varied(&trees.source);
        let source = contents(&trees.source);
        let dry = |path: &Path| To { terms: Terms { dry_run: true, ..terms() }, ..to(path) };
        let copied = copy(&source, dry(&trees.target));
        copied.assert_whole();
        assert!(copied.fresh > 10);
        assert!(!trees.target.exists());
        copy(&source, to(&trees.target)).assert_whole();
        fs::write(trees.target.join("extra"), "").unwrap();
        let before = picture(&trees.target);
        fs::write(trees.source.join("a/small"), "other").unwrap();
        let delete =
            To { terms: Terms { dry_run: true, delete_max: Some(5), ..terms() }, ..to(&trees.target) };
        let copied = copy(&source, delete);
        assert_eq!((copied.fresh, copied.conclusion.deleted), (1, 1));
        assert_eq!(picture(&trees.target), before);
    }

    #[test]
    fn metadata_alone_is_put_right_without_sending() {
        let trees = trees();
        varied(&trees.source);
        let source = contents(&trees.source);
        copy(&source, to(&trees.target)).assert_whole();
        fs::set_permissions(trees.target.join("a/small"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(trees.target.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
        let dir = Dir::open(&trees.target.join("a")).unwrap();
        let has_xattrs = dir.set_xattr(b"none", b"user.extra", b"1").is_ok();
        let copied = copy(&source, to(&trees.target));
        assert_eq!(copied.assert_whole().fresh, 0);
        assert_eq!(picture(&trees.source), picture(&trees.target));
        if has_xattrs {
            assert!(dir.xattrs(b"none").unwrap().iter().all(|(name, _)| name != b"user.extra"));
        }
    }

    #[test]
    fn attributes_acls_owners_and_set_id_bits_are_kept_where_allowed() {
        let trees = trees();
        fs::write(trees.source.join("f"), "x").unwrap();
        fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 9)).unwrap();
        fs::create_dir(trees.source.join("d")).unwrap();
        let from = Dir::open(&trees.source).unwrap();
        if from.set_xattr(b"f", b"user.k", b"v").is_err() {
            eprintln!("skipped: no attributes on this file system");
            return;
        }
        // user::rw-, user:1234:r--, group::r--, mask::r--, other::---
        let entry = |tag: u16, bits: u16, id: u32| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let acl = [
            2u32.to_le_bytes().to_vec(),
            entry(1, 6, none),
            entry(2, 4, 1234),
            entry(4, 4, none),
            entry(16, 4, none),
            entry(32, 0, none),
        ]
        .concat();
        from.set_xattr(b"f", b"system.posix_acl_access", &acl).unwrap();
        from.set_xattr(b"d", b"system.posix_acl_default", &acl).unwrap();
        from.set_xattr(b"large", b"user.big", &[7; 3000]).unwrap();
        if is_root() {
            from.set_owner(b"f", Some(1234), Some(2345)).unwrap();
            from.set_owner(b"large", Some(1234), Some(2345)).unwrap();
        }
        from.set_mode(b"large", 0o6755).unwrap();
        let copied = copy(&contents(&trees.source), to(&trees.target));
        copied.assert_whole();
        assert!(copied.losses().is_empty(), "{:?}", copied.losses());
        let there = Dir::open(&trees.target).unwrap();
        for name in [&b"f"[..], b"large", b"d"] {
            assert_eq!(there.xattrs(name).unwrap(), from.xattrs(name).unwrap());
            let (a, b) = (there.stat(name).unwrap(), from.stat(name).unwrap());
            assert_eq!((a.mode, a.uid, a.gid, a.mtime), (b.mode, b.uid, b.gid, b.mtime));
        }
        assert_eq!(copy(&contents(&trees.source), to(&trees.target)).fresh, 0);
    }

    #[test]
    fn fifos_devices_and_links_are_made_and_replaced() {
        let trees = trees();
        let from = Dir::open(&trees.source).unwrap();
        from.make_fifo(b"fifo", 0o640).unwrap();
        from.make_symlink(b"target", b"link").unwrap();
        if is_root() {
            from.make_device(b"null", 0o666, false, 1, 3).unwrap();
        }
        fs::create_dir(&trees.target).unwrap();
        fs::write(trees.target.join("fifo"), "a file").unwrap();
        symlink("elsewhere", trees.target.join("link")).unwrap();
        let copied = copy(&contents(&trees.source), to(&trees.target));
        copied.assert_whole();
        assert_eq!(fs::read_link(trees.target.join("link")).unwrap(), Path::new("target"));
        let there = Dir::open(&trees.target).unwrap();
        for name in [&b"fifo"[..], b"link"] {
            let (a, b) = (there.stat(name).unwrap(), from.stat(name).unwrap());
            assert_eq!((a.kind, a.mode, a.mtime), (b.kind, b.mode, b.mtime));
        }
        if is_root() {
            assert_eq!(there.stat(b"null").unwrap().rdev_minor, 3);
        }
        let again = copy(&contents(&trees.source), to(&trees.target));
        let changed: Vec<_> = again
            .outcomes
            .iter()
            .filter(|(_, outcome)| !matches!(outcome, Outcome::Unchanged { .. }))
            .collect();
        assert!(changed.is_empty(), "{changed:?}");
    }

    #[test]
    fn what_is_in_the_way_is_a_conflict_and_stays() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("dir/sub")).unwrap();
        fs::write(trees.source.join("dir/sub/f"), "x").unwrap();
        fs::write(trees.source.join("file"), "x").unwrap();
        fs::write(trees.source.join("over-empty"), "x").unwrap();
        symlink("t", trees.source.join("link")).unwrap();
        fs::create_dir(&trees.target).unwrap();
        let outside = trees.source.parent().unwrap().join("outside");
        fs::create_dir_all(outside.join("sub")).unwrap();
        symlink(&outside, trees.target.join("dir")).unwrap();
        fs::create_dir_all(trees.target.join("file/full")).unwrap();
        fs::create_dir(trees.target.join("over-empty")).unwrap();
        fs::create_dir(trees.target.join("link")).unwrap();
        let copied = copy(&contents(&trees.source), to(&trees.target));
        for path in ["dir", "dir/sub", "dir/sub/f", "file", "link"] {
            assert_eq!(copied.failure(path).kind, FailureKind::Conflict, "{path}");
        }
        assert_eq!(fs::read_dir(outside.join("sub")).unwrap().count(), 0);
        assert!(trees.target.join("file/full").is_dir());
        assert_eq!(fs::read(trees.target.join("over-empty")).unwrap(), b"x");
    }

    #[test]
    fn an_entry_in_our_staging_directory_is_refused() {
        let trees = trees();
        fs::create_dir(trees.source.join("d")).unwrap();
        fs::write(trees.source.join("f"), "x").unwrap();
        let source = contents(&trees.source);
        let (found, _) = scan(&source);
        let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
        for bad in [&b".thalweg-staging"[..], b".thalweg-staging/x", b"d/.thalweg-staging/journal"] {
            let entry = Entry { path: path(bad), ..found.entry("f").clone() };
            let Decision::Settled { outcome: Outcome::Failed(failure), .. } = destination.decide(&entry)
            else {
                panic!("taken")
            };
            assert_eq!(failure.kind, FailureKind::Conflict);
        }
    }

    #[test]
    fn what_appears_or_changes_while_it_is_copied_is_a_conflict_and_stays() {
        let trees = trees();
        fs::write(trees.source.join("appears"), "x").unwrap();
        fs::write(trees.source.join("changes"), "x").unwrap();
        fs::write(trees.source.join("goes"), "x").unwrap();
        fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 4)).unwrap();
        fs::create_dir(&trees.target).unwrap();
        fs::write(trees.target.join("changes"), "old").unwrap();
        fs::write(trees.target.join("goes"), "old").unwrap();
        let target = trees.target.clone();
        let copied =
            copy_with(&contents(&trees.source), to(&trees.target), |entry| match entry.path.as_bytes() {
                b"goes" => fs::remove_file(target.join("goes")).unwrap(),
                name => fs::write(target.join(std::ffi::OsStr::from_bytes(name)), "somebody else's").unwrap(),
            });
        for path in ["appears", "changes", "large"] {
            assert_eq!(copied.failure(path).kind, FailureKind::Conflict);
            assert_eq!(fs::read(trees.target.join(path)).unwrap(), b"somebody else's");
        }
        assert_eq!(fs::read(trees.target.join("goes")).unwrap(), b"x");
        assert!(!trees.target.join(".thalweg-staging").exists());
    }

    #[test]
    fn existing_and_newer_ones_are_left_alone_when_asked() {
        let trees = trees();
        for name in ["old", "new", "none"] {
            fs::write(trees.source.join(name), "source").unwrap();
        }
        fs::create_dir(&trees.target).unwrap();
        for name in ["old", "new"] {
            fs::write(trees.target.join(name), "target").unwrap();
        }
        set_mtime(&trees.source.join("old"), 1_000_000_000, 0);
        set_mtime(&trees.target.join("new"), 1_000_000_000, 0);
        let with = |terms: Terms| To { terms, ..to(&trees.target) };
        let source = contents(&trees.source);
        let copied = copy(&source, with(Terms { update: true, ..terms() }));
        assert!(matches!(copied.outcomes[&b"old"[..]], Outcome::Skipped(_)));
        assert_eq!(fs::read(trees.target.join("new")).unwrap(), b"source");
        let copied = copy(&source, with(Terms { ignore_existing: true, ..terms() }));
        assert!(matches!(copied.outcomes[&b"old"[..]], Outcome::Skipped(_)));
        assert_eq!(fs::read(trees.target.join("old")).unwrap(), b"target");
        copy(&source, to(&trees.target)).assert_whole();
        assert_eq!(fs::read(trees.target.join("old")).unwrap(), b"source");
    }

    #[test]
    fn two_transfers_of_one_job_exclude_each_other() {
        let trees = trees();
        let first = open(to(&trees.target), &SourceForm::Many).unwrap();
        let failure = open(to(&trees.target), &SourceForm::Many).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Busy);
        assert!(failure.cause.contains("lock"), "{failure}");
        let other = To { terms: Terms { job_key: [6; 16], ..terms() }, ..to(&trees.target) };
        let other = open(other, &SourceForm::Many).unwrap();
        first.close(true);
        let first = open(to(&trees.target), &SourceForm::Many).unwrap();
        first.close(true);
        assert!(trees.target.join(".thalweg-staging").exists());
        other.close(true);
        assert!(!trees.target.join(".thalweg-staging").exists());
    }

    #[test]
    fn a_run_that_changes_nothing_leaves_the_time_of_the_root() {
        let trees = trees();
        fs::create_dir(trees.source.join("d")).unwrap();
        fs::create_dir_all(trees.target.join("source")).unwrap();
        let root = || SourceRoot { path: trees.source.clone(), contents: false, below: None };
        let source = LocalSource::open(vec![root()], options()).unwrap();
        copy(&source, to(&trees.target)).assert_whole();
        set_mtime(&trees.target, 1_000_000_000, 5);
        copy(&source, to(&trees.target)).assert_whole();
        assert_eq!(fs::metadata(&trees.target).unwrap().mtime(), 1_000_000_000);
    }

    #[test]
    fn an_export_is_not_left_by_the_destination() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("export/in")).unwrap();
        symlink("..", trees.source.join("export/up")).unwrap();
        symlink("in", trees.source.join("export/alias")).unwrap();
        let open = |path: &str| {
            let below = Some(Dir::open(&trees.source.join("export")).unwrap());
            let place = DestinationPlace { path: path.into(), below };
            LocalDestination::open(place, &SourceForm::Many, false, terms(), None, Filter::default())
        };
        for bad in ["..", "../x", "up", "up/x", "in/../../x"] {
            assert!(open(bad).is_err(), "{bad}");
        }
        assert!(!trees.source.join("x").exists());
        open("/in/new/deeper").unwrap().close(true);
        assert!(trees.source.join("export/in/new/deeper").is_dir());
        open("alias/two").unwrap().close(true);
        assert!(trees.source.join("export/in/two").is_dir());
    }
}

mod resuming {
    use super::*;

    const CHUNKS: u64 = 8;

    /// A first attempt that stops after `chunks` of the one file.
    fn half_way(trees: &Trees, chunks: u64) -> LocalSource {
        let source = contents(&trees.source);
        let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
        let (found, _) = scan(&source);
        destination.decide(&found.entries[0]);
        let entry = found.entry("large");
        assert!(matches!(destination.decide(entry), Decision::Fresh));
        write_chunks(&source, &destination, entry, None, chunks).unwrap();
        destination.close(false);
        source
    }

    fn staged(trees: &Trees) -> PathBuf {
        trees.target.join(".thalweg-staging").join("05".repeat(16))
    }

    fn large() -> Trees {
        let trees = trees();
        fs::write(trees.source.join("large"), noise((CHUNKS * CHUNK) as usize - 100, 11)).unwrap();
        trees
    }

    fn same(trees: &Trees) -> bool {
        fs::read(trees.source.join("large")).unwrap() == fs::read(trees.target.join("large")).unwrap()
    }

    #[test]
    fn recorded_chunks_are_not_sent_again() {
        let trees = large();
        let source = half_way(&trees, 5);
        assert!(!trees.target.join("large").exists());
        let copied = copy(&source, to(&trees.target));
        assert_eq!(copied.assert_whole().resumed_chunks, 5);
        assert!(same(&trees));
        assert!(!trees.target.join(".thalweg-staging").exists());
    }

    #[test]
    fn a_flipped_bit_in_the_partial_costs_its_chunk() {
        let trees = large();
        let source = half_way(&trees, 5);
        let partial = fs::read_dir(staged(&trees))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.file_name().unwrap().as_bytes().starts_with(b"partial-"))
            .unwrap();
        let file = fs::File::options().read(true).write(true).open(&partial).unwrap();
        let mut byte = [0];
        let at = 2 * CHUNK + 1000;
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let copied = copy(&source, to(&trees.target));
        assert_eq!(copied.assert_whole().resumed_chunks, 4);
        assert!(same(&trees));
    }

    #[test]
    fn holes_stay_zero_whatever_an_earlier_attempt_left_there() {
        let trees = trees();
        let file = fs::File::create(trees.source.join("large")).unwrap();
        file.set_len(CHUNKS * CHUNK).unwrap();
        file.write_all_at(&noise(CHUNK as usize, 3), 0).unwrap();
        file.write_all_at(&noise(CHUNK as usize, 4), 3 * CHUNK).unwrap();
        drop(file);
        let source = half_way(&trees, 4);
        for entry in fs::read_dir(staged(&trees)).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().as_bytes().starts_with(b"partial-") {
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.write_all_at(&noise(CHUNK as usize, 99), CHUNK).unwrap();
                file.write_all_at(&noise(CHUNK as usize, 99), 6 * CHUNK).unwrap();
            }
        }
        let copied = copy(&source, to(&trees.target));
        assert_eq!(copied.assert_whole().resumed_chunks, 3);
        assert!(same(&trees));
    }

    #[test]
    fn a_source_that_changed_meanwhile_starts_anew() {
        let trees = large();
        half_way(&trees, 5);
        fs::write(trees.source.join("large"), noise((CHUNKS * CHUNK) as usize - 100, 12)).unwrap();
        let copied = copy(&contents(&trees.source), to(&trees.target));
        assert_eq!((copied.assert_whole().resumed_chunks, copied.fresh), (0, 1));
        assert!(same(&trees));
    }

    #[test]
    fn a_missing_or_short_partial_starts_anew() {
        for damage in [
            |path: &Path| fs::remove_file(path).unwrap(),
            |path: &Path| {
                fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
            },
        ] {
            let trees = large();
            let source = half_way(&trees, 5);
            damage(&staged(&trees).join("partial-1"));
            let copied = copy(&source, to(&trees.target));
            assert_eq!(copied.assert_whole().resumed_chunks, 0);
            assert!(same(&trees));
        }
    }

    #[test]
    fn with_any_byte_of_the_journal_flipped_the_content_is_right() {
        let trees = large();
        half_way(&trees, 5);
        let kept = trees.source.parent().unwrap().join("kept");
        let copy_tree = |from: &Path, to: &Path| {
            let _ = fs::remove_dir_all(to);
            let status = std::process::Command::new("cp").args(["-a"]).arg(from).arg(to).status().unwrap();
            assert!(status.success());
        };
        copy_tree(&trees.target, &kept);
        let journal = fs::read(staged(&trees).join("journal")).unwrap();
        let mut resumed = 0;
        for at in 0..journal.len() {
            copy_tree(&kept, &trees.target);
            let mut bad = journal.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(staged(&trees).join("journal"), bad).unwrap();
            // A flipped layout number is another version's journal: refused, not overwritten.
            let source = contents(&trees.source);
            if let Err(failure) =
                open(to(&trees.target), &source.form()).map(|destination| destination.close(false))
            {
                assert_eq!(failure.kind, FailureKind::Unsupported);
                continue;
            }
            let copied = copy(&source, to(&trees.target));
            copied.assert_whole();
            resumed += u64::from(copied.resumed_chunks > 0);
            assert!(same(&trees), "byte {at}");
        }
        assert_eq!(resumed, 0, "a damaged record counted");
    }

    #[test]
    fn what_no_record_names_is_removed_at_the_next_start() {
        let trees = large();
        half_way(&trees, 0);
        let staged = staged(&trees);
        fs::write(staged.join("partial-77"), "left over").unwrap();
        let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
        assert!(!staged.join("partial-77").exists());
        destination.close(true);
    }
}

mod deleting {
    use super::*;

    fn delete(path: &Path, max: u64) -> To {
        To { terms: Terms { delete_max: Some(max), ..terms() }, ..to(path) }
    }

    fn prepared() -> Trees {
        let trees = trees();
        fs::create_dir_all(trees.source.join("kept/sub")).unwrap();
        fs::write(trees.source.join("kept/f"), "x").unwrap();
        copy(&contents(&trees.source), to(&trees.target)).assert_whole();
        fs::create_dir_all(trees.target.join("kept/gone/deep")).unwrap();
        fs::write(trees.target.join("kept/gone/deep/f"), "x").unwrap();
        fs::write(trees.target.join("extra"), "x").unwrap();
        symlink("/etc", trees.target.join("kept/link-to-etc")).unwrap();
        trees
    }

    #[test]
    fn what_the_source_lacks_goes_and_the_rest_is_exact() {
        let trees = prepared();
        let copied = copy(&contents(&trees.source), delete(&trees.target, 5));
        assert_eq!(copied.assert_whole().conclusion.deleted, 5);
        assert_eq!(picture(&trees.source), picture(&trees.target));
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn one_too_many_and_nothing_goes() {
        let trees = prepared();
        let copied = copy(&contents(&trees.source), delete(&trees.target, 4));
        assert_eq!(copied.conclusion.deleted, 0);
        assert_eq!(copied.conclusion.troubles[0].kind, FailureKind::Usage);
        assert!(
            copied.conclusion.troubles[0].cause.contains("5 entries"),
            "{:?}",
            copied.conclusion.troubles
        );
        assert!(trees.target.join("kept/gone/deep/f").exists() && trees.target.join("extra").exists());
    }

    #[test]
    fn an_incomplete_listing_deletes_nothing() {
        let trees = prepared();
        let only = vec![path(b"kept/f")];
        let source = contents_with(&trees.source, ScanOptions { only, ..options() });
        let copied = copy(&source, delete(&trees.target, 1000));
        assert_eq!(copied.conclusion.deleted, 0);
        assert!(trees.target.join("extra").exists());
    }

    #[test]
    fn an_empty_source_deletes_nothing() {
        let trees = prepared();
        fs::remove_dir_all(trees.source.join("kept")).unwrap();
        let copied = copy(&contents(&trees.source), delete(&trees.target, 1000));
        assert_eq!(copied.conclusion.deleted, 0);
        assert_eq!(copied.conclusion.troubles[0].kind, FailureKind::Usage);
        assert!(trees.target.join("extra").exists());
    }

    #[test]
    fn excluded_names_and_the_directories_that_hold_them_stay() {
        let trees = prepared();
        fs::write(trees.target.join("kept/gone/deep/mine.keep"), "x").unwrap();
        fs::write(trees.target.join("top.keep"), "x").unwrap();
        let rules = || filter(&[(false, "*.keep")]);
        let source = contents_with(&trees.source, ScanOptions { filter: rules(), ..options() });
        let copied = copy(&source, To { protect: rules(), ..delete(&trees.target, 3) });
        assert_eq!(copied.assert_whole().conclusion.deleted, 3);
        assert!(
            trees.target.join("kept/gone/deep/mine.keep").exists() && trees.target.join("top.keep").exists()
        );
        assert!(!trees.target.join("kept/gone/deep/f").exists());
    }

    #[test]
    fn beside_a_named_source_nothing_is_touched() {
        let trees = trees();
        fs::create_dir(trees.source.join("d")).unwrap();
        fs::create_dir_all(trees.target.join("source/extra")).unwrap();
        fs::create_dir_all(trees.target.join("neighbour/inside")).unwrap();
        let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
        let source = LocalSource::open(vec![root], options()).unwrap();
        let copied = copy(&source, delete(&trees.target, 10));
        assert_eq!(copied.assert_whole().conclusion.deleted, 1);
        assert!(trees.target.join("neighbour/inside").exists());
    }

    #[test]
    fn many_names_are_compared_without_keeping_them_in_memory() {
        let trees = trees();
        for number in 0..6000 {
            fs::write(trees.source.join(format!("{number}")), "").unwrap();
        }
        fs::create_dir(&trees.target).unwrap();
        for number in 5990..6010 {
            fs::write(trees.target.join(format!("{number}")), "").unwrap();
        }
        let copied = copy(&contents(&trees.source), delete(&trees.target, 10));
        assert_eq!(copied.assert_whole().conclusion.deleted, 10);
        assert_eq!(fs::read_dir(&trees.target).unwrap().count(), 6000);
    }
}

mod remembering {
    use super::*;

    fn remembered(trees: &Trees) -> To {
        To { state: Some(trees.state.clone()), ..to(&trees.target) }
    }

    #[test]
    fn a_file_replaced_by_one_of_the_same_size_and_time_is_sent_again() {
        let trees = trees();
        let file = trees.source.join("f");
        fs::write(&file, "one").unwrap();
        fs::write(trees.source.join("large"), noise(3 * CHUNK as usize, 1)).unwrap();
        let first = copy(&contents(&trees.source), remembered(&trees));
        first.assert_whole();
        let second = copy(&contents(&trees.source), remembered(&trees));
        assert_eq!(second.fresh, 0);
        let Outcome::Unchanged { digest: Some(digest) } = second.outcomes[&b"f"[..]] else { panic!() };
        assert_eq!(digest.0, *blake3::hash(b"one").as_bytes());

        let mtime = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "two").unwrap();
        fs::File::open(&file).unwrap().set_modified(mtime).unwrap();
        let third = copy(&contents(&trees.source), remembered(&trees));
        assert_eq!(third.assert_whole().fresh, 1);
        assert_eq!(fs::read(trees.target.join("f")).unwrap(), b"two");
    }

    #[test]
    fn a_destination_changed_behind_our_back_is_sent_again() {
        let trees = trees();
        fs::write(trees.source.join("f"), "one").unwrap();
        copy(&contents(&trees.source), remembered(&trees)).assert_whole();
        let target = trees.target.join("f");
        let mtime = fs::metadata(&target).unwrap().modified().unwrap();
        fs::write(&target, "bad").unwrap();
        fs::File::open(&target).unwrap().set_modified(mtime).unwrap();
        assert_eq!(
            copy(&contents(&trees.source), to(&trees.target)).fresh,
            0,
            "size and time alone cannot tell"
        );
        assert_eq!(copy(&contents(&trees.source), remembered(&trees)).fresh, 1);
        assert_eq!(fs::read(&target).unwrap(), b"one");
    }

    #[test]
    fn with_metadata_put_right_it_is_remembered_still() {
        let trees = trees();
        fs::write(trees.source.join("f"), "one").unwrap();
        copy(&contents(&trees.source), remembered(&trees)).assert_whole();
        fs::set_permissions(trees.target.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
        // Its ctime changed, so it is sent once more; after that it is known again.
        copy(&contents(&trees.source), remembered(&trees)).assert_whole();
        assert_eq!(copy(&contents(&trees.source), remembered(&trees)).fresh, 0);
    }
}

/// What an adversary or a poor file system does.
mod enduring {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn while_directories_are_swapped_for_links_nothing_leaves_the_root() {
        let trees = trees();
        for number in 0..40 {
            let dir = trees.source.join(format!("d{}/sub", number % 4));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("f{number}")), "x").unwrap();
            symlink("t", dir.join(format!("l{number}"))).unwrap();
        }
        let outside = trees.source.parent().unwrap().join("outside");
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("sub/canary"), "alive").unwrap();
        fs::create_dir(&trees.target).unwrap();
        let before = picture(&outside);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for number in 0..4 {
                        let (dir, aside) =
                            (trees.target.join(format!("d{number}")), trees.target.join("aside"));
                        let _ = fs::rename(&dir, &aside);
                        let _ = symlink(&outside, &dir);
                        let _ = fs::remove_file(&dir);
                        let _ = fs::rename(&aside, &dir);
                    }
                }
            });
            for _ in 0..10 {
                let delete = Terms { delete_max: Some(1000), ..terms() };
                copy(&contents(&trees.source), To { terms: delete, ..to(&trees.target) });
                // And as a source.
                let (found, _) = scan(&contents(&trees.target));
                assert!(found.entries.iter().all(|entry| entry.path.name() != b"canary"));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(picture(&outside), before);
    }

    #[test]
    fn a_default_acl_of_the_destination_does_not_leak_into_what_is_kept_exactly() {
        let trees = trees();
        fs::write(trees.source.join("f"), "x").unwrap();
        fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 2)).unwrap();
        fs::set_permissions(trees.source.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(&trees.target).unwrap();
        let status = std::process::Command::new("setfacl")
            .args(["-d", "-m", "u:1234:rwx,g::---,o::---"])
            .arg(&trees.target)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no ACLs here");
            return;
        }
        // The root keeps its own ACL, for it is not an entry here.
        let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
        let source = LocalSource::open(vec![root], options()).unwrap();
        copy(&source, to(&trees.target)).assert_whole();
        assert_eq!(picture(&trees.source), picture(&trees.target.join("source")));
        let there = Dir::open(&trees.target.join("source")).unwrap();
        for name in [&b"f"[..], b"large"] {
            assert!(there.xattrs(name).unwrap().is_empty());
        }
    }

    #[test]
    fn names_that_fold_into_one_are_a_conflict_and_none_is_overwritten() {
        if !is_root() {
            eprintln!("skipped: mounting needs root");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let (image, mount) = (scratch.path().join("image"), scratch.path().join("mount"));
        fs::create_dir(&mount).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let script = format!(
            "mkfs.ext4 -qF -O casefold -E encoding=utf8 {0} && mount -o loop {0} {1} && mkdir {1}/t && chattr +F {1}/t",
            image.display(),
            mount.display()
        );
        if !std::process::Command::new("sh").args(["-c", &script]).output().unwrap().status.success() {
            let _ = std::process::Command::new("umount").arg(&mount).output();
            eprintln!("skipped: no file system here folds case");
            return;
        }
        let trees = trees();
        fs::write(trees.source.join("Name"), "upper").unwrap();
        fs::write(trees.source.join("name"), "lower").unwrap();
        fs::create_dir(trees.source.join("Dir")).unwrap();
        fs::write(trees.source.join("Dir/f"), "x").unwrap();
        let target = mount.join("t");
        let copied = copy(&contents(&trees.source), to(&target));
        let content = fs::read(target.join("Name")).unwrap();
        let again = copy(&contents(&trees.source), to(&target));
        let _ = std::process::Command::new("umount").arg(&mount).status();
        assert_eq!(content, b"upper");
        assert_eq!(copied.failure("name").kind, FailureKind::Conflict);
        assert_eq!(again.failure("name").kind, FailureKind::Conflict);
        assert!(matches!(again.outcomes[&b"Dir/f"[..]], Outcome::Unchanged { .. }));
    }

    #[test]
    fn a_full_file_system_is_a_matter_of_space_and_resumes_when_there_is_room() {
        if !is_root() {
            eprintln!("skipped: mounting needs root");
            return;
        }
        let trees = trees();
        fs::create_dir(&trees.target).unwrap();
        let run = |command: &str| {
            std::process::Command::new("sh").args(["-c", command]).status().unwrap().success()
        };
        let target = trees.target.display();
        if !run(&format!("mount -t tmpfs -o size=1m none {target}")) {
            eprintln!("skipped: tmpfs cannot be mounted here");
            return;
        }
        fs::write(trees.source.join("large"), noise(2 << 20, 1)).unwrap();
        fs::write(trees.source.join("small"), "x").unwrap();
        let source = contents(&trees.source);
        let form = source.form();
        let destination = open(to(&trees.target), &form).unwrap();
        let (found, _) = scan(&source);
        for entry in &found.entries {
            destination.decide(entry);
        }
        let failure = destination.begin(found.entry("large")).err().unwrap();
        let partials = fs::read_dir(trees.target.join(".thalweg-staging").join("05".repeat(16)))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().as_bytes().starts_with(b"partial"))
            .count();
        destination.close(false);
        drop(destination);
        let room = run(&format!("mount -o remount,size=8m {target}"));
        let copied = copy(&source, to(&trees.target));
        let same = fs::read(trees.target.join("large")).ok() == fs::read(trees.source.join("large")).ok();
        run(&format!("umount {target}"));
        assert_eq!((failure.kind, partials), (FailureKind::Space, 0));
        assert!(room && same);
        copied.assert_whole();
    }

    #[test]
    fn hard_links_are_remembered_and_not_sent_again() {
        let trees = trees();
        fs::write(trees.source.join("a"), "one").unwrap();
        fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
        fs::hard_link(trees.source.join("a"), trees.source.join("c")).unwrap();
        let remembered = || To { state: Some(trees.state.clone()), ..to(&trees.target) };
        copy(&contents(&trees.source), remembered()).assert_whole();
        let again = copy(&contents(&trees.source), remembered());
        assert_eq!(again.assert_whole().fresh, 0);
        assert!(matches!(again.outcomes[&b"a"[..]], Outcome::Unchanged { digest: Some(_) }));
    }

    #[test]
    fn directories_that_keep_their_owner_out_are_filled_all_the_same() {
        let trees = trees();
        fs::create_dir_all(trees.source.join("closed/inner")).unwrap();
        fs::write(trees.source.join("closed/f"), "x").unwrap();
        for dir in ["closed/inner", "closed", ""] {
            fs::set_permissions(trees.source.join(dir), fs::Permissions::from_mode(0o555)).unwrap();
        }
        let copied = copy(&contents(&trees.source), to(&trees.target));
        copied.assert_whole();
        let first = picture(&trees.target);
        assert_eq!(first, picture(&trees.source));
        assert!(!trees.target.join(".thalweg-staging").exists());
        copy(&contents(&trees.source), to(&trees.target)).assert_whole();
        assert_eq!(picture(&trees.target), first);
        for tree in [&trees.source, &trees.target] {
            for dir in ["", "closed", "closed/inner"] {
                fs::set_permissions(tree.join(dir), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }

    #[test]
    fn kinds_that_were_not_asked_for_are_not_made() {
        let trees = trees();
        symlink("/etc", trees.source.join("link")).unwrap();
        Dir::open(&trees.source).unwrap().make_fifo(b"fifo", 0o600).unwrap();
        let preserve = Preserve { symlinks: false, devices: false, ..everything() };
        let copied =
            copy(&contents(&trees.source), To { terms: Terms { preserve, ..terms() }, ..to(&trees.target) });
        for name in ["link", "fifo"] {
            assert!(matches!(copied.outcomes[name.as_bytes()], Outcome::Skipped(_)));
            assert!(fs::symlink_metadata(trees.target.join(name)).is_err());
        }
    }

    #[test]
    fn without_preserving_the_mode_of_what_stands_there_stays() {
        let trees = trees();
        let preserve = Preserve { mode: false, owner: false, ..everything() };
        let to = || To { terms: Terms { preserve, ..terms() }, ..to(&trees.target) };
        for name in ["old", "old-large", "new"] {
            fs::write(trees.source.join(name), "source").unwrap();
            fs::set_permissions(trees.source.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(trees.source.join("old-large"), noise(2 * CHUNK as usize, 1)).unwrap();
        fs::create_dir(&trees.target).unwrap();
        for name in ["old", "old-large"] {
            fs::write(trees.target.join(name), "t").unwrap();
            fs::set_permissions(trees.target.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        copy(&contents(&trees.source), to()).assert_whole();
        let mode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("old"), mode("old-large")), (0o600, 0o600));
        assert_eq!(mode("new") & 0o700, 0o700);
    }
}

#[test]
fn what_a_user_may_not_keep_is_a_loss_and_takes_the_set_id_bits_with_it() {
    if is_root() {
        eprintln!("skipped: root may keep everything");
        return;
    }
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 2)).unwrap();
    let source = contents(&trees.source);
    let destination = open(to(&trees.target), &source.form()).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0]);
    for name in ["f", "large"] {
        let mut entry = found.entry(name).clone();
        assert!(matches!(destination.decide(&entry), Decision::Fresh));
        let outcome = {
            (entry.uid, entry.gid, entry.mode) = (0, 0, 0o4755);
            try_move_file(&source, &destination, &entry, None, &mut |_| {}).unwrap()
        };
        let Outcome::Done { losses, .. } = outcome else { panic!() };
        let lost: Vec<_> = losses.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(lost, ["owner", "group", "set-id bits"], "{name}");
        assert_eq!(fs::metadata(trees.target.join(name)).unwrap().mode() & 0o7777, 0o755);
    }
    destination.close(true);
}
