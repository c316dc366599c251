use super::*;
use crate::basin::energy::{Energy, untold};
use thalweg_wire::account::EnergyAccount;

fn told(joules: u64, is_platform: bool) -> Option<EnergyAccount> {
    Some(EnergyAccount { joules: Some(joules), is_platform, is_denied: false })
}

const ALL: &str = "all that was used there in that time, and not the transfer's own share";

#[test]
fn energy_is_that_of_both_machines_for_what_came_and_is_said_not_to_be_the_transfers_own() {
    let mut evidence = evidence();
    assert_eq!(Energy::of(&evidence), None);
    // 3.6 kJ for 1 GB are 1 kWh for 1 TB.
    evidence.sender.energy = told(2_400, false);
    evidence.receiver.energy = told(1_200, true);
    let both = Energy::of(&evidence).unwrap();
    assert!(both.kwh_per_tb.is_some_and(|kwh| (kwh - 1.0).abs() < 1e-9), "{both:?}");
    let sides = "2.4 kJ at the source (CPUs and memory), 1.2 kJ at the destination (the whole machine)";
    assert_eq!(both.sentence(), format!("energy: 1.0 kWh per TB: {sides}; {ALL}"));
    evidence.receiver.energy = None;
    let one = Energy::of(&evidence).unwrap();
    let sides = "2.4 kJ at the source (CPUs and memory), not told at the destination";
    assert_eq!(one.sentence(), format!("energy: 0.67 kWh per TB: {sides}; {ALL}"));
    // Whole joules of a moment say little, and where nothing came there is no quotient.
    evidence.elapsed_nanos = 900_000_000;
    assert_eq!(Energy::of(&evidence).unwrap().kwh_per_tb, None);
    (evidence.elapsed_nanos, evidence.bytes) = (10_000_000_000, 0);
    let nothing = Energy::of(&evidence).unwrap();
    assert_eq!((nothing.kwh_per_tb, nothing.sentence()), (None, format!("energy: {sides}; {ALL}")));
}

#[test]
fn one_machine_that_is_source_and_destination_counts_once() {
    let mut evidence = evidence();
    (evidence.sender.process.host, evidence.receiver.process.host) = (7, 7);
    evidence.sender.energy = told(3_500, false);
    evidence.receiver.energy = told(3_600, false);
    let one = Energy::of(&evidence).unwrap();
    assert!(one.is_one_machine && one.source == one.destination);
    assert!(one.kwh_per_tb.is_some_and(|kwh| (kwh - 1.0).abs() < 1e-9), "{one:?}");
    let line = format!("energy: 1.0 kWh per TB: 3.6 kJ on this machine (CPUs and memory); {ALL}");
    assert_eq!(one.sentence(), line);
    // Whichever side may read its counters.
    evidence.receiver.energy = Some(EnergyAccount { is_denied: true, ..EnergyAccount::default() });
    assert_eq!(Energy::of(&evidence).and_then(|one| one.destination).map(|used| used.joules), Some(3_500));
    // No numbers of a peer make more than a number.
    evidence.sender.energy = told(u64::MAX, true);
    evidence.bytes = 1;
    assert!(Energy::of(&evidence).unwrap().kwh_per_tb.is_some_and(f64::is_finite));
}

#[test]
fn a_machine_that_tells_no_energy_is_named_once_with_the_reason() {
    let mut evidence = evidence();
    let absent = "energy is not told: nothing counts it there, as in most guests";
    evidence.sender.energy = Some(EnergyAccount { is_denied: true, ..EnergyAccount::default() });
    let denied = "energy is not told: its counters may not be read (`thalweg doctor` there says more)";
    assert_eq!(untold(&evidence), [format!("source: {denied}"), format!("destination: {absent}")]);
    evidence.sender.energy = Some(EnergyAccount::default());
    assert!(untold(&evidence)[0].ends_with("or not often enough"));
    evidence.sender.energy = told(1, false);
    assert_eq!(untold(&evidence), [format!("destination: {absent}")]);
    // It has not told anything yet.
    evidence.receiver.elapsed_nanos = 0;
    assert!(untold(&evidence).is_empty());
    // One machine, in which both have the same to say.
    evidence.is_linked = false;
    assert!(untold(&evidence).is_empty());
    evidence.sender.energy = None;
    assert_eq!(untold(&evidence), [format!("this machine: {absent}")]);
}
