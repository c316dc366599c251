//! `thalweg watch`: what becomes complete in a directory is copied, and analysed on arrival.

use crate::args::copy::Verify;
use crate::args::watch::{ItemArg, KeepRunArgs, OrderArg, WatchArgs};
use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::signals;
use crate::{begun, json, out, running, show, units};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_arrival::command::{self, Analysis};
use thalweg_arrival::engine::{self, Ended, Tell, Told};
use thalweg_arrival::item::{Complete, ItemKind, Order};
use thalweg_arrival::machine::{Outcome, Rules};
use thalweg_arrival::scan::Scanner;
use thalweg_client::far_movers::{Whom, check_family, check_via};
use thalweg_client::options::congestion;
use thalweg_client::{events, hint, identity};
use thalweg_mover::event::{self, Event};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::filter::Filter;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{Fidelity, Movement, Remembered, Selection, Stop, Wishes};
use thalweg_mover::run::far_mover::unused_of_link;
use thalweg_mover::run::steer::Rate;
use thalweg_wire::RelativePath;
use thalweg_wire::message;
use thalweg_wire::path::Sentence;

/// `thalweg watch`.
///
/// # Errors
/// What is wrong with the command line; if the directory cannot be looked at at the beginning.
pub fn watch(args: &WatchArgs, places: &Places) -> Result<Exit> {
    if args.filter.only()?.is_some() {
        return Err(usage("--files-from is for copies: a watch takes what comes"));
    }
    let mut watch = asked(args, places)?;
    let teller = Arc::new(Teller { json: args.json, quiet: args.quiet, noted: Mutex::default() });
    choose_congestion(args, &mut watch, &teller)?;
    let stop = Arc::new(Stop::default());
    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(STOPPING))?;
    let hears = teller.clone();
    let tell: Tell = Arc::new(move |told| hears.hear(&told));
    let _listens = running::listen(&watch.state, &watch.wishes.movement.rate);
    begun::tell();
    let ended = engine::watch(&watch, &tell, &stop)?;
    let missed = [&ended.given_up, &ended.lost, &ended.torn, &ended.unseen];
    let is_whole = missed.iter().all(|names| names.is_empty());
    let exit = match (ended.is_stopped, is_whole) {
        (true, _) => signal.exit(),
        (false, true) => Exit::Done,
        (false, false) => Exit::Partial,
    };
    teller.last_word(&ended, exit);
    Ok(exit)
}

/// What was asked for of it, where this machine sends: items, or results. What of the way was typed and does nothing is
/// told here, once.
fn choose_congestion(args: &WatchArgs, watch: &mut engine::Watch, teller: &Teller) -> Result<()> {
    let is_far = |place: &Place| Whom::of(place).is_some();
    let (sends_items, sends_results) =
        (is_far(&watch.destination), watch.results.as_ref().is_some_and(is_far));
    let sends = sends_items || sends_results;
    let asked = args.link.congestion.cca.as_deref();
    let wished = congestion::wished(asked, sends)?;
    watch.wishes.movement.link.congestion = wished.where_we_send(sends_items);
    watch.results_congestion = wished.where_we_send(sends_results);
    let mut unused: Vec<String> = Vec::new();
    let places = [Some(&watch.source), Some(&watch.destination), watch.results.as_ref()];
    let far: Vec<Whom> = places.into_iter().flatten().filter_map(Whom::of).collect();
    check_via(&args.link.way.via, &far)?;
    far.iter().try_for_each(|whom| check_family(whom, &watch.how))?;
    if far.is_empty() {
        // Told here and not by each copy.
        let asked = std::mem::take(&mut watch.wishes.asked_of_way);
        let of_streams = unused_of_link(None, &watch.wishes.movement.link, asked);
        let of_streams = of_streams.into_iter().filter(|(_, is_unused)| *is_unused);
        unused.extend(of_streams.map(|(option, _)| option.to_owned()));
    }
    unused.extend(args.link.typed.unused(&far));
    // Of far places each option has its reason.
    let within = if far.is_empty() { " within this machine, where nothing is sent" } else { "" };
    let unused = (!unused.is_empty()).then(|| format!("without effect{within}: {}", unused.join(", ")));
    for text in wished.note.into_iter().chain(unused) {
        teller.note(None, &Event::Note(text));
    }
    Ok(())
}

/// The keeper of one command; see [`command`].
///
/// # Errors
/// If the end of the command cannot be recorded.
pub fn keep_run(args: &KeepRunArgs) -> Result<Exit> {
    let done = match args.guarded {
        true => {
            thalweg_sys::process::restore_umask(args.umask);
            command::keep_below_guard(&args.record, &args.program, &args.arguments)
        }
        false => std::env::current_exe().and_then(|own| {
            let mut keeper = std::process::Command::new(own);
            keeper.args(["keep-run", "--guarded", "--umask", &args.umask.to_string(), "--"]);
            command::guard(&args.record, keeper.arg(&args.record).arg(&args.program).args(&args.arguments))
        }),
    };
    done.map_err(|error| failure::of_io("record how the command ended", &error))?;
    Ok(Exit::Done)
}

