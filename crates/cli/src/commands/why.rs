//! `thalweg why`: which stage of a transfer is the narrowest.
//!
//! It reads what transfers of this user told of themselves ([`thalweg_service::published`]) or what `cp --json`
//! printed, judges it anew, and answers: a sentence, a drawing, a table on request.

use crate::args::running::WhyArgs;
use crate::drawing::{self, Look};
use crate::exit::Exit;
use crate::{identity, json, out, show, units};
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;
use thalweg_mover::basin::energy::{self, Energy};
use thalweg_mover::basin::{self, Evidence, Verdict, width};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_service::published::{self, Snapshot, State};
use thalweg_wire::account::{LimitAccount, ProcessAccount, SideAccounts, StreamAccount};
use thalweg_wire::path::Escaped;

/// Longer lines are passed over: no event with evidence has as much.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What an answer is about.
struct Subject {
    /// Absent for what comes from a file.
    snapshot: Option<Snapshot>,
    evidence: Evidence,
}

/// `thalweg why`.
///
/// # Errors
/// `NotFound` if there is no such transfer.
pub fn why(args: &WhyArgs) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    if args.list {
        return list(args, &state);
    }
    let mut subject = find(args, &state)?;
    loop {
        tell(args, &subject);
        let is_running = subject.snapshot.as_ref().is_some_and(|told| told.state == State::Running);
        if !args.watch || !is_running || out::is_closed() {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK_EVERY);
        // The same one again, whatever began meanwhile.
        let id = subject.snapshot.as_ref().map(|told| told.id.clone()).unwrap_or_default();
        let Some(now) = published::all(&state).into_iter().find(|told| told.id == id) else {
            return Ok(Exit::Done);
        };
        subject = Subject { evidence: now.evidence.clone(), snapshot: Some(now) };
    }
}

fn list(args: &WhyArgs, state: &Path) -> Result<Exit> {
    let all = published::all(state);
    if all.is_empty() {
        return Err(nothing(args.state.as_deref()));
    }
    for told in &all {
        match args.json {
            true => json::line(&Value::Object(about(told)))?,
            false => out::line(&listed(told))?,
        }
    }
    let left_out = published::left_out(&all);
    match args.json {
        _ if left_out == 0 => {}
        true => json::line(&json!({ "event": "untold", "transfers": left_out }))?,
        false => out::line(&format!("and {} more that run", units::count(left_out)))?,
    }
    out::flush()?;
    Ok(Exit::Done)
}

/// A transfer on one line.
fn listed(told: &Snapshot) -> String {
    let began = units::moment(i64::try_from(told.began_at).unwrap_or(0));
    let bytes = match told.progress {
        Some(done) => {
            let more = if done.scan_over { "" } else { "+" };
            format!("{} of {}{more}", units::size(done.bytes_settled), units::size(done.bytes_found))
        }
        None => units::size(told.evidence.bytes),
    };
    let seconds = seconds(told);
    let ticket = told.ticket.as_ref().map(|name| format!(", ticket {}", inert(name))).unwrap_or_default();
    let client = told.address.map(|address| format!(", client at {address}")).unwrap_or_default();
    let limit = limit_bits_per_s(told).map(|bits| format!(", of at most {} for all", units::bit_rate(bits)));
    let limit = limit.unwrap_or_default();
    format!(
        "{}  {began}  {:8}  {bytes}  {}  {}{limit}  {} -> {}{ticket}{client}",
        told.id,
        word(told.state),
        units::time(seconds),
        units::rate(told.evidence.bytes, seconds),
        inert(&told.from),
        inert(&told.to)
    )
}

/// What the operator of a side lets all that it moves have, if that is bounded: of two sides the lower. A side tells
/// only the limit that holds the transfer back: where that is one of its export, this is not known.
fn limit_bits_per_s(told: &Snapshot) -> Option<f64> {
    let sides = [&told.evidence.sender, &told.evidence.receiver];
    let of_all = |limit: &&LimitAccount| limit.export.is_none();
    let limits = sides.iter().filter_map(|side| side.limit.as_ref()).filter(of_all);
    let limits = limits.map(|limit| limit.bytes_per_s);
    limits.min().map(|rate| rate as f64 * 8.0)
}

