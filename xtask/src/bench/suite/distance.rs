//! The same copies near and far, over an emulated path (`thalweg testbed`).

use super::{Row, Suite, emulated, row};
use crate::bench::network::{self, Testbed};
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::{Times, Volume};
use crate::bench::{Bench, data, workspace};
use crate::servers::{Daemon, Running};
use crate::{command, toolchain, trees};
use anyhow::{Result, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_lab::bench::record::Quantity;
use thalweg_lab::bench::statistics::{self, Series};
use thalweg_lab::bench::table::told;
use thalweg_lab::bench::{MTU_BYTES, payload_share};
use thalweg_mover::model::loss::CongestionControl;

mod loss;

pub const SUITE: Suite = Suite {
    name: "distance",
    title: Some("Distance"),
    asks: "Does distance change the rate? Over an emulated path, a warm large file is pulled into `null:` and many small \
           files are pushed to the disk. Goals: at 200 ms at least 0.97 × the rate at 0.2 ms, where the link of 1 Gbit/s is \
           the narrowest stage, with reno, cubic and bbr; small files at 100 ms at least 0.95 × their rate at 0, after the start \
           and as a whole; with a loss of 10⁻⁴ as good as the congestion control allows: one stream at least 0.9 × the law of its control, \
           what thalweg chooses by itself at least 0.9 × that of eight, or what the line carries; at 20 ms the same of what \
           iperf3 gets, a stream against a stream, and with cubic against eight; and of the copies that the loss holds back, \
           at less than half of what the line carries as their law has it, `why` names it for at least 0.95. What is compared near and \
           far is the rate after the start: the difference of a long and a short copy, in bytes, over that in time; the rate of the long copy as a \
           whole, slow start and handshakes included, stands beside it. Where that difference is noise, no rate after the \
           start is known. One above what the line carries is taken for the line's near, and is not known far; of fewer \
           than three rounds with both there is no verdict.",
    takes: "about 45 minutes, of which those with a loss 18 (`--only loss`), 8 GB of disk; needs `thalweg testbed`",
    runs: 3,
    // Two lines: see below.
    path: || emulated(None),
    rows,
    run,
    tell,
};

/// Rate of the line, as the testbed is told and in bit/s.
type Line = (&'static str, f64);
const LINE: Line = ("1Gbit/s", 1e9);
/// That of small files: the file system is to be the narrowest, not the link.
const WIDE_LINE: Line = ("4Gbit/s", 4e9);
const NEAR: &str = "0.2ms";
const FAR: &str = "200ms";
const OURS: &str = "thalweg";
const IPERF: &str = "iperf3";
const IPERF_STREAMS: &str = "4";
/// Seconds that iperf3 leaves out at the beginning, and then measures.
const IPERF_S: [&str; 2] = ["6", "8"];
/// Where a copy keeps what it learns.
const STATE: &str = "THALWEG_STATE";
/// Of the long copy.
const LARGE_MIB: u64 = 2048;
/// The files that are pulled, and which part of the long one each is.
const FILES: [(&str, u64); 3] = [("long", 1), ("short", 4), ("shortest", 16)];
const SMALL_FILES: [u32; 2] = [10_000, 60_000];
const SMALL_BYTES: usize = 4096;
const SMALL_FAR: &str = "100ms";
const SMALL_NEAR: &str = "0ms";

/// One thing that is run on a path.
struct Case {
    scenario: String,
    tool: &'static str,
    path: Vec<&'static str>,
    what: What,
}

impl Case {
    fn uses(&self, name: &str) -> bool {
        match &self.what {
            What::Large { options } | What::Lossy { options, .. } => options.contains(&name),
            What::Iperf { congestion, .. } => *congestion == name,
            What::Small => false,
        }
    }

    fn is_lossy(&self) -> bool {
        self.scenario.starts_with(loss::SCENARIOS)
    }
}

enum What {
    /// The long and the short file, pulled into `null:` with these options.
    Large {
        options: Vec<&'static str>,
    },
    /// This file, as if nothing had been copied before; with a short one the rate is that after the start.
    Lossy {
        options: Vec<&'static str>,
        file: &'static str,
        short: Option<&'static str>,
    },
    Small,
    /// As many bytes as this file has, start and all; without, a while after the start.
    Iperf {
        congestion: &'static str,
        streams: &'static str,
        file: Option<&'static str>,
    },
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(why) = Testbed::is_missing(&bench.workspace) {
        bail!("{why}; --thalweg names another");
    }
    let toolchain = toolchain::directory()?;
    let bytes = bench.large_bytes(LARGE_MIB);
    let runs = bench.runs();
    let copied = SMALL_FILES.iter().map(|files| u64::from(*files)).sum::<u64>() * 2;
    let volume = Volume::new(&bench.workspace.scratch, "volume", copied * (runs as u64 + 1))?;
    let export = volume.path.join("export");
    for (name, part) in FILES {
        let source = bench.workspace.directory(&format!("exported/{name}"))?;
        toolchain::make_large_file(&toolchain, &source.join("file"), bytes / part)?;
    }
    for files in SMALL_FILES {
        data::make_small_files(&bench.workspace.directory(&format!("small-{files}"))?, files, SMALL_BYTES)?;
    }
    std::fs::create_dir(&export)?;
    let mut cases = cases();
    cases.retain(|case| bench.wants(&case.scenario));
    for congestion in controls().iter().filter(|name| !network::is_permitted(name)) {
        bench.log.left_out(congestion, "not among the machine's permitted congestion controls")?;
        cases.retain(|case| !case.uses(congestion));
    }
    let workspace = &bench.workspace;
    let testbed = Testbed::up(workspace, &["--rtt", NEAR, "--rate", LINE.0])?;
    let exports = [
        format!("large={}:ro", workspace.scratch.path("exported").display()),
        format!("small={}", export.display()),
    ];
    let enter = |command| workspace.group.enter(testbed.enter("right", &command));
    let address = format!("{}:8487", testbed.address);
    let daemon = Daemon::start_at(&address, &workspace.thalweg, &workspace.scratch, &exports, enter)?;
    let mut iperf = Command::new("iperf3");
    let iperf = testbed.enter("right", iperf.arg("--server"));
    let far = Far {
        workspace,
        testbed: &testbed,
        daemon: &daemon,
        export,
        bytes,
        _iperf: Running::start(iperf, "iperf3")?,
    };
    let log = &mut bench.log;
    workspace::rounds(runs, cases, |run, case| {
        // The round that does not count is for what is not in memory yet: that is not what loss is about.
        if run == 0 && case.is_lossy() {
            return Ok(());
        }
        far.testbed.set(&case.path)?;
        let sample = far.testbed.over(|| far.measure(case, run))?;
        eprintln!("{}", told(&sample));
        if run == 0 { Ok(()) } else { log.sample(&sample) }
    })
}

/// Congestion controls, by name.
fn controls() -> [&'static str; 3] {
    CongestionControl::ALL.map(CongestionControl::name)
}

fn rows() -> Vec<Row> {
    cases().into_iter().map(|case| row(case.scenario, case.tool)).collect()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for congestion in controls() {
        for rtt in [NEAR, FAR] {
            let scenario = format!("{congestion}, {rtt}");
            let large = What::Large { options: vec!["--cca", congestion] };
            let iperf = What::Iperf { congestion, streams: IPERF_STREAMS, file: None };
            let path = vec!["--rtt", rtt, "--rate", LINE.0, "--loss", "0"];
            cases.push(Case { scenario: scenario.clone(), tool: OURS, path: path.clone(), what: large });
            cases.push(Case { scenario, tool: IPERF, path, what: iperf });
        }
    }
    for rtt in [SMALL_NEAR, SMALL_FAR] {
        let path = vec!["--rtt", rtt, "--rate", WIDE_LINE.0, "--loss", "0"];
        cases.push(Case { scenario: of_small_files(rtt), tool: OURS, path, what: What::Small });
    }
    cases.extend(loss::cases());
    cases
}

/// Both sides of the path.
struct Far<'a> {
    workspace: &'a workspace::Workspace,
    testbed: &'a Testbed<'a>,
    daemon: &'a Daemon,
    /// Where small files go.
    export: PathBuf,
    /// Of the long copy.
    bytes: u64,
    _iperf: Running,
}

impl Far<'_> {
    fn measure(&self, case: &Case, run: usize) -> Result<Sample> {
        let load = |bytes, files| Load { scenario: &case.scenario, tool: case.tool, run, bytes, files };
        match &case.what {
            What::Large { options } => {
                let [long, short] = [FILES[0].0, FILES[1].0];
                let sample = load(self.bytes_of(long), 1).took(&self.pull(long, options, None)?);
                Ok(with_short(sample, self.bytes_of(short), &self.pull(short, options, None)?))
            }
            What::Lossy { options, file, short } => {
                let state = self.workspace.nothing_known()?;
                let sample = load(self.bytes_of(file), 1).took(&self.pull(file, options, Some(&state))?);
                let mut why = self.workspace.thalweg();
                let said = command::says(why.env(STATE, &state).args(["why", "--json"]))?;
                let sample = loss::with_reason(sample, &said)?;
                let Some(short) = short else { return Ok(sample) };
                let state = self.workspace.nothing_known()?;
                Ok(with_short(sample, self.bytes_of(short), &self.pull(short, options, Some(&state))?))
            }
            What::Small => {
                let [few, many] = SMALL_FILES;
                let turn = format!("{run}-{}", case.scenario.replace([' ', ','], "-"));
                let (short, long) = (self.push(few, &turn)?, self.push(many, &turn)?);
                let short_bytes = u64::from(few) * SMALL_BYTES as u64;
                let bytes = u64::from(many) * SMALL_BYTES as u64;
                Ok(with_short(load(bytes, many.into()).took(&long), short_bytes, &short))
            }
            What::Iperf { congestion, streams, file } => {
                let bytes = file.map(|file| self.bytes_of(file));
                let bits_per_s = self.iperf(congestion, streams, bytes)?;
                let (bytes, wall_s) = match bytes {
                    Some(bytes) => (bytes, bytes as f64 * 8.0 / bits_per_s),
                    None => {
                        let wall_s: f64 = IPERF_S[1].parse()?;
                        ((bits_per_s / 8.0 * wall_s) as u64, wall_s)
                    }
                };
                Ok(load(bytes, 0).took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 0.0 }))
            }
        }
    }

    /// Of one of [`FILES`].
    fn bytes_of(&self, file: &str) -> u64 {
        let part = FILES.iter().find(|(name, _)| *name == file).map_or(1, |(_, part)| *part);
        self.bytes / part
    }

    /// One of [`FILES`]; with this state directory, or that of all copies.
    fn pull(&self, name: &str, options: &[&str], state: Option<&Path>) -> Result<Times> {
        data::warm(&self.workspace.scratch.path(&format!("exported/{name}")))?;
        let from = format!("tw://{}/large/{name}/file", self.daemon.address);
        self.copy(options, [from, "null:".to_owned()], state)
    }

    fn push(&self, files: u32, turn: &str) -> Result<Times> {
        let source: PathBuf = self.workspace.scratch.path(&format!("small-{files}"));
        data::warm(&source)?;
        let name = format!("{files}-{turn}");
        let to = format!("tw://{}/small/{name}", self.daemon.address);
        let times = self.copy(&[], [format!("{}/", source.display()), to], None)?;
        let destination = self.export.join(name);
        trees::same_tree(&source, &destination)?;
        data::free(&destination)?;
        Ok(times)
    }

    fn copy(&self, options: &[&str], places: [String; 2], state: Option<&Path>) -> Result<Times> {
        let mut command = self.workspace.thalweg();
        if let Some(state) = state {
            command.env(STATE, state);
        }
        command.args(["cp", "-q", "--ticket"]).arg(&self.daemon.ticket).args(options).args(places);
        self.workspace.time(self.testbed.enter("left", &command), None)
    }

    /// Payload that arrives, in bit/s; sent by the server, as in a pull.
    fn iperf(&self, congestion: &str, streams: &str, bytes: Option<u64>) -> Result<f64> {
        let bytes = bytes.map(|bytes| bytes.to_string());
        let mut words = vec!["--reverse", "--congestion", congestion, "--parallel", streams];
        match &bytes {
            // It counts them for all streams together.
            Some(bytes) => words.extend(["--bytes", bytes.as_str()]),
            None => words.extend(["--omit", IPERF_S[0], "--time", IPERF_S[1]]),
        }
        self.testbed.iperf(&words)
    }
}

