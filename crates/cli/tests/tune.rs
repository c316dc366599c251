//! `thalweg tune`: what helps on a way is found, remembered and used by later copies; bounds are kept; neither side is
//! changed.

mod support;

use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::nets::Cable;
use support::proxy::Proxy;
use support::{Scratch, assert_no_litter, facts, finish, noise};
use thalweg_client::identity;
use thalweg_client::profiles::{ByHand, Profiles};
use thalweg_mover::link::{ServerTrust, Ticket, client_config};
use thalweg_mover::plan::Tuned;
use thalweg_mover::run::client::TcpConnect;
use thalweg_mover::run::copy::{From as Source, To};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_wire::message::Place;

/// What it told, an event each.
fn told(mut command: Command) -> Vec<Value> {
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn tune(scratch: &Scratch, time: &str) -> Command {
    let mut command = scratch.thalweg();
    command.args(["tune", "--json", "--time", time]);
    command
}

/// The plan of a copy, as words.
fn plan(scratch: &Scratch, words: &[&str]) -> String {
    scratch.ok([&["cp", "--dry-run"], words].concat())
}

fn source(scratch: &Scratch) -> String {
    std::fs::create_dir_all(scratch.path("from/deep")).unwrap();
    std::fs::create_dir_all(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("from/large"), noise(1, 24 << 20)).unwrap();
    std::fs::write(scratch.path("from/deep/small"), noise(2, 3000)).unwrap();
    std::fs::write(scratch.path("to/large"), b"what is here stays").unwrap();
    scratch.path("from").display().to_string()
}

/// Each connection carries two megabytes a second: so many more streams, so much more.
#[test]
fn more_streams_are_found_where_they_help_and_later_copies_start_with_them() {
    let scratch = Scratch::in_memory();
    let from = source(&scratch);
    let daemon = scratch.daemon(&[("to", &scratch.path("to"))]);
    let ticket = daemon.ticket.display().to_string();
    let proxy = Proxy::new(&daemon.address());
    proxy.limit_each(2_000_000);
    let to = proxy.place("to", "new");
    let before = [facts(&scratch.path("from")), facts(&scratch.path("to"))];
    let words = ["--ticket", &ticket, &from, &to];
    assert!(!plan(&scratch, &words).contains("trials"));

    let mut command = tune(&scratch, "60s");
    command.args(["--bytes", "4GiB"]).args(words);
    let events = told(command);
    let (last, trials) = events.split_last().unwrap();
    assert_eq!(last["event"], "tuned", "{last}");
    assert!(last["bytes"].as_u64().unwrap() <= 4 << 30, "{last}");
    let streams = last["profile"]["streams"].as_u64().unwrap_or_else(|| panic!("{events:?}"));
    assert!((3..=8).contains(&streams), "{last}");
    assert_eq!(last["remembered"], true);
    assert!(last["bound"].is_string(), "{last}");
    let kept: Vec<&Value> =
        trials.iter().filter(|trial| trial["knob"] == "streams" && trial["kept"] == true).collect();
    assert!(!kept.is_empty() && kept.iter().all(|trial| trial["why"].as_str().unwrap().contains("better")));
    for trial in trials {
        assert!(trial["why"].is_string(), "{trial}");
        assert!(trial["event"] == "left-out" || trial["bits_per_s"].is_number(), "{trial}");
    }
    assert_eq!([facts(&scratch.path("from")), facts(&scratch.path("to"))], before);

    let planned = plan(&scratch, &words);
    let expected = format!("{streams} (trials found it best for this way");
    assert!(planned.contains(&expected), "{planned}");
    // What is asked for counts for more, and holding still starts without.
    assert!(plan(&scratch, &[&["--streams", "2"], &words[..]].concat()).contains("2 (as asked)"));
    assert!(!plan(&scratch, &[&["--no-tune"], &words[..]].concat()).contains("trials"));
    // Whatever else trials find is started with too, and shown.
    change_profile(&scratch, |tuned| {
        for (name, value) in [
            ("chunk_bytes", Value::from(8 << 20)),
            ("depth", 8.into()),
            ("direct_source", "On".into()),
            ("direct_destination", "Off".into()),
        ] {
            tuned.insert(name.into(), value);
        }
    });
    let planned = plan(&scratch, &words);
    for line in ["chunk        8.00 MiB", "depth        8", "source: on", "destination: off"] {
        let found = format!("{line} (trials found it best for this way");
        assert!(planned.contains(&found), "{found}: {planned}");
    }
    let asked = ["--chunk", "2MiB", "--depth", "3", "--direct", "destination=on"];
    let planned = plan(&scratch, &[&asked[..], &words[..]].concat());
    for line in ["chunk        2.00 MiB", "depth        3", "destination: on"] {
        assert!(planned.contains(&format!("{line} (as asked")), "{line}: {planned}");
    }
    // Another way knows nothing of it.
    let here = scratch.path("elsewhere").display().to_string();
    assert!(!plan(&scratch, &[&from, &here]).contains("trials"));
    scratch.ok(["cp", "--ticket", &ticket, &from, &to]);
    assert_no_litter(&scratch.path("to"));

    let forgotten = scratch.ok(["tune", "--forget", "--ticket", &ticket, &from, &to]);
    assert!(forgotten.contains("forgotten"), "{forgotten}");
    assert!(!plan(&scratch, &words).contains("trials"));
}

/// Changes what was found for the only way that is remembered.
fn change_profile(scratch: &Scratch, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    fn tuned(value: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
        if value.get("tuned").is_some_and(Value::is_object) {
            return value.get_mut("tuned")?.as_object_mut();
        }
        match value {
            Value::Object(fields) => fields.values_mut().find_map(tuned),
            Value::Array(values) => values.iter_mut().find_map(tuned),
            _ => None,
        }
    }
    let path = scratch.path("client-state/profiles.json");
    let mut profiles: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(tuned(&mut profiles).expect("a way that was tuned"));
    std::fs::write(&path, profiles.to_string()).unwrap();
}

/// With little time the knobs behind have no turn: that is said, and so is why one says nothing here.
#[test]
fn every_knob_is_tried_at_the_real_places_or_it_is_told_why_not() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let to = scratch.path("to").display().to_string();
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    let ticket = daemon.ticket.display().to_string();
    let knobs = [
        "streams",
        "direct I/O at the destination",
        "direct I/O at the source",
        "request",
        "I/O depth",
        "concurrency",
        "chunk",
        "depth",
    ];
    for (place, more) in [(from.clone(), None), (daemon.place("data", ""), Some("congestion control"))] {
        let mut command = tune(&scratch, "20s");
        command.args(["-n", "--bytes", "4GiB", "--ticket", &ticket, &place, &to]);
        let events = told(command);
        for knob in knobs.into_iter().chain(more) {
            let told: Vec<&Value> = events.iter().filter(|event| event["knob"] == knob).collect();
            assert!(!told.is_empty(), "{knob}: {events:?}");
            let is_left_out = told.iter().any(|event| event["event"] == "left-out");
            assert!(!is_left_out || told.len() == 1, "{knob}: {events:?}");
            assert!(told.iter().all(|event| event["why"].as_str().is_some_and(|why| !why.is_empty())));
        }
        // Two files, of 24 MB together: neither says anything of these.
        for knob in ["concurrency", "chunk"] {
            let is_left_out = |event: &&Value| event["event"] == "left-out" && event["knob"] == knob;
            assert!(events.iter().any(|event| is_left_out(&event)), "{knob}: {events:?}");
        }
    }
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn a_trial_is_said_to_move_no_more_than_there_is() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("small"), noise(1, 3_000_000)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let mut command = tune(&scratch, "10s");
    command.args(["-n", "--bytes", "1GiB"]).args([scratch.path("small"), scratch.path("to")]);
    let events = told(command);
    let chunk = events.iter().find(|event| event["knob"] == "chunk").expect("why it is left out");
    assert!(chunk["why"].as_str().unwrap().starts_with("a trial moves 2.86 MiB here"), "{chunk}");
}