/// How long it has run, or did.
fn seconds(told: &Snapshot) -> f64 {
    told.evidence.elapsed_nanos as f64 / 1e9
}

fn nothing(state: Option<&Path>) -> Failure {
    let of_user = "no transfer of this user is known; a daemon's are in its state directory: --state DIR";
    let cause = state.map_or(of_user.to_owned(), |state| {
        let shown = Escaped(state.as_os_str().as_encoded_bytes());
        format!("no transfer is known yet of whoever has `{shown}` as state directory")
    });
    Failure::new(FailureKind::NotFound, "look for transfers", cause)
}

fn find(args: &WhyArgs, state: &Path) -> Result<Subject> {
    let all = published::all(state);
    let Some(asked) = &args.transfer else {
        let told = published::latest(all).ok_or_else(|| nothing(args.state.as_deref()))?;
        return Ok(Subject { evidence: told.evidence.clone(), snapshot: Some(told) });
    };
    let text = asked.to_string_lossy();
    let pid: Option<u32> = text.parse().ok();
    let is_asked = |told: &Snapshot| Some(told.pid) == pid || told.id.starts_with(&*text);
    if let Some(told) = all.into_iter().rev().find(|told| is_asked(told)) {
        return Ok(Subject { evidence: told.evidence.clone(), snapshot: Some(told) });
    }
    from_file(asked, args.state.as_deref())
}

/// The last object with evidence in what `cp --json` printed. `state` is where transfers were looked for before.
fn from_file(name: &OsStr, state: Option<&Path>) -> Result<Subject> {
    let shown = Escaped(name.as_encoded_bytes()).to_string();
    let found = File::open(name).and_then(|file| last_evidence(BufReader::new(file)));
    let evidence = found.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let list = format!("thalweg why --list{}", show::state_option(state));
            let cause =
                format!("`{shown}` is neither a process, a file nor a transfer: `{list}` shows those known");
            Failure::new(FailureKind::NotFound, "look for transfers", cause)
        }
        _ => {
            let failure = failure::of_io("read the events", &error);
            Failure { cause: format!("`{shown}`: {}", failure.cause), ..failure }
        }
    })?;
    let evidence = evidence.ok_or_else(|| {
        let cause =
            format!("`{shown}` has no event `finished` of a copy: it is written by `thalweg cp --json`");
        Failure::new(FailureKind::NotFound, "read the events", cause)
    })?;
    Ok(Subject { snapshot: None, evidence })
}

/// The evidence of the last event that has some; of a file as long as a copy took, a line at a time.
fn last_evidence(mut events: impl BufRead) -> io::Result<Option<Evidence>> {
    let (mut last, mut line) = (None, Vec::new());
    loop {
        line.clear();
        if events.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(last);
        }
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            events.skip_until(b'\n')?;
            continue;
        }
        last = evidence_in(&line).or(last);
    }
}

fn evidence_in(line: &[u8]) -> Option<Evidence> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    serde_json::from_value(value.get_mut("evidence")?.take()).ok()
}

