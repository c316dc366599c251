//! Clients that share a line: `congest` and `slots`.

use super::{Chosen, measured, number, predicted, seconds};
use thalweg_lab::bench::record::{Results, Sample};
use thalweg_lab::bench::suite::{BEGINS, CARRIED, FITTED, LONG, SLOTS};
use thalweg_lab::plot::unit::Unit;

/// The longest at the loads that 003 has, by how transfers begin, with how many were refused and what the others
/// carried.
fn longest(all: &Chosen<'_>, starts: &[&str], figure: &str) -> Option<String> {
    let of = |load: f64| {
        let said = starts.iter().filter_map(|starts| {
            let some = all.at("load", load).word("starts", starts);
            let longest = |sample: &Sample| measured(sample, figure);
            let (most, least) =
                (some.most(longest)?, some.0.iter().copied().filter_map(longest).reduce(f64::min)?);
            let range = if most == least {
                seconds(most)
            } else {
                format!("{} to {}", seconds(least), seconds(most))
            };
            let producers = some.most(|sample| sample.parameter("producers"));
            let refused = some.most(|sample| measured(sample, "refused")).filter(|refused| *refused > 0.0);
            let without = refused.zip(producers).map(|(refused, producers)| {
                format!("{} of {} producers refused", number(refused), number(producers))
            });
            let said: Vec<String> =
                without.into_iter().chain(carried(&some).map(|carried| carried + " carried")).collect();
            let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
            Some(format!("{starts} {range}{said}"))
        });
        format!("at {} load {}", Unit::Share.show(load), said.collect::<Vec<_>>().join(", "))
    };
    let loads = all.values("load");
    let shown = loads.iter().filter(|load| [0.16, 0.64, 0.96, 1.28].contains(*load));
    let said: Vec<String> = shown.map(|load| of(*load)).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Those of `congest` that begin as the kernel has it, and those with a window that fits the path.
fn cold_and_fitted(results: &Results) -> [Chosen<'_>; 2] {
    let all = Chosen::all(results);
    [all.with(|sample| sample.parameters.get(BEGINS) != Some(&FITTED.into())), all.word(BEGINS, FITTED)]
}

pub(super) fn congestion(results: &Results) -> Option<String> {
    let [cold, fitted] = cold_and_fitted(results);
    let said = |some: &Chosen<'_>| {
        let said = longest(some, &["simultaneous", "scheduled"], "worst")?;
        Some(said + &worth(some).map(|worth| format!("; in the median {worth}")).unwrap_or_default())
    };
    let with_window = said(&fitted).map(|said| format!("; {FITTED}: {said}")).unwrap_or_default();
    Some(said(&cold)? + &with_window)
}

