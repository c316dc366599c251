//! One attempt of a copy: within this process, pushed to a far mover, pulled from one.

use super::removal::{StopsRemoving, agreed};
use super::{FarTrial, Job, Report, Sources, To, stopped};
use crate::endpoint::Source;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::link::own_system;
use crate::plan::{Path, Plan};
use crate::run::LineSink;
use crate::run::agree::{self, Agreed, Signer, Wait};
use crate::run::client::Client;
use crate::run::expected::Expected;
use crate::run::local::LocalTransfer;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::{SendLane, SendRun};
use crate::transfer::{receiver, sender};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::limits;
use thalweg_wire::message::{
    Direction, Open, Place, Pull, PullTrial, Push, Request, SourceForm, Terms, TransferNumber,
};
use thalweg_wire::receipt::{Signatory, TransferKind};

impl Job<'_> {
    pub(super) fn local(&mut self) -> Result<Report> {
        let here = own_system();
        let plan = self.planned(Path { sender: here, receiver: here, ..Path::default() });
        self.tell_plan(&plan);
        // There is no path on which others could be given way to, and nothing on it would be shorter.
        let terms = Terms { yields: false, compress: false, ..self.terms(&plan) };
        self.tell_unused();
        let mut steering = self.steering(&plan, None, terms.rate_bytes_per_s);
        let (source, form) = self.source()?;
        let destination = self.destination(&form, &terms)?;
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
        let plan = self.plan(client, Direction::Push);
        let terms = self.terms(&plan);
        let rate = terms.rate_bytes_per_s;
        self.tell_unused();
        dial_early(client, &plan, &terms);
        let trial = match self.wishes.far_trial() {
            Some(FarTrial::Destination(trial)) => Some(trial),
            _ => None,
        };
        let is_signed = self.is_signed(trial.is_some());
        let filter = self.wishes.selection.filter.clone();
        let open = Open {
            transfer: number,
            request: Request::Push(Push { place: place.clone(), source: form, filter, trial }),
            terms: terms.clone(),
            signer: is_signed.then(|| self.identity.signatory()),
        };
        let server = client.open_push(open, &|| self.stop.is_asked())?;
        self.tell_plan(&plan);
        let limits = sender::Limits::for_path(&terms, Some(client.rtt));
        let outbox = client.session.outbox();
        let run = SendRun::new(number, source, terms, limits, outbox, self.watch.events.clone());
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
        client.want_streams(plan.streams.value, &plan);
        run.start()?;
        let mut steering = self.steering(&plan, Some(client.rtt), rate);
        if self.is_trial() {
            run.steer(&steering.only(plan.streams.value));
        }
        let ended = self.wait(client, |job| {
            job.measure_sender(&run);
            if let Some(steer) = job.look(&mut steering) {
                client.want_streams(steer.streams.unwrap_or(0), &plan);
                run.steer(&steer);
            }
            job.tell_evidence(&plan, steering.streams(), || (run.own_accounts(), run.peer_accounts()));
            run.wait(Duration::from_millis(100))
        });
        if ended.is_ok() {
            // What came during the last wait.
            self.measure_sender(&run);
        }
        let stop = self.stop;
        let is_stopped = || stop.is_asked();
        let wait = Wait { patience: self.wishes.movement.link.patience, is_given_up: &is_stopped };
        let agree = |totals| match is_signed {
            true => {
                let signer = self.signer_with(client, number, server);
                let agreed = agree::as_sender(&*run, &signer, totals, wait)?;
                self.keep_receipt(&agreed)?;
                Ok((totals, Some(agreed)))
            }
            false => agree::unsigned_as_sender(&*run, wait).map(|()| (totals, None)),
        };
        let (totals, agreed) = agreed(&run, ended, agree, &is_stopped)?;
        let sources = run.finish_removing(&is_stopped);
        let rows = (run.own_accounts(), run.peer_accounts());
        Ok(self.report(totals, agreed, plan, rows, &steering, sources))
    }

    pub(super) fn pull(
        &mut self,
        client: &Client,
        number: TransferNumber,
        places: &[Place],
    ) -> Result<Report> {
        let plan = self.plan(client, Direction::Pull);
        let terms = self.terms(&plan);
        let rate = terms.rate_bytes_per_s;
        self.tell_unused();
        dial_early(client, &plan, &terms);
        let selection = &self.wishes.selection;
        let trial = match self.wishes.far_trial() {
            Some(FarTrial::Source(trial)) => Some(trial),
            _ => None,
        };
        let is_signed = self.is_signed(trial.is_some());
        let open = Open {
            transfer: number,
            request: Request::Pull(Pull {
                places: places.to_vec(),
                filter: selection.filter.clone(),
                only: selection.only.clone(),
                one_file_system: selection.one_file_system,
                follow_links: selection.follow_links,
                removes_at_end: self.wishes.removes_sources && self.wishes.receipt.is_some(),
                trial,
            }),
            terms: terms.clone(),
            signer: is_signed.then(|| self.identity.signatory()),
        };
        let (form, server) = client.open_pull(open, &|| self.stop.is_asked())?;
        self.tell_plan(&plan);
        let made = [Place { export: None, path: b"noise/".to_vec() }];
        let is_noise = matches!(trial, Some(PullTrial::Noise { .. }));
        let named = if is_noise { &made[..] } else { places };
        let expected = Expected::of(named, &selection.only, self.filter()?, &form)?;
        let destination = self.destination(&form, &terms)?;
        let run = ReceiveRun::start(
            number,
            destination,
            terms,
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
        client.want_streams(plan.streams.value, &plan);
        let mut steering = self.steering(&plan, Some(client.rtt), rate);
        if self.is_trial() {
            client.steer(number, steering.only(plan.streams.value));
        }
        let mut told_at = client.session.epoch();
        let result = self
            .wait(client, |job| {
                job.measure_receiver(&run);
                let epoch = client.session.epoch();
                let turned = job.look(&mut steering);
                if let Some(steer) = &turned {
                    client.want_streams(steer.streams.unwrap_or(0), &plan);
                }
                // What was said to a link that broke may not have been heard.
                if let Some(steer) = turned.or_else(|| (epoch != told_at).then(|| steering.now()))
                    && client.steer(number, steer)
                {
                    told_at = epoch;
                }
                job.tell_evidence(&plan, steering.streams(), || (run.peer_accounts(), run.own_accounts()));
                run.wait(Duration::from_millis(100))
            })
            // What came during the last wait.
            .inspect(|_| self.measure_receiver(&run))
            .and_then(agree::totals_of)
            .and_then(|totals| {
                let patience = self.wishes.movement.link.patience;
                let wait = Wait { patience, is_given_up: &|| self.stop.is_asked() };
                if !is_signed {
                    return Ok((agree::unsigned_as_receiver(&*run, totals, wait)?, None));
                }
                let signer = self.signer_with(client, number, server);
                let keep = |agreed: &Agreed| self.keep_receipt(agreed);
                let agreed = agree::as_keeping_receiver(&*run, &signer, totals, wait, keep)?;
                // Those that both signed.
                Ok((agreed.receiver.statement.totals, Some(agreed)))
            });
        run.close();
        let rows = (run.peer_accounts(), run.own_accounts());
        let (totals, agreed) = result?;
        let sources = self.far_sources(&run);
        Ok(self.report(totals, agreed, plan, rows, &steering, sources))
    }

    /// What keeps nothing, or changes nothing, is not signed: its statement would pass for one of a copy.
    fn is_signed(&self, is_trial: bool) -> bool {
        !is_trial && !self.wishes.dry_run
    }

    fn signer(&self, peer: Signatory) -> Signer<'_> {
        let place = match self.to {
            To::Local(path) => Some(agree::place_of(path)),
            To::Given(given) => Some(Place { export: None, path: given.name.clone() }),
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

    fn signer_with(&self, client: &Client, number: TransferNumber, server: Signatory) -> Signer<'_> {
        Signer { session: Some(client.session.tie(number)), ..self.signer(server) }
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

/// Has the streams dialled while the far side opens the place, if all of them may have frames of this size: a link that
/// stands with more would not take the transfer.
fn dial_early(client: &Client, plan: &Plan, terms: &Terms) {
    let frames = u64::from(plan.streams.value) * SendLane::payload_bytes(terms);
    if frames <= limits::STREAM_BYTES_MAX {
        client.want_streams(plan.streams.value, plan);
    }
}
