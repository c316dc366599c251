//! `thalweg cp` and `thalweg sync`: one copy, or several at the same time.

use crate::args::{CheckBy, CipherArg, Class, CopyArgs, Verify};
use crate::exit::Exit;
use crate::fars::{Fars, How, Whom};
use crate::place::{Named, Places};
use crate::receipt::ReceiptFile;
use crate::routes;
use crate::running::Running;
use crate::tell::{Listener, Teller};
use crate::{fars, identity};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Identity;
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{self, EvidenceSink, From, Meter, Report, Stop, To, Watch, Wishes};
use thalweg_mover::run::far::Far;
use thalweg_mover::run::steer::Rate;
use thalweg_service::published::{Publisher, State};
use thalweg_sys::priority::{self, IoPriority};
use thalweg_sys::socket;
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Check, Disk, DiskSide, Place, VerifyLevel};
use thalweg_wire::{RelativePath, limits};

/// `thalweg cp`.
///
/// # Errors
/// What is wrong with the command line; when no place could be reached.
pub fn cp(args: &CopyArgs, places: &Places) -> Result<Exit> {
    if args.delete {
        let cause = "`cp` never deletes: use `thalweg sync --delete`";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    run(args, places)
}

/// `thalweg sync`.
///
/// # Errors
/// What is wrong with the command line; when no place could be reached.
pub fn sync(args: &CopyArgs, places: &Places) -> Result<Exit> {
    run(args, places)
}

/// One copy of the command, as typed.
struct Asked {
    sources: Vec<Named>,
    destination: Named,
}

/// One copy of the command, its places reached.
struct Job {
    from: From,
    to: To,
    signer: Arc<Identity>,
    /// Source and destination as they are shown.
    names: (String, String),
}

fn run(args: &CopyArgs, places: &Places) -> Result<Exit> {
    let only = args.filter.only()?;
    let all = std::iter::once(&args.places).chain(&args.and.copies);
    let read = |typed: &Vec<OsString>| Asked::read(typed, only.as_deref(), places);
    let asked = all.map(read).collect::<Result<Vec<_>>>()?;
    if asked.len() > limits::TRANSFERS_MAX {
        return Err(usage(&format!("at most {} copies in one command", limits::TRANSFERS_MAX)));
    }
    let state = identity::state_directory(args.state.as_deref())?;
    // Before there are threads: they inherit it.
    stand_back(args)?;
    let held_before = priority::held();
    let mut fars = Fars::new(How {
        places,
        ticket: args.ticket.as_deref(),
        ssh: &args.ssh,
        patience: args.patience,
        stall_timeout: args.stall_timeout,
        state: Some(&state),
        quiet: args.quiet,
        via: &args.via,
        bind: &args.bind,
    });
    let jobs = asked.into_iter().map(|asked| asked.reach(&mut fars, &state)).collect::<Result<Vec<Job>>>()?;
    let mut wishes = wishes(args, only.unwrap_or_default(), &state)?;
    let not_permitted = match &args.cca {
        Some(name) if jobs.iter().any(|job| matches!(job.to, To::Far(..))) => check_congestion(name)?,
        _ => None,
    };
    if not_permitted.is_some() {
        wishes.link.congestion = None;
    }
    let _running = listen(&state, &wishes.rate);

    let stop = Arc::new(Stop::default());
    let signal = on_signals(stop.clone(), !args.quiet)?;
    let receipt = args.receipt.as_deref().map(|path| ReceiptFile::begin(path, args)).transpose()?;
    wishes.lines = receipt.as_ref().map(ReceiptFile::lines);
    wishes.header = receipt.as_ref().map(ReceiptFile::header_digest);
    let meters: Vec<Arc<Meter>> = jobs.iter().map(|_| Arc::default()).collect();
    let teller = Arc::new(Teller::start(args, &meters)?);
    if let Some(text) = not_permitted {
        teller.hear_link(&Event::Note(text));
    }
    let listeners: Vec<Arc<Listener>> =
        (1..=jobs.len()).map(|number| Arc::new(Listener::new(teller.clone(), number))).collect();
    let exit_of = |failure: &Failure| match (failure.kind, signal.load(Ordering::Acquire)) {
        (FailureKind::Stopped, signal_hook::consts::SIGTERM) => Exit::Terminated,
        (kind, _) => Exit::of(kind),
    };
    let copy_one = |job: &Job, meter: &Arc<Meter>, listener: &Arc<Listener>| {
        let (hears, hears_link) = (listener.clone(), teller.clone());
        let (from, to) = &job.names;
        // A dry run moves nothing.
        let told = Publisher::begin(&state, from, to, false).filter(|_| !args.dry_run).map(Arc::new);
        let watch = Watch {
            events: Arc::new(move |event| hears.hear(&event)),
            link_events: Arc::new(move |event| hears_link.hear_link(&event)),
            meter: meter.clone(),
            evidence: told.clone().map(|told| -> EvidenceSink { Arc::new(move |now| told.tell(now)) }),
        };
        let route = routes::of(&job.from, &job.to).filter(|_| !wishes.holds_still);
        let learned = route.as_ref().and_then(|route| routes::known(&state, route));
        let wishes = Wishes { learned, ..wishes.clone() };
        let result = copy::copy(&job.from, &job.to, &wishes, &job.signer, &watch, &stop);
        if let (Some(route), Ok(Report { learned: Some(learned), .. })) = (route, &result) {
            routes::learn(&state, &route, *learned);
        }
        if let Some(told) = told {
            if let Ok(report) = &result {
                told.tell(&report.evidence);
            }
            told.over(if result.is_ok() { State::Finished } else { State::Failed });
        }
        result.map_err(|failure| listener.failed(&failure, exit_of(&failure)))
    };
    let results: Vec<std::result::Result<Report, Exit>> = std::thread::scope(|scope| {
        let copies: Vec<_> = jobs
            .iter()
            .zip(&meters)
            .zip(&listeners)
            .map(|((job, meter), listener)| scope.spawn(move || copy_one(job, meter, listener)))
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap_or(Err(Exit::Nothing))).collect()
    });
    let is_kept: Vec<bool> = jobs.iter().map(|job| !matches!(job.to, To::Null | To::Simulated(_))).collect();
    // Ends links in order, and what ssh started.
    drop(fars);
    teller.tell_held(held_before, priority::held());
    let mut exit = teller.stop();
    if let (Some(receipt), [Ok(report)]) = (receipt, &results[..]) {
        receipt.finish(&report.agreed)?;
    }
    for ((result, listener), is_kept) in results.iter().zip(&listeners).zip(is_kept) {
        exit = exit.worst(match result {
            Ok(report) => listener.finish(args, report, is_kept),
            Err(exit) => *exit,
        });
    }
    Ok(exit)
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

impl Asked {
    /// Reads the places of one copy, and refuses what cannot be copied, before anybody is asked for a password.
    fn read(typed: &[OsString], only: Option<&[RelativePath]>, places: &Places) -> Result<Asked> {
        let mut sources = typed.iter().map(|text| Named::parse(text, places)).collect::<Result<Vec<_>>>()?;
        let destination = sources.pop().ok_or_else(|| usage("the destination is missing"))?;
        let Some(first) = sources.first() else { return Err(usage("the source is missing")) };
        let at = Whom::of(first);
        let is_made = |place: &Named| matches!(place, Named::Zero(_) | Named::Simulated(_));
        if sources.iter().any(|source| matches!(source, Named::Null)) {
            return Err(usage("`null:` is no source"));
        }
        if sources.iter().any(|source| Whom::of(source) != at || is_made(source) != is_made(first))
            || is_made(first) && sources.len() > 1
        {
            return Err(usage("all sources must be at one place"));
        }
        if matches!(destination, Named::Zero(_)) {
            return Err(usage("`zero:` is no destination"));
        }
        if at.is_some() && Whom::of(&destination).is_some() {
            let cause = "both places are far: run thalweg at one of them";
            return Err(Failure::new(FailureKind::Unsupported, "copy", cause));
        }
        if at.is_some() && sources.len() > limits::PLACES_MAX {
            return Err(usage("a far place takes at most 1024 sources: name the directory that they are in"));
        }
        if let Some(only) = only {
            if at.is_some() && only.len() > limits::MESSAGE_DIGESTS_MAX {
                return Err(usage(
                    "a far source takes at most 32768 names of --files-from: run thalweg at the source",
                ));
            }
            sources.iter_mut().for_each(Named::mean_contents);
        }
        Ok(Asked { sources, destination })
    }

    fn names(&self) -> (String, String) {
        let from: Vec<String> = self.sources.iter().map(Named::to_string).collect();
        (from.join(" "), self.destination.to_string())
    }

    fn reach(self, fars: &mut Fars<'_>, state: &Path) -> Result<Job> {
        let names = self.names();
        let mut identity = None;
        let mut reach = |place: &Named| -> Result<Option<(Arc<Far>, Place)>> {
            let Some((whom, there)) = Whom::of(place).zip(fars::place_there(place)) else { return Ok(None) };
            let reached = fars.reach(&whom)?;
            identity.get_or_insert(reached.identity);
            Ok(Some((reached.far, there)))
        };
        let to = match (reach(&self.destination)?, self.destination) {
            (Some((far, place)), _) => To::Far(far, place),
            (None, Named::Local(path)) => To::Local(path),
            (None, Named::Simulated(spec)) => To::Simulated(spec),
            (None, _) => To::Null,
        };
        let mut from: Option<From> = None;
        for source in self.sources {
            match (reach(&source)?, source, &mut from) {
                (Some((_, place)), _, Some(From::Far(_, places))) => places.push(place),
                (Some((far, place)), ..) => from = Some(From::Far(far, vec![place])),
                (None, Named::Local(path), Some(From::Local(paths))) => paths.push(path),
                (None, Named::Local(path), _) => from = Some(From::Local(vec![path])),
                (None, Named::Zero(bytes), _) => from = Some(From::Zero(bytes)),
                (None, Named::Simulated(spec), _) => from = Some(From::Simulated(spec)),
                (None, ..) => return Err(usage("this is no source")),
            }
        }
        let signer = match identity {
            Some(identity) => identity,
            None => Arc::new(identity::own(state)?),
        };
        Ok(Job { from: from.ok_or_else(|| usage("the source is missing"))?, to, signer, names })
    }
}

/// Streams take what they are told as advice; a name that this machine does not have is told before. (For what comes
/// from a far side, that side says so.) What it has and does not permit to us is said, with what is used instead.
fn check_congestion(name: &str) -> Result<Option<String>> {
    let refused = |error: std::io::Error| failure::of_io("choose the congestion control", &error);
    let probe = std::net::TcpListener::bind("127.0.0.1:0").map_err(refused)?;
    match socket::set_congestion(&probe, name) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let permitted = socket::allowed_congestion().unwrap_or_default().join(", ");
            let used = socket::congestion(&probe).unwrap_or_else(|_| "the system's choice".to_owned());
            Ok(Some(format!(
                "the congestion control `{name}` is not permitted to this user (permitted: {permitted}): {used} is used instead"
            )))
        }
        Err(_) => {
            let there = socket::available_congestion().unwrap_or_default().join(", ");
            Err(usage(&format!("the congestion control `{name}` is not to be had here; there are: {there}")))
        }
    }
}