const STOPPING: &str =
    "stopping: copies end in order, a command that runs goes on; once more to stop at once";

/// So long what is written rests until it is complete, if nobody says.
const STABLE: Duration = Duration::from_secs(2);

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

fn asked(args: &WatchArgs, places: &Places) -> Result<engine::Watch> {
    let state = identity::state_directory(args.link.state.as_deref())?;
    // With the port, for it is part of what tells one watch from another.
    let port = args.link.ssh.port;
    let place = |text: &OsStr| Place::parse(text, places).map(|place| place.with_port(port));
    let source = place(&args.source)?;
    let in_bucket = source.is_in_bucket();
    // An object is there only when it is whole.
    let is_whole = in_bucket && args.item == ItemArg::File;
    let stable = args.stable.unwrap_or(if is_whole { Duration::ZERO } else { STABLE });
    let complete = match &args.marker {
        Some(marker) if marker.is_empty() || marker.as_bytes().contains(&b'/') => {
            return Err(usage("--marker: a name, or the end of one"));
        }
        Some(marker) => Complete::Marker(marker.as_bytes().to_vec()),
        None => Complete::Stable(stable),
    };
    if args.delete && args.item == ItemArg::File && args.results_back.is_none() {
        return Err(usage(
            "--delete: of items that are files, and without --results-back, nothing is deleted",
        ));
    }
    let rules = args.filter.rules()?;
    let analysis = args.on_arrival.as_ref().map(|program| analysis(program, &args.arguments)).transpose()?;
    let events = if args.quiet { event::nobody() } else { show::notes() };
    Ok(engine::Watch {
        source,
        destination: place(&args.destination)?,
        scanner: Arc::new(Scanner {
            kind: match args.item {
                ItemArg::File => ItemKind::File,
                ItemArg::Directory => ItemKind::Directory,
            },
            complete: complete.clone(),
            filter: Filter::new(rules.clone())?,
            in_bucket,
        }),
        rules: Rules {
            complete,
            order: match args.in_order {
                None => Order::Arrival,
                Some(OrderArg::Name) => Order::Name,
                Some(OrderArg::Time) => Order::Time,
            },
            moves_max: usize::from(args.transfers),
            runs_max: usize::from(args.jobs),
            attempts_max: args.attempts,
            runs_command: analysis.is_some(),
            returns_results: args.results_back.is_some(),
        },
        analysis,
        results: args.results_back.as_deref().map(place).transpose()?,
        deletes: args.delete,
        receipts: args.receipts.clone(),
        how: args.link.how(places, &state, args.manners.priority(), events),
        wishes: Wishes {
            selection: Selection { filter: rules, ..Selection::default() },
            fidelity: Fidelity { verify: Verify::level(args.verify), ..Fidelity::default() },
            movement: Movement {
                asked: plan::Asked {
                    streams: args.link.streams,
                    yields: args.manners.yields(),
                    compress: args.compress,
                    ..plan::Asked::default()
                },
                rate: Arc::new(Rate::of_bits(args.bwlimit)),
                link: LinkSettings { dscp: args.manners.dscp(), ..args.link.settings() },
                has_via: !args.link.way.via.is_empty(),
                has_bind: !args.link.way.bind.is_empty(),
                ..Movement::default()
            },
            remembered: Remembered { state: Some(state.clone()), ..Remembered::default() },
            asked_of_way: args.link.typed.of_streams,
            ..Wishes::default()
        },
        results_congestion: None,
        priority: args.manners.priority(),
        state,
        look_every: args.look_every,
        idle_exit: args.idle_exit,
    })
}

/// This program is the keeper of the command.
fn analysis(program: &OsStr, arguments: &[std::ffi::OsString]) -> Result<Analysis> {
    let own = std::env::current_exe().map_err(|error| failure::of_io("find this program", &error))?;
    let umask = thalweg_sys::process::umask_before().unwrap_or(0o022).to_string();
    Ok(Analysis {
        keeper: vec![own.into(), "keep-run".into(), "--umask".into(), umask.into(), "--".into()],
        program: program.to_owned(),
        arguments: arguments.to_vec(),
    })
}

/// Kinds of notes that are told to people: a watch may go on for years. Of further ones only their number is told.
const NOTE_KINDS_MAX: usize = 256;

/// Where everything goes that a watch tells.
struct Teller {
    json: bool,
    quiet: bool,
    noted: Mutex<Noted>,
}

