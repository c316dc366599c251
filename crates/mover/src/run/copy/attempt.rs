//! One attempt of a copy: within this process, pushed to a far mover, pulled from one.

use super::removal::{StopsRemoving, agreed};
use super::{FarTrial, Job, Report, Sources, To, stopped};
use crate::endpoint::Source;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::link::own_system;
use crate::plan::{Path, Plan};
use crate::run::agree::{self, Agreed, Signer, Wait};
use crate::run::client::Client;
use crate::run::expected::Expected;
use crate::run::local::LocalTransfer;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::{SendLane, SendRun};
use crate::run::steer::Steering;
use crate::run::{Ended, LineSink};
use crate::transfer::{receiver, sender};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::limits;
use thalweg_wire::message::{
    Direction, Open, Place, Pull, PullTrial, Push, Request, SourceForm, Steer, Terms, Totals, TransferNumber,
};
use thalweg_wire::receipt::{Signatory, TransferKind};

impl Job<'_> {
    pub(super) fn local(&mut self) -> Result<Report> {
        let here = own_system();
        let mut plan = self.planned(Path { sender: here, receiver: here, ..Path::default() });
        // There is no path on which others could be given way to, and nothing on it would be shorter.
        let terms = Terms { yields: false, compress: false, ..self.terms(&plan) };
        self.tell_unused();
        let (source, form) = self.source()?;
        let destination = self.destination(&form, &terms)?;
        self.have_streams(&mut plan, destination.streams(), "each waits for the destination's answers");
        self.tell_plan(&plan);
        let mut steering = self.steering(&plan, None, terms.rate_bytes_per_s);
        source.expect_reads(destination.is_new() && !terms.dry_run);
        let lines = self.lines();
        let transfer = LocalTransfer::start(
            source,
            destination,
            terms,
            plan.streams.value,
            self.watch.events.clone(),
            lines,
            self.removed(),
        )?;
        if let Some(is_behind) = self.watch.is_behind.clone() {
            transfer.sender.keep_pace_with(is_behind);
        }
        let ended = loop {
            let is_stopped = self.stop.is_asked();
            let ended = transfer.wait(Duration::from_millis(100));
            self.measure_sender(&transfer.sender);
            if let Some(steer) = self.look(&mut steering) {
                transfer.sender.steer(&steer);
            }
            self.tell_evidence(&plan, steering.streams(), || {
                (transfer.sender.own_accounts(), transfer.receiver.own_accounts())
            });
            if let Some(ended) = ended {
                break ended;
            }
            if is_stopped {
                transfer.close();
                return Err(stopped());
            }
        };
        let agreed = agree::totals_of(ended).and_then(|totals| {
            if !self.is_signed(self.is_trial()) {
                agree::unsigned_as_both(&*transfer.receiver);
                return Ok((totals, None));
            }
            let signer = self.signer(self.identity.signatory());
            let agreed = agree::as_both(&*transfer.sender, &*transfer.receiver, &signer, totals)?;
            self.keep_receipt(&agreed)?;
            Ok((totals, Some(agreed)))
        });
        let sources = match &agreed {
            Ok(_) => transfer.sender.finish_removing(&|| self.stop.is_asked()),
            Err(_) => Sources::default(),
        };
        let rows = (transfer.sender.own_accounts(), transfer.receiver.own_accounts());
        transfer.close();
        let (totals, agreed) = agreed?;
        Ok(self.report(totals, agreed, plan, rows, &steering, sources))
    }

    pub(super) fn push(
        &mut self,
        client: &Client,
        number: TransferNumber,
        (source, form): (Arc<dyn Source>, SourceForm),
        place: &Place,
    ) -> Result<Report> {
        let trial = match self.wishes.far_trial() {
            Some(FarTrial::Destination(trial)) => Some(trial),
            _ => None,
        };
        let attempt = self.begin(client, number, Direction::Push, trial.is_some());
        let filter = self.wishes.selection.filter.clone();
        let push = Push { place: place.clone(), source: form, filter, trial };
        let open = self.open(&attempt, Request::Push(push));
        let server = client.open_push(open, &|| self.stop.is_asked())?;
        self.tell_plan(&attempt.plan);
        let mut limits = sender::Limits::for_path(&attempt.terms, Some(client.rtt));
        limits.streams_to_come = limits.streams_to_come.min(attempt.plan.streams.value.into());
        let (terms, outbox) = (attempt.terms.clone(), client.session.outbox());
        // An attempt before may have found it otherwise.
        source.expect_reads(false);
        let run = SendRun::new(number, source, terms, limits, outbox, self.watch.events.clone());
        if self.wishes.movement.asked.compress_always {
            run.compress_always();
        }
        if let Some(is_behind) = self.watch.is_behind.clone() {
            run.keep_pace_with(is_behind);
        }
        if let Some(lines) = self.lines() {
            run.tell_lines(lines);
        }
        let _stops = StopsRemoving(&run);
        if let Some(removed) = self.removed() {
            run.remove_sources(removed)?;
        }
        client.add(number, run.clone())?;
        attempt.want_streams(attempt.plan.streams.value);
        run.start()?;
        let mut steering = self.steering_of(&attempt);
        if self.is_trial() {
            run.steer(&steering.only(attempt.plan.streams.value));
        }
        let ended = self.accompany(&attempt, &*run, &mut steering, |turned, _| {
            if let Some(steer) = turned {
                run.steer(&steer);
            }
        });
        let stop = self.stop;
        let is_stopped = || stop.is_asked();
        let agree = |totals| self.agree_as_sender(&attempt, &run, server, totals);
        let (totals, agreed) = agreed(&run, ended, agree, &is_stopped)?;
        let sources = run.finish_removing(&is_stopped);
        let rows = run.both_accounts();
        Ok(self.report(totals, agreed, attempt.plan, rows, &steering, sources))
    }

    pub(super) fn pull(
        &mut self,
        client: &Client,
        number: TransferNumber,
        places: &[Place],
    ) -> Result<Report> {
        let trial = match self.wishes.far_trial() {
            Some(FarTrial::Source(trial)) => Some(trial),
            _ => None,
        };
        let attempt = self.begin(client, number, Direction::Pull, trial.is_some());
        let selection = &self.wishes.selection;
        let pull = Pull {
            places: places.to_vec(),
            filter: selection.filter.clone(),
            only: selection.only.clone(),
            one_file_system: selection.one_file_system,
            follow_links: selection.follow_links,
            removes_at_end: self.wishes.removes_sources && self.wishes.receipt.is_some(),
            trial,
        };
        let open = self.open(&attempt, Request::Pull(pull));
        let (form, server) = client.open_pull(open, &|| self.stop.is_asked())?;
        self.tell_plan(&attempt.plan);
        let made = [Place { export: None, path: b"noise/".to_vec() }];
        let is_noise = matches!(trial, Some(PullTrial::Noise { .. }));
        let named = if is_noise { &made[..] } else { places };
        let expected = Expected::of(named, &selection.only, self.filter()?, &form)?;
        let destination = self.destination(&form, &attempt.terms)?;
        let run = ReceiveRun::start(
            number,
            destination,
            attempt.terms.clone(),
            receiver::Limits::default(),
            client.session.outbox(),
            self.watch.events.clone(),
        )?;
        run.expect(expected);
        if let Some(is_behind) = self.watch.is_behind.clone() {
            run.keep_pace_with(is_behind);
        }
        if let Some(removed) = self.removed() {
            run.expect_removal(removed);
        }
        if let Some(lines) = self.lines() {
            run.tell_lines(lines);
        }
        if let Err(failure) = client.add(number, run.clone()) {
            run.close();
            return Err(failure);
        }
        attempt.want_streams(attempt.plan.streams.value);
        let mut steering = self.steering_of(&attempt);
        // The far side knows by it for how many streams to leave small files, and which are of an earlier transfer.
        client.steer(number, steering.only(attempt.plan.streams.value));
        let mut told_at = client.session.epoch();
        let result = self
            .accompany(&attempt, &*run, &mut steering, |turned, steering| {
                let epoch = client.session.epoch();
                // What was said to a link that broke may not have been heard.
                if let Some(steer) = turned.or_else(|| (epoch != told_at).then(|| steering.now()))
                    && client.steer(number, steer)
                {
                    told_at = epoch;
                }
            })
            .and_then(agree::totals_of)
            .and_then(|totals| self.agree_as_receiver(&attempt, &run, server, totals));
        run.close();
        let rows = run.both_accounts();
        let (totals, agreed) = result?;
        let sources = self.far_sources(&run);
        Ok(self.report(totals, agreed, attempt.plan, rows, &steering, sources))
    }

    /// Plans an attempt with a far mover, and has its streams dialled while that opens the place.
    fn begin<'c>(
        &mut self,
        client: &'c Client,
        number: TransferNumber,
        direction: Direction,
        is_trial: bool,
    ) -> Attempt<'c> {
        let plan = self.plan(client, direction);
        let terms = self.terms(&plan);
        self.tell_unused();
        let attempt = Attempt { client, number, plan, terms, is_signed: self.is_signed(is_trial) };
        attempt.dial_early();
        attempt
    }

    fn open(&self, attempt: &Attempt, request: Request) -> Open {
        Open {
            transfer: attempt.number,
            request,
            terms: attempt.terms.clone(),
            signer: attempt.is_signed.then(|| self.identity.signatory()),
        }
    }

    fn steering_of(&self, attempt: &Attempt) -> Steering {
        self.steering(&attempt.plan, Some(attempt.client.rtt), attempt.terms.rate_bytes_per_s)
    }

    /// Waits until `run` has ended and tells meanwhile how far it is. About ten times a second `steer` gets the knobs
    /// that are to be turned, if some are.
    fn accompany<R: OurSide>(
        &mut self,
        attempt: &Attempt,
        run: &R,
        steering: &mut Steering,
        mut steer: impl FnMut(Option<Steer>, &Steering),
    ) -> Result<Ended> {
        let ended = self.wait(attempt.client, |job| {
            run.measure(job);
            let turned = job.look(steering);
            if let Some(turn) = &turned {
                attempt.want_streams(turn.streams.unwrap_or(0));
            }
            steer(turned, steering);
            job.tell_evidence(&attempt.plan, steering.streams(), || run.both_accounts());
            run.wait(Duration::from_millis(100))
        });
        if ended.is_ok() {
            // What came during the last wait.
            run.measure(self);
        }
        ended
    }

    fn agree_as_sender(
        &self,
        attempt: &Attempt,
        run: &SendRun,
        server: Signatory,
        totals: Totals,
    ) -> Result<(Totals, Option<Agreed>)> {
        let patience = self.wishes.movement.link.patience;
        let wait = Wait { patience, is_given_up: &|| self.stop.is_asked() };
        if !attempt.is_signed {
            return agree::unsigned_as_sender(run, wait).map(|()| (totals, None));
        }
        let signer = self.signer_with(attempt, server);
        let agreed = agree::as_sender(run, &signer, totals, wait)?;
        self.keep_receipt(&agreed)?;
        Ok((totals, Some(agreed)))
    }

    fn agree_as_receiver(
        &self,
        attempt: &Attempt,
        run: &ReceiveRun,
        server: Signatory,
        totals: Totals,
    ) -> Result<(Totals, Option<Agreed>)> {
        let patience = self.wishes.movement.link.patience;
        let wait = Wait { patience, is_given_up: &|| self.stop.is_asked() };
        if !attempt.is_signed {
            return Ok((agree::unsigned_as_receiver(run, totals, wait)?, None));
        }
        let signer = self.signer_with(attempt, server);
        let keep = |agreed: &Agreed| self.keep_receipt(agreed);
        let agreed = agree::as_keeping_receiver(run, &signer, totals, wait, keep)?;
        // Those that both signed.
        Ok((agreed.receiver.statement.totals, Some(agreed)))
    }

    /// What keeps nothing, or changes nothing, is not signed: its statement would pass for one of a copy.
    fn is_signed(&self, is_trial: bool) -> bool {
        !is_trial && !self.wishes.dry_run
    }

    fn signer(&self, peer: Signatory) -> Signer<'_> {
        let place = match self.to {
            To::Local(path) => Some(agree::place_of(path)),
            To::Given(given) => Some(given.place.clone()),
            _ => None,
        };
        let header = self.wishes.receipt.as_ref().map(|receipt| receipt.header);
        let kind = TransferKind::Files;
        let signer = Signer { identity: self.identity, kind, peer, session: None, place, header };
        if let Some(text) = agree::note_of(&signer) {
            (self.watch.events)(Event::Note(text));
        }
        signer
    }

    fn signer_with(&self, attempt: &Attempt, server: Signatory) -> Signer<'_> {
        let session = Some(attempt.client.session.tie(attempt.number));
        Signer { session, ..self.signer(server) }
    }

    /// Completes the receipt, if one is written, before source files go for it. Where its file system does not answer,
    /// that is no link of ours: nothing goes, and another attempt would find the same.
    fn keep_receipt(&self, agreed: &Agreed) -> Result<()> {
        let Some(receipt) = self.wishes.receipt.as_ref().filter(|_| self.wishes.removes_sources) else {
            return Ok(());
        };
        (receipt.complete)(agreed).map_err(|failure| match failure.kind {
            FailureKind::Connection => Failure { kind: FailureKind::Io, ..failure },
            _ => failure,
        })
    }

    fn lines(&self) -> Option<LineSink> {
        self.wishes.receipt.as_ref().map(|receipt| (receipt.lines)())
    }
}

