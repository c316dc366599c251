//! `thalweg serve`.

use crate::args::serve::ServeArgs;
use crate::exit::Exit;
use crate::{config, identity, out, running, show, threads, units};
use clap::FromArgMatches;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use thalweg_cli::args::slots::SlotRate;
use thalweg_cli::args::{Args, Command};
use thalweg_client::options::memory;
use thalweg_client::place::DEFAULT_PORT;
use thalweg_lab::doctor::{Roots, group_memory_bytes, machine_memory_bytes};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::{ClientTrust, Identity, PlaceFile, Ticket};
use thalweg_mover::measure::{self, Measure};
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::steer::Rate;
use thalweg_service::accept;
use thalweg_service::errands::ErrandsTo;
use thalweg_service::export::{Changes, Export, Exports};
use thalweg_service::metrics::{self, Answering, Build};
use thalweg_service::sd_notify::Manager;
use thalweg_service::sessions::{Host, HostLimits};
use thalweg_service::tickets::issuers::Issuers;
use thalweg_service::tickets::{self, Daemon, Standing, Tickets};
use thalweg_sys::clock::unix_seconds;
use thalweg_sys::errno;
use thalweg_sys::{Dir, File, process};
use thalweg_wire::limits;
use thalweg_wire::message::{Disk, MeasureTerms, Part};

/// That what [`Daemon`] says could not be said.
const UNTOLD: &str = "who makes tickets is not told where the daemon is reached, and which exports there are";

/// That clients find less than the flags of an export let them do.
const UNWRITABLE: &str = "nobody writes in an export that is not `ro`";

/// That what channels left of a daemon that was killed may still take room.
const UNCLEARED: &str = "logs of frames that nobody can go on with may still be there";

/// So long they are looked for, in all exports together: a file server may take its time for each directory, and nobody
/// is served meanwhile.
const CLEARING: Duration = Duration::from_secs(5);

/// Name of the file of a server's key in its state directory.
pub(super) const IDENTITY: &str = "server.pem";

