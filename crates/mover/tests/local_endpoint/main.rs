//! The local endpoint, from outside: a whole transfer, one step after the other, without threads or wire.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use thalweg_mover::FailureKind;
use thalweg_mover::endpoint::local::{
    DestinationPlace, LocalDestination, LocalSource, ScanOptions, SourceRoot,
};
use thalweg_mover::endpoint::together::Together;
use thalweg_mover::endpoint::{
    Conclusion, Decision, Destination, Listing, PartialFile, Ready, ScanSink, Small, Source, Staged,
};
use thalweg_mover::filter::Filter;
use thalweg_mover::journal::staging_names::{STAGING_NAME, is_staging};
use thalweg_sys::cpu_time::thread_cpu;
use thalweg_sys::{Dir, Links, extents};
use thalweg_wire::digest::{self, Rule, Tree};
use thalweg_wire::message::{
    Direct, Disk, DiskSide, Failure, FilterRule, Outcome, Preserve, ScanTotals, SourceForm, Terms,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath};

mod scanning;

mod copying;

mod staging;

mod resuming;

mod growing;

mod deleting;

mod removing;

mod remembering;

mod renamed;

mod enduring;

mod parts;

const CHUNK: u64 = 64 << 10;

fn terms() -> Terms {
    Terms { preserve: Preserve::ALL, job_key: [5; 16], ..Terms::of(CHUNK, CHUNK as u32) }
}

fn options() -> ScanOptions {
    ScanOptions {
        filter: Filter::default(),
        only: Vec::new(),
        preserve: Preserve::ALL,
        one_file_system: false,
        follow_links: false,
        part: None,
        direct: Default::default(),
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
    /// Of the end, as they were told.
    end_steps: u64,
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
    found.skipped.iter().for_each(|(path, _)| destination.skipped(path));
    let mut copied = Copied {
        outcomes: BTreeMap::new(),
        conclusion: Conclusion::default(),
        fresh: 0,
        resumed_chunks: 0,
        end_steps: 0,
    };
    for entry in &found.entries {
        let mut now = entry.clone();
        let mut decision = match &entry.kind {
            Kind::HardLink { .. } => destination.link(entry),
            _ => destination.decide(entry, &|_, _| true),
        };
        if matches!((&entry.kind, &decision), (Kind::HardLink { .. }, Decision::Fresh)) {
            // As a sender does: it is offered as what it is by itself.
            now = source.look_again(entry).unwrap();
            destination.offered_before(&now.path);
            decision = destination.decide(&now, &|_, _| true);
        }
        let entry = &now;
        let outcome = match decision {
            Decision::Settled { outcome, made } => {
                assert!(!(made && dry_run));
                if made {
                    destination.sync(&[]).unwrap();
                }
                outcome
            }
            // What could be compared is sent as a whole here.
            Decision::Fresh | Decision::Wanted { left: None, .. } | Decision::Elsewhere { left: None } => {
                copied.fresh += 1;
                if dry_run {
                    done(None, Vec::new())
                } else {
                    move_file(source, &destination, entry, None, &mut before)
                }
            }
            Decision::Wanted { left: Some(left), .. } | Decision::Elsewhere { left: Some(left) } => {
                copied.resumed_chunks += left.present.len() as u64;
                move_file(source, &destination, entry, Some((left.partial, left.present)), &mut before)
            }
        };
        if matches!(outcome, Outcome::Skipped(_) | Outcome::Failed(_)) {
            destination.came_to_nothing(entry);
        }
        destination.settled(entry, &outcome);
        copied.outcomes.insert(entry.path.as_bytes().to_vec(), outcome);
    }
    let steps = std::cell::Cell::new(0);
    copied.conclusion = destination.conclude(totals.listing(), &|| {
        steps.set(steps.get() + 1);
        true
    });
    copied.end_steps = steps.get();
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
        let staged = stage(destination, entry, &buffer)?;
        destination.sync(&[])?;
        assert_eq!(destination.read_staged_back(&staged, size).unwrap(), digest);
        before(entry);
        let losses = destination.finish(entry, Ready::Staged(staged), digest)?;
        destination.sync(&[])?;
        return Ok(done(Some(digest), losses));
    }
    let (partial, digest) = write_chunks(source, destination, entry, resumed, u64::MAX)?;
    before(entry);
    let losses = destination.finish(entry, Ready::Partial(partial), digest.unwrap())?;
    destination.sync(&[])?;
    Ok(done(digest, losses))
}

/// Stages one small file.
fn stage(destination: &LocalDestination, entry: &Entry, content: &[u8]) -> Result<Staged, Failure> {
    destination.stage(3, &[Small { entry, content }], &mut Together::new(&Disk::default())).remove(0)
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
    destination.sync(std::slice::from_ref(&partial))?;
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
    thalweg_sys::user::effective_uid() == 0
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

/// Waits until the file system's clock shows another time than that of the last change to `path`: some show one each 4
/// ms.
fn tick(path: &Path) {
    let changed = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let beside = path.with_extension("tick");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        fs::write(&beside, "").unwrap();
        let now = changed(&beside);
        fs::remove_file(&beside).unwrap();
        if now > changed(path) {
            return;
        }
        assert!(Instant::now() < until, "the clock stands still");
        std::thread::sleep(Duration::from_millis(1));
    }
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
    destination.decide(&found.entries[0], &|_, _| true);
    for name in ["f", "large"] {
        let mut entry = found.entry(name).clone();
        assert!(matches!(destination.decide(&entry, &|_, _| true), Decision::Fresh));
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
            // Several at once can find the same loop device free.
            let (image, path) = (image.display(), path.display());
            let once = format!("{make} {image} && mount -o loop {image} {path} && exit");
            run(format!("for _ in 1 2 3 4 5; do {once}; sleep 0.2; done; exit 1"))?;
        }
        Some(Mount { path, _scratch: scratch })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Also from under what a test that failed has open there.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
