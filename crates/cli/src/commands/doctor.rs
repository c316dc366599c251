//! `thalweg doctor`: prints what the laboratory found.

use crate::commands::testbed;
use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{identity, json, out};
use serde_json::json;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_cli::args::doctor::DoctorArgs;
use thalweg_lab::doctor::change::{self, Done, PROFILE};
use thalweg_lab::doctor::prove::{NAME, Trial, TrialPath, prove};
use thalweg_lab::doctor::{Belief, Finding, Holds, Probes, Report, Roots, Verdict};
use thalweg_lab::doctor::{devices, examine, line_rate_bits_per_s, loss_to_prove_with};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result, at_path, of_io, shown_path};
use thalweg_sys::child::dies_with_us;

/// The round trip of a trial if none was measured: interstate, at its upper end (000 Table IV).
const INTERSTATE_RTT: Duration = Duration::from_millis(50);

/// The line of a trial if no card says how fast its own is: more than default buffers fill over that way.
const TRIAL_RATE_BITS_PER_S: u64 = 1_000_000_000;

/// The fastest line of a trial: less than half of what a testbed of two cores carries (docs/guide/testbed.md), so that
/// a machine with other things to do does as well.
const TRIAL_RATE_BITS_PER_S_MAX: u64 = 4_000_000_000;

/// `thalweg doctor`.
///
/// # Errors
/// If a path does not exist or is no directory, nothing could be changed, or a proof is to go by a way that could not
/// be measured.
pub fn doctor(args: &DoctorArgs, places: &Places) -> Result<Exit> {
    let roots = Roots::below(args.root.as_deref().unwrap_or(Path::new("/")));
    if args.undo {
        return undone(args, &roots);
    }
    let paths = distinct(args.paths.iter().map(|path| found(path, places)).collect::<Result<_>>()?);
    let mut probes = match args.root {
        Some(_) => Probes::default(),
        None => Probes::take(&devices(&roots), &paths, args.to.as_deref().map(|to| (to, args.family()))),
    };
    probes.loss = args.loss;
    let mut report = examine(&roots, &probes, &paths);
    let trials = match args.prove {
        true => Some(proved(args, &roots, &probes, &mut report)?),
        false => None,
    };
    if args.apply {
        return applied(args, &roots, &report, &probes, trials.as_deref());
    }
    let told = match args.json {
        true => json::line(
            &json!({"event": "doctor", "findings": report.findings, "beliefs": report.beliefs, "trials": trials}),
        ),
        false => show(&report, trials.as_deref().unwrap_or_default(), args.verbose),
    };
    out::answered(told, measured(&probes))
}

/// Whether all that was named could be measured.
fn measured(probes: &Probes) -> Exit {
    if not_measured(probes).is_empty() { Exit::Done } else { Exit::Partial }
}

/// What was named and could not be measured, each with the reason.
fn not_measured(probes: &Probes) -> Vec<String> {
    let way = probes.way.iter().filter_map(|way| way.as_ref().err());
    let way =
        way.map(|why| format!("the path of --to: could not connect to {why}; buffers stay as they are"));
    let disks = probes.disks.iter().filter_map(|(path, disk)| Some((path, disk.as_ref().err()?)));
    way.chain(
        disks.map(|(path, why)| {
            format!("the disk of {}: {why}", shown_path(path.as_os_str().as_encoded_bytes()))
        }),
    )
    .collect()
}

fn undone(args: &DoctorArgs, roots: &Roots) -> Result<Exit> {
    let done = change::undo(roots, &state(args)?)?;
    let exit = exit_of(&done);
    let told = match args.json {
        true => json::line(&json!({"event": "doctor-undone", "changes": done, "exit": exit.code()})),
        false if done.is_empty() => out::line("nothing to put back: --apply has changed nothing"),
        false => all(done.iter().map(changed)),
    };
    out::answered(told, exit)
}

/// Tells what was tried before anything is changed: that took long, and says why the rest is left alone. What cannot be
/// told stops nothing.
fn applied(
    args: &DoctorArgs,
    roots: &Roots,
    report: &Report,
    probes: &Probes,
    trials: Option<&[Trial]>,
) -> Result<Exit> {
    let tried = match args.json {
        true => Ok(()),
        false => all(trials.unwrap_or_default().iter().map(tried)),
    };
    let mut done = change::apply(roots, report, probes, &state(args)?)?;
    done.extend(change::out_of_reach(report));
    let exit = exit_of(&done).worst(measured(probes));
    let missing = not_measured(probes);
    let told = tried.and_then(|()| match args.json {
        true => json::line(
            &json!({
                "event": "doctor-applied", "trials": trials, "changes": done, "not_measured": missing, "exit": exit.code(),
            }),
        ),
        false => {
            all(missing.iter().map(|what| format!("not measured: {what}")))?;
            if done.is_empty() {
                return out::line(nothing_to_change(trials));
            }
            all(done.iter().map(changed))?;
            all(what_next(&done, change::has_profile(roots, &done), change::has_tuned(roots)))
        }
    });
    out::answered(told, exit)
}