/// What people were told of what is noted.
#[derive(Default)]
struct Noted {
    /// Kinds of notes, as [`kind_of`] has them.
    kinds: HashSet<String>,
    /// Notes that were not told because others of their kind were, or because there were too many kinds.
    untold: u64,
    /// Hints; there are as many as the program has.
    hints: HashSet<&'static str>,
}

impl Noted {
    /// Whether nobody was told this kind of note yet; from then on it counts as told.
    fn is_new(&mut self, note: &str) -> bool {
        let kind = kind_of(note);
        let is_new =
            !self.kinds.contains(&kind) && self.kinds.len() < NOTE_KINDS_MAX && self.kinds.insert(kind);
        self.untold += u64::from(!is_new);
        is_new
    }
}

/// The note without names, which stand in backticks, and numbers: what thousands of items have alike.
fn kind_of(note: &str) -> String {
    let words = note.split('`').step_by(2).flat_map(str::chars);
    words.filter(|c| !c.is_ascii_digit()).collect()
}

impl Teller {
    fn hear(&self, told: &Told<'_>) {
        match told {
            Told::Noted(item, event) => self.note(Some(item), event),
            Told::Link(event @ Event::Note(_)) => self.note(None, event),
            Told::Link(event) if !matches!(event, Event::LinkLost(_) | Event::LinkUp(_)) => {}
            told => self.tell(told),
        }
        if let Told::Trouble(_, failure) = told {
            self.hint(failure);
        }
    }

    fn tell(&self, told: &Told<'_>) {
        if self.json {
            json::tell_later(&object(told));
        }
        let line = match told {
            Told::Trouble(name, failure) => {
                let at = name.map(|name| format!("{name}: ")).unwrap_or_default();
                return show::line_later(format!("error: {at}{failure}"));
            }
            Told::Ended(name, _, outcome) if **outcome != Outcome::Succeeded => {
                return show::line_later(format!("error: {name}: the command {}", ended(outcome)));
            }
            _ if self.json || self.quiet => return,
            Told::Arrived(name, arrived) => {
                format!("{name}  arrived, {}, blake3 {}", units::size(arrived.bytes), arrived.digest)
            }
            Told::Started(name, attempt) => format!("{name}  run {attempt} of the command"),
            Told::Ended(name, ..) => format!("{name}  the command succeeded"),
            Told::Done(name) => format!("{name}  done"),
            Told::Link(event) => match events::note(event) {
                Some(note) => note.text,
                None => return,
            },
            Told::Noted(..) => return,
        };
        out::tell_later(line, None);
    }

    /// Tells what a person may do about it, once: all items may fail alike. What is only to be tried again, or copied
    /// again because it changed, the watch sees to itself.
    fn hint(&self, failure: &Failure) {
        let is_ours = |text: &&str| failure.kind == FailureKind::Changed || *text == hint::RESUME;
        if let Some(text) = hint::of(failure).filter(|text| !is_ours(text))
            && lock(&self.noted).hints.insert(text)
        {
            show::line_later(format!("hint: {text}"));
        }
    }

    /// Tells programs each note, people each kind of them once.
    fn note(&self, item: Option<&RelativePath>, event: &Event) {
        if self.json
            && let Some(object) = note_object(item, event)
        {
            json::tell_later(&object);
        }
        if self.quiet {
            return;
        }
        let at = item.map(|item| format!("{item}: ")).unwrap_or_default();
        for Note { head, within, text } in notes(item, event) {
            if lock(&self.noted).is_new(&text) {
                show::line_later(format!("{head}{at}{within}{text}"));
            }
        }
    }

    fn last_word(&self, ended: &Ended, exit: Exit) {
        let untold = lock(&self.noted).untold;
        if untold > 0 && !self.json {
            let notes = units::counted(untold, "more note", "more notes");
            show::line(&format!("{notes} of items: --json tells each"));
        }
        let names =
            |names: &[RelativePath]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let (given_up, unseen) = (names(&ended.given_up), names(&ended.unseen));
        let (lost, torn) = (names(&ended.lost), names(&ended.torn));
        if self.json {
            json::tell_later(&serde_json::json!({
                "event": "watched", "exit": exit.code(), "done": ended.done, "given_up": given_up,
                "lost": lost, "torn": torn, "unseen": unseen,
            }));
        } else if !self.quiet {
            out::tell(&format!("{} done, {} given up", units::count(ended.done), given_up.len()));
        }
        for name in given_up {
            show::line(&format!("error: {name}: given up; the next start tries again"));
        }
        for name in lost {
            show::line(&format!("error: {name}: it could not be copied, and is gone from the source"));
        }
        for name in torn {
            show::line(&format!(
                "error: {name}: its correction began to replace what had arrived, and is gone from the source: it is \
                 not analysed before it comes again"
            ));
        }
        for name in unseen {
            show::line(&format!("error: {name}: it could not be looked at; what is there is not known"));
        }
    }
}

