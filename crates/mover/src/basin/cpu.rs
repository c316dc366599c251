//! What the CPUs of the machines need, and the shares of them that control groups allow.

use super::need::{Cause, Need};
use super::{Evidence, Where};
use thalweg_wire::account::SideAccounts;

/// A control group that was out of CPU for this share of the time explains whatever waits.
const THROTTLED: f64 = 0.2;
/// That goes for one which was needed for most of the time, by us or by others in it.
const MOST: f64 = 0.5;
/// A CPU that is busy for this share of the time is used up: the rest are moments in which nobody was ready.
const USED_UP: f64 = 0.85;
/// A control group is given its quota anew so often, in seconds, unless somebody asked for something else.
const PERIOD_S: f64 = 0.1;
/// Two looks at one group see what it was out of CPU for within this factor: they begin and end with their sides.
const ALIKE: f64 = 1.25;

/// CPUs that a side's machine has for it, at least 1.
fn cores(side: &SideAccounts) -> f64 {
    (f64::from(side.process.cores_milli) / 1e3).max(1.0)
}

/// CPUs that a side may use at once, at least 1: what its quota allows of those that its machine has for it.
pub(super) fn usable(side: &SideAccounts) -> f64 {
    let quota = side.process.quota_milli.map_or(f64::INFINITY, |quota| f64::from(quota) / 1e3);
    cores(side).min(quota).max(1.0)
}

/// CPU time, in seconds.
fn used(side: &SideAccounts) -> f64 {
    (side.process.user_nanos as f64 + side.process.system_nanos as f64) / 1e9
}

/// The time in which the control group of a side was out of CPU, whoever in it had used that up, in seconds. The kernel
/// adds up the CPUs that it was kept from; in how many periods it was kept from any bounds the time itself.
pub(super) fn throttled_seconds(side: &SideAccounts) -> f64 {
    let all = side.process.throttled_nanos as f64 / 1e9;
    match side.process.throttled_count {
        0 => all,
        periods => all.min(periods as f64 * PERIOD_S),
    }
}

/// Of both the machines and the quotas.
pub(super) fn needs(evidence: &Evidence) -> Vec<Need> {
    let mut needs = of_quotas(evidence);
    needs.extend(of_machines(evidence));
    needs
}

/// Whether most of the quota at this place went to other work in its control group.
pub(super) fn is_quota_of_others(evidence: &Evidence, place: Where) -> bool {
    let sides = sides(evidence, place);
    own_seconds(&sides).is_some_and(|own| own < longest_throttled(&sides) * MOST)
}

/// The accounts of who is at a place. Without a link both sides are one process, which counts once.
fn sides(evidence: &Evidence, place: Where) -> Vec<&SideAccounts> {
    match place {
        Where::Destination => vec![&evidence.receiver],
        Where::Both if evidence.is_linked => vec![&evidence.sender, &evidence.receiver],
        _ => vec![&evidence.sender],
    }
}

/// How long the quota of sides in one group would take for what they used of it, in seconds.
fn own_seconds(sides: &[&SideAccounts]) -> Option<f64> {
    let quota = sides.first()?.process.quota_milli?;
    let used: f64 = sides.iter().map(|side| used(side)).sum();
    Some(used / (f64::from(quota.max(1)) / 1e3))
}

fn longest_throttled(sides: &[&SideAccounts]) -> f64 {
    sides.iter().map(|side| throttled_seconds(side)).fold(0.0, f64::max)
}

fn of_quotas(evidence: &Evidence) -> Vec<Need> {
    let places: &[Where] = match evidence.is_linked && !is_one_group(evidence) {
        true => &[Where::Source, Where::Destination],
        false => &[Where::Both],
    };
    places.iter().filter_map(|&place| of_quota(evidence, place)).collect()
}

/// What a quota was needed for: by what we used of it, and no less than the time in which it was used up, for others
/// may have had the rest. `None` without a quota.
fn of_quota(evidence: &Evidence, place: Where) -> Option<Need> {
    let seconds = evidence.seconds();
    let sides = sides(evidence, place);
    let need = own_seconds(&sides)?.max(longest_throttled(&sides)).min(seconds);
    let throttled = sides.iter().map(|side| side.process.throttled_nanos).max().unwrap_or(0) as f64 / 1e9;
    let is_used_up = throttled > seconds * THROTTLED && need > seconds * MOST;
    let weight = if is_used_up { seconds * 2.0 } else { need * 0.9 };
    Some(Need { stage: None, place, cause: Cause::CpuQuota, seconds: need, weight })
}

/// Whether both sides seem to share one quota: they are on one machine, and neither the quotas nor what these kept from
/// them tell them apart. Groups of one size are not out of CPU for the same time, unless both always are.
fn is_one_group(evidence: &Evidence) -> bool {
    let [one, other] = [&evidence.sender.process, &evidence.receiver.process];
    let throttled = [one.throttled_nanos as f64, other.throttled_nanos as f64];
    let (least, most) = (throttled[0].min(throttled[1]), throttled[0].max(throttled[1]));
    evidence.is_one_machine()
        && one.quota_milli.is_some()
        && one.quota_milli == other.quota_milli
        && least > 0.0
        && most < least * ALIKE
}

fn of_machines(evidence: &Evidence) -> Vec<Need> {
    let seconds = evidence.seconds();
    let need = |used: f64, cores: f64, place: Where| {
        let need = (used / cores).min(seconds);
        let weight = if need > seconds * USED_UP { seconds * 1.5 } else { need * 0.9 };
        Need { stage: None, place, cause: Cause::Cpu, seconds: need, weight }
    };
    let (sender, receiver) = (&evidence.sender, &evidence.receiver);
    let of_side = |side: &SideAccounts, place: Where| need(used(side), cores(side), place);
    if !evidence.is_linked {
        return vec![of_side(sender, Where::Both)];
    }
    if !evidence.is_one_machine() {
        return vec![of_side(sender, Where::Source), of_side(receiver, Where::Destination)];
    }
    // The machine has no fewer than either side may run on; who may run on few of them may use these up.
    let all = cores(sender).max(cores(receiver));
    let mut needs = vec![need(used(sender) + used(receiver), all, Where::Both)];
    for (side, place) in [(sender, Where::Source), (receiver, Where::Destination)] {
        if cores(side) < all {
            needs.push(of_side(side, place));
        }
    }
    needs
}