/// Why nothing is changed. `trials`: of a proof that was asked for.
fn nothing_to_change(trials: Option<&[Trial]>) -> &'static str {
    match trials {
        None => "nothing to change that may be changed from here",
        Some([]) => "nothing is changed: there was nothing that --prove can try",
        Some(_) => "nothing is changed: nothing that was tried was shown to help",
    }
}

/// What to do after these changes. `has_tuned`: who would activate a profile is installed.
fn what_next(done: &[Done], has_profile: bool, has_tuned: bool) -> Option<String> {
    let back = "take all of it back: thalweg doctor --undo";
    if has_profile && !has_tuned {
        return Some(format!(
            "tuned is not installed, so nobody reads the profile {PROFILE}: without it rings and governor are set by hand; \
             {back}"
        ));
    }
    if has_profile {
        return Some(format!(
            "activate the profile: tuned-adm profile {PROFILE}; {back}, after tuned has let go of the profile"
        ));
    }
    done.iter().any(|one| one.trouble.is_none()).then(|| back.to_owned())
}

/// On the path to the machine that was asked for, else on one of 000 Table IV; at the rate of the line, as far as two
/// cores carry it; losing what --loss says, else what was sent again here, if that is more than typical.
fn proved(args: &DoctorArgs, roots: &Roots, probes: &Probes, report: &mut Report) -> Result<Vec<Trial>> {
    let rtt = match &probes.way {
        Some(Ok(way)) => way.rtt,
        // Another path than the one that was asked for would prove nothing of it.
        Some(Err(why)) => {
            let cause = format!("could not connect to {why}");
            let failure = Failure::new(FailureKind::Connection, "measure the path of --to", cause);
            return Err(failure.because(Reason::NotMeasured));
        }
        None => INTERSTATE_RTT,
    };
    let line = line_rate_bits_per_s(roots);
    let loss = args.loss.unwrap_or_else(|| loss_to_prove_with(roots));
    let path = TrialPath { rtt, rate_bits_per_s: trial_rate(line), loss };
    if !args.json {
        out::tell(&trying(path, line));
    }
    let state = args.state.as_deref();
    let wire = || {
        let mut wire = testbed::wire_command(NAME, state)?;
        // Nobody else takes it down.
        dies_with_us(&mut wire);
        Ok(wire)
    };
    prove(report, roots, path, &testbed::registry(state)?, wire)
}

/// `line`: of this machine, if a card says.
fn trial_rate(line: Option<u64>) -> u64 {
    line.map_or(TRIAL_RATE_BITS_PER_S, |line| line.min(TRIAL_RATE_BITS_PER_S_MAX))
}

/// What is tried, and what it does not show.
fn trying(path: TrialPath, line: Option<u64>) -> String {
    let gbit = |rate: u64| rate as f64 / 1e9;
    let beyond = line.filter(|line| *line > path.rate_bits_per_s).map(|line| {
        format!(": what helps there is proved, not that it is enough for the line's {} Gbit/s", gbit(line))
    });
    let loss = match path.loss > 0.0 {
        true => format!(" that loses {:.1e} of its packets", path.loss),
        false => String::new(),
    };
    format!(
        "trying proposed settings in a testbed of {:.1} ms and {} Gbit/s{loss}, one stream of TCP{}",
        path.rtt.as_secs_f64() * 1e3,
        gbit(path.rate_bits_per_s),
        beyond.unwrap_or_default()
    )
}

/// Settings of this machine are recorded by themselves.
fn state(args: &DoctorArgs) -> Result<PathBuf> {
    Ok(identity::state_directory(args.state.as_deref())?.join("doctor"))
}

/// As [`directory`]; what is not here and names a far place has its disk there.
fn found(path: &Path, places: &Places) -> Result<PathBuf> {
    directory(path).map_err(|failure| match Place::parse(path.as_os_str(), places) {
        Ok(far @ (Place::Daemon { .. } | Place::Ssh { .. })) if failure.kind == FailureKind::NotFound => {
            let cause = format!("`{far}`: only this machine is looked at: run `thalweg doctor` there");
            Failure::new(FailureKind::Unsupported, "find a path", cause)
        }
        _ => failure,
    })
}

