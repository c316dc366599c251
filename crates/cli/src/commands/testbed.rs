//! `thalweg testbed`.

use crate::exit::Exit;
use crate::{json, out, show, signals, units};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use thalweg_cli::args::testbed::{
    DownArgs, ListArgs, NAME, PathArgs, RunArgs, SetArgs, ShowArgs, TestbedCommand, UpArgs, WhichArgs,
};
use thalweg_lab::bench::record::Scaled;
use thalweg_lab::testbed::daemon::{DirectionStatus, Request, Status};
use thalweg_lab::testbed::registry::{Record, Registry, Removed, become_program};
use thalweg_lab::testbed::spec::{Paths, STOCK, Spec, TUNED};
use thalweg_lab::testbed::wire::Path;
use thalweg_lab::testbed::{check, daemon, presets, warden};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};

/// `thalweg testbed …`.
///
/// # Errors
/// If it cannot be done.
pub fn testbed(command: &TestbedCommand) -> Result<Exit> {
    let exit = match command {
        TestbedCommand::Up(args) => up(args),
        TestbedCommand::Run(args) => Err(run(args)),
        TestbedCommand::Set(args) => set(args),
        TestbedCommand::Status(args) => status(args),
        TestbedCommand::Check(args) => check_accuracy(args),
        TestbedCommand::List(args) => list(args),
        TestbedCommand::Down(args) => down(args),
        TestbedCommand::Wire(args) => wire(args),
        TestbedCommand::Warden(args) => watch(args),
    }?;
    out::answered(Ok(()), exit)
}

fn up(args: &UpArgs) -> Result<Exit> {
    let registry = registry(args.which.state.as_deref())?;
    let base: &[(&str, &str)] = match (args.stock, args.tuned) {
        (true, _) => STOCK,
        (_, true) => TUNED,
        _ => &[],
    };
    let mut sysctls: Vec<(String, String)> =
        base.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    sysctls.extend(args.sysctl.iter().cloned());
    let mut paths = Paths::default();
    apply(&args.path, false, &mut paths);
    let (left, right) = args.hosts;
    let spec = Spec {
        name: args.which.name.clone(),
        left,
        right,
        mtu_bytes: mtu_bytes(args),
        paths,
        seed: args.seed,
        sysctls,
    };
    let stop = Arc::new(AtomicBool::new(false));
    signals::flag_on(stop.clone())?;
    let wire = wire_command(&spec.name, args.which.state.as_deref())?;
    let record = registry.up_unless(&spec, wire, &stop)?;
    warn_if_too_fast(&spec.paths);
    if args.json {
        json::line(&described(&record, None))?;
        return Ok(Exit::Done);
    }
    out::line(&format!("testbed `{}` is up: {}", spec.name, shown(&spec.paths)))?;
    tell_scaling(&spec)?;
    for host in &record.hosts {
        out::line(&format!("  {:<9} {}", host.name, host.address))?;
    }
    let which = options_of(&args.which);
    out::line(&format!("run a program in a host: thalweg testbed run{which} left CMD"))?;
    out::line(&format!("remove all of it: thalweg testbed down{which}"))?;
    Ok(Exit::Done)
}

/// What is not as the paper has it whose path it is.
fn tell_scaling(spec: &Spec) -> Result<()> {
    for Scaled { what, from, to } in spec.scaling() {
        out::line(&format!("  scaled: {what}: {from} -> {to}"))?;
    }
    Ok(())
}

/// What was typed, or the preset's.
fn mtu_bytes(args: &UpArgs) -> u32 {
    let preset = args.path.preset.as_deref().and_then(presets::find);
    args.mtu.or(preset.map(|preset| preset.mtu_bytes)).unwrap_or(presets::MTU_BYTES)
}

fn warn_if_too_fast(paths: &Paths) {
    if let Some(warning) = too_fast(paths) {
        show::line(&warning);
    }
}

