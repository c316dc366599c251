//! `thalweg slots`: who may send to a daemon when.

use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{json, out, units};
use serde_json::{Value, json};
use thalweg_cli::args::slots::SlotsArgs;
use thalweg_client::far_movers::Whom;
use thalweg_mover::admission::SlotHeld;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::flow::lags::Lag;
use thalweg_wire::message::{Question, Reply, Slot, SlotAsk, SlotTable};

/// Shows the calendar of a daemon.
///
/// # Errors
/// If it cannot be asked, or has no slots.
pub fn slots(args: &SlotsArgs, places: &Places) -> Result<Exit> {
    let mut far_movers = args.ask.far_movers(places);
    let named = Place::parse(&args.place, places)?;
    let whom = Whom::of(&named).ok_or_else(|| {
        Failure::new(
            FailureKind::Usage,
            "read the command line",
            "slots are of a daemon: name a place at one",
        )
    })?;
    let client = far_movers.reach(&whom)?.far.dial(LinkSettings::default(), event::nobody())?;
    let mut table = None;
    for reply in client.ask(Question::Slot(SlotAsk::All))? {
        if let Reply::Slots(found) = reply? {
            table = Some(found);
        }
    }
    client.close();
    let table = table.ok_or_else(|| {
        Failure::new(FailureKind::Protocol, "ask for slots", "the server did not answer what was asked")
    })?;
    match args.ask.json {
        true => json::line(&event_of(&table))?,
        false => lines(&table).iter().try_for_each(|line| out::line(line))?,
    }
    out::flush()?;
    Ok(Exit::Done)
}