fn tell(args: &WhyArgs, subject: &Subject) {
    let verdict = basin::judge(&subject.evidence);
    if args.json {
        let mut object = subject.snapshot.as_ref().map(about).unwrap_or_default();
        object.insert("event".into(), "why".into());
        object.extend(json::why(verdict.as_ref(), &subject.evidence));
        return json::tell(&Value::Object(object));
    }
    let Some(verdict) = verdict else {
        return out::tell("nothing has moved yet, so no stage is the narrowest");
    };
    let look = Look::of_stdout();
    if args.watch && look.is_terminal {
        let _ = console::Term::stdout().clear_screen();
    }
    out::tell(&inert(&verdict.sentence));
    if args.quiet {
        return;
    }
    if let Some(told) = &subject.snapshot {
        out::tell(&format!(
            "({} -> {}, {})",
            inert(&told.from),
            inert(&told.to),
            progress(subject, told.state)
        ));
    }
    if let Some(energy) = Energy::of(&subject.evidence) {
        out::tell(&energy.sentence());
    }
    let widths = width::widths(&subject.evidence);
    // Without bytes there are no rates to draw.
    if subject.evidence.content_bytes() > 0 {
        out::tell("");
        drawing::draw(&widths, &verdict, look).iter().for_each(|line| out::tell(line));
    }
    if args.verbose > 0 {
        table(&widths);
    }
    if args.verbose > 1 {
        details(&subject.evidence, &verdict);
    }
}

fn progress(subject: &Subject, state: State) -> String {
    let evidence = &subject.evidence;
    let seconds = evidence.elapsed_nanos as f64 / 1e9;
    let rate = units::rate(evidence.bytes, seconds);
    let compared = match evidence.compared_bytes {
        0 => String::new(),
        bytes => format!("; {} were there and were compared", units::size(bytes)),
    };
    let moved = units::size(evidence.bytes);
    format!("{}: {moved} transferred in {seconds:.1} s, {rate}{compared}", word(state))
}

fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Finished => "finished",
        State::Failed => "failed",
        State::Gone => "gone",
    }
}

fn table(widths: &[width::Width]) {
    out::tell("");
    let head = ["stage", "busy", "no input", "output full", "CPU s", "bytes", "items", "threads", "queue"];
    out::tell(&format!(
        "{:<24} {:>6} {:>9} {:>12} {:>8} {:>11} {:>10} {:>8} {:>6}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8]
    ));
    for width in widths {
        let share = |part: f64| format!("{:.0} %", part * 100.0);
        out::tell(&format!(
            "{:<24} {:>6} {:>9} {:>12} {:>8.2} {:>11} {:>10} {:>8} {:>6}",
            drawing::name(width),
            share(width.busy),
            share(width.input),
            share(width.output),
            width.cpu_s,
            units::size(width.bytes),
            units::count(width.items),
            width.threads,
            width.queue_max.map_or_else(|| "–".to_owned(), |count| count.to_string())
        ));
    }
}

fn details(evidence: &Evidence, verdict: &Verdict) {
    out::tell("");
    out::tell(&format!(
        "cause {}, {:.0} % of the time, factor {:.2}",
        verdict.narrowest.cause.name(),
        verdict.narrowest.busy * 100.0,
        verdict.factor
    ));
    for stream in &evidence.sender.streams {
        out::tell(&stream_line(stream));
    }
    for (side, place) in [(&evidence.sender, "source"), (&evidence.receiver, "destination")] {
        side_lines(side, place).iter().for_each(|line| out::tell(line));
    }
    energy::untold(evidence).iter().for_each(|line| out::tell(line));
}

fn stream_line(stream: &StreamAccount) -> String {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    format!(
        "stream {}: {} acknowledged, RTT {:.2} ms (least {:.2}), cwnd {}, window {}, busy {:.2} s, of it by the \
         peer's window {:.2} s, by our buffer {:.2} s, by the congestion window {:.2} s, {} sent again ({} of it \
         lost by a full queue; packets in a queue for {:.2} s), {}",
        stream.stream,
        units::size(stream.acked_bytes),
        seconds(stream.rtt_nanos) * 1e3,
        seconds(stream.rtt_min_nanos) * 1e3,
        units::size(stream.cwnd_bytes),
        units::size(stream.window_bytes),
        seconds(stream.busy_nanos),
        seconds(stream.rwnd_limited_nanos),
        seconds(stream.sndbuf_limited_nanos),
        seconds(stream.cwnd_limited_nanos()),
        units::size(stream.retransmitted_bytes),
        units::size(stream.overflow_bytes),
        seconds(stream.queued_nanos),
        inert(&stream.congestion),
    )
}

