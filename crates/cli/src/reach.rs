//! A place that questions are asked about, here or at a far mover: one face for both.

use crate::args::AskArgs;
use crate::fars::{self, Fars, How, Whom};
use crate::place::{Named, Places};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_mover::endpoint::local::survey::{self, DigestAs, Digested, Found, Removed, SurveyPlace};
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::client::{Client, LinkSettings};
use thalweg_wire::message::{Place, Question, Reply};
use thalweg_wire::{Digest, Kind, RelativePath};

/// See the module.
pub enum Reach {
    /// A path of this machine.
    Local(PathBuf),
    /// A place at a far mover.
    Far(Box<Client>, Place),
}

/// For how long a far mover that ssh started waits for us after an outage: an answer that was cut off is not resumed.
const FAR_PATIENCE: Duration = Duration::from_secs(30);

/// Far movers for the places of a command that only asks.
pub fn fars<'a>(args: &'a AskArgs, places: &'a Places) -> Fars<'a> {
    let patience = FAR_PATIENCE;
    // What the way to data streams costs is no concern of who only asks.
    let how = How {
        places,
        ticket: args.ticket.as_deref(),
        ssh: &args.ssh,
        patience,
        stall_timeout: patience,
        state: None,
        quiet: true,
        via: &[],
        bind: &[],
    };
    Fars::new(how)
}

/// Bytes asked for at once, the next such piece being under way: bounds the memory of a slow reader.
const WINDOW_BYTES: u64 = 8 << 20;

impl Reach {
    /// Reads a place and reaches it.
    ///
    /// # Errors
    /// `Usage` for what is no place to ask about; `Connection`, `Permission` if it cannot be reached.
    pub fn open(text: &OsStr, fars: &mut Fars<'_>) -> Result<Reach> {
        let named = fars.named(text)?;
        if let Some((whom, place)) = Whom::of(&named).zip(fars::place_there(&named)) {
            let client = fars.reach(&whom)?.far.dial(LinkSettings::default(), event::nobody())?;
            return Ok(Reach::Far(Box::new(client), place));
        }
        match named {
            Named::Local(path) => Ok(Reach::Local(path)),
            _ => {
                let cause = "`zero:` and `null:` have nothing in them";
                Err(Failure::new(FailureKind::Usage, "read place", cause))
            }
        }
    }

    /// Lists it; see [`survey::list`].
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn list(&self, recursive: bool, sink: &mut dyn FnMut(Found) -> Result<()>) -> Result<()> {
        match self {
            Reach::Local(path) => survey::list(&local(path), recursive, sink),
            Reach::Far(client, place) => {
                for reply in client.ask(Question::List { place: place.clone(), recursive })? {
                    match reply? {
                        Reply::Entries(entries) => {
                            entries.into_iter().try_for_each(|entry| sink(Found::Entry(entry)))?;
                        }
                        Reply::Trouble(failure) => sink(Found::Trouble(failure))?,
                        _ => return Err(unexpected()),
                    }
                }
                Ok(())
            }
        }
    }

    /// Digests the files in it; see [`survey::digest`].
    ///
    /// # Errors
    /// As there, and what the connection says.
    pub fn digest(&self, how: DigestAs, sink: &mut dyn FnMut(Digested) -> Result<()>) -> Result<()> {
        match self {
            Reach::Local(path) => survey::digest(&local(path), how, sink),
            Reach::Far(client, place) => {
                let chunk_bytes = match how {
                    DigestAs::Plain => 0,
                    DigestAs::Marked { segment_bytes } => segment_bytes,
                };
                for reply in client.ask(Question::Digest { place: place.clone(), chunk_bytes })? {
                    match reply? {
                        Reply::Digests(digests) => {
                            digests.into_iter().try_for_each(|(path, bytes, digest)| {
                                sink(Digested::File(path, bytes, digest))
                            })?
                        }
                        Reply::Trouble(failure) => sink(Digested::Trouble(failure))?,
                        _ => return Err(unexpected()),
                    }
                }
                Ok(())
            }
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
            Digested::File(..) | Digested::Alive => Ok(()),
        })?;
        found.ok_or_else(|| Failure::new(FailureKind::NotFound, "digest", "it is no regular file"))
    }

    /// What stands here, without what is in it.
    ///
    /// # Errors
    /// `NotFound` and others.
    pub fn kind(&self) -> Result<Kind> {
        let mut first = None;
        let looked = self.list(false, &mut |found| match found {
            Found::Entry(entry) => {
                first.get_or_insert(entry.kind);
                // Enough was heard.
                Err(Failure::new(FailureKind::Stopped, "look", ""))
            }
            Found::Trouble(failure) => Err(failure),
        });
        match (first, looked) {
            (Some(kind), _) => Ok(kind),
            (None, Err(failure)) => Err(failure),
            (None, Ok(())) => {
                Err(Failure::new(FailureKind::Unsupported, "look", "it is of a kind that is not listed"))
            }
        }
    }

    /// Reads the file that this place is.
    ///
    /// # Errors
    /// As [`survey::read`], and what the connection says.
    pub fn read(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Reach::Local(path) => survey::read(&local(path), 0, 0, sink),
            Reach::Far(client, place) => FarBelow { client, place: place.clone() }.read(sink),
        }
    }

    /// Removes it. Returns how many entries went; what could not go is told.
    ///
    /// # Errors
    /// As [`survey::remove`], and what the connection says.
    pub fn remove(&self, recursive: bool, trouble: &mut dyn FnMut(Failure)) -> Result<u64> {
        let mut count = 0;
        match self {
            Reach::Local(path) => survey::remove(&local(path), recursive, &mut |removed| {
                match removed {
                    Removed::One => count += 1,
                    Removed::Trouble(failure) => trouble(failure),
                }
                Ok(())
            })?,
            Reach::Far(client, place) => {
                for reply in client.ask(Question::Remove { place: place.clone(), recursive })? {
                    match reply? {
                        Reply::Removed(so_far) => count = so_far,
                        Reply::Trouble(failure) => trouble(failure),
                        _ => return Err(unexpected()),
                    }
                }
            }
        }
        Ok(count)
    }

    /// A place below this one, by the same connection, for as long as `work` takes.
    pub fn with_below<T>(&self, path: &RelativePath, work: impl FnOnce(&dyn Below) -> T) -> T {
        match self {
            Reach::Local(base) => {
                let below = match path.is_root() {
                    true => base.clone(),
                    false => base.join(OsString::from_vec(path.as_bytes().to_vec())),
                };
                work(&Reach::Local(below))
            }
            Reach::Far(client, place) => {
                let mut bytes = place.path.clone();
                if !bytes.is_empty() && !bytes.ends_with(b"/") && !path.is_root() {
                    bytes.push(b'/');
                }
                bytes.extend_from_slice(path.as_bytes());
                work(&FarBelow { client, place: Place { export: place.export.clone(), path: bytes } })
            }
        }
    }
}