#[test]
fn a_local_way_and_a_pull_are_tuned_within_their_bounds_and_a_dry_run_remembers_nothing() {
    let scratch = Scratch::in_memory();
    let from = source(&scratch);
    let to = scratch.path("to").display().to_string();
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    let ticket = daemon.ticket.display().to_string();
    let before = [facts(&scratch.path("from")), facts(&scratch.path("to"))];
    for place in [from.clone(), daemon.place("data", "")] {
        let mut command = tune(&scratch, "10s");
        command.args(["-n", "--bytes", "256MiB", "--ticket", &ticket, &place, &to]);
        let events = told(command);
        let last = events.last().unwrap();
        assert_eq!((&last["event"], &last["remembered"]), (&"tuned".into(), &false.into()), "{last}");
        assert!(last["bytes"].as_u64().unwrap() <= 256 << 20, "{last}");
        for trial in &events[..events.len() - 1] {
            if trial["knob"] == "streams" {
                let streams: u64 = trial["to"].as_str().unwrap().parse().unwrap();
                assert!((1..=8).contains(&streams), "{trial}");
            }
        }
        assert!(!scratch.path("client-state/profiles.json").exists());
    }
    assert_eq!([facts(&scratch.path("from")), facts(&scratch.path("to"))], before);
    // In words.
    let said = scratch.ok(["tune", "-n", "--time", "10s", "--bytes", "64MiB", &from, &to]);
    assert!(said.contains("trials, ") && said.contains("what bounds it: "), "{said}");
    for refused in [["zero:1GiB", "null:"], [&from, "null:"]] {
        let output = scratch.run(["tune", refused[0], refused[1]]);
        assert_eq!(output.status.code(), Some(1));
    }
}

