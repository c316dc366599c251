//! Files that a walk comes upon, digested several at a time and told in the order of the walk.
//!
//! 1. The walk gives each file, not yet open, to workers, and waits where too much is ahead of what was told.
//! 2. A worker opens a file and digests it.
//! 3. The thread that walks tells what is next, and signs of life while that takes long.
//!
//! Without a worker, because none is wanted or the machine has no thread to give, the thread that walks digests.
//!
//! Bounded: files that wait (each keeps its directory open), and what was digested before its turn. When the walk or
//! the sink fails or panics, what is being digested is given up, within some seconds. A file over which a worker panics
//! is trouble like one that cannot be read.

use super::{ALIVE_EVERY, DigestAs, Digested, digested};
use crate::endpoint::OPEN;
use crate::endpoint::local::failed;
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Instant;
use thalweg_sys::Dir;
use thalweg_wire::RelativePath;

/// Files that wait for a worker: enough that none waits for the walk, few enough for the smallest limits on
/// descriptors.
const WAITING_MAX: usize = 8;
/// Files that were given and not told: behind a large one the others go on for so long.
const AHEAD_MAX: usize = 1024;
/// Bytes of their paths, which can be long; what comes next then waits.
const AHEAD_PATH_BYTES: usize = 1 << 20;

/// A file that the walk came upon.
pub(super) struct Job {
    pub(super) dir: Arc<Dir>,
    pub(super) name: Vec<u8>,
    pub(super) path: RelativePath,
}

impl Job {
    fn digest(self, how: DigestAs, alive: &mut dyn FnMut() -> Result<()>) -> Digested {
        let opened = self.dir.open_read(&self.name);
        drop(self.dir);
        match opened {
            Ok(file) => digested(&file, self.path, how, alive),
            Err(error) => Digested::Trouble(failed(OPEN, &self.path, &error)),
        }
    }
}

/// What the workers share.
struct Shared {
    jobs: Mutex<Receiver<(u64, Job)>>,
    how: DigestAs,
    /// Nobody hears any more what they find.
    is_over: AtomicBool,
}

impl Shared {
    fn go_on(&self) -> Result<()> {
        match self.is_over.load(Ordering::Acquire) {
            true => Err(Failure::new(FailureKind::Stopped, "digest", "nobody wants the rest")),
            false => Ok(()),
        }
    }
}

/// Tells the workers that nobody hears them any more, when it is dropped: also by a panic, for the scope joins them
/// then too.
struct Over<'shared>(&'shared AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `walk`, which gives files to as many `workers`, and tells `sink` what comes of them.
///
/// # Errors
/// Those of `walk` and `sink`.
pub(super) fn digest_several(
    how: DigestAs,
    workers: usize,
    sink: &mut dyn FnMut(Digested) -> Result<()>,
    walk: impl FnOnce(&mut Several<'_, '_>) -> Result<()>,
) -> Result<()> {
    let (give, jobs) = mpsc::sync_channel(WAITING_MAX);
    let (tell, hear) = mpsc::channel();
    let shared = &Shared { jobs: Mutex::new(jobs), how, is_over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let another = |_| {
            let tell = tell.clone();
            Builder::new().name("digest".into()).spawn_scoped(scope, move || work(shared, &tell)).ok()
        };
        // Fewer of them only take longer. One alone would do what the thread that walks can do.
        let wanted = if workers > 1 { workers } else { 0 };
        let workers: Vec<_> = (0..wanted).map_while(another).collect();
        let _over = Over(&shared.is_over);
        // With it goes what the workers wait for.
        let mut several = Several {
            how,
            sink,
            give,
            hear,
            workers,
            given: 0,
            told: 0,
            early: BTreeMap::new(),
            path_bytes: VecDeque::new(),
            path_bytes_sum: 0,
            spoke: Instant::now(),
        };
        walk(&mut several).and_then(|()| several.finish())
    })
}

fn work(shared: &Shared, tell: &Sender<(u64, Digested)>) {
    loop {
        // Others may take one as soon as this one has one.
        let next = lock(&shared.jobs).recv();
        let Ok((number, job)) = next else { return };
        if shared.go_on().is_err() {
            return;
        }
        let path = job.path.clone();
        let digest = AssertUnwindSafe(|| job.digest(shared.how, &mut || shared.go_on()));
        let digested = catch_unwind(digest).unwrap_or_else(|_| Digested::Trouble(broken().at(&path)));
        if tell.send((number, digested)).is_err() {
            return;
        }
    }
}

