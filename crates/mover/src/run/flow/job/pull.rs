//! A stream from a far machine to this one.

use super::open::{job_key_of, open_destination, place_of};
use super::{FlowReport, FlowTo, Job, stopped};
use crate::failure::Result;
use crate::filter::Filter;
use crate::plan::Plan;
use crate::run::agree::{self, Wait};
use crate::run::expected::Expected;
use crate::run::far_mover::FarMover;
use crate::run::flow::receiver::FlowReceive;
use crate::run::party::Party;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::{Direction, Place, Request};

impl Job<'_> {
    pub(super) fn pull(&mut self, far: &Arc<FarMover>, place: &Place, to: FlowTo) -> Result<FlowReport> {
        let written = place_of(&to);
        let mut to = Some(to);
        let mut begun: Option<(Arc<FlowReceive>, Plan)> = None;
        let result = self.in_sessions(far, &mut |job, client, number| {
            let plan = begun.as_ref().map(|(_, plan)| plan.clone());
            let plan = plan.unwrap_or_else(|| job.plan(client, Direction::Pull));
            let key = job_key_of(None, to.as_ref().unwrap_or(&FlowTo::Null));
            let terms = begun.as_ref().map_or_else(|| job.terms(&plan, key), |(run, _)| run.terms().clone());
            let flow = job.wishes.terms.clone();
            let request = Request::FlowPull { place: place.clone(), flow: flow.clone() };
            let open = job.opening(number, request, terms.clone());
            let (form, server, granted) = client.open_flow_pull(open, &|| job.stop.is_asked())?;
            let granted = job.granted(granted, flow.window_bytes, "source");
            let expected = Expected::of(std::slice::from_ref(place), &[], Filter::new(Vec::new())?, &form)?;
            let run = match &begun {
                Some((run, _)) => run.clone(),
                None => {
                    let rule = job.rule_of(&form, matches!(to, Some(FlowTo::Pipe(_))));
                    job.opens_by = Some(rule);
                    let destination = open_destination(&mut to, &form, &terms)?;
                    job.opens_by = None;
                    let run = FlowReceive::start(destination, terms, &flow, job.watch.events.clone())?;
                    run.expect(expected);
                    run.begins_again(rule);
                    begun = Some((run.clone(), plan.clone()));
                    run
                }
            };
            run.fit_window(granted);
            run.attach(number, client.session.outbox(), job.lines());
            client.add(number, run.clone())?;
            client.want_streams(plan.streams.value, &plan);
            // Another session knows what stands in the terms.
            job.steered = (client.session.epoch(), run.terms().rate_bytes_per_s);
            let ended = job.wait(client, |job| {
                job.measure_receiver(&run);
                // What was said to a link that broke may not have been heard.
                job.keep_rate(client.session.epoch(), |steer| client.steer(number, *steer));
                job.tell_evidence(&plan, || (run.peer_accounts(), run.own_accounts()));
                match run.wait(Duration::from_millis(100)) {
                    None if job.stop.is_asked() => Some(Err(stopped())),
                    ended => ended.map(Ok),
                }
            })?;
            // What came during the last wait.
            job.measure_receiver(&run);
            let totals = agree::totals_of(ended)?;
            let signer = job.signer_with(client, number, server, written.clone());
            let wait = Wait { patience: job.wishes.link.patience, is_given_up: &|| job.stop.is_asked() };
            let agreed = agree::as_receiver(&*run, &signer, totals, wait)?;
            // Those that both signed.
            let totals = agreed.receiver.statement.totals;
            let rows = (run.peer_accounts(), run.own_accounts());
            Ok((totals, agreed, plan, rows))
        });
        if let Some((run, _)) = &begun {
            run.tell_failing();
            run.close();
        }
        self.reported(result)
    }
}
