//! A place that questions are asked about, here, at a far mover or in a bucket: one face for all.

use crate::far_movers::{self, FarMovers, Whom};
use crate::objects::Bucket;
use crate::place::{Place, joined};
use far::{Cut, Far, stopped};
use position::Position;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thalweg_mover::endpoint::local::survey::{self, DigestAs, Digested, Found, Listed, Removed, SurveyPlace};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::run::client::{Answers, Client};
use thalweg_mover::run::copy::Stop;
use thalweg_wire::message::{self, PartOf, Question, Reply};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, Entry, Evidence, RelativePath};

/// Who is asked there, and over how many links.
mod far;

/// How far an answer was heard.
mod position;

/// See the module.
#[derive(Clone)]
pub struct Reach {
    at: At,
    /// See [`Reach::outlasting`].
    outlasts: bool,
    /// See [`Reach::following_links`].
    follow_links: bool,
    /// Ends questions.
    stop: Option<Arc<Stop>>,
}

#[derive(Clone)]
enum At {
    Local(PathBuf),
    Far(Arc<Far>, message::Place),
    Object(Bucket),
}

/// Bytes asked for at once, the next such piece being under way: bounds the memory of a slow reader.
const WINDOW_BYTES: u64 = 8 << 20;

impl Reach {
    /// A path of this machine.
    #[must_use]
    pub fn local(path: PathBuf) -> Reach {
        Reach::at(At::Local(path))
    }

    /// A place at a far mover, asked by this session alone.
    #[must_use]
    pub fn far(client: Arc<Client>, place: message::Place) -> Reach {
        Reach::at(At::Far(Arc::new(Far::new(client, None)), place))
    }

    fn at(at: At) -> Reach {
        Reach { at, outlasts: false, follow_links: false, stop: None }
    }

    /// A place in a bucket.
    #[must_use]
    pub fn object(bucket: Bucket) -> Reach {
        Reach::at(At::Object(bucket))
    }

