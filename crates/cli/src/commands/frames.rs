//! `thalweg frames`: frames of detectors to and from channels.

mod pull;

mod push;

use super::slots;
use crate::exit::Exit;
use crate::place::Places;
use crate::{json, out, show, units};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use thalweg_cli::args::frames::{ChannelArgs, FramesCommand, FramesStatusArgs};
use thalweg_client::events;
use thalweg_client::far_movers::How;
use thalweg_client::frames::{
    self, ChannelStatus, ClockOffset, ConsumerStatus, Latency, ProducerStatus, policy_name,
};
use thalweg_client::options::congestion;
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{self, Failure, Result};
use thalweg_mover::run::client::LinkSettings;
use thalweg_wire::limits;

/// Does what was asked for.
///
/// # Errors
/// When it could not begin or not go on.
pub fn frames(command: &FramesCommand, places: &Places) -> Result<Exit> {
    match command {
        FramesCommand::Push(args) => push::push(args, places),
        FramesCommand::Pull(args) => pull::pull(args, places),
        FramesCommand::Status(args) => status(args, places),
    }
}

fn status(args: &FramesStatusArgs, places: &Places) -> Result<Exit> {
    let how = How::to_ask(places, args.ticket.as_deref(), args.ssh.options());
    let status = frames::status(&args.place, How { family: args.family.only(), ..how })?;
    if args.json {
        json::line(&status_json(&status))?;
    } else {
        tell_status(&status)?;
    }
    out::flush()?;
    Ok(Exit::Done)
}

fn tell_status(status: &ChannelStatus) -> Result<()> {
    out::line(&format!(
        "{} held: {} of {} in memory, {} of {} in the spill log; {} forgotten",
        units::counted(status.frames, "frame", "frames"),
        units::size(status.memory_bytes),
        units::size(status.memory_bytes_max),
        units::size(status.spill_bytes),
        units::size(status.spill_bytes_max),
        units::count(status.forgotten),
    ))?;
    if let Some(trouble) = &status.spill_trouble {
        out::line(&json::inert(&format!("the spill log cannot be written: {trouble}")))?;
    }
    if status.was_full {
        out::line(&format!(
            "it had {} frames, as many as a channel remembers: whatever room its log has, the oldest are forgotten or producers \
             wait; push larger frames, or have consumers take them sooner",
            units::count(limits::CHANNEL_FRAMES_MAX as u64),
        ))?;
    }
    for row in &status.producers {
        let ProducerStatus { producer, frames, bytes, waiting, is_linked, is_finished, is_gone, clock } = row;
        let state = match (is_finished, is_linked, is_gone) {
            (true, ..) => "finished",
            (false, true, _) => "linked",
            (false, false, true) => "gone",
            // It is waited for.
            (false, false, false) => "away",
        };
        out::line(&format!(
            "producer {producer}: {state}, {}, {}, {} waiting, clock {}",
            units::counted(*frames, "frame", "frames"),
            units::size(*bytes),
            units::count(*waiting),
            clock_text(Some(*clock)),
        ))?;
    }
    for row in &status.consumers {
        let ConsumerStatus { name, members, policy, behind, in_flight, taken, bytes, lost, tail_ns, .. } =
            row;
        let at = row.addresses.join(", ");
        let at = if at.is_empty() { at } else { format!(" at {at}") };
        let lost: Vec<String> = lost
            .iter()
            .map(|(reason, count)| format!("{} {}", units::count(*count), reason.name()))
            .collect();
        let lost =
            if lost.is_empty() { "none lost".to_owned() } else { format!("lost: {}", lost.join(", ")) };
        // Of a consumer that took nothing there is none.
        let is_measured = tail_ns[3] > 0;
        let time = |ns: u64| if is_measured { units::time(ns as f64 / 1e9) } else { "-".to_owned() };
        let [p50, p90, p99, max] = tail_ns.map(time);
        out::line(&format!(
            "consumer {name}{at}: {}, {members} linked, {} behind, {} under way, {} taken, {}, {lost}; from hub to taken P50 {p50}, \
             P90 {p90}, P99 {p99}, longest {max}",
            policy_name(*policy),
            units::count(*behind),
            units::count(*in_flight),
            units::count(*taken),
            units::size(*bytes),
        ))?;
    }
    for (set, frames, taken) in &status.sets {
        let frames = failure::counted(u64::from(*frames), "frame", "frames");
        out::line(&format!("set {set}: {taken} of {frames}"))?;
    }
    Ok(())
}

