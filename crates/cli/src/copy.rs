//! `thalweg cp` and `thalweg sync`.

use crate::args::{CheckBy, CipherArg, CopyArgs, Verify};
use crate::exit::Exit;
use crate::place::Named;
use crate::progress::Progress;
use crate::{identity, show, ssh, units};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Identity, ServerTrust, Ticket, client_config};
use thalweg_mover::plan::Asked;
use thalweg_mover::run::client::{LinkSettings, TcpConnect};
use thalweg_mover::run::copy::{self, Far, From, Meter, Report, Stop, To, Wishes};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Check, FilterRule, Outcome, Place, VerifyLevel};

/// `thalweg cp`.
///
/// # Errors
/// When nothing could be done, or not everything.
pub fn cp(args: &CopyArgs) -> Result<Exit> {
    if args.delete {
        let cause = "`cp` never deletes: use `thalweg sync --delete`";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    run(args)
}

/// `thalweg sync`.
///
/// # Errors
/// When nothing could be done, or not everything.
pub fn sync(args: &CopyArgs) -> Result<Exit> {
    run(args)
}

fn run(args: &CopyArgs) -> Result<Exit> {
    let usage = |cause: &str| Failure::new(FailureKind::Usage, "read the command line", cause);
    let mut places = args.places.iter().map(|text| Named::parse(text)).collect::<Result<Vec<_>>>()?;
    let destination = places.pop().ok_or_else(|| usage("the destination is missing"))?;
    let state = identity::state_directory(args.state.as_deref())?;
    let (from, from_identity) = source(places, args)?;
    let (to, to_identity) = target(destination, args)?;
    let signer = match from_identity.or(to_identity) {
        Some(identity) => identity,
        None => identity::own(&state)?,
    };
    let wishes = wishes(args, &state);

    let stop = Arc::new(Stop::default());
    let signal = on_signals(stop.clone())?;
    let meter = Arc::new(Meter::default());
    let listener = Arc::new(Listener {
        verbose: if args.quiet { 0 } else { args.verbose },
        progress: Mutex::new(Progress::start(meter.clone(), args.progress, args.quiet || args.json)),
        failed: Mutex::default(),
        json: args.json,
    });
    let hears = listener.clone();
    let events: Events = Arc::new(move |event| hears.hear(&event));
    let result = copy::copy(&from, &to, &wishes, &signer, &events, &meter, &stop);
    listener.progress.lock().unwrap_or_else(|p| p.into_inner()).take();
    match result {
        Ok(report) => {
            let failed = listener.failed.lock().unwrap_or_else(|p| p.into_inner());
            let exit = Exit::of_entries(failed.iter().copied());
            if args.json {
                println!("{}", finished_json(&report, exit));
            }
            if !args.quiet {
                last_line(&report, args.verify, args.dry_run);
            }
            Ok(exit)
        }
        Err(failure) if failure.kind == FailureKind::Stopped && signal.load(Ordering::Acquire) != 0 => {
            show::failure(&failure);
            let is_term = signal.load(Ordering::Acquire) == signal_hook::consts::SIGTERM;
            Ok(if is_term { Exit::Terminated } else { Exit::Interrupted })
        }
        Err(failure) => Err(failure),
    }
}

fn source(places: Vec<Named>, args: &CopyArgs) -> Result<(From, Option<Identity>)> {
    let mixed = || Failure::new(FailureKind::Usage, "read the command line", "all sources must be at one place");
    let mut local = Vec::new();
    let mut far: Option<(String, Vec<Place>)> = None;
    let mut by_ssh: Option<(String, Option<u16>, Vec<Place>)> = None;
    let mut zero = None;
    for place in places {
        match place {
            Named::Local(path) => local.push(path),
            Named::Zero(bytes) if zero.is_none() => zero = Some(bytes),
            Named::Daemon { address, export, path } => {
                let (known, places) = far.get_or_insert_with(|| (address.clone(), Vec::new()));
                if *known != address {
                    return Err(mixed());
                }
                places.push(Place { export: Some(export), path });
            }
            Named::Null => {
                return Err(Failure::new(FailureKind::Usage, "read the command line", "`null:` is no source"));
            }
            Named::Ssh { host, port, path } => {
                let (known_host, known_port, places) =
                    by_ssh.get_or_insert_with(|| (host.clone(), port, Vec::new()));
                if (&*known_host, *known_port) != (&host, port) {
                    return Err(mixed());
                }
                places.push(ssh::place(path));
            }
            Named::Zero(_) => return Err(mixed()),
        }
    }
    if let Some((host, port, places)) = by_ssh {
        return match (local.is_empty(), far, zero) {
            (true, None, None) => Ok((From::Far(ssh::far(&host, port, args)?, places), None)),
            _ => Err(mixed()),
        };
    }
    match (local.is_empty(), far, zero) {
        (false, None, None) => Ok((From::Local(local), None)),
        (true, Some((address, places)), None) => {
            let (far, identity) = daemon(&address, args)?;
            Ok((From::Far(far, places), Some(identity)))
        }
        (true, None, Some(bytes)) => Ok((From::Zero(bytes), None)),
        _ => Err(mixed()),
    }
}

fn target(place: Named, args: &CopyArgs) -> Result<(To, Option<Identity>)> {
    Ok(match place {
        Named::Local(path) => (To::Local(path), None),
        Named::Null => (To::Null, None),
        Named::Daemon { address, export, path } => {
            let (far, identity) = daemon(&address, args)?;
            (To::Far(far, Place { export: Some(export), path }), Some(identity))
        }
        Named::Zero(_) => {
            return Err(Failure::new(FailureKind::Usage, "read the command line", "`zero:` is no destination"));
        }
        Named::Ssh { host, port, path } => (To::Far(ssh::far(&host, port, args)?, ssh::place(path)), None),
    })
}

fn daemon(address: &str, args: &CopyArgs) -> Result<(Far, Identity)> {
    let path = args.ticket.as_ref().ok_or_else(|| {
        let cause = "a daemon asks who you are: give the ticket that it wrote with --ticket or THALWEG_TICKET";
        Failure::new(FailureKind::Permission, "connect", cause)
    })?;
    let ticket = Ticket::read(path)?;
    let identity = ticket.identity()?;
    let tls = client_config(&identity, &ServerTrust::Pinned(ticket.server))?;
    let connect = Arc::new(TcpConnect { addresses: vec![address.to_owned()] });
    Ok((Far { connect, tls, server_name: "thalweg".to_owned() }, identity))
}

fn wishes(args: &CopyArgs, state: &Path) -> Wishes {
    let mut wishes = Wishes {
        asked: Asked { streams: args.streams, chunk_bytes: args.chunk, concurrency: args.concurrency },
        verify: match args.verify {
            Verify::Written => VerifyLevel::Written,
            Verify::Readback => VerifyLevel::Readback,
            Verify::Paranoid => VerifyLevel::Paranoid,
        },
        check: match args.check {
            CheckBy::Evidence => Check::Evidence,
            CheckBy::Digest => Check::Digest,
            CheckBy::Nothing => Check::Nothing,
        },
        delete_max: args.delete.then_some(args.max_delete),
        compress: args.compress,
        rate_bytes_per_s: args.bwlimit.map(|bits| (bits / 8).max(1)),
        dry_run: args.dry_run,
        ignore_existing: args.ignore_existing,
        update: args.update,
        one_file_system: args.one_file_system,
        filter: rules(args),
        link: LinkSettings {
            streams: args.streams,
            stall_timeout: args.stall_timeout,
            patience: args.patience,
            congestion: args.cca.clone(),
            window_bytes: args.window,
            ..LinkSettings::default()
        },
        state: Some(state.to_owned()),
        ..Wishes::default()
    };
    wishes.preserve.devices = args.devices;
    if let Some(cipher) = args.cipher {
        wishes.link.cipher = match cipher {
            CipherArg::Aes128 => Cipher::Aes128Gcm,
            CipherArg::Aes256 => Cipher::Aes256Gcm,
            CipherArg::Chacha20 => Cipher::ChaCha20Poly1305,
            CipherArg::Tls => Cipher::Tls,
        };
    }
    wishes
}

/// Includes before excludes. (Their order among each other comes with `--filter`.)
fn rules(args: &CopyArgs) -> Vec<FilterRule> {
    let rule = |include: bool| move |pattern: &String| FilterRule { include, pattern: pattern.clone() };
    args.include.iter().map(rule(true)).chain(args.exclude.iter().map(rule(false))).collect()
}

/// Stops the copy in order at the first signal, at once at the second.
fn on_signals(stop: Arc<Stop>) -> Result<Arc<AtomicI32>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let seen = Arc::new(AtomicI32::new(0));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| thalweg_mover::failure::of_io("listen for signals", &error))?;
    let first = seen.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if first.swap(signal, Ordering::AcqRel) != 0 {
                std::process::exit(128 + signal);
            }
            stop.stop();
        }
    });
    Ok(seen)
}