fn side_lines(side: &SideAccounts, place: &str) -> Vec<String> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let process = &side.process;
    let quota = process.quota_milli.map_or("no quota".to_owned(), |quota| {
        let throttled = seconds(process.throttled_nanos);
        format!("quota {:.2}, used up for {throttled:.2} s", f64::from(quota) / 1e3)
    });
    let mut lines = vec![format!(
        "{place}: CPU {:.2} s user, {:.2} s system of {} ({quota}; {}), {:.2} s without one; {}; medium \
         {} read, {} written",
        seconds(process.user_nanos),
        seconds(process.system_nanos),
        units::counted((u64::from(process.cores_milli) + 500) / 1000, "CPU", "CPUs"),
        heat(process),
        seconds(process.runnable_nanos),
        units::counted(process.voluntary_switches, "wait", "waits"),
        units::size(process.read_bytes),
        units::size(process.written_bytes),
    )];
    lines.extend(side.disk.map(|disk| {
        format!(
            "{place}: device {}:{} (with everybody on it) {} read, {} written, busy {:.2} s, flushing {:.2} s",
            disk.major,
            disk.minor,
            units::size(disk.read_bytes),
            units::size(disk.written_bytes),
            seconds(disk.busy_nanos),
            seconds(disk.flush_nanos),
        )
    }));
    lines
}

fn heat(process: &ProcessAccount) -> String {
    let times = match process.heat_times {
        0 => String::new(),
        times => format!(", counted {}", units::counted(times, "time", "times")),
    };
    match (process.heat_looks, process.heat_slowed) {
        (0, _) => "heat is not told".to_owned(),
        (looks, 0) => format!("no heat at {}", units::counted(looks.into(), "look", "looks")),
        (looks, slowed) => {
            let of = units::counted(looks.into(), "look", "looks");
            format!("slowed for heat at {} of {of}{times}", slowed.min(looks))
        }
    }
}

/// What a transfer says of itself, besides evidence.
fn about(told: &Snapshot) -> Map<String, Value> {
    let (bytes, seconds, done) = (told.evidence.bytes, seconds(told), told.progress);
    let value = json!({
        "event": "transfer", "id": told.id, "pid": told.pid, "served": told.is_served, "state": told.state,
        "began_at": told.began_at, "told_at": told.told_at, "from": told.from, "to": told.to,
        "address": told.address, "ticket": told.ticket, "bytes": bytes, "seconds": seconds,
        "bytes_per_s": if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
        "bytes_settled": done.map(|done| done.bytes_settled),
        "bytes_found": done.map(|done| done.bytes_found), "scan_over": done.map(|done| done.scan_over),
        "limit_bits_per_s": limit_bits_per_s(told),
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Words that come from a file or a peer.
fn inert(text: &str) -> String {
    text.chars().map(|c| if thalweg_wire::path::is_inert(c) || c == '\\' { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bytes: u64) -> String {
        let evidence = Evidence { bytes, ..Evidence::default() };
        json!({ "event": "finished", "evidence": evidence }).to_string()
    }

    #[test]
    fn the_last_evidence_counts_and_a_line_that_is_too_long_is_passed_over() {
        let long = "x".repeat(LINE_BYTES_MAX as usize);
        let [first, second, third] = [1, 2, 3].map(event);
        let text = format!("{first}\n{second}\n{{\"event\":\"entry\"}}\n{long}{third}\n");
        let bytes = |text: &str| last_evidence(text.as_bytes()).unwrap().map(|evidence| evidence.bytes);
        assert_eq!(bytes(&text), Some(2));
        // What a copy that is under way has not written to its end is not there yet.
        assert_eq!(bytes(&format!("{first}\n{}", &second[..20])), Some(1));
        assert_eq!(bytes(""), None);
    }

    #[test]
    fn events_that_cannot_be_read_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let failure = from_file(directory.path().as_os_str(), None).err().unwrap();
        assert!(failure.cause.contains(directory.path().to_str().unwrap()), "{failure}");
    }
}