/// Its absolute path.
fn directory(path: &Path) -> Result<PathBuf> {
    let absolute = path.canonicalize().map_err(|error| at_path(of_io("find a path", &error), path))?;
    if !absolute.is_dir() {
        return Err(at_path(Failure::new(FailureKind::Usage, "find a path", "it is no directory"), path));
    }
    Ok(absolute)
}

/// Each directory once, by whatever ways it was named.
fn distinct(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    // One that is gone by now is left to who looks at it.
    let mut is_new = |about: std::fs::Metadata| seen.insert((about.dev(), about.ino()));
    paths.retain(|path| std::fs::metadata(path).map_or(true, &mut is_new));
    paths
}

fn exit_of(done: &[Done]) -> Exit {
    let has_trouble = done.iter().any(|done| done.trouble.is_some());
    if has_trouble { Exit::Partial } else { Exit::Done }
}

fn all(lines: impl IntoIterator<Item = String>) -> Result<()> {
    lines.into_iter().try_for_each(|line| out::line(&line))
}

fn changed(done: &Done) -> String {
    let trouble = done.trouble.as_ref().map(|why| format!(": NOT DONE: {why}")).unwrap_or_default();
    format!("{} {}{trouble}", done.what, done.now)
}

fn tried(trial: &Trial) -> String {
    format!("{}: {}", trial.settings.join(", "), trial.sentence())
}

fn show(report: &Report, trials: &[Trial], verbose: bool) -> Result<()> {
    let mut subject = None;
    for finding in &report.findings {
        if subject != Some(finding.subject) {
            subject = Some(finding.subject);
            out::line(finding.subject.name())?;
        }
        for line in lines(finding, verbose) {
            out::line(&line)?;
        }
    }
    out::line("beliefs (000 section III)")?;
    for belief in &report.beliefs {
        out::line(&believed(belief))?;
    }
    all(trials.iter().map(tried))?;
    let count = |verdict| report.findings.iter().filter(|finding| finding.verdict == verdict).count();
    out::line(&format!(
        "{} to change,{} {} maybe, {} good, {} not seen; `thalweg doctor --apply` changes kernel settings, `--undo` takes that back",
        count(Verdict::Change),
        match count(Verdict::Unproved) {
            0 => String::new(),
            many => format!(" {many} unproved,"),
        },
        count(Verdict::Depends),
        count(Verdict::Good),
        count(Verdict::Unseen)
    ))
}

/// One line for what is good or a fact, all of it for what is to be changed, or may be.
fn lines(finding: &Finding, verbose: bool) -> Vec<String> {
    let mark = match finding.verdict {
        Verdict::Good => "ok    ",
        Verdict::Change => "CHANGE",
        Verdict::Unproved => "unproved",
        Verdict::Depends => "maybe ",
        Verdict::Told => "      ",
        Verdict::Unseen => "unseen",
    };
    let current = finding.current.as_deref().unwrap_or(&finding.why);
    let mut lines = vec![format!("  {mark} {}: {current}", finding.name)];
    let mut more = |word: &str, text: &str| lines.push(format!("           {word} {text}"));
    let is_explained =
        verbose || matches!(finding.verdict, Verdict::Change | Verdict::Unproved | Verdict::Depends);
    if let Some(wanted) = finding.wanted.as_ref().filter(|_| is_explained) {
        let source = finding.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
        more("wanted:", &format!("{wanted}{source}"));
    }
    if is_explained && finding.current.is_some() {
        more("why:   ", &finding.why);
    }
    if let Some(scope) = finding.scope.as_ref().filter(|_| is_explained) {
        more("where: ", scope);
    }
    if let Some(remedy) = &finding.remedy {
        more("apply: ", &format!("{}{}", remedy.apply, if remedy.by_apply { " (--apply)" } else { "" }));
        more("undo:  ", &remedy.undo);
    }
    lines
}