struct Listener {
    verbose: u8,
    progress: Mutex<Option<Progress>>,
    failed: Mutex<Vec<FailureKind>>,
    json: bool,
}

impl Listener {
    fn hear(&self, event: &Event) {
        match event {
            Event::Settled(entry, outcome) => self.outcome(&entry.path, outcome),
            Event::Aside(path, outcome) => self.outcome(path, outcome),
            Event::LinkLost(why) => self.line(&format!("link lost: {why}; trying again")),
            Event::LinkUp(after) => self.line(&format!("link is back after {:.1} s", after.as_secs_f64())),
            Event::StreamLost(stream, why) if self.verbose > 0 => self.line(&format!("stream {stream}: {why}")),
            Event::Repaired(count) => self.line(&format!("{count} damaged, sent again")),
            Event::Note(text) => self.line(text),
            Event::ScanEnded(_) | Event::Finished(_) | Event::StreamLost(..) => {}
        }
    }

    fn outcome(&self, path: &thalweg_wire::RelativePath, outcome: &Outcome) {
        if self.json {
            println!("{}", outcome_json(path, outcome));
        }
        match outcome {
            Outcome::Done { losses, .. } => {
                for loss in losses {
                    self.line(&format!("warning: `{path}`: {} not kept: {}", loss.what, loss.why));
                }
                if self.verbose > 0 {
                    self.line(&path.to_string());
                }
            }
            Outcome::Unchanged { .. } if self.verbose > 1 => self.line(&format!("{path} (unchanged)")),
            Outcome::Skipped(why) if self.verbose > 0 => self.line(&format!("{path} (skipped: {why})")),
            Outcome::Failed(failure) => {
                self.failed.lock().unwrap_or_else(|p| p.into_inner()).push(failure.kind);
                self.line(&format!("error: {failure}"));
            }
            _ => {}
        }
    }

