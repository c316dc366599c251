//! What is listed and looked at ahead of whoever takes it: pages one after the other, and objects many at once.

use super::known::{Content, Taken};
use super::{First, ObjectSource, READ, READS_AT_ONCE, Shown, Version};
use crate::store::{About, Head, Listed, Seen, requests_at_once};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::Duration;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::limits;

/// Objects looked at, at once, of a bucket that is near: one look takes a round trip. More where it is far:
/// [`requests_at_once`].
const LOOKS_NEAR: usize = 32;
/// Looks that wait for one before them, or for whoever takes what was found: one may take as long as many others.
const LOOKS_AHEAD: usize = 1024;
/// Content up to this length comes with the look at an object: a segment of whatever size holds it.
pub(super) const AHEAD_BYTES_MAX: u64 = limits::SEGMENT_BYTES_MIN;
/// Of so many first objects those that take one request are on the way as soon as they are looked at: one for each
/// stream that reads ([`READS_AT_ONCE`]).
const BEGUN_AHEAD: usize = READS_AT_ONCE as usize;
/// So long whoever offers waits for one look. Then what is on the way is given up: a store that answers few at once may
/// have nobody left for that look.
pub(super) const LOOK_WAITS: Duration = Duration::from_secs(5);
/// Pages that wait for whoever takes them next.
const PAGES_AHEAD: usize = 1;

impl ObjectSource {
    /// Begins to list and to look, in threads that end when what they hand on goes. Of a single object there is nothing
    /// to begin.
    pub(super) fn begin<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> io::Result<Ahead> {
        let (lists, pages) = sync_channel(PAGES_AHEAD);
        let (tell, looks) = sync_channel(LOOKS_AHEAD);
        let is_over = Arc::new(AtomicBool::new(false));
        if !self.is_single {
            let over = is_over.clone();
            let lister = move || self.list_into(&lists);
            let looker = move || self.look_into(scope, &pages, &tell, &over);
            start(scope, "list", lister).and_then(|()| start(scope, "looks", looker))?;
        }
        Ok(Ahead { looks, is_over })
    }