/// What can be asked about a place below another.
pub trait Below {
    /// See [`Reach::kind`].
    fn kind(&self) -> Result<Kind>;
    /// See [`Reach::digest_of_file`].
    fn digest_of_file(&self, how: DigestAs) -> Result<(u64, Digest)>;
    /// See [`Reach::read`].
    fn read(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

impl Below for Reach {
    fn kind(&self) -> Result<Kind> {
        Reach::kind(self)
    }

    fn digest_of_file(&self, how: DigestAs) -> Result<(u64, Digest)> {
        Reach::digest_of_file(self, how)
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Reach::read(self, sink)
    }
}

struct FarBelow<'a> {
    client: &'a Client,
    place: Place,
}

impl Below for FarBelow<'_> {
    fn kind(&self) -> Result<Kind> {
        let mut first = None;
        // Heard to the end: a server works on a bounded number of questions at a time.
        for reply in self.client.ask(Question::List { place: self.place.clone(), recursive: false })? {
            match reply? {
                Reply::Entries(entries) => first = first.or(entries.into_iter().next()),
                Reply::Trouble(_) if first.is_some() => {}
                Reply::Trouble(failure) => return Err(failure),
                _ => return Err(unexpected()),
            }
        }
        first
            .map(|entry| entry.kind)
            .ok_or_else(|| Failure::new(FailureKind::NotFound, "look", "it is not listed"))
    }

    fn digest_of_file(&self, how: DigestAs) -> Result<(u64, Digest)> {
        let chunk_bytes = match how {
            DigestAs::Plain => 0,
            DigestAs::Marked { segment_bytes } => segment_bytes,
        };
        let mut found = None;
        for reply in self.client.ask(Question::Digest { place: self.place.clone(), chunk_bytes })? {
            match reply? {
                Reply::Digests(digests) => {
                    found = digests.into_iter().find(|(path, ..)| path.depth() <= 1).or(found);
                }
                Reply::Trouble(failure) => return Err(failure),
                _ => return Err(unexpected()),
            }
        }
        let missing = || Failure::new(FailureKind::NotFound, "digest", "it is no regular file");
        found.map(|(_, bytes, digest)| (bytes, digest)).ok_or_else(missing)
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (client, place) = (self.client, &self.place);
        let ask = |offset| client.ask(Question::Read { place: place.clone(), offset, bytes: WINDOW_BYTES });
        let mut offset = 0;
        let mut next = ask(offset)?;
        loop {
            let answers = std::mem::replace(&mut next, ask(offset + WINDOW_BYTES)?);
            let mut got = 0;
            for reply in answers {
                match reply? {
                    Reply::Bytes(bytes) => {
                        got += bytes.len() as u64;
                        sink(&bytes)?;
                    }
                    _ => return Err(unexpected()),
                }
            }
            if got < WINDOW_BYTES {
                return Ok(());
            }
            offset += WINDOW_BYTES;
        }
    }
}

fn local(path: &Path) -> SurveyPlace {
    SurveyPlace { path: path.to_owned(), below: None }
}

fn unexpected() -> Failure {
    Failure::new(FailureKind::Protocol, "ask", "the server answered another question")
}
