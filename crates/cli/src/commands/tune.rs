//! `thalweg tune`: finds settings for a way by trial, and remembers them for later copies.
//!
//! 1. The way as a copy would begin it now, once: how much is moved in so much time.
//! 2. [`Search`] says what to measure next: so many bytes of the source, into a scratch directory, until they are
//!    durable.
//! 3. What is better than what a copy would choose by itself goes into the profile of the way.
//!
//! Bounded in time and in bytes; each trial is stopped after twice the time that it should take. What is under trial
//! when either is used up is not kept.

use super::probe::{Measurer, how, movement};
use crate::args::tune::TuneArgs;
use crate::exit::Exit;
use crate::place::Places;
use knobs::Knobs;
use std::path::Path;
use std::time::Instant;
use thalweg_client::far_movers::FarMovers;
use thalweg_client::job::{Asked, Job};
use thalweg_client::options::congestion;
use thalweg_client::profiles::{ByHand, Profiles};
use thalweg_client::{identity, routes};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::plan::{self, Plan, Tuned};
use thalweg_mover::run::copy::{From, To, Wishes};
use thalweg_mover::tune::search::Search;
use trials::Trials;

// What is turned.
mod knobs;

// What is measured, and what that costs.
mod trials;

// What it tells: to people, to programs.
mod output;

/// `thalweg tune`.
///
/// # Errors
/// What is wrong with the command line; when the far place cannot be reached; when not even the way as it is can be
/// measured; `Stopped`.
pub fn tune(args: &TuneArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read("tune", &typed, None, places)?;
    let mut far_movers = FarMovers::new(how(&args.ask, &args.way, places, &state));
    let job = asked.reach(&mut far_movers, &state)?;
    if !matches!(job.from, From::Local(_) | From::Far(..)) || !matches!(job.to, To::Local(_) | To::Far(..)) {
        let cause = "settings are tuned for real places";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let by_hand = ByHand::of(&Wishes { movement: movement(&args.way, None), ..Wishes::default() }).of_way();
    let way = Way { state: &state, job: &job, route: routes::of(&job.from, &job.to), by_hand };
    if args.forget {
        way.forget();
        output::forgotten(args, &job);
    } else {
        find(args, &way)?;
    }
    drop(far_movers);
    Ok(Exit::Done)
}

/// Finds settings for a way, remembers them, and tells them.
fn find(args: &TuneArgs, way: &Way) -> Result<()> {
    let began = Instant::now();
    let Way { state, job, .. } = way;
    let measurer = Measurer::new(job, movement(&args.way, None), args.time, state, args.ask.json)?;
    let path = measurer.path();
    let (now, mut known) = way.settings(&path);
    if job.is_push() && known.congestion.as_ref().is_some_and(|name| !congestion::is_permitted(name)) {
        way.drop_congestion(args, &mut known);
    }
    let mut trials = Trials::new(&measurer, args, began, path.rtt);
    let entries = match trials.size(&now, &known) {
        // It was permitted when it was found; that it is not any more is no reason to tune nothing.
        Err(failure) if known.congestion.is_some() && is_of_congestion(&failure) => {
            way.drop_congestion(args, &mut known);
            trials.size(&now, &known)
        }
        entries => entries,
    }?;
    let is_far = matches!(job.from, From::Far(..)) || job.is_push();
    let knobs = Knobs::of(is_far, job.is_push(), &now, &known, (trials.bytes(), entries));
    knobs.left_out.iter().for_each(|(knob, why)| output::left_out(args, knob, why));
    let search = search(args, &knobs, &mut trials)?;
    let untuned = plan::plan(&plan::Asked::default(), &path);
    let found = trials.rate_of(&search).and_then(|rate| knobs.found(search.kept(), &untuned, rate as u64));
    let found = found.map(|found| Tuned { rtt: path.rtt, ..found });
    let has_changed = search.kept() != search.start();
    if has_changed && !args.dry_run {
        way.remember(found.as_ref());
    }
    output::Outcome { args, job, knobs: &knobs, search: &search, trials: &trials, found }.tell();
    Ok(())
}

/// Whether a far side says that it does not permit a congestion control.
fn is_of_congestion(failure: &Failure) -> bool {
    failure.reason == Reason::CongestionRefused
}

/// Turns one knob after the other until nothing is better, or time or bytes are used up; each decision is told when it
/// is made.
fn search(args: &TuneArgs, knobs: &Knobs, trials: &mut Trials) -> Result<Search> {
    let mut search = Search::new(knobs.ladders());
    let mut used_up = None;
    while let Some(setting) = search.next() {
        let told = search.decisions().len();
        used_up = trials.used_up();
        match used_up {
            Some(why) => search.stop(why),
            None => {
                let measured =
                    trials.measure(&knobs.words(&setting), |movement| knobs.apply(&setting, movement))?;
                search.measured(measured.map_err(|failure| failure.to_string()));
            }
        }
        search.decisions()[told..].iter().for_each(|decision| output::decision(args, knobs, decision));
        if used_up.is_some() {
            break;
        }
    }
    if let Some(why) = used_up {
        let is_tried = |at: usize| search.decisions().iter().any(|decision| decision.ladder == Some(at));
        let not_tried = knobs.all.iter().enumerate().filter(|(at, _)| !is_tried(*at));
        not_tried.for_each(|(_, knob)| output::left_out(args, knob.name(), why));
    }
    Ok(search)
}

/// From one place to another, with what is remembered of it.
struct Way<'a> {
    state: &'a Path,
    job: &'a Job,
    /// Under which name what copies learned of the network is kept.
    route: Option<String>,
    /// Which way the streams take, and in which form.
    by_hand: ByHand,
}

impl Way<'_> {
    /// What a copy would begin with now, and what of it was found by an earlier search.
    fn settings(&self, path: &plan::Path) -> (Plan, Tuned) {
        let profiles = Profiles::read(self.state);
        let tuned =
            profiles.of(&self.job.from, &self.job.to, &self.by_hand).and_then(|way| way.tuned.clone());
        let tuned = tuned.map(|tuned| tuned.at(path.rtt));
        let learned = self.route.as_ref().and_then(|route| routes::known(self.state, route));
        let path = plan::Path { tuned: tuned.clone(), learned, ..path.clone() };
        (plan::plan(&plan::Asked::default(), &path), tuned.unwrap_or_default())
    }

    /// Goes on without the congestion control that was found before; later copies begin without it as well.
    fn drop_congestion(&self, args: &TuneArgs, known: &mut Tuned) {
        let Some(name) = known.congestion.take() else { return };
        if !args.dry_run {
            Profiles::forget_congestion(self.state, &self.job.from, &self.job.to, &self.by_hand);
        }
        output::congestion_dropped(args, &name);
    }

    fn forget(&self) {
        Profiles::tuned(self.state, &self.job.from, &self.job.to, &self.by_hand, None);
        if let Some(route) = &self.route {
            routes::forget(self.state, route);
        }
    }

    /// Later copies begin with what was found, and not with what earlier ones learned beside other settings.
    fn remember(&self, found: Option<&Tuned>) {
        self.forget();
        if let Some(found) = found {
            Profiles::tuned(self.state, &self.job.from, &self.job.to, &self.by_hand, Some(found.clone()));
        }
    }
}