/// Serves until SIGTERM or SIGINT. At SIGHUP it reads its exports, its limit and its issuers anew; if that came because
/// its terminal is gone, it ends.
///
/// # Errors
/// If it cannot begin.
pub fn serve(args: &ServeArgs) -> Result<Exit> {
    let _ = process::forbid_core_dumps();
    let roots = Roots::below(Path::new("/"));
    let group_bytes = group_memory_bytes(&roots);
    let exports = exports(args)?;
    check_limit(args, &exports, args.slots.is_some())?;
    let issuers = issuers(args)?;
    let told_issuers = issuers.as_ref().map(Issuers::told).unwrap_or_default();
    let errands = errands(args)?;
    super::copy::bound_memory(args.memory.or_else(|| group_bytes.map(of_group)));
    let state = identity::state_directory(args.state.as_deref())?;
    let _own = take_state(&state)?;
    let slots_bits_per_s = args.slots.map(|rate| slot_rate(rate, &exports)).transpose()?;
    let settle = slots_bits_per_s.map_or(Duration::ZERO, |_| slowest_settling(&exports));
    let exports = Exports::open(exports)?;
    exports.unwritable().iter().for_each(|failure| warn(failure, UNWRITABLE));
    // Before anybody can open one of them.
    exports.remove_deserted_logs(CLEARING).iter().for_each(|failure| warn(failure, UNCLEARED));
    let own = Identity::load_or_create(&state.join(IDENTITY), "thalweg server")?;
    let owner = state.join("client.pem");
    let is_first = owner.symlink_metadata().is_err();
    let client = Identity::load_or_create(&owner, "thalweg client")?;
    if let Err(failure) = tickets::make_directory(&state) {
        warn(&failure, "there is no directory for tickets: only the owner's is taken");
    }
    let tickets = Tickets::new(&state, client.fingerprint());
    tickets.take_tokens_of(issuers, unix_seconds());
    let trust = ClientTrust { register: Some(tickets.clone()), ..ClientTrust::default() };
    trust.pinned.insert(client.fingerprint());
    let rate = Arc::new(Rate::of_bits(args.bwlimit));
    let limits = HostLimits {
        patience: args.patience,
        stall_timeout: args.stall_timeout,
        channel_bytes_max: args.frames_memory.unwrap_or_else(|| frames_bytes(group_bytes)),
        spill_bytes_max: args.max_spill,
        block_max: args.block_max,
        held_bytes_max: held_bytes(group_bytes.or_else(|| machine_memory_bytes(&roots))),
        tls_form: args.tls.form(),
        requires_tls: args.require_tls,
        slots_bits_per_s,
        settle,
        rate: rate.clone(),
        errands,
        ..HostLimits::default().for_sessions(args.max_sessions, args.max_sessions_per_address)
    };
    let fingerprint = own.fingerprint();
    // It keeps its own copy of the key, for receipts.
    let host = Host::new(own.copied()?, exports, Some(state.clone()), limits);
    host.heed(tickets.clone());
    let listening = accept::listen(host.clone(), &own, &trust, &args.listen)?;
    let _answering = args.metrics.as_deref().map(|address| answer_metrics(&host, address)).transpose()?;
    // Before anybody is told that it listens: who ends it then has it end in order.
    let ends_with_terminal = has_terminal() && !process::ignores(SIGHUP);
    let signals = signals()?;
    // Where slots are promised there is no limit to change.
    let _asked = args.slots.is_none().then(|| running::listen_as_daemon(&state, &rate)).flatten();
    let reachable = match args.advertise.is_empty() {
        true => listening.reachable(),
        false => Ok(args.advertise.clone()),
    };
    // Who makes tickets asks; where nobody can dial it there is nothing to make.
    let addresses = reachable.clone().unwrap_or_default();
    let exports = host.export_names();
    let how_to_let_in = how_to_let_in(args, &state, is_first, !addresses.is_empty());
    let told = Daemon { server: fingerprint, addresses, exports };
    if let Err(failure) = told.tell(&state) {
        warn(&failure, UNTOLD);
    }
    let place = match &args.place_file {
        None => None,
        Some(path) => {
            let place =
                PlaceFile { addresses: reachable.clone()?, server: fingerprint, issuers: told_issuers };
            place.write(path)?;
            Some((path.clone(), place))
        }
    };
    let began = Began { fixed: fixed(args), has_slots: args.slots.is_some(), state, told, tickets, place };
    let reloads = reload_on_request(host, rate, began)?;
    if let Some(path) = &args.ticket_file {
        let addresses = reachable?;
        Ticket { addresses, server: fingerprint, identity_pem: client.to_pem() }.write(path)?;
    }
    let where_to = where_to(&listening.addresses, &args.advertise);
    out::tell(&format!("{where_to}, fingerprint {fingerprint}"));
    how_to_let_in.iter().for_each(|text| out::tell(text));
    if let Some(bits) = args.bwlimit {
        out::tell(&format!("all sessions together move at most {}", units::bit_rate(bits as f64)));
    }
    if let Some(bits) = slots_bits_per_s {
        out::tell(&format!(
            "slots of a way that carries {}; what arrives is durable {} later",
            units::bit_rate(bits as f64),
            units::time(settle.as_secs_f64())
        ));
    }
    let manager = Manager::of_environment();
    if let Some(manager) = &manager {
        manager.ready(&where_to);
    }
    wait_for(signals, ends_with_terminal, reloads)?;
    if let Some(manager) = &manager {
        manager.stopping("ending its sessions");
    }
    listening.stop();
    Ok(Exit::Done)
}

/// How somebody is let in, where nobody is who comes now; `None` where somebody may be. `is_first`: no earlier daemon
/// with this state can have written its owner's ticket. `is_reachable`: it knows an address for tickets.
fn how_to_let_in(args: &ServeArgs, state: &Path, is_first: bool, is_reachable: bool) -> Option<String> {
    if args.ticket_file.is_some() || args.issuers.is_some() {
        return None;
    }
    let (records, troubles) = tickets::all(state).ok()?;
    let now = unix_seconds();
    let is_one = !troubles.is_empty() || records.iter().any(|record| record.standing(now) == Standing::Valid);
    if is_one {
        return None;
    }
    let but =
        if is_first { "there is none" } else { "there is none but what an earlier --ticket-file wrote" };
    let once = if is_reachable { "" } else { ", once this was started with --advertise" };
    let state = show::state_option(args.state.as_deref());
    Some(format!("who comes in needs a ticket, and {but}: `thalweg ticket new NAME{state}` makes one{once}"))
}

