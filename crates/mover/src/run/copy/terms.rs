//! What a copy goes by: its plan, the terms that both sides agree on, and how its knobs turn while it runs.

use super::{From, Job, Movement, Remembered, To, Wishes};
use crate::event::Event;
use crate::failure::{Failure, Reason};
use crate::link::own_system;
use crate::plan::{self, Asked, Foreseen, Path, Plan, Tuned};
use crate::run::client::Client;
use crate::run::far_mover::{FarMover, unused_of_link, without_effect};
use crate::run::steer::Steering;
use crate::tune::Sample;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_wire::hello::System;
use thalweg_wire::message::{Check, Direct, Direction, Disk, DiskSide, Steer, Terms};

impl Job<'_> {
    /// Both places are of this machine.
    pub(super) fn is_local(&self) -> bool {
        self.far().is_none()
    }

    /// It only measures, after others in the same session.
    pub(super) fn is_trial(&self) -> bool {
        self.wishes.trial.is_some()
    }

    /// What trials found for a path like this one, where nothing else bounds the rate.
    pub(super) fn tuned(&self) -> Option<Tuned> {
        let movement = &self.wishes.movement;
        let is_bound = movement.rate.bytes_per_s().is_some() || movement.asked.yields;
        let tuned = self.wishes.remembered.tuned.clone().filter(|_| !is_bound)?.at(self.rtt);
        let is_out = movement.link.congestion.is_some() || self.is_tuned_congestion_refused;
        Some(Tuned { congestion: tuned.congestion.filter(|_| !is_out), ..tuned })
    }

    /// Whether this is the far side's word that it does not permit the congestion control that trials found: nobody
    /// asked for it, so the copy goes on without, and says so.
    pub(super) fn drops_tuned_congestion(&mut self, failure: &Failure) -> bool {
        let is_refused = failure.reason == Reason::CongestionRefused;
        let Some(name) = self.tuned().and_then(|tuned| tuned.congestion).filter(|_| is_refused) else {
            return false;
        };
        self.is_tuned_congestion_refused = true;
        let text = format!(
            "trials found the congestion control `{name}` best for this way, which the far side does not permit: it goes on \
             with the far side's own choice (`thalweg tune --forget` forgets what trials found)"
        );
        (self.watch.events)(Event::Note(text));
        true
    }

    pub(super) fn plan(&self, client: &Client, direction: Direction) -> Plan {
        let (sender, receiver) = client.systems(direction);
        let learned = self.wishes.remembered.learned;
        self.planned(Path { rtt: Some(client.rtt), sender, receiver, learned, ..Path::default() })
    }

    pub(super) fn planned(&self, path: Path) -> Plan {
        let path = Path { tuned: self.tuned(), ..path };
        self.plan_of_given(plan::plan(&self.asked(), &path))
    }

    /// What is known of the plan with a far mover before there is a link.
    pub(super) fn foreseen(&self) -> Foreseen {
        let Remembered { tuned, learned, .. } = self.wishes.remembered.clone();
        let own = own_system();
        // The peer's windows, which nobody knows yet, may be narrower: then more streams are planned.
        let (sender, receiver) = match self.from {
            From::Far(..) => (System::default(), own),
            _ => (own, System::default()),
        };
        Foreseen { asked: self.asked(), path: Path { rtt: None, sender, receiver, tuned, learned } }
    }

    /// What a plan goes by besides the path.
    pub(super) fn asked(&self) -> Asked {
        let movement = &self.wishes.movement;
        let rate_bits_per_s = movement.rate.bytes_per_s().map(|rate| rate.saturating_mul(8));
        // Whether there is an io_uring is found out by making one.
        let no_io_uring = thalweg_sys::queue::io_uring_is_there().err().map(|error| error.to_string());
        let mut asked = Asked { rate_bits_per_s, no_io_uring, ..movement.asked.clone() };
        // Nothing would be shorter on the way within this machine.
        asked.compress &= !self.is_local();
        if asked.compress {
            // What is packed lies beside what it is made of.
            asked.memory_bytes = asked.memory_bytes.map(|bytes| bytes / 2);
        }
        self.asked_of_given(asked)
    }

    /// Tells what it goes by, once the far side, if there is one, has opened the place: before that nothing is begun.
    pub(super) fn tell_plan(&self, plan: &Plan) {
        (self.watch.events)(Event::Planned(Box::new(plan.clone())));
    }

    /// Says what was asked for and does nothing on this way, once.
    pub(super) fn tell_unused(&mut self) {
        let far = self.far();
        let Movement { asked, link, .. } = &self.wishes.movement;
        // Of what rides in ssh, or goes nowhere, no socket is ours.
        let has_sockets = far.is_some_and(|far| !far.is_carried());
        let is_marked = link.dscp.is_some() && !asked.yields;
        let mut options = vec![
            ("--compress", asked.compress && far.is_none()),
            ("--class scavenger (but for nice and I/O priority)", asked.yields && !has_sockets),
            ("--dscp", is_marked && !has_sockets),
            ("--window", asked.window_bytes.is_some() && !has_sockets),
        ];
        options.extend(unused_of_link(far, link, self.wishes.asked_of_way));
        options.extend(self.wishes.unused.iter().map(|option| (option.as_str(), true)));
        let mut texts: Vec<String> = without_effect(far, &options).into_iter().collect();
        let fidelity = &self.wishes.fidelity;
        let compares = fidelity.check != Check::Nothing && !self.wishes.dry_run;
        let looks = match self.to {
            To::Local(_) | To::Far(..) => compares,
            To::Given(given) => compares && given.finds_renames,
            To::Null | To::Scratch(..) | To::Simulated(_) => false,
        };
        if fidelity.finds_renames && !looks {
            let text =
                "without effect in a bucket, nowhere, in a dry run, or with --check nothing: --find-renames";
            texts.push(text.to_owned());
        }
        if !texts.is_empty() && !self.is_unused_told {
            self.is_unused_told = true;
            texts.into_iter().for_each(|text| (self.watch.events)(Event::Note(text)));
        }
    }

    pub(super) fn far(&self) -> Option<&FarMover> {
        match (self.from, self.to) {
            (From::Far(far, _), _) | (_, To::Far(far, _)) => Some(&**far),
            _ => None,
        }
    }

    /// For a transfer whose terms have this rate.
    pub(super) fn steering(&self, plan: &Plan, rtt: Option<Duration>, rate: Option<u64>) -> Steering {
        // A transfer that yields is as fast as others let it be.
        let Movement { asked, holds_still, .. } = &self.wishes.movement;
        let tunes = !holds_still && rtt.is_some() && !asked.yields && !self.wishes.dry_run;
        Steering::new(plan, asked, rtt.unwrap_or_default(), rate, tunes, self.watch.events.clone())
    }

    /// Whether a knob is to be turned.
    pub(super) fn look(&self, steering: &mut Steering) -> Option<Steer> {
        let meter = &self.watch.meter;
        let sample = Sample {
            bytes: meter.bytes_verified.load(Ordering::Relaxed),
            entries: meter.entries_settled.load(Ordering::Relaxed),
            entries_moved: meter.entries_moved.load(Ordering::Relaxed),
            entries_found: meter.entries_found.load(Ordering::Relaxed),
            bytes_found: meter.bytes_found.load(Ordering::Relaxed),
            ..Sample::default()
        };
        steering.look(&self.wishes.movement.rate, &sample)
    }

    pub(super) fn terms(&self, plan: &Plan) -> Terms {
        let Wishes { selection, fidelity, movement: Movement { asked, rate, link, .. }, .. } = self.wishes;
        let tuned = self.tuned().unwrap_or_default();
        Terms {
            verify: fidelity.verify,
            check: fidelity.check,
            preserve: fidelity.preserve,
            delete_max: fidelity.delete_max,
            compress: asked.compress,
            rate_bytes_per_s: rate.bytes_per_s(),
            dry_run: self.wishes.dry_run,
            ignore_existing: selection.ignore_existing,
            update: selection.update,
            job_key: self.job_key(),
            concurrency: asked.concurrency.or(tuned.concurrency),
            depth: asked.depth.or(tuned.depth),
            congestion: link.congestion.clone().or(tuned.congestion),
            disk: self.disk(),
            yields: asked.yields,
            removes_source: self.wishes.removes_sources,
            part: selection.part,
            finds_renames: fidelity.finds_renames,
            ..link.terms(plan)
        }
    }

    /// How both sides use their disks: as asked, else as trials found it.
    pub(super) fn disk(&self) -> Disk {
        let (disk, tuned) = (self.wishes.movement.asked.disk, self.tuned().unwrap_or_default());
        let side = |asked: DiskSide, found: Option<Direct>| match asked.direct {
            Direct::Auto => DiskSide { direct: found.unwrap_or_default(), ..asked },
            Direct::On | Direct::Off => asked,
        };
        Disk {
            source: side(disk.source, tuned.direct_source),
            destination: side(disk.destination, tuned.direct_destination),
            depth: disk.depth.or(tuned.io_depth),
            ..disk
        }
    }
}