/// Share of the way's time.
fn load(slot: &Slot) -> f64 {
    slot.length_micros as f64 / slot.period_micros as f64
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn event_of(table: &SlotTable) -> Value {
    let slots = table.slots.iter().map(|taken| {
        let slot = &taken.slot;
        json!({
            "period_s": seconds(slot.period_micros), "length_s": seconds(slot.length_micros),
            "opens_in_s": seconds(slot.opens_micros), "bytes": slot.bytes, "load": load(slot),
            "promised_s": seconds(slot.worst_micros), "any_time": slot.is_any_time,
            "lease_s": f64::from(slot.lease_millis) / 1e3, "yours": taken.is_yours,
            "over_bytes": slot.over_bytes,
        })
    });
    let load: f64 = table.slots.iter().map(|taken| load(&taken.slot)).sum();
    json!({
        "event": "slots", "bytes_per_s": table.bytes_per_s, "load": load, "slots": slots.collect::<Vec<_>>(),
        "settle_s": seconds(table.settle_micros), "beside_bytes": table.beside_bytes,
        "held_s": seconds(table.held_micros),
    })
}

/// Columns in which a calendar is drawn.
const COLUMNS: u64 = 50;

/// For people: the way, each slot with its windows in the longest period from now on, what is free.
fn lines(table: &SlotTable) -> Vec<String> {
    let load: f64 = table.slots.iter().map(|taken| load(&taken.slot)).sum();
    let way = units::bit_rate(table.bytes_per_s as f64 * 8.0);
    let count = units::counted(table.slots.len() as u64, "slot", "slots");
    let mut lines = vec![format!("{way} in {count}; {} of its time is taken", units::share(load))];
    lines.push(format!(
        "durable {} after it arrived; {} came without a slot, which waited {} for others' windows",
        units::time(seconds(table.settle_micros)),
        units::size(table.beside_bytes),
        units::time(seconds(table.held_micros))
    ));
    let Some(longest) = table.slots.iter().map(|taken| taken.slot.period_micros).max() else {
        return lines;
    };
    lines.push(String::new());
    lines.push(format!(
        "{:>10} {:>10} {:>12} {:>10}  the next {}",
        "every",
        "for",
        "bytes",
        "promised",
        units::time(seconds(longest))
    ));
    for taken in &table.slots {
        let slot = &taken.slot;
        lines.push(format!(
            "{:>10} {:>10} {:>12} {:>10}  {}{}",
            units::time(seconds(slot.period_micros)),
            units::time(seconds(slot.length_micros)),
            units::count(slot.bytes),
            units::time(seconds(slot.worst_micros)),
            windows(slot, longest),
            if taken.is_yours { "" } else { "  (from another address)" },
        ));
        if slot.over_bytes > 0 {
            lines.push(format!("{:>10} {} came beyond that", "", units::size(slot.over_bytes)));
        }
    }
    lines
}

/// A column is marked where a window is open for any part of it.
fn windows(slot: &Slot, longest: u64) -> String {
    let open = |column: u64| {
        let (from, to) = (column * longest / COLUMNS, (column + 1) * longest / COLUMNS);
        // The window that opened last before the column ends.
        let since =
            (to + slot.period_micros - slot.opens_micros % slot.period_micros - 1) % slot.period_micros + 1;
        since <= to - from || since - (to - from) < slot.length_micros
    };
    (0..COLUMNS).map(|column| if open(column) { '#' } else { '.' }).collect()
}

/// What is promised, when a producer has its slot, for people.
pub fn taken_line(held: &SlotHeld) -> String {
    let slot = &held.slot;
    let when = match slot.is_any_time {
        true => "whenever it is ready",
        false => "if each burst is ready a period after the one before",
    };
    let margin = &held.margin;
    format!(
        "slot: {} every {}, a window of {}; promised within {} (asked: {}), {when}; of that {} to the next mark, {} \
        for the disk, {} for the way back, {} for what is late",
        units::size(slot.bytes),
        units::time(seconds(slot.period_micros)),
        units::time(seconds(slot.length_micros)),
        units::time(held.worst.as_secs_f64()),
        units::time(held.deadline.as_secs_f64()),
        units::time(margin.mark.as_secs_f64()),
        units::time(margin.settle.as_secs_f64()),
        units::time(margin.way_back.as_secs_f64()),
        units::time((margin.guard + margin.late).as_secs_f64()),
    )
}

/// What was promised, against what was kept: for the last line.
pub fn kept(held: &SlotHeld, lag: &Lag) -> String {
    let late = match lag.late {
        0 => "nothing later".to_owned(),
        late => {
            let pieces = units::counted(lag.pieces, "piece", "pieces");
            format!("{} of {pieces} later", units::count(late))
        }
    };
    format!(
        "slot: promised {}, kept {} at worst ({} until it might go, {} from then on); deadline {}, {late}",
        units::time(held.worst.as_secs_f64()),
        units::time(lag.worst.as_secs_f64()),
        units::time(lag.worst_until_sent.as_secs_f64()),
        units::time(lag.worst.saturating_sub(lag.worst_until_sent).as_secs_f64()),
        units::time(held.deadline.as_secs_f64()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::SlotTaken;

    fn slot(period: u64, length: u64, opens: u64) -> Slot {
        Slot {
            lease: [0; 16],
            lease_millis: 15_000,
            period_micros: period,
            length_micros: length,
            opens_micros: opens,
            bytes: 20_000_000,
            bytes_per_s: 125_000_000,
            worst_micros: 300_000,
            is_any_time: false,
            settle_micros: 20_000,
            over_bytes: 0,
        }
    }

    #[test]
    fn windows_are_drawn_where_they_are_open() {
        let drawn = windows(&slot(1_000_000, 200_000, 0), 1_000_000);
        assert_eq!(drawn, format!("{}{}", "#".repeat(10), ".".repeat(40)));
        let drawn = windows(&slot(500_000, 100_000, 250_000), 1_000_000);
        let half = format!("{}{}{}", ".".repeat(12), "#".repeat(6), ".".repeat(7));
        assert_eq!(drawn.len(), 50);
        assert!(drawn.starts_with(&half[..18]), "{drawn}");
    }

    #[test]
    fn a_calendar_says_what_is_taken() {
        let taken = |slot, is_yours| SlotTaken { slot, is_yours };
        let table = SlotTable {
            bytes_per_s: 125_000_000,
            slots: vec![
                taken(slot(1_000_000, 165_000, 0), true),
                taken(Slot { over_bytes: 1000, ..slot(500_000, 50_000, 200_000) }, false),
            ],
            settle_micros: 20_000,
            beside_bytes: 3_000_000,
            held_micros: 1_500_000,
        };
        let lines = lines(&table);
        assert_eq!(lines[0], "1.00 Gbit/s in 2 slots; 26 % of its time is taken");
        assert!(lines[1].contains("2.86 MiB came without a slot"), "{}", lines[1]);
        assert!(lines[4].contains("165.00 ms") || lines[4].contains("165 ms"), "{}", lines[4]);
        assert!(lines[5].ends_with("(from another address)"));
        assert!(lines[6].ends_with("came beyond that"));
        assert_eq!(event_of(&table)["slots"][1]["period_s"], 0.5);
    }
}