/// What a way was tuned to by an earlier search may be refused by now, by who sends.
#[test]
fn a_pull_is_tuned_without_a_congestion_control_that_is_not_permitted_any_more() {
    let scratch = Scratch::in_memory();
    source(&scratch);
    let (state, to) = (scratch.path("client-state"), scratch.path("to"));
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    // As the program knows the way.
    let ticket = Ticket::read(&daemon.ticket).unwrap();
    let tls = client_config(&ticket.identity().unwrap(), &ServerTrust::Pinned(ticket.server)).unwrap();
    let connect = Arc::new(TcpConnect::new(vec![daemon.address()]));
    let place = Place { export: Some("data".into()), path: Vec::new() };
    let from = Source::Far(Arc::new(FarMover::new(connect, tls)), vec![place]);
    let found = Tuned { congestion: Some("nonesuch".into()), depth: Some(8), ..Tuned::default() };
    identity::state_directory(Some(&state)).unwrap();
    assert!(Profiles::tuned(&state, &from, &To::Local(to.clone()), &ByHand::default(), Some(found)));
    let mut command = tune(&scratch, "10s");
    command.args(["--bytes", "256MiB", "--ticket"]).arg(&daemon.ticket);
    command.arg(daemon.place("data", "")).arg(&to);
    let events = told(command);
    let notes: Vec<&Value> = events.iter().filter(|event| event["event"] == "note").collect();
    let is_told = |note: &Value| note["text"].as_str().is_some_and(|text| text.contains("`nonesuch`"));
    assert!(notes.len() == 1 && is_told(notes[0]), "{events:?}");
    assert_eq!(events.last().unwrap()["event"], "tuned", "{events:?}");
    let profiles = std::fs::read_to_string(state.join("profiles.json")).unwrap();
    assert!(!profiles.contains("nonesuch"), "{profiles}");
}

#[test]
fn on_a_thin_link_the_path_is_named_and_no_setting_leaves_its_ladder() {
    let Some(cable) = Cable::new("a thin link") else { return };
    cable.limit("60mbit");
    let scratch = Scratch::in_memory();
    let from = source(&scratch);
    let to = scratch.path("to");
    let listen = format!("{}:0", Cable::ADDRESS_B);
    let daemon = scratch.daemon_at(&listen, &[("to", &to)], &[], |command| cable.enter_b(&command));
    let ticket = std::fs::read_to_string(&daemon.ticket).unwrap();
    let at = ticket.find(Cable::ADDRESS_B).expect("an address in the ticket");
    let address: String =
        ticket[at..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
    let mut command = tune(&scratch, "25s");
    command.arg("--ticket").arg(&daemon.ticket).arg(&from).arg(format!("tw://{address}/to/new"));
    let events = told(cable.enter_a(&command));
    let last = events.last().unwrap();
    assert!(last["bound"].as_str().unwrap().contains("path"), "{last}");
    // Nothing makes of 60 Mbit/s more than that.
    let most = events.iter().filter_map(|event| event["bits_per_s"].as_f64()).fold(0.0, f64::max);
    assert!(most < 90e6, "{events:?}");
}