/// One thing that is noted.
struct Note {
    head: &'static str,
    /// Of an item that is a directory, what in it.
    within: String,
    /// Of one kind or another.
    text: String,
}

fn notes(item: Option<&RelativePath>, event: &Event) -> Vec<Note> {
    let within = |path: &RelativePath| {
        let is_item = path.is_root() || item.is_some_and(|item| item.name() == path.as_bytes());
        if is_item { String::new() } else { format!("`{path}`: ") }
    };
    let skipped = |path: &RelativePath, why: &str| Note {
        head: "",
        within: within(path),
        text: format!("skipped: {}", Sentence(why)),
    };
    match event {
        Event::Note(_) | Event::Repaired(_) => {
            let of_all = |note: events::Note| Note { head: "", within: String::new(), text: note.text };
            events::note(event).map(of_all).into_iter().collect()
        }
        Event::Settled(entry, message::Outcome::Done { losses, .. }) => {
            let lost = |loss: &message::Loss| Note {
                head: "warning: ",
                within: within(&entry.path),
                text: format!("{} not kept: {}", Sentence(&loss.what), Sentence(&loss.why)),
            };
            losses.iter().map(lost).collect()
        }
        Event::Settled(entry, message::Outcome::Skipped(why)) => vec![skipped(&entry.path, why)],
        Event::Aside(path, message::Outcome::Skipped(why)) => vec![skipped(path, why)],
        _ => Vec::new(),
    }
}

fn note_object(item: Option<&RelativePath>, event: &Event) -> Option<serde_json::Value> {
    let mut object = match event {
        Event::Note(_) | Event::Repaired(_) => events::note(event)?.object(),
        Event::Settled(entry, outcome) => events::settled(Some(entry), &entry.path, outcome),
        Event::Aside(path, outcome) => events::settled(None, path, outcome),
        _ => return None,
    };
    if let Some(item) = item {
        object.insert("item".into(), item.to_string().into());
    }
    Some(object.into())
}

fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "succeeded".to_owned(),
        Outcome::Failed(code) => format!("ended with exit code {code}"),
        Outcome::Killed(signal) => format!("was killed by signal {signal}"),
        Outcome::NotStarted(why) => format!("could not be started: {why}"),
        Outcome::Unknown => "vanished: how it ended is not known".to_owned(),
    }
}

fn object(told: &Told<'_>) -> serde_json::Value {
    let about = |event: &str, name: &RelativePath, more: serde_json::Value| {
        let mut object = json::about(event, name);
        if let serde_json::Value::Object(more) = more {
            object.extend(more);
        }
        serde_json::Value::Object(object)
    };
    let none = serde_json::Value::Null;
    match told {
        Told::Arrived(name, arrived) => about(
            "arrived",
            name,
            serde_json::json!({
                "bytes": arrived.bytes, "blake3": arrived.digest, "key": arrived.key,
                "receipt": arrived.receipt, "stale": arrived.stale,
            }),
        ),
        Told::Started(name, attempt) => about("started", name, serde_json::json!({"attempt": attempt})),
        Told::Ended(name, attempt, outcome) => about(
            "ended",
            name,
            serde_json::json!({
                "attempt": attempt, "succeeded": **outcome == Outcome::Succeeded, "why": ended(outcome),
            }),
        ),
        Told::Done(name) => about("item-done", name, none),
        Told::Trouble(name, failure) => {
            let mut object = json::error(failure, None);
            if let (Some(name), serde_json::Value::Object(object)) = (name, &mut object) {
                object.insert("item".into(), name.to_string().into());
            }
            object
        }
        Told::Link(event) => events::note(event).map_or(none, |note| note.object().into()),
        Told::Noted(..) => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_differ_in_names_and_numbers_are_one_kind_and_kinds_have_a_bound() {
        let mut noted = Noted::default();
        assert!(noted.is_new("made `out/run1` and what is below it"));
        assert!(!noted.is_new("made `out/run2` and what is below it"));
        assert!(noted.is_new("group not kept: not permitted"));
        assert!(noted.is_new("3 damaged, sent again"));
        assert!(!noted.is_new("4 damaged, sent again"));
        assert_eq!((noted.kinds.len(), noted.untold), (3, 2));
        let letters = |mut n: usize| {
            let mut text = String::new();
            while n > 0 {
                text.push(char::from(b'a' + (n % 26) as u8));
                n /= 26;
            }
            text
        };
        for n in 1..=2 * NOTE_KINDS_MAX {
            noted.is_new(&letters(n));
        }
        assert_eq!((noted.kinds.len(), noted.is_new("one more")), (NOTE_KINDS_MAX, false));
    }
}
