//! Endpoints on local file systems.

use super::destination::{self, DestinationBed, Stands, What};
use super::feed::{self, FeedBed};
use super::flow::{self, FlowBed};
use super::noise;
use super::source::{self, Act, SUBJECT, SourceBed};
use crate::endpoint::feed::Feed;
use crate::endpoint::feed::files::{FilesFeed, FilesSpec};
use crate::endpoint::feed::pipe::PipeFeed;
use crate::endpoint::flow_destination::FlowDestination;
use crate::endpoint::local::flow_destination::LocalFlows;
use crate::endpoint::local::{DestinationPlace, LocalDestination, LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::{Destination, Source};
use crate::filter::Filter;
use crate::journal::staging_names::is_staging;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use thalweg_sys::Dir;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{Direct, Preserve, SourceForm, Terms, Until};

/// Where tests of direct I/O work: the system's temporary directory may be in memory.
fn scratch(direct: Direct) -> TempDir {
    match direct {
        Direct::On => tempfile::tempdir_in(".").unwrap(),
        Direct::Auto | Direct::Off => tempfile::tempdir().unwrap(),
    }
}

/// A tree of files, as a source.
struct Tree {
    scratch: TempDir,
    direct: Direct,
    is_spared: bool,
}

/// Files of the tree without holes, and their lengths.
const FILES: [(&str, usize); 4] = [("d/deep/large", 300_007), (SUBJECT, 4097), ("empty", 0), ("small", 1000)];
const HOLES: &str = "holes";
/// Where the data between its holes begins, and how much there is.
const DATA: (usize, usize) = ((512 << 10) + 3, 5000);

impl Tree {
    fn new(direct: Direct, is_spared: bool) -> Tree {
        let tree = Tree { scratch: scratch(direct), direct, is_spared };
        for (name, content) in tree.files() {
            let path = tree.root().join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if name == HOLES {
                let file = fs::File::create(path).unwrap();
                file.set_len(content.len() as u64).unwrap();
                file.write_all_at(&content[DATA.0..][..DATA.1], DATA.0 as u64).unwrap();
            } else {
                fs::write(path, content).unwrap();
            }
        }
        fs::create_dir_all(tree.outside()).unwrap();
        fs::write(tree.outside().join("subject"), noise(4097, 99)).unwrap();
        symlink(tree.outside(), tree.root().join("link")).unwrap();
        fs::hard_link(tree.root().join("small"), tree.root().join("z-second-name")).unwrap();
        tree
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("tree")
    }

    fn outside(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }
}

impl SourceBed for Tree {
    fn source(&self) -> Arc<dyn Source> {
        let root = SourceRoot { path: self.root(), contents: true, below: None };
        let options = ScanOptions {
            filter: Filter::default(),
            only: Vec::new(),
            preserve: Preserve::ALL,
            one_file_system: false,
            follow_links: false,
            part: None,
            direct: self.direct,
        };
        let source = Arc::new(LocalSource::open(vec![root], options).unwrap());
        if self.is_spared { Arc::new(SparingSource::new(source, u64::MAX)) } else { source }
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut holes = vec![0; 1 << 20];
        holes[DATA.0..][..DATA.1].copy_from_slice(&noise(DATA.1, 7));
        let full = (1..).zip(FILES).map(|(seed, (name, bytes))| (name.to_owned(), noise(bytes, seed)));
        full.chain([(HOLES.to_owned(), holes)]).collect()
    }

    fn change(&self, act: Act) -> bool {
        let subject = self.root().join(SUBJECT);
        let above = self.root().join("d");
        let set_mode = |mode| fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
        match act {
            Act::Grows => {
                fs::File::options().append(true).open(subject).unwrap().write_all(b"more").unwrap();
            }
            Act::Goes => fs::remove_file(subject).unwrap(),
            Act::BecomesDirectory => {
                remove(&subject);
                fs::create_dir(subject).unwrap();
            }
            Act::BecomesLink => {
                remove(&subject);
                symlink(self.outside().join("subject"), subject).unwrap();
            }
            Act::IsLedOut => {
                fs::rename(&above, self.scratch.path().join("away")).unwrap();
                symlink(self.outside(), &above).unwrap();
            }
            Act::IsShutIn if thalweg_sys::user::effective_uid() == 0 => return false,
            Act::IsShutIn => set_mode(0o000),
            Act::IsLetOut => set_mode(0o700),
        }
        true
    }
}

/// A file, or an empty directory.
fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

fn check_tree(direct: Direct, is_spared: bool) {
    let bed = || -> Box<dyn SourceBed> { Box::new(Tree::new(direct, is_spared)) };
    source::check(source::PROMISES, &[], &bed);
    source::check(source::CHANGES, &[], &bed);
}

#[test]
fn a_local_source_keeps_what_sources_promise() {
    check_tree(Direct::Auto, false);
}

#[test]
fn a_local_source_past_the_page_cache_keeps_what_sources_promise() {
    check_tree(Direct::On, false);
}

#[test]
fn a_local_source_that_is_spared_keeps_what_sources_promise() {
    check_tree(Direct::Auto, true);
}

/// A directory to write to.
struct Room {
    scratch: TempDir,
    direct: Direct,
    /// Directories that were moved away.
    away: Cell<u32>,
}

impl Room {
    fn new(direct: Direct) -> Room {
        let room = Room { scratch: scratch(direct), direct, away: Cell::new(0) };
        fs::create_dir(room.root()).unwrap();
        fs::create_dir(room.out()).unwrap();
        fs::write(room.out().join("there before"), b"there before").unwrap();
        room
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("to")
    }

    fn out(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }

    fn place(&self) -> DestinationPlace {
        DestinationPlace { path: self.root(), below: None }
    }
}

/// What stands in a directory and below, but for what is hidden.
fn look(root: &Path, at: &Path, stands: &mut BTreeMap<String, Stands>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if is_staging(path.file_name().unwrap().as_bytes()) {
            continue;
        }
        let about = fs::symlink_metadata(&path).unwrap();
        let kind = about.file_type();
        let what = if kind.is_dir() {
            look(root, &path, stands);
            What::Directory
        } else if kind.is_file() {
            What::File(fs::read(&path).unwrap())
        } else if kind.is_symlink() {
            What::Link(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            What::Other
        };
        let mode = if kind.is_symlink() { 0 } else { about.mode() & 0o7777 };
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        stands.insert(name, Stands { what, mode, mtime: about.mtime() });
    }
}

/// How much is in the staging directories at the top of `root`.
fn hidden_in(root: &Path) -> usize {
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let hidden = names.filter(|path| is_staging(path.file_name().unwrap().as_bytes()));
    hidden.map(|path| fs::read_dir(path).unwrap().count() + 1).sum()
}

fn stands_in(root: &Path) -> BTreeMap<String, Stands> {
    let mut stands = BTreeMap::new();
    look(root, root, &mut stands);
    stands
}

impl DestinationBed for Room {
    fn open(&self, mut terms: Terms) -> Arc<dyn Destination> {
        terms.disk.destination.direct = self.direct;
        let opened =
            LocalDestination::open(self.place(), &SourceForm::Many, true, terms, None, Filter::default());
        Arc::new(opened.unwrap())
    }

    fn stands(&self) -> BTreeMap<String, Stands> {
        stands_in(&self.root())
    }

    fn hidden(&self) -> usize {
        hidden_in(&self.root())
    }

    fn put(&self, path: &str, content: &[u8]) {
        fs::write(self.root().join(path), content).unwrap();
    }

    fn lead_out(&self, path: &str) {
        let path = self.root().join(path);
        if path.symlink_metadata().is_ok() {
            let number = self.away.replace(self.away.get() + 1);
            fs::rename(&path, self.scratch.path().join(format!("away-{number}"))).unwrap();
        }
        symlink(self.out(), path).unwrap();
    }

    fn outside(&self) -> BTreeMap<String, Stands> {
        stands_in(&self.out())
    }
}

fn check_room(direct: Direct) {
    let bed = || -> Box<dyn DestinationBed> { Box::new(Room::new(direct)) };
    destination::check(destination::PROMISES, &[], &bed);
    destination::check(destination::KEPT, &[], &bed);
}

#[test]
fn a_local_destination_keeps_what_destinations_promise() {
    check_room(Direct::Auto);
}

#[test]
fn a_local_destination_past_the_page_cache_keeps_what_destinations_promise() {
    check_room(Direct::On);
}

impl FlowBed for Room {
    fn open(&self) -> Box<dyn FlowDestination> {
        Box::new(LocalFlows::open(self.place(), &SourceForm::Many, true, &[7; 16]).unwrap())
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.root().join(flow::NAME)).unwrap()
    }

    fn hidden(&self) -> usize {
        hidden_in(&self.root())
    }

    fn block(&self) {
        fs::create_dir(self.root().join(flow::NAME)).unwrap();
    }

    fn consumer_ends(&self) -> bool {
        false
    }
}

