//! A place that questions are asked about, and the session with its far mover, kept open between them.

use crate::failures::raise;
use crate::fork_guard::Ours;
use crate::reaching::Reaching;
use crate::waiting::on_a_thread;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};
use thalweg_client::events;
use thalweg_client::far_movers::FarMovers;
use thalweg_client::reach::Reach;
use thalweg_mover::endpoint::local::survey::{DigestAs, Found};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_wire::Evidence;

/// See the module.
#[pyclass(frozen)]
pub struct Session {
    place: OsString,
    reaching: Reaching,
    /// Another one when nobody waits any more for what this one asked: until that has an answer, it is not free.
    inner: Ours<Mutex<Arc<Mutex<Inner>>>>,
}

/// What shows, without reading it, that a file is still the one that was seen.
#[pyclass(frozen)]
pub struct Seen(Evidence);

#[pymethods]
impl Seen {
    /// Whether both were seen of the same file, with no change between.
    fn is_same(&self, other: &Bound<'_, Seen>) -> bool {
        self.0 == other.get().0
    }
}

struct Inner {
    reach: Option<Arc<Reach>>,
    far_movers: FarMovers,
}

impl Inner {
    /// Nothing is dialled yet.
    fn begin(reaching: &Reaching) -> Result<Arc<Mutex<Inner>>> {
        Ok(Arc::new(Mutex::new(Inner { reach: None, far_movers: reaching.to_ask()? })))
    }

    /// Where to ask, and whether the session with it is a new one.
    fn reach(&mut self, place: &OsStr) -> Result<(Arc<Reach>, bool)> {
        if let Some(reach) = &self.reach {
            return Ok((reach.clone(), false));
        }
        let reach = Arc::new(Reach::open(place, &mut self.far_movers)?);
        self.reach = Some(reach.clone());
        Ok((reach, true))
    }

    fn drop_if(&mut self, gone: &Arc<Reach>) {
        if self.reach.as_ref().is_some_and(|reach| Arc::ptr_eq(reach, gone)) {
            self.reach = None;
        }
    }
}

impl Session {
    /// Asks, by the session that there is or by a new one; once more if the old one turns out to be gone.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Fn(&Reach) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.ask_knowing(py, move |reach, _| work(reach))
    }

    /// The same, where `work` hears whether it is asked once more: what it asked before may have been done.
    fn ask_knowing<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Fn(&Reach, bool) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let inner = lock(self.inner.get(py)?).clone();
        let (asked, place) = (inner.clone(), self.place.clone());
        let answer = on_a_thread(py, None, move |stop| {
            let reach = || lock(&asked).reach(&place);
            let (there, is_fresh) = reach()?;
            match work(&there.until(stop), false) {
                Err(failure) if failure.kind == FailureKind::Connection && !is_fresh => {
                    lock(&asked).drop_if(&there);
                    work(&reach()?.0.until(stop), true)
                }
                answer => answer,
            }
        });
        if answer.is_err() {
            self.leave(&inner);
        }
        // Whoever drops it last ends the session.
        py.detach(move || drop(inner));
        answer?.map_err(|failure| raise(py, &failure))
    }

    /// The next question begins another session.
    fn leave(&self, left: &Arc<Mutex<Inner>>) {
        // The same options made this one.
        let Ok(another) = Inner::begin(&self.reaching) else { return };
        if let Some(held) = self.inner.there() {
            let mut held = lock(held);
            let there = &mut *held;
            if Arc::ptr_eq(there, left) {
                *there = another;
            }
        }
    }
}

/// The exports of the daemon at an address, `HOST:PORT`, and whether they may be written.
#[pyfunction]
pub fn exports(py: Python<'_>, address: String, reaching: Reaching) -> PyResult<Vec<(String, bool)>> {
    let told = on_a_thread(py, None, move |_| Reach::exports(address, None, &mut reaching.to_ask()?))?;
    told.map_err(|failure| raise(py, &failure))
}

#[pymethods]
impl Session {
    /// With the far mover of this place, which paths are relative to. Nothing is dialled yet.
    #[new]
    fn new(py: Python<'_>, place: OsString, reaching: Reaching) -> PyResult<Session> {
        let inner = Inner::begin(&reaching).map_err(|failure| raise(py, &failure))?;
        Ok(Session { place, reaching, inner: Ours::new(Mutex::new(inner)) })
    }

    /// What is at a path, as JSON texts: first itself, then, of a directory, what is in it; all levels if `recursive`.
    /// What could not be listed is raised: a part would pass for the whole.
    fn list(&self, py: Python<'_>, path: Vec<u8>, recursive: bool) -> PyResult<Vec<String>> {
        self.ask(py, move |reach| {
            let mut listed = Vec::new();
            let mut trouble = None;
            reach.below(&path).list(recursive, &mut |found| {
                match found {
                    Found::Entry(entry) => listed.push(events::listed(&entry).to_string()),
                    // It went meanwhile, and is in no listing any more.
                    Found::Trouble(failure)
                        if failure.kind == FailureKind::NotFound && !listed.is_empty() => {}
                    Found::Trouble(failure) => drop(trouble.get_or_insert(failure)),
                }
                Ok(())
            })?;
            trouble.map_or(Ok(listed), Err)
        })
    }

    /// What is at a path itself, a link as such, as JSON text, and what shows that it is still that.
    fn look(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<(String, Seen)> {
        let entry = self.ask(py, move |reach| reach.entry(&path))?;
        Ok((events::listed(&entry).to_string(), Seen(entry.evidence)))
    }

    /// At most `bytes` of a file from `offset` on, all of them of what was seen.
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: Vec<u8>,
        offset: u64,
        bytes: u64,
        seen: Option<Bound<'py, Seen>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let seen = seen.map(|seen| seen.get().0);
        let content = self.ask(py, move |reach| {
            let mut content = Vec::new();
            reach.below(&path).read_range(offset, bytes, seen, &mut |piece| {
                content.extend_from_slice(piece);
                Ok(())
            })?;
            Ok(content)
        })?;
        Ok(PyBytes::new(py, &content))
    }

    /// BLAKE3 of a file, read past the page cache where it is: 64 hexadecimal digits.
    fn digest(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<String> {
        let (_, digest) = self.ask(py, move |reach| reach.below(&path).digest_of_file(DigestAs::Plain))?;
        Ok(digest.to_string())
    }

    /// Removes what is at a path; how many entries went, and what could not, as JSON texts. What is not there any more
    /// after the link was lost went before it was: nobody heard how many that were.
    fn remove(&self, py: Python<'_>, path: Vec<u8>, recursive: bool) -> PyResult<(u64, Vec<String>)> {
        self.ask_knowing(py, move |reach, is_again| {
            let mut troubles = Vec::new();
            let mut tell =
                |failure: Failure| troubles.push(Value::Object(events::error(&failure)).to_string());
            let mut count = 0;
            match reach.below(&path).remove(recursive, &mut count, &mut tell) {
                Err(failure) if is_again && failure.kind == FailureKind::NotFound => {}
                ended => ended?,
            }
            Ok((count, troubles))
        })
    }

    /// Ends the session; the next question begins another. In a fork nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(held) = self.inner.there() {
                let inner = lock(held).clone();
                let reach = lock(&inner).reach.take();
                drop(reach);
            }
        });
    }
}
