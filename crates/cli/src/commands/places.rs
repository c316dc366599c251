//! `thalweg ls`, `du`, `cat` and `rm`.

use crate::args::places::{CatArgs, DuArgs, LsArgs, RmArgs};
use crate::exit::Exit;
use crate::place::{Place, Places, daemon_alone};
use crate::{json, out, show, units};
use std::ffi::{OsStr, OsString};
use thalweg_client::far_movers::{self, FarMovers};
use thalweg_client::inodes::Inodes;
use thalweg_client::reach::Reach;
use thalweg_mover::endpoint::local::survey::{DigestAs, Found};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, Entry, Kind};

/// `thalweg ls`. A daemon alone has exports.
///
/// # Errors
/// When the place cannot be listed at all.
pub fn ls(args: &LsArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::new(args.ask.json);
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    if let Some((address, ticket)) = daemon_alone(&args.place, places) {
        return exports(args, Reach::exports(address, ticket, &mut far_movers)?);
    }
    let reach = Reach::open(&args.place, &mut far_movers)?.following_links(args.dereference).outlasting();
    let listed = reach.list(args.recursive, &mut |found| {
        let entry = match found {
            Found::Entry(entry) if entry.path.is_root() && !args.ask.json => return Ok(()),
            Found::Entry(entry) => entry,
            Found::Trouble(failure) => {
                troubles.add(&failure);
                return Ok(());
            }
        };
        match (args.ask.json, args.long) {
            (true, _) => json::line(&json::listed(&entry)),
            (false, true) => out::line(&long(&entry)),
            (false, false) => {
                out::line(&format!("{}{}", entry.path, if is_directory(&entry) { "/" } else { "" }))
            }
        }
    });
    troubles.end(listed)
}

fn exports(args: &LsArgs, exports: Vec<(String, bool)>) -> Result<Exit> {
    if args.recursive {
        let cause = "a daemon alone lists its exports: name one of them for what is in it";
        return Err(Failure::new(FailureKind::Usage, "list", cause));
    }
    let told = exports.into_iter().try_for_each(|(name, writable)| {
        let shown = Escaped(name.as_bytes());
        match (args.ask.json, args.long) {
            (true, _) => json::line(
                &serde_json::json!({"event": "export", "name": shown.to_string(), "writable": writable}),
            ),
            (false, true) => out::line(&format!("{} {shown}/", if writable { "rw" } else { "ro" })),
            (false, false) => out::line(&format!("{shown}/")),
        }
    });
    out::printed(told, Exit::Done)
}

/// `thalweg du`.
///
/// # Errors
/// When the place cannot be listed at all.
pub fn du(args: &DuArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::new(args.ask.json);
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let reach = Reach::open(&args.place, &mut far_movers)?.following_links(args.dereference).outlasting();
    let mut inodes = Inodes::default();
    let (mut bytes, mut files, mut entries) = (0u64, 0u64, 0u64);
    let listed = reach.list(true, &mut |found| {
        match found {
            Found::Entry(entry) => {
                entries += 1;
                if matches!(entry.kind, Kind::File { .. }) && inodes.is_new(&entry) {
                    files += 1;
                    bytes = bytes.saturating_add(entry.content_bytes());
                }
            }
            Found::Trouble(failure) => troubles.add(&failure),
        }
        Ok(())
    });
    let exit = troubles.end(listed)?;
    let told = match args.ask.json {
        true => json::line(
            &serde_json::json!({"event": "usage", "bytes": bytes, "files": files, "entries": entries}),
        ),
        false => out::line(&format!(
            "{} ({}) in {}, {}",
            units::size(bytes),
            units::counted(bytes, "byte", "bytes"),
            units::files(files),
            units::entries(entries)
        )),
    };
    out::printed(told, exit)
}