    /// Whether it is a path of this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.at, At::Local(_))
    }

    /// The same place, of which questions end with `Stopped` once this is asked for: at the next entry or piece; while
    /// none comes of a far place, within a quarter of a second; of a large file that is digested here, within some
    /// seconds.
    #[must_use]
    pub fn until(&self, stop: &Arc<Stop>) -> Reach {
        Reach { stop: Some(stop.clone()), ..self.clone() }
    }

    /// The same place, of which listings, digests, looks and what is read as a whole outlast a link that is lost:
    /// another one is dialled, in a session of its own if need be, and the answer goes on behind what was heard, as
    /// long as something comes of it within the patience of questions, and something new within a bounded number of
    /// links. What comes or goes meanwhile is told once at most; of a file that changes meanwhile the rest is as it is
    /// by then. Here, and of a place that was made by [`Reach::far`], it changes nothing.
    #[must_use]
    pub fn outlasting(&self) -> Reach {
        Reach { outlasts: true, ..self.clone() }
    }

    /// How many links to its far mover were lost, in whose place another one came.
    #[must_use]
    pub fn links_lost(&self) -> u64 {
        match &self.at {
            At::Local(_) | At::Object(_) => 0,
            At::Far(far, _) => far.links_lost(),
        }
    }

    /// The same place, of which what symbolic links lead to is listed and digested instead of the links, if `follow`:
    /// as a copy with `--copy-links` finds it. From a daemon none that leads out of its export.
    #[must_use]
    pub fn following_links(self, follow: bool) -> Reach {
        Reach { follow_links: follow, ..self }
    }

    /// Reads a place and reaches it.
    ///
    /// # Errors
    /// `Usage` for what is no place to ask about; `Connection`, `Permission` if it cannot be reached.
    pub fn open(text: &OsStr, far_movers: &mut FarMovers) -> Result<Reach> {
        Reach::of(far_movers.named(text)?, far_movers)
    }

    /// Reaches a place.
    ///
    /// # Errors
    /// As [`Reach::open`].
    pub fn of(named: Place, far_movers: &mut FarMovers) -> Result<Reach> {
        if let Some((whom, place)) = Whom::of(&named).zip(far_movers::place_there(&named)) {
            let client = Arc::new(far_movers.dial(&whom)?);
            let far = Far::new(client, Some(far_movers.questions(&whom)?));
            return Ok(Reach::at(At::Far(Arc::new(far), place)));
        }
        match named {
            Place::Local(path) => Ok(Reach::local(path)),
            Place::Object { location, settings } => {
                Ok(Reach::object(far_movers.bucket(&location, &settings)?))
            }
            Place::Zero(_)
            | Place::Dataset(_)
            | Place::Null
            | Place::Simulated(_)
            | Place::Daemon { .. }
            | Place::Ssh { .. } => {
                let cause = "`zero:` and `null:` have nothing in them";
                Err(Failure::new(FailureKind::Usage, "read place", cause))
            }
        }
    }

    /// Refuses a path of this machine of which not even the first name is here: a far place may be meant, which is
    /// written in another way.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn refuse_misspelt(&self) -> Result<()> {
        let At::Local(path) = &self.at else { return Ok(()) };
        let mut parts = path.components();
        let (Some(Component::Normal(first)), Some(_)) = (parts.next(), parts.next()) else { return Ok(()) };
        match std::fs::symlink_metadata(first) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let [path, first] = [path.as_os_str(), first].map(|words| Escaped(words.as_bytes()));
                let cause = format!("`{path}`: there is no `{first}` here");
                Err(Failure::new(FailureKind::NotFound, "find the place", cause).because(Reason::NoPlace))
            }
            _ => Ok(()),
        }
    }

    /// The exports of the daemon at this address, and whether they may be written. `ticket`: what the configuration
    /// gives for it. A link that is lost is outlasted, as by a place that is [`outlasting`](Reach::outlasting).
    ///
    /// # Errors
    /// `Connection`, `Permission` if it cannot be reached.
    pub fn exports(
        address: String,
        ticket: Option<PathBuf>,
        far_movers: &mut FarMovers,
    ) -> Result<Vec<(String, bool)>> {
        let whom = Whom::Daemon(address, ticket);
        let client = Arc::new(far_movers.dial(&whom)?);
        let far = Far::new(client, Some(far_movers.questions(&whom)?));
        let mut all: Vec<(String, bool)> = Vec::new();
        let question = |_: &Position| Question::About;
        // All of them are asked for again where the link is lost.
        far.hear((true, &Stop::default()), &question, &mut |reply, at| match reply {
            Reply::About { exports, .. } => {
                for export in exports {
                    if !(at.is_again() && all.contains(&export)) {
                        all.push(export);
                    }
                }
                Ok(())
            }
            _ => Err(unexpected()),
        })?;
        Ok(all)
    }

    /// Reaches places, in their order; those at one far mover by one session.
    ///
    /// # Errors
    /// As [`Reach::open`], for the first that cannot be reached.
    pub fn all(named: Vec<Place>, far_movers: &mut FarMovers) -> Result<Vec<Reach>> {
        let mut known: Vec<(Whom, Arc<Far>)> = Vec::new();
        let mut reached = Vec::with_capacity(named.len());
        for named in named {
            let there = Whom::of(&named).zip(far_movers::place_there(&named));
            if let Some((whom, place)) = &there
                && let Some((_, far)) = known.iter().find(|(known, _)| known == whom)
            {
                reached.push(Reach::at(At::Far(far.clone(), place.clone())));
                continue;
            }
            let reach = Reach::of(named, far_movers)?;
            if let (Some((whom, _)), At::Far(far, _)) = (there, &reach.at) {
                known.push((whom, far.clone()));
            }
            reached.push(reach);
        }
        Ok(reached)
    }

    /// Lists it; see [`survey::list`].
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn list(&self, recursive: bool, sink: &mut dyn FnMut(Found) -> Result<()>) -> Result<()> {
        self.list_in_order(recursive, &mut |listed| match listed {
            Listed::Found(found) => sink(found),
            Listed::Unordered(_) => Ok(()),
        })
    }

    /// Lists it, and says where names come in no order; see [`survey::list_in_order`].
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn list_in_order(&self, recursive: bool, sink: &mut dyn FnMut(Listed) -> Result<()>) -> Result<()> {
        match &self.at {
            At::Local(path) => survey::list_in_order(&self.tree(path), recursive, &mut |listed| {
                self.go_on()?;
                sink(listed)
            }),
            At::Far(far, place) => {
                let follow_links = self.follow_links;
                let question = |at: &Position| Question::List {
                    place: place.clone(),
                    recursive,
                    follow_links,
                    after: at.after(),
                };
                self.hear(far, &question, &mut |reply, at| match reply {
                    Reply::Entries(entries) => {
                        entries.into_iter().try_for_each(|entry| match at.hear_path(&entry.path)? {
                            true => sink(Listed::Found(Found::Entry(entry))),
                            false => Ok(()),
                        })
                    }
                    Reply::Unordered(directory) => match at.hear_unordered(&directory) {
                        true => sink(Listed::Unordered(directory)),
                        false => Ok(()),
                    },
                    Reply::Trouble(failure) => match at.hear_trouble(&failure) {
                        true => sink(Listed::Found(Found::Trouble(failure))),
                        false => Ok(()),
                    },
                    _ => Err(unexpected()),
                })
            }
            At::Object(bucket) => bucket.list(recursive, &|| self.go_on(), sink),
        }
    }

    /// Digests the files in it; see [`survey::digest`].
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn digest(&self, how: DigestAs, sink: &mut dyn FnMut(Digested) -> Result<()>) -> Result<()> {
        self.digest_wanted(how, None, &|_| true, sink)
    }

    /// Digests the files in it whose paths are wanted; see [`survey::digest_wanted`]. A far mover is asked for all of
    /// them, or for those of a `part`, in which all that are wanted are then.
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn digest_wanted(
        &self,
        how: DigestAs,
        part: Option<PartOf>,
        wanted: &dyn Fn(&RelativePath) -> bool,
        sink: &mut dyn FnMut(Digested) -> Result<()>,
    ) -> Result<()> {
        match &self.at {
            At::Local(path) => {
                survey::digest_wanted(&self.tree(path), how, survey::WORKERS, wanted, &mut |digested| {
                    self.go_on()?;
                    sink(digested)
                })
            }
            At::Far(far, place) => {
                let chunk_bytes = match how {
                    DigestAs::Plain => 0,
                    DigestAs::Marked { segment_bytes } => segment_bytes,
                };
                let follow_links = self.follow_links;
                let question = |at: &Position| Question::Digest {
                    place: place.clone(),
                    chunk_bytes,
                    follow_links,
                    after: at.after(),
                    part,
                };
                self.hear(far, &question, &mut |reply, at| match reply {
                    Reply::Digests(digests) if digests.is_empty() => sink(Digested::Alive),
                    Reply::Digests(digests) => digests.into_iter().try_for_each(|(path, bytes, digest)| {
                        match at.hear_path(&path)? && wanted(&path) {
                            true => sink(Digested::File(path, bytes, digest)),
                            false => sink(Digested::Alive),
                        }
                    }),
                    Reply::Unordered(directory) => match at.hear_unordered(&directory) {
                        true => sink(Digested::Unordered(directory)),
                        false => Ok(()),
                    },
                    Reply::Trouble(failure) => match at.hear_trouble(&failure) {
                        true => sink(Digested::Trouble(failure)),
                        false => Ok(()),
                    },
                    _ => Err(unexpected()),
                })
            }
            At::Object(bucket) => bucket.digest_wanted(how, wanted, &|| self.go_on(), sink),
        }
    }

    /// Digest of the one file that this place is.
    ///
    /// # Errors
    /// As [`Reach::digest`], and the trouble with that file.
    pub fn digest_of_file(&self, how: DigestAs) -> Result<(u64, Digest)> {
        let mut found = None;
        self.digest(how, &mut |digested| match digested {
            Digested::File(path, bytes, digest) if path.depth() <= 1 => {
                found = Some((bytes, digest));
                Ok(())
            }
            Digested::Trouble(failure) => Err(failure),
            Digested::File(..) | Digested::Unordered(_) | Digested::Alive => Ok(()),
        })?;
        found.ok_or_else(|| Failure::new(FailureKind::NotFound, "digest", "it is no regular file"))
    }

    /// What stands at a path below this place (bytes, relative), without what is in it: a link there is the link. An
    /// empty path is the place itself, where a link that leads to a directory is that directory.
    ///
    /// # Errors
    /// As [`survey::look`], and what the connection says.
    pub fn entry(&self, path: &[u8]) -> Result<Entry> {
        self.below(path).look(path.is_empty())
    }

    /// What has the name of this place, as [`Reach::entry`] tells it, but a link is the link wherever it leads: unless
    /// a `/` ends the name, which means what it leads to.
    ///
    /// # Errors
    /// As [`Reach::entry`].
    pub fn itself(&self) -> Result<Entry> {
        let path = match &self.at {
            At::Local(path) => path.as_os_str().as_bytes(),
            At::Far(_, place) => place.path.as_slice(),
            // There are no links.
            At::Object(bucket) => return bucket.look(),
        };
        self.look(path.ends_with(b"/") || path.ends_with(b"/."))
    }

    fn look(&self, follow: bool) -> Result<Entry> {
        match &self.at {
            At::Local(path) => survey::look(&local(path), follow),
            At::Far(far, place) => {
                let mut seen = None;
                let question = |_: &Position| Question::Look { place: place.clone(), follow };
                // Heard to the end: a server works on a bounded number of questions at a time.
                self.hear(far, &question, &mut |reply, at| match reply {
                    Reply::Entries(entries) if seen.is_none() || at.is_again() => {
                        seen = entries.into_iter().next();
                        Ok(())
                    }
                    _ => Err(unexpected()),
                })?;
                seen.ok_or_else(unexpected)
            }
            At::Object(bucket) => bucket.look(),
        }
    }

    /// Reads the file that this place is.
    ///
    /// # Errors
    /// As [`survey::read`], and what the connection says.
    pub fn read(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let At::Far(far, place) = &self.at else { return self.read_range(0, u64::MAX, None, sink) };
        let mut offset = 0;
        loop {
            match self.read_ahead(&far.client(), place, &mut offset, sink) {
                Ok(()) => return Ok(()),
                Err(Cut::Lost(_)) if self.outlasts => {}
                Err(cut) => return Err(cut.failure()),
            }
            if self.read_window(far, place, &mut offset, sink)? {
                return Ok(());
            }
        }
    }

    /// Reads on from `offset`, which goes along, to the end, as long as this link stands.
    fn read_ahead(
        &self,
        client: &Client,
        place: &message::Place,
        offset: &mut u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> std::result::Result<(), Cut> {
        let ask = |offset| {
            let question = Question::Read { place: place.clone(), offset, bytes: WINDOW_BYTES, seen: None };
            self.ask(client, question).map_err(Cut::Lost)
        };
        let mut next = ask(*offset)?;
        loop {
            let end = offset.saturating_add(WINDOW_BYTES);
            let answers = std::mem::replace(&mut next, ask(end)?);
            hear_bytes(answers, offset, sink)?;
            if *offset < end {
                return Ok(());
            }
            *offset = end;
        }
    }

    /// Reads one more piece from `offset`, which goes along, over as many links as that takes. Whether it was the last.
    fn read_window(
        &self,
        far: &Far,
        place: &message::Place,
        offset: &mut u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let (at, end) = (Cell::new(*offset), offset.saturating_add(WINDOW_BYTES));
        let question = |_: &Position| {
            // Where its end alone was not heard: 0 would mean all.
            let bytes = end.saturating_sub(at.get()).max(1);
            Question::Read { place: place.clone(), offset: at.get(), bytes, seen: None }
        };
        self.hear(far, &question, &mut |reply, _| match reply {
            Reply::Bytes(bytes) => {
                at.set(at.get().saturating_add(bytes.len() as u64));
                sink(&bytes)
            }
            _ => Err(unexpected()),
        })?;
        *offset = at.get();
        Ok(*offset < end)
    }

    /// Reads at most `bytes` of the file that this place is, from `offset` on; fewer where it ends.
    ///
    /// # Errors
    /// As [`Reach::read`]; `Changed` if it is no more what was `seen`.
    pub fn read_range(
        &self,
        offset: u64,
        bytes: u64,
        seen: Option<Evidence>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        // 0 means all in the question.
        if bytes == 0 {
            return Ok(());
        }
        match &self.at {
            At::Local(path) => survey::read(&local(path), offset, bytes, seen, &mut |piece| {
                self.go_on()?;
                sink(piece)
            }),
            At::Far(far, place) => {
                let question = Question::Read { place: place.clone(), offset, bytes, seen };
                let answers = self.ask(&far.client(), question)?;
                hear_bytes(answers, &mut 0, sink).map_err(Cut::failure)
            }
            At::Object(bucket) => bucket.read(offset, bytes, seen, &|| self.go_on(), sink),
        }
    }

    /// Removes it. `count` grows by the entries that went, also where it fails; what could not go is told.
    ///
    /// # Errors
    /// As [`survey::remove`], and what the connection or the store says.
    pub fn remove(&self, recursive: bool, count: &mut u64, trouble: &mut dyn FnMut(Failure)) -> Result<()> {
        match &self.at {
            At::Local(path) => survey::remove(&local(path), recursive, &mut |removed| {
                match removed {
                    Removed::One => *count += 1,
                    Removed::Trouble(failure) => trouble(failure),
                }
                self.go_on()
            }),
            At::Far(far, place) => {
                let before = *count;
                let question = Question::Remove { place: place.clone(), recursive };
                for reply in self.ask(&far.client(), question)? {
                    match reply? {
                        Reply::Removed(so_far) => *count = before.saturating_add(so_far),
                        Reply::Trouble(failure) => trouble(failure),
                        _ => return Err(unexpected()),
                    }
                }
                Ok(())
            }
            At::Object(bucket) => bucket.remove(recursive, count, &|| self.go_on(), trouble),
        }
    }

    /// A place below this one, by the same connection; `path` is bytes, relative.
    #[must_use]
    pub fn below(&self, path: &[u8]) -> Reach {
        let at = match &self.at {
            At::Local(base) => {
                let base = base.clone().into_os_string().into_vec();
                At::Local(OsString::from_vec(joined(base, path)).into())
            }
            At::Far(far, place) => {
                let path = joined(place.path.clone(), path);
                At::Far(far.clone(), message::Place { export: place.export.clone(), path })
            }
            At::Object(bucket) => At::Object(bucket.below(path)),
        };
        Reach { at, ..self.clone() }
    }

    /// What is listed and digested at a path of this machine.
    fn tree(&self, path: &Path) -> SurveyPlace {
        SurveyPlace { follow_links: self.follow_links, ..local(path) }
    }

    /// See [`Far::hear`].
    fn hear(
        &self,
        far: &Far,
        question: &dyn Fn(&Position) -> Question,
        take: &mut dyn FnMut(Reply, &mut Position) -> Result<()>,
    ) -> Result<()> {
        let stop = self.stop.clone().unwrap_or_default();
        far.hear((self.outlasts, &*stop), question, take)
    }

    fn ask(&self, client: &Client, question: Question) -> Result<Heard<'_>> {
        Ok(Heard { answers: client.ask(question)?, reach: self })
    }

    /// Fails once it is asked to stop.
    fn go_on(&self) -> Result<()> {
        match self.stop.as_ref().is_some_and(|stop| stop.is_asked()) {
            true => Err(stopped()),
            false => Ok(()),
        }
    }
}