/// An attempt with a far mover, whichever side is ours.
struct Attempt<'a> {
    client: &'a Client,
    number: TransferNumber,
    plan: Plan,
    terms: Terms,
    is_signed: bool,
}

impl Attempt<'_> {
    /// Has the streams dialled while the far side opens the place, if all of them may have frames of this size: a link
    /// that stands with more would not take the transfer.
    fn dial_early(&self) {
        let streams = self.plan.streams.value;
        if u64::from(streams) * SendLane::payload_bytes(&self.terms) <= limits::STREAM_BYTES_MAX {
            self.want_streams(streams);
        }
    }

    fn want_streams(&self, streams: u16) {
        self.client.want_streams(streams, &self.plan);
    }
}

/// Our side of an attempt with a far mover.
trait OurSide: Party {
    /// Tells how far it is.
    fn measure(&self, job: &mut Job<'_>);

    /// Accounts of the sender, and of the receiver.
    fn both_accounts(&self) -> (SideAccounts, SideAccounts);
}

impl OurSide for SendRun {
    fn measure(&self, job: &mut Job<'_>) {
        job.measure_sender(self);
    }

    fn both_accounts(&self) -> (SideAccounts, SideAccounts) {
        (self.own_accounts(), self.peer_accounts())
    }
}

impl OurSide for ReceiveRun {
    fn measure(&self, job: &mut Job<'_>) {
        job.measure_receiver(self);
    }

    fn both_accounts(&self) -> (SideAccounts, SideAccounts) {
        (self.peer_accounts(), self.own_accounts())
    }
}