/// `thalweg cat`: prints files, each compared with what the other side digests. One that cannot be read, or differs,
/// does not keep the others, unless the far side is gone.
///
/// # Errors
/// When a place makes no sense or cannot be reached; when the output cannot be written; when there is one file, and
/// that fails.
pub fn cat(args: &CatArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::aside(args.ask.json);
    let (mut failed, mut has_printed) = (Vec::new(), false);
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let reaches = open_all(&args.places, &mut far_movers, |_| true)?;
    let reaches: Vec<Reach> = reaches.iter().map(Reach::outlasting).collect();
    for (reach, place) in reaches.iter().zip(&args.places) {
        let mut hasher = blake3::Hasher::new();
        let mut unwritten = None;
        let read = reach.read(&mut |bytes| {
            hasher.update(bytes);
            has_printed |= !bytes.is_empty();
            out::write(bytes).inspect_err(|failure| unwritten = Some(failure.clone()))
        });
        let flushed = out::flush();
        if out::is_closed() {
            return Ok(Exit::Done);
        }
        // Where nothing more can be printed the other files are of no use.
        unwritten.map_or(flushed, Err)?;
        let printed = Digest(*hasher.finalize().as_bytes());
        match read.and_then(|()| compare_printed(reach, printed)) {
            // Of an empty file nothing is all there is.
            Ok(()) => has_printed = true,
            Err(failure) if reaches.len() == 1 => return Err(failure),
            Err(failure) => {
                failed.push(failure.kind);
                troubles.add_at(place, &failure);
                // Each further one would wait as long, and come behind half a file.
                if failure.kind == FailureKind::Connection {
                    break;
                }
            }
        }
    }
    Ok(match has_printed {
        true => Exit::of_entries(failed.into_iter()),
        false => failed.into_iter().map(Exit::of).fold(Exit::Done, Exit::worst),
    })
}

fn compare_printed(reach: &Reach, printed: Digest) -> Result<()> {
    let (_, theirs) = reach.digest_of_file(DigestAs::Plain)?;
    if printed == theirs {
        return Ok(());
    }
    let cause =
        format!("what was printed has the digest {printed}, the file {theirs}: it changed, or was damaged");
    Err(Failure::new(FailureKind::Damage, "compare digests", cause))
}

/// `thalweg rm`. All places are read and reached before anything is removed: what cannot be named costs nothing that
/// could be. A place of which nothing can be removed does not keep the others.
///
/// # Errors
/// When a place makes no sense, cannot be reached or has no name of its own; then nothing was removed.
pub fn rm(args: &RmArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::new(args.ask.json);
    let mut removed = 0;
    let mut refused = Vec::new();
    let mut far_movers = args.ask.far_movers(places);
    let reaches = open_all(&args.places, &mut far_movers, far_movers::has_name)?;
    for (reach, place) in reaches.iter().zip(&args.places) {
        let mut trouble = |failure: Failure| troubles.add_at(place, &failure);
        let ended = refuse_directory(reach, place, args.recursive)
            .and_then(|()| reach.remove(args.recursive, &mut removed, &mut trouble));
        if let Err(failure) = ended {
            troubles.add_at(place, &failure);
            refused.push(failure.kind);
        }
    }
    let exit = match removed == 0 && refused.len() == reaches.len() {
        true => refused.into_iter().map(Exit::of).fold(Exit::Done, Exit::worst),
        false => troubles.exit(),
    };
    let told = match args.ask.json {
        true => json::line(&serde_json::json!({"event": "removed", "entries": removed, "exit": exit.code()})),
        false => out::line(&format!("{} removed", units::entries(removed))),
    };
    out::answered(told, exit)
}

/// A `/` behind the name of a directory, which shells add, does not ask for its removal.
fn refuse_directory(reach: &Reach, place: &OsStr, recursive: bool) -> Result<()> {
    if recursive || !place.as_encoded_bytes().ends_with(b"/") {
        return Ok(());
    }
    match reach.itself() {
        Ok(entry) if is_directory(&entry) => {
            Err(Failure::new(FailureKind::Conflict, "remove", "it is a directory: use -r"))
        }
        // What else there is to say, the removal says.
        _ => Ok(()),
    }
}