/// The pieces of an answer, until it is asked to stop; the rest is not asked for then.
struct Heard<'a> {
    answers: Answers,
    reach: &'a Reach,
}

impl Heard<'_> {
    /// Why it ended: a connection may be lost at the other end alone, which then says so over another one.
    fn cut(&self, failure: Failure) -> Cut {
        let is_lost = failure.kind == FailureKind::Connection || !self.answers.has_link();
        match is_lost && failure.kind != FailureKind::Stopped {
            true => Cut::Lost(failure),
            false => Cut::Final(failure),
        }
    }
}

impl Iterator for Heard<'_> {
    type Item = Result<Reply>;

    fn next(&mut self) -> Option<Result<Reply>> {
        let reach = self.reach;
        if let Err(stopped) = reach.go_on() {
            return Some(Err(stopped));
        }
        match self.answers.piece(&|| reach.go_on().is_err()) {
            // The end, or it was given up.
            None => reach.go_on().err().map(Err),
            piece => piece,
        }
    }
}

/// `offset` grows by the bytes that came.
fn hear_bytes(
    mut answers: Heard<'_>,
    offset: &mut u64,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Cut> {
    while let Some(reply) = answers.next() {
        match reply {
            Ok(Reply::Bytes(bytes)) => {
                *offset = offset.saturating_add(bytes.len() as u64);
                sink(&bytes).map_err(Cut::Final)?;
            }
            Ok(_) => return Err(Cut::Final(unexpected())),
            Err(failure) => return Err(answers.cut(failure)),
        }
    }
    Ok(())
}

fn local(path: &Path) -> SurveyPlace {
    SurveyPlace { path: path.to_owned(), below: None, follow_links: false }
}

fn unexpected() -> Failure {
    Failure::new(FailureKind::Protocol, "ask the server", "the server answered another question")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_stopped_ends_at_the_next_entry_or_piece() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(tree.join(name), vec![0; 2 * survey::PIECE_BYTES]).unwrap();
        }
        let place = Reach::local(tree.clone());
        let (mut entries, mut pieces, mut removed) = (0, 0, 0);
        let stop: Arc<Stop> = Arc::default();
        let listed = place.until(&stop).list(true, &mut |_| {
            entries += 1;
            stop.stop();
            Ok(())
        });
        let stop: Arc<Stop> = Arc::default();
        let read = place.until(&stop).below(b"a").read(&mut |_| {
            pieces += 1;
            stop.stop();
            Ok(())
        });
        let digested = place.until(&stop).below(b"a").digest_of_file(DigestAs::Plain).map(drop);
        let gone = place.until(&stop).remove(true, &mut removed, &mut |failure| panic!("{failure}"));
        for ended in [listed, read, digested, gone] {
            assert_eq!(ended.unwrap_err().kind, FailureKind::Stopped);
        }
        assert_eq!((entries, pieces, removed), (1, 1, 1));
        assert_eq!(std::fs::read_dir(&tree).unwrap().count(), 2);
    }
}