/// What is measured of the short copy beside the long one.
const SHORT_BYTES: &str = "short_bytes";
const SHORT_WALL: &str = "short_wall_s";

fn with_short(sample: Sample, bytes: u64, short: &Times) -> Sample {
    sample.measured(SHORT_BYTES, bytes as f64, "B").measured(SHORT_WALL, short.wall_s, "s")
}

/// Which of the two that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Near,
    Far,
}

/// Rate after the start, in Gbit/s, if it is known: a rate as a whole beside others after the start would make far
/// against near no ratio of alike things. What comes out above the line was measured too high: near it is the line's,
/// for without the highest the goal would be easier; far it is not known.
fn rate_after_start(sample: &Sample, end: End, line: Line) -> Option<f64> {
    let of = |name: &str| sample.measured.get(name).and_then(Quantity::value).unwrap_or(0.0);
    let short = (of(SHORT_BYTES) as u64, of(SHORT_WALL));
    let line_bytes_per_s = line.1 / 8.0 * payload_share(MTU_BYTES);
    let below = |most| statistics::rate_after_start((sample.bytes, sample.wall_s), short, most);
    let bytes_per_s = match end {
        End::Far => below(line_bytes_per_s),
        End::Near => below(line_bytes_per_s).or_else(|| below(f64::INFINITY).map(|_| line_bytes_per_s)),
    }?;
    Some(bytes_per_s * 8.0 / 1e9)
}