fn wishes(args: &CopyArgs, only: Vec<RelativePath>, state: &Path) -> Result<Wishes> {
    if let (Some(request), Some(chunk)) = (args.request, args.chunk)
        && u64::from(request) > chunk
    {
        return Err(usage("--request: a request is at most a chunk (--chunk)"));
    }
    let mut wishes = Wishes {
        asked: plan::Asked {
            streams: args.streams,
            chunk_bytes: args.chunk,
            concurrency: args.concurrency,
            depth: args.depth,
            request_bytes: args.request,
            window_bytes: args.window,
            ..plan::Asked::default()
        },
        disk: Disk {
            source: DiskSide {
                direct: args.direct.source.unwrap_or_default(),
                order: args.order.and_then(|order| order.source),
            },
            destination: DiskSide {
                direct: args.direct.destination.unwrap_or_default(),
                order: args.order.and_then(|order| order.destination),
            },
            depth: args.io_depth,
            no_io_uring: args.no_io_uring,
        },
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
        rate: Arc::new(Rate::new(args.bwlimit.map(|bits| (bits / 8).max(1)))),
        yields: args.class == Class::Scavenger,
        holds_still: args.no_tune,
        dry_run: args.dry_run,
        ignore_existing: args.ignore_existing,
        update: args.update,
        one_file_system: args.one_file_system,
        filter: args.filter.rules()?,
        only,
        link: LinkSettings {
            stall_timeout: args.stall_timeout,
            patience: args.patience,
            congestion: args.cca.clone(),
            tls_form: args.tls.form(),
            // The class says it to every queue on the way as well (RFC 8622).
            dscp: args.dscp.or((args.class == Class::Scavenger).then_some(LOWER_EFFORT)),
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
    Ok(wishes)
}

/// DSCP of the Lower Effort behaviour (RFC 8622).
const LOWER_EFFORT: u8 = 1;

/// Takes less of this machine than others do, as asked.
fn stand_back(args: &CopyArgs) -> Result<()> {
    let is_scavenger = args.class == Class::Scavenger;
    if let Some(nice) = args.nice.or(is_scavenger.then_some(19)) {
        priority::set_nice(nice).map_err(|error| failure::of_io("set --nice", &error))?;
    }
    if let Some(io) = args.ionice.or(is_scavenger.then_some(IoPriority::Idle)) {
        priority::set_io_priority(io).map_err(|error| failure::of_io("set --ionice", &error))?;
    }
    Ok(())
}

/// For `thalweg limit`. Where no socket can be had the copy goes on without.
fn listen(state: &Path, rate: &Arc<Rate>) -> Option<Running> {
    Running::begin(state, rate.clone())
        .inspect_err(|failure| tracing::info!(%failure, "this copy cannot be asked"))
        .ok()
}

/// Stops the copy in order at the first signal, at once at the second.
fn on_signals(stop: Arc<Stop>, is_told: bool) -> Result<Arc<AtomicI32>> {
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
            if is_told {
                use std::io::Write;
                let text = "stopping: what was written becomes durable first; once more to stop at once";
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
    });
    Ok(seen)
}