/// How many times as long the worst of scheduled ones took as that of those that begin at once, in medians; where they
/// took no less each place is told. Nothing where the two cannot be compared.
fn worth(all: &Chosen<'_>) -> Option<String> {
    let mut ratios: Vec<(f64, String)> = Vec::new();
    // One client a second begins alone either way, and beyond the line's rate there is no time for all.
    for load in all.values("load").into_iter().filter(|load| (0.2..=1.0).contains(load)) {
        for streams in all.values("streams") {
            let at = all.at("load", load).at("streams", streams);
            let worst = |starts| at.word("starts", starts).median(|sample| measured(sample, "worst"));
            if let (Some(apart), Some(together)) = (worst("scheduled"), worst("simultaneous")) {
                let place = format!("{} load with {streams} streams", Unit::Share.show(load));
                ratios.push((apart / together, place));
            }
        }
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (less, no_less): (Vec<_>, Vec<_>) = ratios.into_iter().partition(|(ratio, _)| *ratio < 1.0);
    let place = if no_less.is_empty() { "at each load that the line carries" } else { "elsewhere" };
    let gained = less.first().zip(less.last()).map(|((least, _), (most, _))| {
        let (least, most) = (number(*least), number(*most));
        let range = if least == most { least } else { format!("{least} to {most}") };
        format!("{range} times ({place})")
    });
    let missed = no_less.iter().map(|(ratio, place)| format!("**{} times** ({place})", number(*ratio)));
    let said: Vec<String> = missed.chain(gained).collect();
    let ratios = said.join(" and ");
    (!said.is_empty()).then(|| format!("scheduled ones took {ratios} as long as simultaneous ones"))
}

/// Loads of which 003 tells what a schedule is worth (section 5).
const LOADS: [f64; 2] = [0.64, 0.96];

/// What a reader of `congest` is to know of its starts, held against those of `slots`; nothing where one of them lacks
/// what is compared.
pub fn cold_starts(congest: &Results, slots: &Results) -> Option<String> {
    let [all_cold, fitted] = cold_and_fitted(congest);
    let cold = all_cold.word("starts", "scheduled");
    let [warm, promised] = ["scheduled", "slots"].map(|starts| Chosen::all(slots).word("starts", starts));
    let first = cold.at("load", *cold.values("load").first()?);
    let alone = first.median(|sample| measured(sample, "p50"))?;
    let ideal = first.median(|sample| predicted(sample, "ideal"))?;
    let both = |some: &Chosen<'_>, figure: &str| {
        let [one, two] = LOADS.map(|load| some.at("load", load).median(|sample| measured(sample, figure)));
        Some(format!("{} and {}", seconds(one?), seconds(two?)))
    };
    let refused = |load: f64| {
        let some = promised.at("load", load);
        let refused = some.median(|sample| measured(sample, "refused"))?;
        let producers = some.median(|sample| sample.parameter("producers"))?;
        Some(format!("{} of {}", number(refused), number(producers)))
    };
    let [few, many] = LOADS.map(refused);
    let [low, high] = LOADS.map(|load| Unit::Share.show(load));
    let against = worth(&all_cold).map(|worth| format!(" In the median {worth}.")).unwrap_or_default();
    let with_window = both(&fitted.word("starts", "scheduled"), "worst").map(|worst| {
        let worth = worth(&fitted).map(|worth| format!(", and {worth}")).unwrap_or_default();
        format!(" Where connections begin {FITTED}, it takes {worst} by the same schedule{worth}.")
    });
    let most_carried = most_carried(slots).map(|most| format!(" Slots {most}.")).unwrap_or_default();
    Some(format!(
        "Scheduled starts are cold here: each client opens its connections anew, and with TCP's slow start even one that \
         has the line for itself takes {} in the median, where its data alone need {}. Their longest transfer takes {} \
         at {low} and {high} load, in the median of all runs.{against}{} Over streams that stand ([slots](#slots)) it \
         takes {} by the same schedule, and {} in windows that thalweg gives out, from when the window opens. For that \
         {} and {} producers are refused, and what waits for its window is there {} after it was ready, at the \
         latest.{most_carried}",
        seconds(alone),
        seconds(ideal),
        both(&cold, "worst")?,
        with_window.unwrap_or_default(),
        both(&warm, "worst")?,
        both(&promised, "worst")?,
        few?,
        many?,
        both(&promised, "worst_lag")?,
    ))
}

/// From when a producer was ready: what waits for its window counts.
pub(super) fn promised(results: &Results) -> Option<String> {
    let said = longest(&Chosen::all(results), &["simultaneous", "scheduled", SLOTS, LONG], "worst_lag")?;
    Some(said + &most_carried(results).map(|most| format!("; slots {most}")).unwrap_or_default())
}

/// Which share of the line these carried, in the median. Results from before it was measured say how many producers
/// were refused: the others have all of theirs there in time.
fn carried(some: &Chosen<'_>) -> Option<String> {
    carried_share(some).map(|share| format!("{:.0} %", share * 100.0))
}

fn carried_share(some: &Chosen<'_>) -> Option<f64> {
    let accepted = |sample: &Sample| {
        let refused = measured(sample, "refused").filter(|refused| *refused > 0.0)?;
        Some(sample.parameter("load")? * (1.0 - refused / sample.parameter("producers")?))
    };
    some.median(|sample| measured(sample, CARRIED).or_else(|| accepted(sample)))
}

/// The most that slots carried, and that they did with a deadline that leaves a whole period to wait.
fn most_carried(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let most = |starts: &str| {
        let some = all.word("starts", starts);
        let shares = some.values("load").into_iter().filter_map(|load| carried_share(&some.at("load", load)));
        shares.reduce(f64::max).map(|share| format!("{:.0} %", share * 100.0))
    };
    let slots = most(SLOTS)?;
    let long = most(LONG).map(|share| format!(", {share} where a deadline leaves a whole period to wait"));
    Some(format!("carry up to {slots} of the line{}", long.unwrap_or_default()))
}