    fn line(&self, text: &str) {
        match &*self.progress.lock().unwrap_or_else(|p| p.into_inner()) {
            Some(progress) => progress.line(text),
            None => eprintln!("{text}"),
        }
    }
}

fn last_line(report: &Report, verify: Verify, dry_run: bool) {
    let totals = &report.totals;
    let seconds = report.elapsed.as_secs_f64();
    if dry_run {
        println!("dry run: {} entries would be copied, nothing was changed", units::count(totals.done));
        return;
    }
    let mut line = format!(
        "{} in {} entries copied in {seconds:.2} s, {}",
        units::size(totals.bytes_done),
        units::count(totals.done),
        units::rate(totals.bytes_done, seconds),
    );
    for (count, word) in [
        (totals.unchanged, "unchanged"),
        (totals.skipped, "skipped"),
        (totals.deleted, "deleted"),
        (totals.failed, "failed"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {} {word}", units::count(count)));
        }
    }
    line.push_str(match verify {
        Verify::Written => "; verified as written, durable",
        Verify::Readback => "; verified by reading back, durable",
        Verify::Paranoid => "; verified by reading twice and back, durable",
    });
    if let Some(narrowest) = &report.narrowest {
        let place = if narrowest.place == "path" { String::new() } else { format!(" at the {}", narrowest.place) };
        line.push_str(&format!(
            "; narrowest stage: {}{place} ({:.0} % busy)",
            narrowest.stage,
            narrowest.busy * 100.0
        ));
    }
    println!("{line}");
}

fn outcome_json(path: &thalweg_wire::RelativePath, outcome: &Outcome) -> serde_json::Value {
    let path = path.to_string();
    match outcome {
        Outcome::Done { digest, losses } => serde_json::json!({
            "event": "entry", "outcome": "done", "path": path, "blake3": digest.map(|d| d.to_string()),
            "losses": losses.iter().map(|l| serde_json::json!({"what": l.what, "why": l.why})).collect::<Vec<_>>(),
        }),
        Outcome::Unchanged { digest } => serde_json::json!({
            "event": "entry", "outcome": "unchanged", "path": path, "blake3": digest.map(|d| d.to_string()),
        }),
        Outcome::Skipped(why) => {
            serde_json::json!({"event": "entry", "outcome": "skipped", "path": path, "why": why})
        }
        Outcome::Failed(failure) => serde_json::json!({
            "event": "entry", "outcome": "failed", "path": path, "kind": format!("{:?}", failure.kind),
            "operation": failure.operation, "range": failure.range, "cause": failure.cause,
        }),
    }
}

fn finished_json(report: &Report, exit: Exit) -> serde_json::Value {
    let totals = &report.totals;
    serde_json::json!({
        "event": "finished", "exit": exit.code(), "seconds": report.elapsed.as_secs_f64(),
        "done": totals.done, "unchanged": totals.unchanged, "skipped": totals.skipped, "failed": totals.failed,
        "deleted": totals.deleted, "bytes_done": totals.bytes_done, "bytes_received": totals.bytes_received,
        "bytes_resumed": totals.bytes_resumed, "chunks_repaired": totals.chunks_repaired,
        "root": report.agreed.receiver.statement.root.to_string(), "attempts": report.attempts,
        "narrowest": report.narrowest.as_ref().map(|n| serde_json::json!({
            "stage": n.stage, "place": n.place, "busy": n.busy,
        })),
    })
}