/// See the module.
pub(super) struct Several<'scope, 'sink> {
    how: DigestAs,
    sink: &'sink mut dyn FnMut(Digested) -> Result<()>,
    give: SyncSender<(u64, Job)>,
    hear: Receiver<(u64, Digested)>,
    workers: Vec<ScopedJoinHandle<'scope, ()>>,
    given: u64,
    told: u64,
    /// What came before its turn, by its number.
    early: BTreeMap<u64, Digested>,
    /// Of the paths of what was given and not told, in order, and their sum.
    path_bytes: VecDeque<usize>,
    path_bytes_sum: usize,
    /// When the sink was told something last.
    spoke: Instant,
}

impl Several<'_, '_> {
    /// One more file.
    pub(super) fn digest(&mut self, job: Job) -> Result<()> {
        if self.workers.is_empty() {
            let sink = &mut *self.sink;
            let digested = job.digest(self.how, &mut || sink(Digested::Alive));
            // A sink that is gone fails again when it is told.
            return sink(digested);
        }
        let number = self.number(job.path.as_bytes().len())?;
        let mut job = (number, job);
        loop {
            match self.give.try_send(job) {
                Ok(()) => return self.tell_what_came(),
                Err(TrySendError::Full(back)) => job = back,
                Err(TrySendError::Disconnected(_)) => return Err(broken()),
            }
            self.wait()?;
        }
    }

    /// Something that the walk could not look at.
    pub(super) fn trouble(&mut self, failure: Failure) -> Result<()> {
        let path_bytes = failure.path.as_ref().map_or(0, |path| path.as_bytes().len());
        self.tell_in_turn(Digested::Trouble(failure), path_bytes)
    }

    /// A directory whose names come in no order.
    pub(super) fn unordered(&mut self, directory: RelativePath) -> Result<()> {
        let path_bytes = directory.as_bytes().len();
        self.tell_in_turn(Digested::Unordered(directory), path_bytes)
    }

    /// The walk goes on: a sink that is gone says so.
    pub(super) fn alive(&mut self) -> Result<()> {
        self.tell_what_came()?;
        self.say(Digested::Alive)
    }

    /// Tells what is next, as far as it has come.
    pub(super) fn tell_what_came(&mut self) -> Result<()> {
        while let Ok((number, digested)) = self.hear.try_recv() {
            self.early.insert(number, digested);
        }
        self.tell_next()
    }

    /// What needs no worker.
    fn tell_in_turn(&mut self, digested: Digested, path_bytes: usize) -> Result<()> {
        let number = self.number(path_bytes)?;
        self.early.insert(number, digested);
        self.tell_what_came()
    }

    /// The walk is over: waits for the rest.
    fn finish(&mut self) -> Result<()> {
        while self.told < self.given {
            self.wait()?;
        }
        Ok(())
    }

    /// The number of what is given next, once there is room for it.
    fn number(&mut self, path_bytes: usize) -> Result<u64> {
        while self.path_bytes.len() >= AHEAD_MAX || self.path_bytes_sum > AHEAD_PATH_BYTES {
            self.wait()?;
        }
        let number = self.given;
        self.given += 1;
        self.path_bytes.push_back(path_bytes);
        self.path_bytes_sum += path_bytes;
        Ok(number)
    }

    /// Waits for what a worker says, for a bounded time.
    fn wait(&mut self) -> Result<()> {
        match self.hear.recv_timeout(ALIVE_EVERY) {
            Ok((number, digested)) => drop(self.early.insert(number, digested)),
            // While there is work none ends, unless it breaks.
            Err(_) if self.workers.iter().any(ScopedJoinHandle::is_finished) => return Err(broken()),
            Err(_) => {}
        }
        self.tell_next()?;
        // Others may be done again and again while the next one takes long.
        if self.spoke.elapsed() >= ALIVE_EVERY { self.say(Digested::Alive) } else { Ok(()) }
    }

    fn tell_next(&mut self) -> Result<()> {
        while let Some(digested) = self.early.remove(&self.told) {
            self.told += 1;
            self.path_bytes_sum -= self.path_bytes.pop_front().unwrap_or(0);
            self.say(digested)?;
        }
        Ok(())
    }

    fn say(&mut self, digested: Digested) -> Result<()> {
        self.spoke = Instant::now();
        (self.sink)(digested)
    }
}

fn broken() -> Failure {
    Failure::new(FailureKind::Internal, "digest", "a thread that digests broke")
}