/// Of our copies in a scenario, by round, those of which it is known.
fn after_start(results: &Results, scenario: &str, end: End, line: Line) -> Series {
    let of = |sample: &Sample| Some((sample.run as usize, rate_after_start(sample, end, line)?));
    results.of(scenario, OURS).filter_map(of).collect()
}

fn of_small_files(rtt: &str) -> String {
    format!("small files, {rtt}")
}

/// Of how many copies no rate after the start is known, in a sentence; nothing where it is of all.
fn told_unknown(results: &Results) -> String {
    let ends = [(NEAR, End::Near), (FAR, End::Far)];
    let both = |name: &str| ends.map(|(rtt, end)| (format!("{name}, {rtt}"), end, LINE));
    let large = controls().into_iter().flat_map(both);
    let small = [(SMALL_NEAR, End::Near), (SMALL_FAR, End::Far)];
    let small = small.map(|(rtt, end)| (of_small_files(rtt), end, WIDE_LINE));
    let (mut all, mut known) = (0, 0);
    for (scenario, end, line) in large.chain(small) {
        all += results.of(&scenario, OURS).count();
        known += after_start(results, &scenario, end, line).len();
    }
    unknown_of(all, known)
}

fn unknown_of(all: usize, known: usize) -> String {
    match all - known {
        0 => String::new(),
        unknown => format!(
            "\nOf {unknown} of {all} copies no rate after the start is known; they are in none of these rates and \
             ratios.\n"
        ),
    }
}