fn believed(belief: &Belief) -> String {
    let word = match belief.holds {
        Holds::No => "not so ",
        Holds::Yes => "limits ",
        Holds::Unknown => "unknown",
    };
    format!("  {word} \"{}\" ({}): {}", belief.belief, belief.source, belief.answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(trouble: Option<&str>) -> Done {
        Done { what: "a.setting".into(), now: "= 1 (was 0)".into(), trouble: trouble.map(str::to_owned) }
    }

    fn trial() -> Trial {
        Trial {
            settings: vec!["a.setting".to_owned()],
            rate_bits_per_s: TRIAL_RATE_BITS_PER_S,
            rtt_s: 0.05,
            loss: 0.0,
            conditions: String::new(),
            before_bits_per_s: vec![1e8],
            after_bits_per_s: vec![1e8],
            before_rtt_s: Vec::new(),
            after_rtt_s: Vec::new(),
            lost_by_the_path: 0,
            path_cpu_s_per_gb: 1.0,
            helps: Some(false),
        }
    }

    #[test]
    fn a_directory_that_was_named_in_two_ways_is_one() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("one")).expect("make a directory");
        std::fs::create_dir(at("other")).expect("make a directory");
        std::os::unix::fs::symlink("one", at("link")).expect("make a link");
        let found = |name: &str| directory(&at(name)).expect("a directory");
        let named = ["link/", "one", "other", "one/../one"].map(found).to_vec();
        assert_eq!(distinct(named), [found("one"), found("other")]);
    }

    #[test]
    fn a_far_place_is_told_to_be_looked_at_where_it_is() {
        let refused = |text: &str| found(Path::new(text), &Places::default()).expect_err(text);
        for far in ["far:x1", "tw://h/x", "ssh://me@far:22/x"] {
            let failure = refused(far);
            assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
            assert!(failure.cause.contains("run `thalweg doctor` there"), "{failure}");
        }
        assert_eq!(refused("/absent").kind, FailureKind::NotFound);
        assert_eq!(refused("@unknown/x").kind, FailureKind::NotFound);
    }

    #[test]
    fn a_proof_goes_by_the_rate_of_the_line_and_says_what_it_does_not_show() {
        let said = |line: Option<u64>| {
            trying(TrialPath { rtt: INTERSTATE_RTT, rate_bits_per_s: trial_rate(line), loss: 0.0 }, line)
        };
        assert!(said(None).ends_with("of 50.0 ms and 1 Gbit/s, one stream of TCP"), "{}", said(None));
        let lossy = TrialPath { rtt: INTERSTATE_RTT, rate_bits_per_s: trial_rate(None), loss: 1e-4 };
        let lossy = trying(lossy, None);
        assert!(lossy.contains("1 Gbit/s that loses 1.0e-4 of its packets, one stream"), "{lossy}");
        let slow = said(Some(100_000_000));
        assert!(slow.contains("0.1 Gbit/s") && !slow.contains("proved"), "{slow}");
        let fast = said(Some(100_000_000_000));
        assert!(fast.contains("and 4 Gbit/s") && fast.contains("the line's 100 Gbit/s"), "{fast}");
    }

    #[test]
    fn what_was_tried_and_did_not_help_is_not_said_to_be_out_of_reach() {
        assert!(nothing_to_change(None).contains("may be changed from here"));
        assert!(nothing_to_change(Some(&[])).contains("nothing that --prove can try"));
        assert!(nothing_to_change(Some(&[trial()])).contains("nothing that was tried was shown to help"));
        let told = tried(&trial());
        assert!(told.starts_with("a.setting: ") && told.contains("does not help"), "{told}");
    }

    #[test]
    fn what_was_named_and_could_not_be_measured_is_in_the_exit_code() {
        assert_eq!(measured(&Probes::default()), Exit::Done);
        let way = Some(Err("far:1: Connection refused".to_owned()));
        assert_eq!(measured(&Probes { way: way.clone(), ..Probes::default() }), Exit::Partial);
        let disks = [(PathBuf::from("/full"), Err("too little room".to_owned()))].into();
        let probes = Probes { way, disks, ..Probes::default() };
        assert_eq!(measured(&probes), Exit::Partial);
        let told = not_measured(&probes).join("\n");
        for words in ["could not connect to far:1: Connection refused", "the disk of /full: too little room"]
        {
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(not_measured(&Probes::default()), [""; 0]);
    }

    #[test]
    fn a_profile_is_to_be_activated_only_where_it_was_written() {
        let refused = done(Some("Permission denied"));
        assert_eq!(what_next(std::slice::from_ref(&refused), false, true), None);
        assert_eq!(changed(&refused), "a.setting = 1 (was 0): NOT DONE: Permission denied");
        let next = |has_profile, has_tuned| {
            what_next(&[done(None), refused.clone()], has_profile, has_tuned).expect("words")
        };
        let activate = next(true, true);
        assert!(activate.contains("tuned-adm profile thalweg-dtn") && activate.contains("--undo"));
        let without = next(true, false);
        assert!(without.contains("tuned is not installed") && without.contains("--undo"), "{without}");
        assert!(!without.contains("tuned-adm"), "{without}");
        assert!(!next(false, true).contains("tuned-adm") && next(false, true).contains("--undo"));
    }
}