/// A warning if a direction has a rate that was not measured to be kept; of a preset with what carries its round trip
/// time, or as many bytes under way.
fn too_fast(paths: &Paths) -> Option<String> {
    let rates = [&paths.forward, &paths.back].map(|path| path.rate_bits_per_s);
    let fastest = rates.into_iter().flatten().max()?;
    let words = |rate: u64| units::bit_rate(rate as f64);
    let kept = presets::RATE_KEPT_BITS_PER_S;
    let smaller = paths.preset.as_deref().map(|preset| {
        let (gbit, slower) = (kept as f64 / 1e9, fastest as f64 / kept as f64);
        let rtt_ms = paths.rtt_ns() as f64 / 1e6 * slower;
        format!(
            ": `--preset {preset} --rate {gbit}Gbit/s` has its round trip time, and with `--rtt {rtt_ms:.1}ms` as many bytes \
             under way"
        )
    });
    (fastest > kept).then(|| {
        format!(
            "warning: a rate of {} may not be kept: one thread carries each direction, and what it keeps is not measured \
             here above {}; name a smaller --rate (`thalweg testbed check` measures what is kept){}",
            words(fastest),
            words(kept),
            smaller.unwrap_or_default()
        )
    })
}

/// What names this testbed to further commands.
fn options_of(which: &WhichArgs) -> String {
    // A name has no letters that a shell reads.
    let name = match which.name.as_str() {
        NAME => String::new(),
        name => format!(" --name {name}"),
    };
    name + &show::state_option(which.state.as_deref())
}

/// The process of a testbed.
pub fn wire_command(name: &str, state: Option<&std::path::Path>) -> Result<Command> {
    process_command("wire", name, state)
}

/// A process that a testbed has: `wire` or `warden`.
fn process_command(what: &str, name: &str, state: Option<&std::path::Path>) -> Result<Command> {
    let program = std::env::current_exe().map_err(|error| of_io("find the program thalweg", &error))?;
    let mut command = Command::new(program);
    command.args(["testbed", what, "--name", name]);
    if let Some(state) = state {
        let absolute = std::path::absolute(state).map_err(|error| of_io("find --state", &error))?;
        command.arg("--state").arg(absolute);
    }
    Ok(command)
}

/// Returns only if the program cannot be run.
fn run(args: &RunArgs) -> Failure {
    let begin = || -> Result<_> {
        let registry = registry(args.which.state.as_deref())?;
        let record = registry.running(&args.which.name)?;
        let host = record.host(&args.host)?.clone();
        Ok((registry, record, host))
    };
    let (registry, record, host) = match begin() {
        Ok(begun) => begun,
        Err(failure) => return failure,
    };
    let Some((program, words)) = args.command.split_first() else {
        return Failure::new(FailureKind::Usage, "run a program", "none was named");
    };
    let mut command = Command::new(program);
    command.args(words);
    become_program(&registry, &record, &host, command)
}

fn set(args: &SetArgs) -> Result<Exit> {
    let registry = registry(args.which.state.as_deref())?;
    let status = registry.ask(&args.which.name, &Request::Status)?;
    let mut paths = status.spec.paths;
    apply(&args.path, args.no_rate, &mut paths);
    let status = registry.ask(&args.which.name, &Request::Set(paths))?;
    warn_if_too_fast(&status.spec.paths);
    if args.json {
        json::line(&described(&registry.running(&args.which.name)?, Some(&status)))?;
    } else {
        out::line(&format!("testbed `{}` from now on: {}", args.which.name, shown(&status.spec.paths)))?;
        tell_scaling(&status.spec)?;
    }
    Ok(Exit::Done)
}

fn status(args: &ShowArgs) -> Result<Exit> {
    let registry = registry(args.which.state.as_deref())?;
    let cleared = registry.clear_dead().unwrap_or_default();
    if let Some((name, removed)) = cleared.iter().find(|(name, _)| *name == args.which.name) {
        let cause = format!("testbed `{name}` {}", removed_words(*removed));
        return Err(Failure::new(FailureKind::NotFound, "find a testbed", cause));
    }
    let status = registry.ask(&args.which.name, &Request::Status)?;
    let record = registry.running(&args.which.name)?;
    if args.json {
        json::line(&described(&record, Some(&status)))?;
        return Ok(Exit::Done);
    }
    out::line(&format!(
        "testbed `{}`, up for {:.0} s: {}",
        record.spec.name,
        status.seconds,
        shown(&status.spec.paths)
    ))?;
    tell_scaling(&status.spec)?;
    for host in &record.hosts {
        out::line(&format!("  {:<9} {}", host.name, host.address))?;
    }
    for (name, direction) in [("forward", &status.forward), ("back", &status.back)] {
        out::line(&format!("  {name:<9} {}", direction_shown(direction)))?;
    }
    let cost = status.cpu_seconds_per_gb.map(|cost| format!(", {cost:.3} CPU-s/GB")).unwrap_or_default();
    out::line(&format!("  the wire's own cost: {:.2} CPU-s{cost}", status.cpu_seconds))?;
    Ok(Exit::Done)
}

