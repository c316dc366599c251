//! Objects on their way to who reads them.
//!
//! A body is asked for up to where its reader will go on, and kept between two reads: one request for a chunk, not one
//! for each buffer. One that breaks is asked for again from the byte where it broke, of the same version.

use super::about::{etag, head, word};
use super::asking::{Refused, Wish};
use super::{Body, Head, Seen, Store};
use crate::answers::{http_time_of, http_time_words, quoted_etag};
use crate::http::{REQUESTS_MAX, Trouble};
use crate::retries::Budget;
use rusty_s3::Method;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;

const READ: &str = "read the object";

/// Bodies that are kept for the next read: one for each of as many threads as a far store is read by.
const BODIES_MAX: usize = REQUESTS_MAX;
/// A body that brought so much before it broke went on: what failed before counts no more.
const PROGRESS_BYTES: usize = 64 << 10;

impl Store {
    /// Fills `buffer` from byte `offset` on, of the version that was `seen`; tells how many bytes that were: fewer only
    /// at the object's end. `through` is up to where who reads will go on in order, exclusive: the next read that
    /// begins where this one ended goes on in the same body. As many bodies are kept as there are
    /// requests at most, then the oldest is given up.
    ///
    /// # Errors
    /// `Changed` if the object is another one by now; `NotFound` if it is gone; what the store says, if it refuses.
    pub fn read(
        &self,
        key: &str,
        seen: &Seen,
        offset: u64,
        through: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(seen.size);
        if offset >= end {
            return Ok(0);
        }
        // Fits: it is at most what the buffer has.
        let wanted = (end - offset) as usize;
        let through = through.clamp(end, seen.size);
        let mut budget = self.budget();
        let (mut filled, mut since) = (0, 0);
        while filled < wanted {
            let at = offset + filled as u64;
            let begun = Instant::now();
            let mut body = match self.kept(key, seen, at) {
                Some(body) => body,
                None => {
                    let body = self.body(key, seen, at, through, &mut budget);
                    body.map_err(|failure| failure.in_range(at, end))?
                }
            };
            let (got, trouble) = body.fill(&mut buffer[filled..wanted]);
            if trouble.is_none() && body.goes_on() {
                return Err(self.changed(key).in_range(at, end));
            }
            filled += got;
            since += got;
            let Some(trouble) = trouble else {
                self.keep(body);
                continue;
            };
            if since >= PROGRESS_BYTES {
                budget.refill();
                since = 0;
            }
            let took = if got > 0 { Duration::ZERO } else { begun.elapsed() };
            self.wait_behind(key, (offset + filled as u64, end), &trouble, took, &mut budget)?;
        }
        Ok(filled)
    }

