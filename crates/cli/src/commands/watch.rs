//! `thalweg watch`: what becomes complete in a directory is copied, and analysed on arrival.

use crate::args::copy::Verify;
use crate::args::watch::{ItemArg, KeepRunArgs, OrderArg, WatchArgs};
use crate::exit::Exit;
use crate::place::{Named, Places};
use crate::signals;
use crate::{congestion, json, out, running, show, units};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_arrival::command::{self, Analysis};
use thalweg_arrival::engine::{self, Ended, Tell, Told};
use thalweg_arrival::item::{Complete, ItemKind, Order};
use thalweg_arrival::machine::{Outcome, Rules};
use thalweg_arrival::scan::Scanner;
use thalweg_client::far_movers::{How, SshOptions, Whom};
use thalweg_client::identity;
use thalweg_mover::event::{self, Event};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::manifest::filter::Filter;
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{Stop, Wishes};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::RelativePath;

/// `thalweg watch`.
///
/// # Errors
/// What is wrong with the command line; if the directory cannot be looked at at the beginning.
pub fn watch(args: &WatchArgs, places: &Places) -> Result<Exit> {
    if args.filter.only()?.is_some() {
        return Err(usage("--files-from is for copies: a watch takes what comes"));
    }
    let mut watch = asked(args, places)?;
    choose_congestion(args, &mut watch)?;
    let stop = Arc::new(Stop::default());
    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(STOPPING))?;
    let (json, quiet) = (args.json, args.quiet);
    let tell: Tell = Arc::new(move |told| tell(&told, json, quiet));
    let _listens = running::listen(&watch.state, &watch.wishes.rate);
    let ended = engine::watch(&watch, &tell, &stop)?;
    let exit = match (ended.is_stopped, ended.given_up.is_empty() && ended.lost.is_empty()) {
        (true, _) => signal.exit(),
        (false, true) => Exit::Done,
        (false, false) => Exit::Partial,
    };
    last_word(&ended, exit, json, quiet);
    Ok(exit)
}