#[test]
fn flows_into_local_files_keep_what_flows_promise() {
    let bed = || -> Box<dyn FlowBed> { Box::new(Room::new(Direct::Auto)) };
    flow::check(flow::PROMISES, &[], &bed);
    flow::check(flow::KEPT, &[], &bed);
}

/// Less than a pipe holds: all of it is in there before anybody reads.
const FED_BYTES: usize = 4000;
/// A flow comes in several of them.
const PIECE_BYTES: usize = 1000;

fn fed_name() -> RelativePath {
    RelativePath::new(flow::NAME.as_bytes().to_vec()).unwrap()
}

/// A pipe whose writer has ended.
struct WrittenPipe;

impl FeedBed for WrittenPipe {
    fn feed(&self) -> Box<dyn Feed> {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(&self.content()).unwrap();
        Box::new(PipeFeed::new(read.into(), fed_name(), PIECE_BYTES))
    }

    fn content(&self) -> Vec<u8> {
        noise(FED_BYTES, 1)
    }

    fn is_pipe(&self) -> bool {
        true
    }
}

#[test]
fn a_pipe_is_fed_as_feeds_promise() {
    feed::check(feed::PROMISES, &[], &|| -> Box<dyn FeedBed> { Box::new(WrittenPipe) });
}

/// A file that has all its bytes.
struct WrittenFile(TempDir);

impl FeedBed for WrittenFile {
    fn feed(&self) -> Box<dyn Feed> {
        fs::write(self.0.path().join(flow::NAME), self.content()).unwrap();
        Box::new(FilesFeed::new(FilesSpec {
            dir: Dir::open(self.0.path()).unwrap(),
            place: None,
            name: Some(flow::NAME.as_bytes().to_vec()),
            below: None,
            prefix: RelativePath::default(),
            until: Until { bytes: Some(FED_BYTES as u64), ..Until::default() },
            piece_bytes: PIECE_BYTES,
        }))
    }

    fn content(&self) -> Vec<u8> {
        noise(FED_BYTES, 1)
    }

    fn is_pipe(&self) -> bool {
        false
    }
}

#[test]
fn a_file_is_fed_as_feeds_promise() {
    let bed = || -> Box<dyn FeedBed> { Box::new(WrittenFile(scratch(Direct::Auto))) };
    feed::check(feed::PROMISES, &[], &bed);
}