/// Answers who asks for metrics, until what it returns is dropped, and says so in the log.
fn answer_metrics(host: &Arc<Host>, address: &str) -> Result<Answering> {
    const OPEN: &str = "whoever reaches this address reads the metrics, in clear and without a ticket";
    let build = Build { version: env!("CARGO_PKG_VERSION"), commit: thalweg_cli::COMMIT };
    let answering = metrics::listen(host, address, build)?;
    for address in &answering.addresses {
        tracing::info!(%address, "metrics are told");
        if address.ip().to_canonical().is_loopback() {
            continue;
        }
        if !tracing::enabled!(tracing::Level::WARN) {
            show::line(&format!("warning: {address}: {OPEN}"));
        }
        tracing::warn!(%address, "{OPEN}");
    }
    Ok(answering)
}

/// Bytes of buffers in a control group that may have so many in all, where nobody says how many: what is read and
/// written, sockets and the rest of the program count there too, and who goes beyond is killed.
fn of_group(bytes: u64) -> u64 {
    (bytes / 4).max(memory::BYTES_MIN)
}

/// Bytes of frames that channels may hold, where nobody says how many. In a control group they and what is under way,
/// which may be as much, take a quarter of what it may have: as buffers do.
fn frames_bytes(group_bytes: Option<u64>) -> u64 {
    /// A hub with less opens no channel.
    const FRAMES_BYTES_MIN: u64 = 1 << 20;
    let bytes = group_bytes.map_or(limits::CHANNEL_BYTES_MAX, |bytes| bytes / 8);
    bytes.clamp(FRAMES_BYTES_MIN, limits::CHANNEL_BYTES_MAX)
}

/// Bytes of what clients may have it keep beside buffers and frames: a quarter of the memory that it may
/// have, or that there is.
fn held_bytes(memory_bytes: Option<u64>) -> usize {
    /// So much is kept of some copies of many files, each way.
    const HELD_BYTES_MIN: u64 = 256 << 20;
    let bytes = memory_bytes.map(|bytes| (bytes / 4).max(HELD_BYTES_MIN));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
}

/// Where it listens, with the ports that the kernel chose, and what it is said to be reached at.
fn where_to(listening: &[SocketAddr], advertised: &[String]) -> String {
    let listening: Vec<String> = listening.iter().map(ToString::to_string).collect();
    let listening = format!("listening at {}", listening.join(", "));
    match advertised {
        [] => listening,
        advertised => format!("{listening}, advertised as {}", advertised.join(", ")),
    }
}

/// The state directory belongs to one daemon as long as this is held: two would be one server, with one key, in two
/// places, each with its own view of who may do what. A daemon that was killed has it until its last sync is over: so
/// that the next one may be started at once, this waits for up to [`STATE_WAIT`].
fn take_state(state: &Path) -> Result<File> {
    const TAKE_STATE: &str = "take the state directory";
    let of_io = |error: std::io::Error| failure::at_path(failure::of_io(TAKE_STATE, &error), state);
    let directory = Dir::open(state).map_err(of_io)?;
    let until = Instant::now() + STATE_WAIT;
    loop {
        if let Some(lock) = directory.lock(LOCK).map_err(of_io)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            let cause = "another `thalweg serve` has it";
            let failure = Failure::new(FailureKind::Busy, TAKE_STATE, cause).because(Reason::StateTaken);
            return Err(failure::at_path(failure, state));
        }
        std::thread::sleep(STATE_LOOK);
    }
}

/// How long a daemon waits for one that ends, and how often it looks.
const STATE_WAIT: Duration = Duration::from_secs(5);
const STATE_LOOK: Duration = Duration::from_millis(50);

/// In the state directory; locked by the kernel, so that a daemon that was killed leaves none behind.
const LOCK: &[u8] = b"serve.lock";