/// Reads all places, then reaches them.
fn open_all(
    typed: &[OsString],
    far_movers: &mut FarMovers,
    is_fit: fn(&Place) -> bool,
) -> Result<Vec<Reach>> {
    let read = |text: &OsString| {
        let named = far_movers.named(text)?;
        match is_fit(&named) {
            true => Ok(named),
            false => {
                let cause = format!("`{named}` has no name of its own: name what is in it");
                Err(Failure::new(FailureKind::Usage, "read place", cause))
            }
        }
    };
    let named = typed.iter().map(read).collect::<Result<Vec<_>>>()?;
    Reach::all(named, far_movers)
}

/// What went wrong on the way, told as it comes.
pub struct Troubles {
    json: bool,
    /// Stdout is what was asked for: events go to stderr.
    aside: bool,
    count: u64,
}

impl Troubles {
    /// None so far.
    pub fn new(json: bool) -> Troubles {
        Troubles { json, aside: false, count: 0 }
    }

    /// None so far, of a command whose output is what was asked for.
    pub fn aside(json: bool) -> Troubles {
        Troubles { aside: true, ..Troubles::new(json) }
    }

    /// One more.
    pub fn add(&mut self, failure: &Failure) {
        self.event(|| json::error(failure, None));
        show::failure(failure);
    }

    /// One more, at one of the places that were typed: the path of the failure is one in it.
    pub fn add_at(&mut self, place: &OsStr, failure: &Failure) {
        self.event(|| json::error_at(place, failure));
        show::failure_at(place, failure);
    }

    fn event(&mut self, event: impl FnOnce() -> serde_json::Value) {
        self.count += 1;
        match (self.json, self.aside) {
            (false, _) => {}
            (true, false) => json::tell(&event()),
            (true, true) => json::tell_aside(&event()),
        }
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What they make of what was done otherwise.
    pub fn exit(&self) -> Exit {
        if self.is_empty() { Exit::Done } else { Exit::Partial }
    }

    /// The end of a command that only prints.
    ///
    /// # Errors
    /// Those of the result.
    pub fn end(&self, result: Result<()>) -> Result<Exit> {
        out::printed(result, self.exit())
    }
}

fn is_directory(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Directory)
}

/// `drwxr-xr-x 1000 1000 4096 2026-11-20T17:55:54Z name`.
fn long(entry: &Entry) -> String {
    let letter = match entry.kind {
        Kind::File { .. } | Kind::HardLink { .. } => '-',
        Kind::Directory => 'd',
        Kind::Symlink { .. } => 'l',
        Kind::Fifo => 'p',
        Kind::Device { block: true, .. } => 'b',
        Kind::Device { block: false, .. } => 'c',
    };
    let mut line = format!(
        "{letter}{} {:>5} {:>5} {:>14} {} {}",
        permissions(entry.mode),
        entry.uid,
        entry.gid,
        entry.content_bytes(),
        units::moment(entry.evidence.mtime.seconds),
        entry.path
    );
    if let Kind::Symlink { target } = &entry.kind {
        line.push_str(&format!(" -> {}", Escaped(target)));
    }
    line
}

fn permissions(mode: u32) -> String {
    let special = [(0o4000, 's'), (0o2000, 's'), (0o1000, 't')];
    let mut text = String::with_capacity(9);
    for (at, (bit, letter)) in special.into_iter().enumerate() {
        let three = mode >> (6 - 3 * at);
        text.push(if three & 4 != 0 { 'r' } else { '-' });
        text.push(if three & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & bit != 0, three & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_ls() {
        assert_eq!(permissions(0o755), "rwxr-xr-x");
        assert_eq!(permissions(0o4750), "rwsr-x---");
        assert_eq!(permissions(0o1666), "rw-rw-rwT");
    }
}