fn tell(results: &Results) -> Result<String> {
    let whole = |scenario: &str, tool: &str| results.series(scenario, tool, record::gbit_per_s);
    let mut out = String::from(
        "| congestion control | thalweg near, Gbit/s | far, Gbit/s | far as a whole | iperf3 near | iperf3 far | far against \
         near | goal | the path's own CPU-s/GB, thalweg near | far | iperf3 near | far |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for congestion in controls() {
        let (near, far) = (format!("{congestion}, {NEAR}"), format!("{congestion}, {FAR}"));
        let rates =
            (after_start(results, &near, End::Near, LINE), after_start(results, &far, End::Far, LINE));
        writeln!(
            out,
            "| {congestion} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            tell::with_interval(&rates.0),
            tell::with_interval(&rates.1),
            tell::with_interval(&whole(&far, OURS)),
            tell::with_interval(&whole(&near, IPERF)),
            tell::with_interval(&whole(&far, IPERF)),
            tell::ratio(&rates.1, &rates.0),
            Goal::AtLeast(0.97).verdict_of_rounds(&rates.1, &rates.0),
            tell::wire_cost(results, &near, OURS),
            tell::wire_cost(results, &far, OURS),
            tell::wire_cost(results, &near, IPERF),
            tell::wire_cost(results, &far, IPERF),
        )?;
    }
    let files_per_s = |rates: Series| -> Series {
        rates.into_iter().map(|(run, gbit)| (run, gbit * 1e9 / 8.0 / SMALL_BYTES as f64)).collect()
    };
    let small = |rtt: &str, end| files_per_s(after_start(results, &of_small_files(rtt), end, WIDE_LINE));
    let (near, far) = (small(SMALL_NEAR, End::Near), small(SMALL_FAR, End::Far));
    let all = |rtt: &str| files_per_s(whole(&of_small_files(rtt), OURS));
    let (near_all, far_all) = (all(SMALL_NEAR), all(SMALL_FAR));
    writeln!(
        out,
        "\nSmall files of 4 KiB, pushed and durable: {} files/s at {SMALL_NEAR}, {} at {SMALL_FAR}; far \
         against near {}, {}. As a whole, handshakes and slow start of a copy of {} files included, {} files/s and {}; far \
         against near {}, {}. The path's own CPU-s/GB: {} near, {} far.\n{}",
        tell::with_interval(&near),
        tell::with_interval(&far),
        tell::ratio(&far, &near),
        Goal::AtLeast(0.95).verdict_of_rounds(&far, &near),
        SMALL_FILES[1],
        tell::with_interval(&near_all),
        tell::with_interval(&far_all),
        tell::ratio(&far_all, &near_all),
        Goal::AtLeast(0.95).verdict_of_ratio(&far_all, &near_all),
        tell::wire_cost(results, &of_small_files(SMALL_NEAR), OURS),
        tell::wire_cost(results, &of_small_files(SMALL_FAR), OURS),
        told_unknown(results),
    )?;
    out += &loss::tell(results)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(rtt: &str, run: usize, gbit_per_s: f64) -> Sample {
        let scenario = format!("cubic, {rtt}");
        let load = Load { scenario: &scenario, tool: OURS, run, bytes: 2_000_000_000, files: 1 };
        let times = Times { wall_s: 5.0 + 12.0 / gbit_per_s, ..Times::default() };
        with_short(load.took(&times), 500_000_000, &Times { wall_s: 5.0, ..Times::default() })
    }

    /// Three rounds, with what is told of all, and of cubic.
    fn told_of(near: [f64; 3], far: [f64; 3]) -> (Results, String, String) {
        let of = |rtt, rates: [f64; 3]| (1..).zip(rates).map(move |(run, rate)| copy(rtt, run, rate));
        let samples = of(NEAR, near).chain(of(FAR, far)).collect();
        let results = Results { samples, ..Results::default() };
        let told = tell(&results).unwrap();
        let row = told.lines().find(|line| line.starts_with("| cubic |")).unwrap().to_owned();
        (results, told, row)
    }

    /// The line carries 0.9415 Gbit/s of payload.
    #[test]
    fn a_copy_whose_rate_after_the_start_is_not_known_is_in_no_rate_and_no_ratio_and_is_told() {
        let (results, told, row) = told_of([0.9; 3], [0.9, 0.96, 0.9]);
        let known = after_start(&results, "cubic, 200ms", End::Far, LINE);
        assert_eq!(known.into_keys().collect::<Vec<_>>(), [1, 3]);
        assert!(told.contains("\nOf 1 of 6 copies no rate after the start is known"), "{told}");
        assert!(row.contains("at least 0.97: no verdict, 2 rounds, fewer than 3 |"), "{row}");
        let (_, _, row) = told_of([0.9; 3], [0.96; 3]);
        assert!(row.contains("| not measured | at least 0.97: not measured |"), "{row}");
        let (_, told, row) = told_of([0.9; 3], [0.9; 3]);
        assert!(!told.contains("is known"), "{told}");
        assert!(row.contains("at least 0.97: met"), "{row}");
    }

    #[test]
    fn beside_each_rate_stands_what_the_path_cost_with_that_program() {
        let of = |tool: &str, rtt: &str, cost: Option<f64>| {
            let scenario = format!("cubic, {rtt}");
            let load = Load { scenario: &scenario, tool, run: 1, bytes: 1_000_000_000, files: 1 };
            Sample { wire_cpu_s_per_gb: cost, ..load.took(&Times { wall_s: 10.0, ..Times::default() }) }
        };
        let samples = vec![
            of(OURS, NEAR, Some(1.0)),
            of(OURS, FAR, Some(2.0)),
            of(IPERF, NEAR, Some(3.0)),
            of(IPERF, FAR, None),
        ];
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let row = told.lines().find(|line| line.starts_with("| cubic |")).unwrap();
        assert!(row.ends_with("| 1.00 | 2.00 | 3.00 | not recorded |"), "{row}");
        let head = told.lines().next().unwrap();
        assert_eq!(head.matches('|').count(), row.matches('|').count(), "{head}");
    }

    /// Without the copies that were too quick near, the one round that is left would meet the goal.
    #[test]
    fn what_is_above_the_line_near_is_taken_for_the_line_so_that_no_goal_becomes_easier() {
        let (results, told, row) = told_of([0.9, 0.96, 0.96], [0.9; 3]);
        let near = after_start(&results, "cubic, 0.2ms", End::Near, LINE);
        let line = payload_share(MTU_BYTES);
        assert!((near[&1] - 0.9).abs() < 1e-9 && (near[&2] - line).abs() < 1e-9, "{near:?}");
        assert!(row.contains("at least 0.97: **missed by 1.4 %**"), "{row}");
        assert!(!told.contains("is known"), "{told}");
    }
}
