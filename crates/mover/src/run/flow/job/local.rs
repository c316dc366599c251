//! A stream within this machine: no link, one attempt.

use super::open::{job_key_of, open_destination, place_of};
use super::{FlowFrom, FlowReport, FlowTo, Job};
use crate::endpoint::local::overlap;
use crate::failure::Result;
use crate::link::own_system;
use crate::plan::Path;
use crate::run::agree;
use crate::run::flow::local::LocalFlow;
use crate::run::flow::receiver::FlowReceive;
use crate::run::flow::sender::FlowSend;
use crate::run::party::Party;
use std::time::Duration;

impl Job<'_> {
    pub(super) fn local(&mut self, from: FlowFrom, to: FlowTo) -> Result<FlowReport> {
        if let (FlowFrom::Local(from), FlowTo::Local(to)) = (&from, &to) {
            overlap::refuse_stream(from, to)?;
        }
        self.tell_unused(None);
        let here = own_system();
        let plan = self.planned(Path { sender: here, receiver: here, ..Path::default() });
        let terms = self.terms(&plan, job_key_of(None, &to));
        let is_pipe = matches!(from, FlowFrom::Pipe(_)) || matches!(to, FlowTo::Pipe(_));
        let (mut feed, form) = self.feed(from, &terms)?;
        if matches!(to, FlowTo::Pipe(_)) {
            feed.begins_nothing_again();
        }
        let rule = self.rule_of(&form, is_pipe);
        let place = place_of(&to);
        let mut to = Some(to);
        let destination = loop {
            match open_destination(&mut to, &form, &terms) {
                Ok(destination) => break destination,
                Err(failure) => self.wait_for_room(rule, failure)?,
            }
        };
        let flow = self.wishes.terms.clone();
        // Events of flows come from one side only.
        let receiver = FlowReceive::start(destination, terms.clone(), &flow, crate::event::nobody())?;
        let sender = FlowSend::new(terms, flow, self.watch.events.clone());
        let local = LocalFlow::start(&sender, &receiver, self.lines()).inspect_err(|_| receiver.close())?;
        if let Err(failure) = sender.start(feed) {
            sender.abort(failure.clone());
            receiver.close();
            local.close();
            return Err(failure);
        }
        let ended = loop {
            let ended = sender.wait(Duration::from_millis(100));
            self.measure_sender(&sender);
            self.keep_rate(0, |steer| {
                sender.steer(steer);
                true
            });
            self.tell_evidence(&plan, || (sender.own_accounts(), receiver.own_accounts()));
            match ended {
                Some(ended) => break Ok(ended),
                None if self.stop.is_asked() => break Err(self.stop_sender(&sender)),
                None => {}
            }
        };
        let agreed = ended.and_then(agree::totals_of).and_then(|totals| {
            let signer = self.signer(self.identity.signatory(), place);
            Ok((totals, agree::as_both(&*sender, &*receiver, &signer, totals)?))
        });
        if let Err(failure) = &agreed {
            sender.abort(failure.clone());
        }
        let rows = (sender.own_accounts(), receiver.own_accounts());
        sender.tell_failing();
        receiver.close();
        local.close();
        let (totals, agreed) = agreed.map_err(|failure| sender.read_failure().unwrap_or(failure))?;
        Ok(FlowReport { lag: Some(sender.lag()), ..self.report(totals, agreed, plan, rows, 1) })
    }
}