fn status_json(status: &ChannelStatus) -> Value {
    let producer = |row: &ProducerStatus| {
        json!({
            "producer": row.producer.as_str(), "frames": row.frames, "bytes": row.bytes, "waiting": row.waiting,
            "linked": row.is_linked, "finished": row.is_finished, "gone": row.is_gone,
            "clock": clock_json(Some(row.clock)),
        })
    };
    let consumer = |row: &ConsumerStatus| {
        let [p50, p90, p99, max] = row.tail_ns.map(|ns| (row.tail_ns[3] > 0).then(|| seconds(ns)));
        json!({
            "name": row.name, "addresses": row.addresses, "members": row.members, "policy": policy_name(row.policy), "behind": row.behind,
            "in_flight": row.in_flight, "taken": row.taken, "bytes": row.bytes, "lost": lost_json(&row.lost),
            "taken_after_s": {"p50": p50, "p90": p90, "p99": p99, "max": max},
        })
    };
    json!({
        "event": "channel", "frames": status.frames, "memory_bytes": status.memory_bytes,
        "memory_bytes_max": status.memory_bytes_max, "spill_bytes": status.spill_bytes,
        "spill_bytes_max": status.spill_bytes_max, "spill_trouble": status.spill_trouble,
        "forgotten": status.forgotten, "was_full": status.was_full,
        "producers": status.producers.iter().map(producer).collect::<Vec<_>>(),
        "consumers": status.consumers.iter().map(consumer).collect::<Vec<_>>(),
        "sets": status.sets.iter().map(|(set, frames, taken)| json!({"set": set, "frames": frames, "taken": taken}))
            .collect::<Vec<_>>(),
    })
}

fn lost_json(lost: &[(frames::LossReason, u64)]) -> Value {
    Value::Object(lost.iter().map(|(reason, count)| (reason.name().to_owned(), (*count).into())).collect())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn clock_json(clock: Option<ClockOffset>) -> Value {
    match clock.filter(|clock| clock.bound_ns != u64::MAX) {
        None => Value::Null,
        Some(clock) => json!({"offset_s": clock.offset_ns as f64 / 1e9, "bound_s": seconds(clock.bound_ns)}),
    }
}

fn clock_text(clock: Option<ClockOffset>) -> String {
    match clock.filter(|clock| clock.bound_ns != u64::MAX) {
        None => "not measured".to_owned(),
        Some(clock) => {
            let sign = if clock.offset_ns < 0 { "-" } else { "+" };
            let offset = units::time(clock.offset_ns.unsigned_abs() as f64 / 1e9);
            format!("{sign}{offset} against the hub's, within {}", units::time(seconds(clock.bound_ns)))
        }
    }
}

fn latency_json(latency: Option<Latency>) -> Value {
    latency.map_or(Value::Null, |tail| {
        json!({
            "count": tail.count, "p50_s": seconds(tail.p50_ns), "p90_s": seconds(tail.p90_ns),
            "p99_s": seconds(tail.p99_ns), "max_s": seconds(tail.max_ns), "bound_s": seconds(tail.bound_ns),
            "speed_score": tail.speed_score,
        })
    })
}

fn latency_text(latency: Latency) -> String {
    let [p50, p90, p99, max, bound] =
        [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.max_ns, latency.bound_ns]
            .map(|ns| units::time(seconds(ns)));
    let score =
        latency.speed_score.map(|score| format!(", Streaming Speed Score {score:.1}")).unwrap_or_default();
    format!("latency P50 {p50}, P90 {p90}, P99 {p99}, longest {max}, within {bound}{score}")
}

/// Tells events, where they do not get among the frames.
#[derive(Clone, Copy)]
struct Teller {
    json: bool,
    quiet: bool,
    is_stdout: bool,
}

impl Teller {
    fn of(args: &ChannelArgs, is_stdout: bool) -> Teller {
        Teller { json: args.json, quiet: args.quiet, is_stdout }
    }

    /// An event, as JSON or as a line.
    fn tell(&self, event: &Value, text: impl FnOnce() -> String) {
        match (self.json, self.is_stdout) {
            (true, false) => json::tell_later(event),
            (true, true) => json::tell_aside_later(event),
            (false, _) if !self.quiet => show::line_later(text()),
            (false, _) => {}
        }
    }

    /// What happens to the link, and to a slot.
    fn events(self) -> Events {
        Arc::new(move |event| match &event {
            Event::LinkLost(_) | Event::LinkUp(_) | Event::Note(_) => {
                if let Some(note) = events::note(&event) {
                    self.tell(&Value::Object(note.object()), || note.text.clone());
                }
            }
            // Of windows that follow bursts people are told once, in words.
            Event::Slot(held) if held.moves > 0 && !self.json => {}
            Event::Slot(held) => {
                self.tell(&events::slot(held, Instant::now()), || slots::taken_line(held));
            }
            _ => {}
        })
    }

    /// What ended the command.
    fn failed(&self, failure: &Failure, exit: Exit) -> Exit {
        if self.json {
            self.tell(&json::error(failure, Some(exit)), String::new);
        }
        show::failure(failure);
        exit
    }
}

/// What is wanted of the link of who `sends`, or not.
fn link_settings(args: &ChannelArgs, teller: Teller, sends: bool) -> Result<LinkSettings> {
    let wished = congestion::wished(args.congestion.cca.as_deref(), sends)?;
    if let Some(text) = &wished.note {
        teller.tell(&json!({"event": "note", "text": text}), || text.clone());
    }
    Ok(LinkSettings {
        stall_timeout: args.stall_timeout,
        patience: args.patience,
        congestion: wished.where_we_send(sends),
        ..args.way.settings()
    })
}