    /// What stands at `key` now and its content, with one request: both of one version, and what is kept beside it as
    /// [`head`](Self::head) tells it. Without the content where that has more than `bytes_max` bytes, or the answer
    /// does not say how many. `None` if nothing has this key. One that breaks off is asked for again, as what it is
    /// then.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn fetch(&self, key: &str, bytes_max: usize) -> Result<Option<(Head, Option<Vec<u8>>)>> {
        let mut budget = self.budget();
        loop {
            let begun = Instant::now();
            let Some((head, body)) = self.whole(key, 0, &mut budget)? else { return Ok(None) };
            let Some(mut body) = body.filter(|body| body.through <= bytes_max as u64) else {
                return Ok(Some((head, None)));
            };
            // Fits: it is at most `bytes_max`.
            let mut buffer = vec![0; body.through as usize];
            let (filled, trouble) = body.fill(&mut buffer);
            let Some(trouble) = trouble else {
                self.keep(body);
                return Ok(Some((head, Some(buffer))));
            };
            let took = if filled > 0 { Duration::ZERO } else { begun.elapsed() };
            self.wait_behind(key, (filled as u64, body.through), &trouble, took, &mut budget)?;
        }
    }

    /// What stands at `key` now, as [`head`](Self::head) tells it, and its content on the way: who
    /// [reads](Self::read) that version from its first byte on soon sends no request. Not so where the content has more
    /// than `bytes_max` bytes, or the answer does not say how many. `None` if nothing has this key.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn begin_reading(&self, key: &str, bytes_max: u64) -> Result<Option<Head>> {
        let Some((head, body)) = self.whole(key, bytes_max, &mut self.budget())? else { return Ok(None) };
        if let Some(body) = body.filter(|body| body.through <= bytes_max) {
            self.keep(Body { is_ahead: true, ..body });
        }
        Ok(Some(head))
    }

    /// Gives up what [was begun](Self::begin_reading) and nobody reads yet; so does whoever waits to ask again.
    pub fn forget_begun(&self) {
        let mut bodies = lock(&self.bodies);
        let (ahead, rest) = bodies.drain(..).partition(|body| body.is_ahead);
        *bodies = rest;
        drop(bodies);
        // Outside of the lock: that may close connections.
        drop::<VecDeque<Body>>(ahead);
    }

    /// What stands at `key` now and all of its content, of about so many bytes, if the answer says how long it is.
    /// `None` if nothing has this key.
    fn whole(&self, key: &str, carries: u64, budget: &mut Budget) -> Result<Option<(Head, Option<Body>)>> {
        let mut wish = Wish::new(READ, "s3:GetObject", Method::Get, Some(key));
        (wish.words_max, wish.carries) = (None, carries);
        let got = match self.ask_within(&wish, budget) {
            Ok(got) => got,
            Err(Refused { status: 404, .. }) => return Ok(None),
            Err(refused) => return Err(refused.into()),
        };
        // With this one what a length says does not hold.
        let has_length = !got.headers.contains_key("transfer-encoding");
        let head = head(key, &got.headers).filter(|_| has_length && got.status == 200);
        let (Some(head), Some(content)) = (head, got.content) else {
            return Ok(self.head(key)?.map(|head| (head, None)));
        };
        let Seen { size: through, etag, modified, .. } = head.seen.clone();
        let (key, modified) = (key.to_owned(), modified.seconds);
        let body = Body { key, etag, modified, at: 0, through, shows_end: false, is_ahead: false, content };
        Ok(Some((head, Some(body))))
    }

    /// Waits until what broke off in front of a byte is to be asked for again, up to another.
    ///
    /// # Errors
    /// That it broke off, if that does not pass, or the patience is over.
    fn wait_behind(
        &self,
        key: &str,
        (at, end): (u64, u64),
        trouble: &Trouble,
        took: Duration,
        budget: &mut Budget,
    ) -> Result<()> {
        let words = format!("the object breaks off: {}", trouble.words);
        let failure = self.failure(FailureKind::Connection, READ, Some(key), words).because(trouble.reason);
        let failure = failure.in_range(at, end);
        if !trouble.passes || self.is_given_up() {
            return Err(failure);
        }
        let Some(wait) = budget.wait(took, None, None) else { return Err(failure) };
        self.forget_begun();
        tracing::debug!(%failure, ?wait, "the rest is asked for again");
        (self.surroundings.pause)(wait);
        Ok(())
    }

    /// A new body, from `at` to `through`.
    fn body(&self, key: &str, seen: &Seen, at: u64, through: u64, budget: &mut Budget) -> Result<Body> {
        let mut wish = Wish::new(READ, "s3:GetObject", Method::Get, Some(key));
        wish.headers.push(("range", format!("bytes={at}-{}", through - 1).into()));
        // Of a version without a name there is its time, if that is known.
        let written = Some(seen.modified.seconds).filter(|seconds| seen.etag.is_empty() && *seconds != 0);
        if !seen.etag.is_empty() {
            wish.headers.push(("if-match", quoted_etag(&seen.etag).into()));
        } else if let Some(words) = written.and_then(|seconds| http_time_words(seconds.saturating_add(1))) {
            // A store that shows whole seconds may compare with parts of one, and would refuse its own.
            wish.headers.push(("if-unmodified-since", words.into()));
        }
        (wish.words_max, wish.carries) = (None, through - at);
        let got = match self.ask_within(&wish, budget) {
            Ok(got) => got,
            Err(Refused { status: 412 | 416, .. }) => return Err(self.changed(key)),
            Err(refused) => return Err(refused.into()),
        };
        // A store that does not know the condition answers with what there is.
        let now = etag(&got.headers);
        if !seen.etag.is_empty() && !now.is_empty() && now != seen.etag {
            return Err(self.changed(key));
        }
        let now = word(&got.headers, "last-modified").and_then(http_time_of).map(|time| time.seconds);
        if now.is_some_and(|now| written.is_some_and(|written| now != written)) {
            return Err(self.changed(key));
        }
        // With this one what a length says does not hold.
        let has_length = !got.headers.contains_key("transfer-encoding");
        let length = word(&got.headers, "content-length").filter(|_| has_length);
        let length = length.and_then(|words| words.parse::<u64>().ok());
        // A store may give less than was asked for: then the rest is asked for when it is its turn.
        let through = match (got.status, word(&got.headers, "content-range").and_then(range)) {
            (206, Some((first, last, size))) => {
                if size.is_some_and(|size| size != seen.size) {
                    return Err(self.changed(key));
                }
                if first != at || last >= through {
                    return Err(self.nonsense(&wish, "it has another range than was asked for"));
                }
                if length.is_some_and(|length| length != last + 1 - first) {
                    return Err(self.nonsense(&wish, "its length is not that of its range"));
                }
                last + 1
            }
            // All of it, where all was asked for.
            (200, _) if at == 0 && through == seen.size => {
                if length.is_some_and(|length| length != seen.size) {
                    return Err(self.changed(key));
                }
                through
            }
            (200, _) => {
                return Err(self.nonsense(&wish, "it has all of the object, and a range was asked for"));
            }
            _ => return Err(self.nonsense(&wish, "it does not say which range it has")),
        };
        let content = got.content.ok_or_else(|| self.nonsense(&wish, "it has no content"))?;
        let (modified, shows_end) = (seen.modified.seconds, length.is_none());
        let (key, etag) = (key.to_owned(), seen.etag.clone());
        Ok(Body { key, etag, modified, at, through, shows_end, is_ahead: false, content })
    }

    fn changed(&self, key: &str) -> Failure {
        self.failure(FailureKind::Changed, READ, Some(key), "the object is another one by now")
    }

    /// The body of this version that goes on at this byte, if one is kept.
    fn kept(&self, key: &str, seen: &Seen, at: u64) -> Option<Body> {
        let is_it = |body: &Body| {
            let is_version = !seen.etag.is_empty() || body.modified == seen.modified.seconds;
            // Of one that was begun as what stood there nobody asked whether it is this version.
            let is_as_long = !body.is_ahead || body.through == seen.size;
            body.at == at && body.key == key && body.etag == seen.etag && is_version && is_as_long
        };
        let mut bodies = lock(&self.bodies);
        let place = bodies.iter().position(is_it)?;
        bodies.remove(place).map(|body| Body { is_ahead: false, ..body })
    }

    /// Keeps what somebody will go on with; of one at its end, the connection.
    fn keep(&self, mut body: Body) {
        if body.at >= body.through {
            // Only at the end of a body a connection is free for the next request.
            let _ = body.content.read(&mut [0]);
            return;
        }
        // Dropped outside of the lock: that may close a connection.
        let oldest = {
            let mut bodies = lock(&self.bodies);
            bodies.push_back(body);
            if bodies.len() > BODIES_MAX { bodies.pop_front() } else { None }
        };
        drop(oldest);
    }
}

