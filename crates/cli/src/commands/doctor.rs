//! `thalweg doctor`: prints what the laboratory found.

use crate::commands::testbed;
use crate::exit::Exit;
use crate::{identity, json, out};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_cli::args::doctor::DoctorArgs;
use thalweg_lab::doctor::change::{self, Done, PROFILE};
use thalweg_lab::doctor::prove::{NAME, Trial, TrialPath, prove};
use thalweg_lab::doctor::{Belief, Finding, Holds, Probes, Report, Roots, Verdict, devices, examine};
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::child::dies_with_us;

/// The round trip of a trial if none was measured: interstate, at its upper end (000 Table IV).
const INTERSTATE_RTT: Duration = Duration::from_millis(50);

/// The line of a trial: more than default buffers fill over that way.
const TRIAL_RATE_BITS_PER_S: u64 = 1_000_000_000;

/// `thalweg doctor`.
///
/// # Errors
/// If a path does not exist, or nothing could be changed.
pub fn doctor(args: &DoctorArgs) -> Result<Exit> {
    let roots = Roots::below(args.root.as_deref().unwrap_or(Path::new("/")));
    if args.undo {
        let done = change::undo(&roots, &state(args)?)?;
        return changed(args, "undone", &done, "nothing to put back: --apply has changed nothing");
    }
    let paths = args.paths.iter().map(|path| absolute(path)).collect::<Result<Vec<PathBuf>>>()?;
    let probes = match args.root {
        Some(_) => Probes::default(),
        None => Probes::take(&devices(&roots), &paths, args.to.as_deref()),
    };
    let mut report = examine(&roots, &probes, &paths);
    let trials = match args.prove {
        true => Some(proved(args, &roots, &probes, &mut report)?),
        false => None,
    };
    if args.apply {
        let done = change::apply(&roots, &report, &probes, &state(args)?)?;
        let exit = changed(args, "applied", &done, "nothing to change that may be changed from here")?;
        if !args.json && !done.is_empty() {
            out::line(&format!(
                "activate the profile: tuned-adm profile {PROFILE}; take all of it back: thalweg doctor --undo, after tuned has \
                 let go of the profile"
            ))?;
            out::flush()?;
        }
        return Ok(exit);
    }
    match args.json {
        true => json::line(
            &json!({"event": "doctor", "findings": report.findings, "beliefs": report.beliefs, "trials": trials}),
        )?,
        false => show(&report, trials.as_deref().unwrap_or_default(), args.verbose)?,
    }
    out::flush()?;
    Ok(Exit::Done)
}

/// On the path to the machine that was asked for, else on one of 000 Table IV; at a rate that two cores carry.
fn proved(args: &DoctorArgs, roots: &Roots, probes: &Probes, report: &mut Report) -> Result<Vec<Trial>> {
    let rtt = match &probes.way {
        Some(Ok(way)) => way.rtt,
        _ => INTERSTATE_RTT,
    };
    let path = TrialPath { rtt, rate_bits_per_s: TRIAL_RATE_BITS_PER_S };
    if !args.json {
        out::line(&format!(
            "trying proposed settings in a testbed of {:.1} ms and {} Gbit/s, one stream of TCP",
            rtt.as_secs_f64() * 1e3,
            TRIAL_RATE_BITS_PER_S as f64 / 1e9
        ))?;
        out::flush()?;
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

/// Settings of this machine are recorded by themselves.
fn state(args: &DoctorArgs) -> Result<PathBuf> {
    Ok(identity::state_directory(args.state.as_deref())?.join("doctor"))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| {
        let mut failure = of_io("find a path", &error);
        failure.cause = format!("`{}`: {}", path.display(), failure.cause);
        failure
    })
}

fn changed(args: &DoctorArgs, word: &str, done: &[Done], nothing: &str) -> Result<Exit> {
    let has_trouble = done.iter().any(|done| done.trouble.is_some());
    let exit = if has_trouble { Exit::Partial } else { Exit::Done };
    if args.json {
        json::line(&json!({"event": format!("doctor-{word}"), "changes": done, "exit": exit.code()}))?;
    } else if done.is_empty() {
        out::line(nothing)?;
    }
    for one in done.iter().filter(|_| !args.json) {
        let trouble = one.trouble.as_ref().map(|why| format!(": NOT DONE: {why}")).unwrap_or_default();
        out::line(&format!("{} {}{trouble}", one.what, one.now))?;
    }
    out::flush()?;
    Ok(exit)
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
    for trial in trials {
        out::line(&format!("{}: {}", trial.settings.join(", "), trial.sentence()))?;
    }
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
