//! `thalweg cp` and `thalweg sync`.

use crate::args::{CheckBy, CipherArg, CopyArgs, Verify};
use crate::exit::Exit;
use crate::place::Named;
use crate::receipt::ReceiptFile;
use crate::tell::Listener;
use crate::{identity, json, show, ssh};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use thalweg_mover::event::Events;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Identity, ServerTrust, Ticket, client_config};
use thalweg_mover::plan::Asked;
use thalweg_mover::run::client::{LinkSettings, TcpConnect};
use thalweg_mover::run::copy::{self, Far, From, Meter, Stop, To, Wishes};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Check, Place, VerifyLevel};
use thalweg_wire::{RelativePath, limits};

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
    let only = args.filter.only()?;
    if only.is_some() {
        places.iter_mut().for_each(Named::mean_contents);
    }
    let (from, from_identity) = source(places, args)?;
    if matches!(&from, From::Far(_, places) if places.len() > limits::PLACES_MAX) {
        return Err(usage("a far place takes at most 1024 sources: name the directory that they are in"));
    }
    if matches!(from, From::Far(..))
        && only.as_ref().is_some_and(|only| only.len() > limits::MESSAGE_DIGESTS_MAX)
    {
        return Err(usage(
            "a far source takes at most 32768 names of --files-from: run thalweg at the source",
        ));
    }
    let (to, to_identity) = target(destination, args)?;
    let signer = match from_identity.or(to_identity) {
        Some(identity) => identity,
        None => identity::own(&state)?,
    };
    let mut wishes = wishes(args, only.unwrap_or_default(), &state)?;

    let stop = Arc::new(Stop::default());
    let signal = on_signals(stop.clone())?;
    let meter = Arc::new(Meter::default());
    let receipt = args.receipt.as_deref().map(|path| ReceiptFile::begin(path, args)).transpose()?;
    wishes.lines = receipt.as_ref().map(ReceiptFile::lines);
    wishes.header = receipt.as_ref().map(ReceiptFile::header_digest);
    let listener = Arc::new(Listener::start(args, meter.clone())?);
    let hears = listener.clone();
    let events: Events = Arc::new(move |event| hears.hear(&event));
    let result = copy::copy(&from, &to, &wishes, &signer, &events, &meter, &stop);
    listener.stop();
    match result {
        Ok(report) => {
            if let Some(receipt) = receipt {
                receipt.finish(&report.agreed)?;
            }
            listener.finish(args, &report)
        }
        Err(failure) if failure.kind == FailureKind::Stopped && signal.load(Ordering::Acquire) != 0 => {
            let is_term = signal.load(Ordering::Acquire) == signal_hook::consts::SIGTERM;
            let exit = if is_term { Exit::Terminated } else { Exit::Interrupted };
            if args.json {
                json::tell(&json::error(&failure, Some(exit)));
            }
            show::failure(&failure);
            Ok(exit)
        }
        Err(failure) => Err(failure),
    }
}

fn source(places: Vec<Named>, args: &CopyArgs) -> Result<(From, Option<Identity>)> {
    let mixed =
        || Failure::new(FailureKind::Usage, "read the command line", "all sources must be at one place");
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
                return Err(Failure::new(
                    FailureKind::Usage,
                    "read the command line",
                    "`null:` is no source",
                ));
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
            return Err(Failure::new(
                FailureKind::Usage,
                "read the command line",
                "`zero:` is no destination",
            ));
        }
        Named::Ssh { host, port, path } => (To::Far(ssh::far(&host, port, args)?, ssh::place(path)), None),
    })
}

fn daemon(address: &str, args: &CopyArgs) -> Result<(Far, Identity)> {
    let path = args.ticket.as_ref().ok_or_else(|| {
        let cause =
            "a daemon asks who you are: give the ticket that it wrote with --ticket or THALWEG_TICKET";
        Failure::new(FailureKind::Permission, "connect", cause)
    })?;
    let ticket = Ticket::read(path)?;
    let identity = ticket.identity()?;
    let tls = client_config(&identity, &ServerTrust::Pinned(ticket.server))?;
    let connect = Arc::new(TcpConnect { addresses: vec![address.to_owned()] });
    Ok((Far { connect, tls, server_name: "thalweg".to_owned() }, identity))
}

fn wishes(args: &CopyArgs, only: Vec<RelativePath>, state: &Path) -> Result<Wishes> {
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
        filter: args.filter.rules()?,
        only,
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
    Ok(wishes)
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