impl Body {
    /// Reads into `buffer` until that is full or the body is at its end; tells how much, and what went wrong.
    fn fill(&mut self, buffer: &mut [u8]) -> (usize, Option<Trouble>) {
        let left = usize::try_from(self.through - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut filled = 0;
        while filled < wanted {
            match self.content.read(&mut buffer[filled..wanted]) {
                Ok(0) => return (filled, Some(Trouble::cut())),
                Ok(got) => {
                    filled += got;
                    self.at += got as u64;
                }
                Err(trouble) => return (filled, Some(trouble)),
            }
        }
        (filled, None)
    }

    /// Whether more comes behind what it was to have. Where a length was told, that is its end.
    fn goes_on(&mut self) -> bool {
        // A connection that breaks there has brought all of it.
        self.shows_end && self.at >= self.through && self.content.read(&mut [0]).is_ok_and(|got| got > 0)
    }
}

/// `bytes 0-9/100`: first and last byte, and the object's length if it is known.
fn range(words: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = words.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let size = if size == "*" { None } else { Some(size.parse().ok()?) };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_read_and_one_that_makes_no_sense_is_not() {
        assert_eq!(range("bytes 2-9/100"), Some((2, 9, Some(100))));
        assert_eq!(range("bytes 2-9/*"), Some((2, 9, None)));
        for bad in ["", "bytes */100", "bytes 9-2/100", "2-9/100", "bytes 2-9", "bytes 2-9/x"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_range_and_never_a_panic(words in "(bytes )?[-0-9/*]{0,48}") {
            let _ = range(&words);
        }
    }
}