    /// Hands on page after page, until nobody takes them any more.
    fn list_into(&self, pages: &SyncSender<Result<Vec<Listed>>>) {
        let mut after = None;
        let mut first = match self.first() {
            Some(First::Page(page)) => Some(page),
            _ => None,
        };
        loop {
            let listed =
                first.take().map_or_else(|| self.bucket.list(&self.base, false, after.as_deref()), Ok);
            match listed {
                Err(failure) => {
                    let _ = pages.send(Err(failure));
                    return;
                }
                Ok(page) => {
                    after = page.next;
                    if pages.send(Ok(page.objects)).is_err() || after.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Has the objects of each page looked at, so many at once, and hands on in their order where what is found comes.
    /// Of a store that is away the rest is not asked for.
    fn look_into<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        pages: &Receiver<Result<Vec<Listed>>>,
        looks: &SyncSender<Look>,
        is_over: &Arc<AtomicBool>,
    ) {
        // Not more than there are looks that wait.
        let (asks, asked) = channel();
        let asked = Arc::new(Mutex::new(asked));
        let (mut threads, mut is_last) = (0, false);
        let mut begun = BEGUN_AHEAD;
        for page in pages {
            let listed = match page {
                Ok(listed) => listed,
                Err(failure) => {
                    let _ = looks.send(Err(failure));
                    return;
                }
            };
            for listed in listed {
                if let Some(failure) = self.bucket.lost() {
                    let _ = looks.send(Err(failure));
                    return;
                }
                let (tell, told) = sync_channel(1);
                if looks.send(Ok(told)).is_err() {
                    return;
                }
                let begins = begun > 0;
                begun = begun.saturating_sub(1);
                let ask = Ask { listed, begins, tell };
                let takes_a_request = !self.server_times || is_archived(&ask.listed.seen);
                if takes_a_request && !is_last && threads < self.looks_at_once() {
                    let (asked, is_over) = (asked.clone(), is_over.clone());
                    let work = move || self.look_each(&asked, &is_over);
                    // Where there are no more to be had, it is those.
                    is_last = start(scope, "look", work).is_err();
                    threads += usize::from(!is_last);
                }
                if !takes_a_request || threads == 0 {
                    self.answer(ask);
                } else if asks.send(ask).is_err() {
                    return;
                }
            }
        }
    }

    fn looks_at_once(&self) -> usize {
        requests_at_once(self.bucket.answers_in(), AHEAD_BYTES_MAX, LOOKS_NEAR)
    }

    /// Looks at one after the other, until there are no more or nobody wants them.
    fn look_each(&self, asked: &Mutex<Receiver<Ask>>, is_over: &AtomicBool) {
        loop {
            let next = lock(asked).recv();
            match next {
                Ok(ask) if !is_over.load(Ordering::Relaxed) => self.answer(ask),
                _ => return,
            }
        }
    }

    fn answer(&self, Ask { listed, begins, tell }: Ask) {
        let result = self.find(&listed, begins);
        // Nobody waits for it where the scan was stopped.
        let _ = tell.send(Looked { key: listed.key, result });
    }

    /// What was found of an object that is looked at, when that is known.
    ///
    /// # Errors
    /// If whoever looks panicked.
    pub(super) fn hear(&self, told: &Receiver<Looked>) -> std::result::Result<Looked, RecvError> {
        loop {
            match told.recv_timeout(self.look_waits) {
                Err(RecvTimeoutError::Timeout) => {
                    self.begins_ahead.store(false, Ordering::Relaxed);
                    self.bucket.forget_begun();
                }
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                Ok(looked) => return Ok(looked),
            }
        }
    }

    /// What an object of a page is; nothing if it went since it was listed. `begins`: its content is to be on the way.
    fn find(&self, listed: &Listed, begins: bool) -> Result<Option<Shown>> {
        if is_archived(&listed.seen)
            && listed.seen.size > 0
            && let Err(failure) = self.bucket.read(&listed.key, &listed.seen, 0, 1, &mut [0])
            && failure.kind != FailureKind::Changed
        {
            return Err(archived(&failure, &listed.seen));
        }
        if self.server_times {
            let version = Version { seen: listed.seen.clone(), mtime: None };
            return Ok(Some(Shown { version, about: About::default(), content: None }));
        }
        let shown = |head: Head, content| {
            let version = self.version_of(&head);
            Shown { version, about: head.about, content }
        };
        if let Some((bytes, room)) = self.room_ahead(listed) {
            match self.bucket.fetch(&listed.key, bytes) {
                Ok(found) => {
                    return Ok(found.map(|(head, bytes)| {
                        let content = bytes.filter(|bytes| bytes.len() as u64 == head.seen.size);
                        shown(head, content.map(|bytes| Content { bytes, _room: room }))
                    }));
                }
                Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
                // Who reads it is told, if it is read.
                Err(_) => {}
            }
        } else if begins && self.begins_ahead.load(Ordering::Relaxed) && self.is_read_whole(listed) {
            let found = self.bucket.begin_reading(&listed.key, self.chunk_bytes);
            let is_wanted = self.begins_ahead.load(Ordering::Relaxed) && self.is_read_whole(listed);
            if !is_wanted {
                // It was asked for when it was, and came behind what gave it up.
                self.bucket.forget_begun();
            }
            match found {
                Err(failure) if failure.kind != FailureKind::Connection => {}
                found => return Ok(found?.map(|head| shown(head, None))),
            }
        }
        Ok(self.bucket.head(&listed.key)?.map(|head| shown(head, None)))
    }

    /// Whether it is likely that an object will be read, with one request.
    fn is_read_whole(&self, listed: &Listed) -> bool {
        let is_marker = listed.key.ends_with('/');
        let is_likely = self.reads_are_likely.load(Ordering::Relaxed);
        is_likely && !is_marker && !is_archived(&listed.seen) && listed.seen.size <= self.chunk_bytes
    }

    /// How many bytes of an object come with the look at it, and room for them, if they are to.
    fn room_ahead(&self, listed: &Listed) -> Option<(usize, Taken)> {
        if listed.seen.size > AHEAD_BYTES_MAX || !self.is_read_whole(listed) {
            return None;
        }
        let bytes = usize::try_from(listed.seen.size).ok()?;
        Some((bytes, self.room.take(bytes)?))
    }
}

/// Classes of which an object is read only after it was restored.
fn is_archived(seen: &Seen) -> bool {
    matches!(seen.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
}

fn archived(failure: &Failure, seen: &Seen) -> Failure {
    let class = seen.storage_class.as_deref().unwrap_or_default();
    let cause = format!(
        "it is archived ({class}): have it restored first, as by `aws s3api restore-object`: {}",
        failure.cause
    );
    Failure::new(failure.kind, READ, cause)
}
/// An object that is to be looked at, and who hears of it.
struct Ask {
    listed: Listed,
    /// Its content is to be on the way.
    begins: bool,
    tell: SyncSender<Looked>,
}

/// Where what is found of an object comes.
pub(super) type Look = Result<Receiver<Looked>>;

/// Objects that are looked at ahead, in their order. When it goes nobody looks any more.
pub(super) struct Ahead {
    pub(super) looks: Receiver<Look>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// An object of a page, and what was found of it; nothing if it is gone.
pub(super) struct Looked {
    pub(super) key: String,
    pub(super) result: Result<Option<Shown>>,
}

/// Starts a thread of a scan.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map(drop)
}