fn check_accuracy(args: &ShowArgs) -> Result<Exit> {
    let registry = registry(args.which.state.as_deref())?;
    let report = check::measure(&registry, &args.which.name)?;
    let is_within = report.lines.iter().all(check::Line::is_within);
    out::answered(tell_check(args, &report, is_within), if is_within { Exit::Done } else { Exit::Partial })
}

fn tell_check(args: &ShowArgs, report: &check::Accuracy, is_within: bool) -> Result<()> {
    if args.json {
        return json::line(
            &json!({"event": "testbed-check", "name": args.which.name, "within": is_within, "report": report}),
        );
    }
    for line in &report.lines {
        let word = if line.is_within() { "ok " } else { "OFF" };
        out::line(&format!(
            "{word} {:<32} {:>10.3} {:<8} expected {:.3}, give or take {:.3} ({})",
            line.what, line.measured, line.unit, line.expected, line.tolerance, line.note
        ))?;
    }
    for what in &report.not_measured {
        out::line(&format!("--  {what}"))?;
    }
    // Of small packets alone it says nothing: what costs is packets, not bytes.
    if report.lines.iter().any(|line| line.unit == "Mbit/s") {
        out::line(&format!("the wire's own cost: {:.3} CPU-s/GB", report.wire_cpu_seconds_per_gb))?;
    }
    Ok(())
}

fn list(args: &ListArgs) -> Result<Exit> {
    let registry = registry(args.state.as_deref())?;
    // Where that cannot be now, they are shown as they are.
    for (name, removed) in registry.clear_dead().unwrap_or_default() {
        if args.json {
            json::line(&json!({
                "event": "testbed", "name": name, "state": "dead", "removed": true, "programs_ended": removed.programs,
            }))?;
            continue;
        }
        out::line(&format!("dead  {name:<16}  {}", removed_words(removed)))?;
    }
    for found in registry.list()? {
        let state = if found.is_running() { "up" } else { "dead" };
        // What `set` made of it; of one that does not answer what it was at first.
        let now = registry.ask(&found.name, &Request::Status).ok().map(|status| status.spec.paths);
        let paths = now.or_else(|| found.record.map(|record| record.spec.paths));
        if args.json {
            json::line(&json!({"event": "testbed", "name": found.name, "state": state, "paths": paths}))?;
            continue;
        }
        let path = paths.map(|paths| shown(&paths)).unwrap_or_default();
        out::line(&format!("{:<4}  {:<16}  {path}", state, found.name))?;
    }
    Ok(Exit::Done)
}

fn down(args: &DownArgs) -> Result<Exit> {
    let registry = registry(args.which.state.as_deref())?;
    let names = match args.all {
        true => registry.list()?.into_iter().map(|found| found.name).collect(),
        false => vec![args.which.name.clone()],
    };
    if names.is_empty() {
        out::line(&format!("there is no testbed in {}", registry.place()))?;
    }
    remove_each(&names, &registry.place(), |name| registry.down(name))?;
    Ok(Exit::Done)
}