/// What is given away in slots, in bits a second.
fn slot_rate(rate: SlotRate, exports: &[Export]) -> Result<u64> {
    match rate {
        SlotRate::Given(bits) => Ok(bits),
        SlotRate::Measured => Ok((slowest_part(exports)? * SHARE) as u64),
    }
}

/// Of the exports that may be written, the one whose disk takes longest until what arrived is durable.
/// One that cannot be measured, for want of room for instance, counts when its first streams have shown it.
fn slowest_settling(exports: &[Export]) -> Duration {
    let settle = |export: &Export| {
        let measured = measure::settle(export.directory.clone(), None);
        measured.inspect_err(|failure| tracing::warn!(%failure, "how long syncs take is not known")).ok()
    };
    let writable = exports.iter().filter(|export| !export.rights.read_only);
    writable.filter_map(settle).max().unwrap_or_default()
}

/// The slowest part of receiving, each alone with all cores, in bits a second.
fn slowest_part(exports: &[Export]) -> Result<f64> {
    let mut parts = vec![(Part::Digest, PathBuf::new()), (Part::Open, PathBuf::new())];
    parts.extend(
        exports
            .iter()
            .find(|export| !export.rights.read_only)
            .map(|export| (Part::Write, export.directory.clone())),
    );
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = u16::try_from(threads).unwrap_or(u16::MAX).min(limits::MEASURE_THREADS_MAX);
    let cipher = LinkSettings::default().cipher;
    // As of copies over a far path, for which slots are.
    let terms = MeasureTerms {
        chunk_bytes: plan::CHUNK_BYTES,
        segment_bytes: plan::SEGMENT_BYTES,
        disk: Disk::default(),
    };
    let mut slowest = f64::INFINITY;
    for (part, path) in parts {
        let asked = Measure {
            part,
            path,
            contents: false,
            below: None,
            bytes_max: u64::MAX,
            time: MEASURE,
            threads,
            cipher,
            terms,
        };
        let measured = measure::measure(asked, &|| false)?;
        let busy_s = measured.busy_nanos as f64 / 1e9 / f64::from(measured.threads.max(1));
        let seconds = busy_s + measured.sync_nanos as f64 / 1e9;
        slowest = slowest.min(measured.bytes as f64 * 8.0 / seconds.max(1e-9));
    }
    Ok(slowest)
}

/// Each part is measured for so long.
const MEASURE: Duration = Duration::from_secs(1);
/// Of what was measured this is given away: parts hinder each other, and disks have worse hours.
const SHARE: f64 = 0.8;

fn exports(args: &ServeArgs) -> Result<Vec<Export>> {
    args.export.iter().map(|text| Export::read(text, units::parse_size, units::parse_rate)).collect()
}

/// Whose tokens it takes, if any.
fn issuers(args: &ServeArgs) -> Result<Option<Issuers>> {
    if args.place_file.is_some() && args.issuers.is_none() {
        let cause = "--place-file is for who comes with a token: say with --issuers whose are taken";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    args.issuers.as_deref().map(|path| Issuers::read(path, units::parse_rate)).transpose()
}

/// Whom clients may send it to.
fn errands(args: &ServeArgs) -> Result<ErrandsTo> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "read --errands", cause);
    let errands = ErrandsTo::read(&args.errands, DEFAULT_PORT).map_err(usage)?;
    match args.slots.is_some() && errands != ErrandsTo::Nobody {
        true => Err(usage("what it moves for clients has no slot: it goes not with --slots".to_owned())),
        false => Ok(errands),
    }
}

/// A limit would hold back what has a slot, also that of one export.
fn check_limit(args: &ServeArgs, exports: &[Export], has_slots: bool) -> Result<()> {
    let is_limited = args.bwlimit.is_some() || exports.iter().any(|one| one.rights.bits_per_s_max.is_some());
    if !has_slots || !is_limited {
        return Ok(());
    }
    let cause = "--bwlimit would break what --slots promises: give one of them (a limit may also be an \
                 export's, or come from THALWEG_BWLIMIT, or from a file, there also from its top)";
    Err(Failure::new(FailureKind::Usage, "read the command line", cause))
}