/// What was asked for of it, where this machine sends: items, or results.
fn choose_congestion(args: &WatchArgs, watch: &mut engine::Watch) -> Result<()> {
    let is_far = |place: &Named| Whom::of(place).is_some();
    let sends = is_far(&watch.destination) || watch.results.as_ref().is_some_and(is_far);
    let asked = args.link.congestion.cca.as_deref();
    let congestion::Wished { name, note } = congestion::wished(asked, sends)?;
    watch.wishes.link.congestion = name;
    let is_unused = asked.is_some() && !sends && !is_far(&watch.source);
    let unused =
        is_unused.then(|| "without effect within this machine, where nothing is sent: --cca".to_owned());
    if let Some(text) = note.or(unused) {
        match (args.json, args.quiet) {
            (true, _) => json::tell(&serde_json::json!({"event": "note", "text": text})),
            (false, true) => {}
            (false, false) => out::tell(&text),
        }
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
            thalweg_sys::usage::restore_umask(args.umask);
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

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

fn asked(args: &WatchArgs, places: &Places) -> Result<engine::Watch> {
    let state = identity::state_directory(args.link.state.as_deref())?;
    let place = |text: &OsStr| Named::parse(text, places);
    let complete = match &args.marker {
        Some(marker) if marker.is_empty() || marker.as_bytes().contains(&b'/') => {
            return Err(usage("--marker: a name, or the end of one"));
        }
        Some(marker) => Complete::Marker(marker.as_bytes().to_vec()),
        None => Complete::Stable(args.stable),
    };
    let rules = args.filter.rules()?;
    let analysis = args.on_arrival.as_ref().map(|program| analysis(program, &args.arguments)).transpose()?;
    Ok(engine::Watch {
        source: place(&args.source)?,
        destination: place(&args.destination)?,
        scanner: Arc::new(Scanner {
            kind: match args.item {
                ItemArg::File => ItemKind::File,
                ItemArg::Directory => ItemKind::Directory,
            },
            complete: complete.clone(),
            filter: Filter::new(rules.clone())?,
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
        how: How {
            places: places.clone(),
            ticket: args.link.ticket.clone(),
            ssh: SshOptions { priority: args.manners.priority(), ..args.link.ssh.options() },
            patience: args.link.patience,
            stall_timeout: args.link.stall_timeout,
            state: Some(state.clone()),
            events: if args.quiet { event::nobody() } else { show::notes() },
            via: Vec::new(),
            bind: Vec::new(),
        },
        wishes: Wishes {
            asked: plan::Asked { streams: args.link.streams, ..plan::Asked::default() },
            verify: Verify::level(args.verify),
            compress: args.compress,
            rate: Arc::new(Rate::new(args.bwlimit.map(|bits| (bits / 8).max(1)))),
            yields: args.manners.yields(),
            filter: rules,
            link: LinkSettings {
                stall_timeout: args.link.stall_timeout,
                patience: args.link.patience,
                dscp: args.manners.dscp(),
                ..LinkSettings::default()
            },
            state: Some(state.clone()),
            ..Wishes::default()
        },
        priority: args.manners.priority(),
        state,
        look_every: args.look_every,
        idle_exit: args.idle_exit,
    })
}

/// This program is the keeper of the command.
fn analysis(program: &OsStr, arguments: &[std::ffi::OsString]) -> Result<Analysis> {
    let own = std::env::current_exe().map_err(|error| failure::of_io("find this program", &error))?;
    let umask = thalweg_sys::usage::umask_before().unwrap_or(0o022).to_string();
    Ok(Analysis {
        keeper: vec![own.into(), "keep-run".into(), "--umask".into(), umask.into(), "--".into()],
        program: program.to_owned(),
        arguments: arguments.to_vec(),
    })
}

fn tell(told: &Told<'_>, json: bool, quiet: bool) {
    if let Told::Link(event) = told
        && !matches!(event, Event::LinkLost(_) | Event::LinkUp(_))
    {
        return;
    }
    if json {
        json::tell(&object(told));
    }
    let line = match told {
        Told::Trouble(name, failure) => {
            let at = name.map(|name| format!("{name}: ")).unwrap_or_default();
            return show::line(&format!("error: {at}{failure}"));
        }
        Told::Ended(name, _, outcome) if **outcome != Outcome::Succeeded => {
            return show::line(&format!("error: {name}: the command {}", ended(outcome)));
        }
        _ if json || quiet => return,
        Told::Arrived(name, arrived) => {
            format!("{name}  arrived, {}, blake3 {}", units::size(arrived.bytes), arrived.digest)
        }
        Told::Started(name, attempt) => format!("{name}  run {attempt} of the command"),
        Told::Ended(name, ..) => format!("{name}  the command succeeded"),
        Told::Done(name) => format!("{name}  done"),
        Told::Link(Event::LinkLost(why)) => format!("link lost: {why}; trying again"),
        Told::Link(Event::LinkUp(after)) => format!("link is back after {:.1} s", after.as_secs_f64()),
        Told::Link(_) => return,
    };
    out::tell(&line);
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
            serde_json::json!({"bytes": arrived.bytes, "blake3": arrived.digest, "key": arrived.key}),
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
        Told::Link(Event::LinkLost(why)) => {
            serde_json::json!({"event": "link-lost", "text": why.to_string()})
        }
        Told::Link(Event::LinkUp(after)) => {
            serde_json::json!({"event": "link-up", "text": format!("after {:.1} s", after.as_secs_f64())})
        }
        Told::Link(_) => none,
    }
}

fn last_word(ended: &Ended, exit: Exit, json: bool, quiet: bool) {
    let names = |names: &[RelativePath]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let (given_up, lost) = (names(&ended.given_up), names(&ended.lost));
    if json {
        json::tell(&serde_json::json!({
            "event": "watched", "exit": exit.code(), "done": ended.done, "given_up": given_up,
            "lost": lost,
        }));
    } else if !quiet {
        out::tell(&format!("{} done, {} given up", units::count(ended.done), given_up.len()));
    }
    for name in given_up {
        show::line(&format!("error: {name}: given up; the next start tries again"));
    }
    for name in lost {
        show::line(&format!("error: {name}: it could not be copied, and is gone from the source"));
    }
}