/// One that cannot be removed does not keep the others: the first is the answer, further ones are told. `place`: where
/// they are looked for.
fn remove_each(
    names: &[String],
    place: &str,
    mut remove: impl FnMut(&str) -> Result<Option<Removed>>,
) -> Result<()> {
    let mut first = None;
    for name in names {
        match remove(name) {
            Ok(Some(removed)) => out::line(&format!("testbed `{name}` {}", removed_words(removed)))?,
            Ok(None) => out::line(&format!("there is no testbed `{name}` in {place}"))?,
            Err(mut failure) => {
                failure.cause = format!("testbed `{name}`: {}", failure.cause);
                match &first {
                    None => first = Some(failure),
                    Some(_) => show::failure(&failure),
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

fn removed_words(removed: Removed) -> String {
    let state = if removed.was_dead { "had died; what it left is removed" } else { "is down" };
    match removed.programs {
        0 => state.to_owned(),
        1 => format!("{state}; 1 program in it was ended"),
        number => format!("{state}; {number} programs in it were ended"),
    }
}

fn wire(args: &WhichArgs) -> Result<Exit> {
    let registry = registry(args.state.as_deref())?;
    let spec: Spec = serde_json::from_reader(std::io::stdin().lock()).map_err(|error| {
        Failure::new(FailureKind::Usage, "read a testbed's specification", error.to_string())
    })?;
    let warden = process_command("warden", &args.name, args.state.as_deref())?;
    daemon::serve(spec, &registry.directory(&args.name), warden)?;
    Ok(Exit::Done)
}

fn watch(args: &WhichArgs) -> Result<Exit> {
    let registry = registry(args.state.as_deref())?;
    let record: Record = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| Failure::new(FailureKind::Usage, "read a testbed's record", error.to_string()))?;
    warden::watch(&registry, &record)?;
    Ok(Exit::Done)
}

/// Testbeds have a directory of their own in thalweg's state, where others keep keys.
pub fn registry(state: Option<&std::path::Path>) -> Result<Registry> {
    Registry::new(state.map(|state| state.join("testbed")).as_deref())
}

/// What was typed, upon what was there. What was not typed stays; a queue that was never typed goes with the path.
fn apply(args: &PathArgs, no_rate: bool, paths: &mut Paths) {
    let before = paths.clone();
    if no_rate {
        paths.forward.rate_bits_per_s = None;
        paths.back.rate_bits_per_s = None;
    }
    if let Some(preset) = args.preset.as_deref().and_then(presets::find) {
        paths.forward.delay_ns = preset.rtt_ns / 2;
        paths.back.delay_ns = preset.rtt_ns - preset.rtt_ns / 2;
        paths.preset = Some(preset.name.to_owned());
        paths.forward.rate_bits_per_s = Some(preset.rate_bits_per_s);
        paths.back.rate_bits_per_s = Some(preset.rate_bits_per_s);
    }
    let one_way = args.rtt.map(|rtt| rtt / 2);
    let (forward, back) = (forward(args), back(args));
    for (path, own) in [(&mut paths.forward, &forward), (&mut paths.back, &back)] {
        put(&mut path.delay_ns, own.delay.or(one_way).map(nanos));
        if let Some(rate) = own.rate.or(args.rate) {
            path.rate_bits_per_s = Some(rate);
        }
        put(&mut path.loss, own.loss.or(args.loss));
        put(&mut path.reorder, args.reorder);
        put(&mut path.late_by_ns, args.late_by.map(nanos));
        put(&mut path.duplicate, args.duplicate);
        put(&mut path.framing_bytes, args.framing);
    }
    paths.keep_default_queues(&before);
    // Where one direction alone has a delay, nothing of the other can vary.
    let is_one_way = (paths.forward.delay_ns == 0) != (paths.back.delay_ns == 0);
    for (path, own) in [(&mut paths.forward, &forward), (&mut paths.back, &back)] {
        let is_still = is_one_way && path.delay_ns == 0;
        let of_both = args.jitter.map(|jitter| if is_still { Duration::ZERO } else { jitter });
        put(&mut path.jitter_ns, own.jitter.or(of_both).map(nanos));
        put(&mut path.queue_bytes, own.queue.or(args.queue));
    }
}

/// What was typed for one direction alone.
struct OneWay {
    delay: Option<Duration>,
    jitter: Option<Duration>,
    rate: Option<u64>,
    loss: Option<f64>,
    queue: Option<u64>,
}

fn forward(args: &PathArgs) -> OneWay {
    OneWay {
        delay: args.forward_delay,
        jitter: args.forward_jitter,
        rate: args.forward_rate,
        loss: args.forward_loss,
        queue: args.forward_queue,
    }
}

fn back(args: &PathArgs) -> OneWay {
    OneWay {
        delay: args.back_delay,
        jitter: args.back_jitter,
        rate: args.back_rate,
        loss: args.back_loss,
        queue: args.back_queue,
    }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One line for people; both directions where they differ.
fn shown(paths: &Paths) -> String {
    let rtt_ms = paths.rtt_ns() as f64 / 1e6;
    let rest = match paths.forward == paths.back {
        true => one_shown(&paths.forward),
        false => format!(
            "forward {} ms, {}; back {} ms, {}",
            paths.forward.delay_ns as f64 / 1e6,
            one_shown(&paths.forward),
            paths.back.delay_ns as f64 / 1e6,
            one_shown(&paths.back)
        ),
    };
    format!("round trip {rtt_ms} ms, {rest}")
}

fn one_shown(path: &Path) -> String {
    let mut words = vec![match path.rate_bits_per_s {
        Some(rate) => {
            let rate = rate / 8;
            format!("{}, queue {}", units::rate(rate, 1.0), units::size(path.queue_bytes))
        }
        None => "no limit of rate".to_owned(),
    }];
    if path.jitter_ns > 0 {
        words.push(format!("jitter {} ms", path.jitter_ns as f64 / 1e6));
    }
    for (share, what) in [(path.loss, "lost"), (path.reorder, "late"), (path.duplicate, "twice")] {
        if share > 0.0 {
            words.push(format!("{} {what}", units::share(share)));
        }
    }
    words.join(", ")
}

fn direction_shown(direction: &DirectionStatus) -> String {
    let counters = &direction.counters;
    let mut words = vec![
        units::counted(counters.packets, "packet", "packets"),
        units::size(counters.bytes),
        format!("{} lost", units::count(counters.lost)),
        format!("{} dropped by the full queue", units::count(counters.overflowed)),
        format!("queue at most {}", units::size(counters.queued_bytes_max)),
    ];
    if counters.reordered + counters.duplicated > 0 {
        let [late, twice] = [counters.reordered, counters.duplicated].map(units::count);
        words.push(format!("{late} late, {twice} twice"));
    }
    if direction.trouble > 0 {
        words.push(format!("{} LOST BY THE WIRE ITSELF: it was too slow", units::count(direction.trouble)));
    }
    words.join(", ")
}

fn described(record: &Record, status: Option<&Status>) -> Value {
    let hosts: Vec<Value> = record
        .hosts
        .iter()
        .map(|host| json!({"name": host.name, "side": host.side, "address": host.address}))
        .collect();
    let spec = status.map_or(&record.spec, |status| &status.spec);
    json!({
        "event": "testbed", "name": record.spec.name, "state": "up", "id": record.id, "pid": record.pid,
        "hosts": hosts, "spec": spec, "scaling": spec.scaling(),
        "status": status.map(|status| json!({
            "seconds": status.seconds, "cpu_seconds": status.cpu_seconds,
            "cpu_seconds_per_gb": status.cpu_seconds_per_gb, "forward": status.forward, "back": status.back,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        path: PathArgs,
    }

    /// What these options make of a path.
    fn typed(options: &str, paths: &Paths) -> Paths {
        let typed = Typed::try_parse_from(format!("up {options}").split(' ')).expect("options");
        let mut paths = paths.clone();
        apply(&typed.path, false, &mut paths);
        paths
    }

    #[derive(Parser)]
    struct TypedUp {
        #[command(flatten)]
        up: UpArgs,
    }

    #[test]
    fn a_preset_brings_its_mtu_and_one_that_was_typed_goes_before_it() {
        let of = |options: &str| {
            let typed = TypedUp::try_parse_from(format!("up {options}").trim().split(' ')).expect("options");
            mtu_bytes(&typed.up)
        };
        assert_eq!((of(""), of("--preset metro"), of("--preset streaming")), (1500, 1500, 9000));
        assert_eq!(of("--preset streaming --mtu 1500"), 1500);
    }

    #[test]
    fn a_rate_that_was_not_measured_to_be_kept_is_warned_of() {
        let of = |options: &str| too_fast(&typed(options, &Paths::default()));
        let wide =
            ["--preset metro", "--preset petabyte", "--preset streaming", "--rtt 1ms --back-rate 10Gbit/s"];
        for options in wide {
            let warning = of(options).unwrap_or_else(|| panic!("{options}"));
            assert!(
                warning.contains("not measured here above 9.60 Gbit/s; name a smaller --rate"),
                "{warning}"
            );
            assert_eq!(warning.contains("bytes under way"), options.contains("--preset"), "{warning}");
        }
        // By hand: 10 ms at 100 Gbit/s, and 16 ms at 25 Gbit/s.
        for (preset, rtt) in [("metro", "104.2ms"), ("streaming", "41.7ms")] {
            let warning = of(&format!("--preset {preset}")).expect("a warning");
            for words in [format!("`--preset {preset} --rate 9.6Gbit/s`"), format!("`--rtt {rtt}`")] {
                assert!(warning.contains(&words), "{warning}");
            }
        }
        for options in ["--rtt 1ms", "--preset usn-128ms", "--preset metro --rate 9.6Gbit/s"] {
            assert_eq!(of(options), None, "{options}");
        }
    }

    #[test]
    fn what_becomes_of_packets_is_told_as_a_share_of_all() {
        let told = |options: &str| one_shown(&typed(options, &Paths::default()).forward);
        assert_eq!(told("--loss 100%"), "no limit of rate, 100 % lost");
        assert_eq!(told("--loss 1"), told("--loss 100%"));
        assert_eq!(told("--loss 0.00001"), "no limit of rate, 0.0010 % lost");
        assert_eq!(told("--loss 0"), "no limit of rate");
    }

    #[test]
    fn a_further_command_has_the_options_that_name_the_testbed() {
        let of = |name: &str, state: Option<&str>| {
            options_of(&WhichArgs { name: name.to_owned(), state: state.map(Into::into) })
        };
        assert_eq!(of(NAME, None), "");
        assert_eq!(of("wan", None), " --name wan");
        assert_eq!(of(NAME, Some("/tmp/a b")), " --state '/tmp/a b'");
        assert_eq!(of("wan", Some("/tmp/x")), " --name wan --state /tmp/x");
    }

    #[test]
    fn one_that_cannot_be_removed_does_not_keep_the_others() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let mut asked = Vec::new();
        let failure = remove_each(&names, "here", |name| {
            asked.push(name.to_owned());
            match name {
                "a" => Ok(Some(Removed::default())),
                "d" => Ok(None),
                _ => Err(Failure::new(FailureKind::Busy, "end the testbed's programs", "1 still there")),
            }
        });
        let failure = failure.expect_err("two are still there");
        assert_eq!(failure.cause, "testbed `b`: 1 still there");
        assert_eq!(asked, names);
    }

    #[test]
    fn each_direction_may_have_its_own_delay_jitter_rate_loss_and_queue() {
        const MS: u64 = 1_000_000;
        let one_way = typed("--forward-delay 10ms --jitter 2ms", &Paths::default());
        assert_eq!((one_way.forward.delay_ns, one_way.forward.jitter_ns), (10 * MS, 2 * MS));
        assert_eq!((one_way.back.delay_ns, one_way.back.jitter_ns, one_way.check()), (0, 0, Ok(())));
        let options = "--rtt 20ms --forward-jitter 3ms --back-jitter 1ms --rate 100Mbit/s --back-queue 300KiB \
                       --forward-loss 1%";
        let both = typed(options, &Paths::default());
        assert_eq!((both.forward.jitter_ns, both.back.jitter_ns), (3 * MS, MS));
        assert_eq!((both.forward.queue_bytes, both.back.queue_bytes), (262_144, 307_200));
        assert_eq!((both.forward.loss, both.back.loss, both.check()), (0.01, 0.0, Ok(())));
        // What is named for one direction goes before what is named for both; what is not named stays.
        let changed = typed("--jitter 2ms --back-jitter 0 --forward-queue 64KiB --queue 128KiB", &both);
        assert_eq!((changed.forward.jitter_ns, changed.back.jitter_ns), (2 * MS, 0));
        assert_eq!((changed.forward.queue_bytes, changed.back.queue_bytes), (65_536, 131_072));
        assert_eq!((changed.forward.delay_ns, changed.forward.loss), (10 * MS, 0.01));
        // Without any delay nothing can vary, and that is said.
        assert!(typed("--jitter 2ms", &Paths::default()).check().is_err());
        assert!(typed("--rtt 1ms --jitter 1ms", &Paths::default()).check().is_err());
    }
}