/// What a daemon began with, and keeps until it is started anew; of the place file where that is and whom it names.
struct Began {
    fixed: Fixed,
    /// It may promise slots.
    has_slots: bool,
    /// Its state directory.
    state: PathBuf,
    /// What it says there of itself.
    told: Daemon,
    tickets: Arc<Tickets>,
    /// The place file, and what was written there last.
    place: Option<(PathBuf, PlaceFile)>,
}

/// What is asked for that takes effect at the start alone, by its option.
type Fixed = [(&'static str, String); 19];

fn fixed(args: &ServeArgs) -> Fixed {
    [
        ("listen", format!("{:?}", args.listen)),
        ("state", format!("{:?}", args.state)),
        ("ticket-file", format!("{:?}", args.ticket_file)),
        ("place-file", format!("{:?}", args.place_file)),
        ("advertise", format!("{:?}", args.advertise)),
        ("patience", format!("{:?}", args.patience)),
        ("stall-timeout", format!("{:?}", args.stall_timeout)),
        ("max-sessions", format!("{:?}", args.max_sessions)),
        ("max-sessions-per-address", format!("{:?}", args.max_sessions_per_address)),
        ("memory", format!("{:?}", args.memory)),
        ("slots", format!("{:?}", args.slots)),
        ("frames-memory", format!("{:?}", args.frames_memory)),
        ("max-spill", format!("{:?}", args.max_spill)),
        ("block-max", format!("{:?}", args.block_max)),
        ("metrics", format!("{:?}", args.metrics)),
        ("errands", format!("{:?}", args.errands)),
        ("log-format", format!("{:?}", args.log_format)),
        ("require-tls", format!("{:?}", args.require_tls)),
        ("ktls, tls-records", format!("{:?}", args.tls)),
    ]
}

/// Tells what the daemon goes on without; where there is no log, by a line.
fn warn(failure: &Failure, words: &'static str) {
    if !tracing::enabled!(tracing::Level::WARN) {
        show::line(&format!("warning: {words}: {failure}"));
    }
    tracing::warn!(%failure, "{words}");
}

/// Reads the exports, the limit and the issuers anew whenever it is asked to. On a thread of its own: a directory may
/// be on a disk that stands still, and the daemon is to end all the same.
fn reload_on_request(host: Arc<Host>, rate: Arc<Rate>, mut began: Began) -> Result<mpsc::SyncSender<()>> {
    // One that waits stands for all that come until it is begun.
    let (asks, asked) = mpsc::sync_channel(1);
    threads::spawn("reload", move || {
        for () in asked {
            match reload(&host, &rate, &mut began) {
                Ok(changes) => tell(&changes),
                Err(failure) => {
                    // Without a log nobody would hear of it.
                    if !tracing::enabled!(tracing::Level::ERROR) {
                        show::failure(&failure);
                    }
                    tracing::error!(%failure, "the exports stay as they were, and so do limit and issuers");
                }
            }
        }
    })?;
    Ok(asks)
}

/// All of the exports, the limit and the issuers, or nothing: what cannot be read or opened leaves them as they were.
fn reload(host: &Host, rate: &Rate, began: &mut Began) -> Result<Changes> {
    let args = read_again()?;
    // Slots come and go when it is started anew only: those that it promised stand.
    let exports = exports(&args)?;
    check_limit(&args, &exports, began.has_slots || args.slots.is_some())?;
    let issuers = issuers(&args)?;
    let opened = Exports::open(exports)?;
    opened.unwritable().iter().for_each(|failure| warn(failure, UNWRITABLE));
    let now = fixed(&args);
    let other = began.fixed.iter().zip(&now).filter(|(began, now)| began != now);
    let other: Vec<&str> = other.map(|((option, _), _)| *option).collect();
    if !other.is_empty() {
        let options = other.join(", ");
        tracing::warn!(%options, "changed, which takes effect when the daemon is started anew");
    }
    let before = rate.bytes_per_s();
    // Where slots are asked for there is no limit from the next start on; until then it stays.
    if args.slots.is_none() {
        rate.set_bits(args.bwlimit);
    }
    if rate.bytes_per_s() != before {
        let limit = args.bwlimit.map_or("none".to_owned(), |bits| units::bit_rate(bits as f64));
        tracing::info!(%limit, "the limit of all sessions together is another");
    }
    go_by(issuers, began);
    let changes = host.replace_exports(opened);
    let told = Daemon { exports: host.export_names(), ..began.told.clone() };
    if let Err(failure) = told.tell(&began.state) {
        warn(&failure, UNTOLD);
    }
    Ok(changes)
}

/// Takes tokens of these issuers from now on, and has the place file name them. (Where there are none any more that one
/// would lead nobody in: it stays.)
fn go_by(issuers: Option<Issuers>, began: &mut Began) {
    let told = issuers.as_ref().map(Issuers::told);
    if let Some(withdrawn) = began.tickets.take_tokens_of(issuers, unix_seconds()) {
        tracing::info!(withdrawn, "the issuers are read anew: what they give to tokens is other");
    }
    let (Some((path, place)), Some(issuers)) = (&mut began.place, told) else { return };
    if place.issuers == issuers {
        return;
    }
    let new = PlaceFile { issuers, ..place.clone() };
    match new.write(path) {
        Ok(()) => *place = new,
        Err(failure) => warn(&failure, "the place file names the issuers that there were"),
    }
}

/// What the command line, the environment and the files say by now.
fn read_again() -> Result<ServeArgs> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "read the configuration", cause);
    let words: Vec<OsString> = std::env::args_os().collect();
    let (command, _) = config::layered(&words)?;
    let parsed = command.try_get_matches_from(words).and_then(|found| Args::from_arg_matches(&found));
    let args = parsed.map_err(|error| {
        let text = error.to_string();
        // What follows is how the command is used.
        let cause = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        usage(cause.split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    match args.command {
        Command::Serve(args) => Ok(args),
        _ => Err(usage("it is no daemon's".to_owned())),
    }
}

fn tell(Changes { added, removed, changed }: &Changes) {
    if [added, removed, changed].iter().all(|names| names.is_empty()) {
        return tracing::info!("the exports are read anew, and are as they were");
    }
    let [added, removed, changed] = [added, removed, changed].map(|names| names.join(", "));
    tracing::info!(%added, %removed, %changed, "the exports are read anew");
}

/// Whether a terminal controls this process, wherever its output goes.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Whether it controls this process no more. What else keeps it from being opened (too many open files) says nothing of
/// it.
fn terminal_is_gone() -> bool {
    const GONE: [i32; 2] = [errno::NO_DEVICE, errno::IO];
    std::fs::File::open("/dev/tty")
        .is_err_and(|error| error.raw_os_error().is_some_and(|code| GONE.contains(&code)))
}

/// Those that it hears, from now on.
fn signals() -> Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| failure::of_io("listen for signals", &error))
}

fn wait_for(mut signals: Signals, ends_with_terminal: bool, reloads: mpsc::SyncSender<()>) -> Result<()> {
    let (told, hears) = mpsc::channel();
    threads::spawn("signals", move || {
        let mut is_first = true;
        for signal in signals.forever() {
            if signal == SIGHUP {
                // Its end may come twice, by the kernel and by a shell.
                let is_end = ends_with_terminal && terminal_is_gone();
                let _ = if is_end { told.send(()).is_ok() } else { reloads.try_send(()).is_ok() };
                continue;
            }
            if !is_first {
                std::process::exit(128 + signal);
            }
            is_first = false;
            let _ = told.send(());
        }
    })?;
    loop {
        match hears.recv_timeout(Duration::from_secs(3600)) {
            Ok(()) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(FailureKind::Internal, "serve", "the signal thread ended"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_daemon_in_a_control_group_are_few_and_enough_for_a_channel() {
        assert_eq!([None, Some(64 << 30), Some(64 << 20)].map(held_bytes), [usize::MAX, 16 << 30, 256 << 20]);
        assert_eq!(frames_bytes(None), 1 << 30);
        assert_eq!(frames_bytes(Some(1 << 40)), 1 << 30);
        assert_eq!(frames_bytes(Some(512 << 20)), 64 << 20);
        assert_eq!(frames_bytes(Some(4 << 20)), 1 << 20);
    }
}
