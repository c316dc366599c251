//! The table of all goals in docs/performance.md: how many are met, by how much the others are missed, and when it was
//! measured; of those too that another page judges.

use crate::bench::tell;
use std::fmt::Write;
use thalweg_lab::bench::record::About;
use thalweg_lab::report::SHOWS_NOTHING;

/// Goals that are judged together: a row of the table.
pub struct Judged {
    /// What is asked.
    pub question: String,
    /// Where the verdicts stand, as a link of the page.
    pub place: String,
    /// How many are met, and by how much the others are missed: two cells.
    pub verdicts: String,
    /// The days on which it was measured.
    pub days: String,
    /// Why that is to be taken with care.
    pub care: Vec<String>,
}

/// The cells where there is no result yet.
const NOT_YET: &str = "not measured yet | ";

impl Judged {
    /// Of a result that is stale in so far.
    pub fn of(
        question: &str,
        place: String,
        verdicts: String,
        about: &About,
        stale: Option<String>,
    ) -> Judged {
        let mut care = tell::weak_reasons(about);
        care.extend(stale.map(|why| format!("stale: {why}")));
        Judged { question: question.to_owned(), place, verdicts, days: tell::day(about).to_owned(), care }
    }

    /// Without a result.
    pub fn not_yet(question: &str, place: String) -> Judged {
        let (verdicts, days) = (NOT_YET.to_owned(), String::new());
        Judged { question: question.to_owned(), place, verdicts, days, care: Vec::new() }
    }
}

/// Those of each section of a page: counted in what it says.
pub fn of_sections(sections: &str) -> Vec<Judged> {
    sections.split("\n## ").skip(1).filter_map(of_section).collect()
}

fn of_section(section: &str) -> Option<Judged> {
    let title = section.lines().next().unwrap_or_default();
    let anchor: String = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
        .collect();
    let is_to_come = section.contains("Not measured yet");
    let verdicts = counted(section).or_else(|| is_to_come.then(|| NOT_YET.to_owned()))?;
    let mut days: Vec<&str> = section.lines().filter_map(day).collect();
    days.dedup();
    Some(Judged {
        question: title.to_owned(),
        place: format!("#{anchor}"),
        verdicts,
        days: days.join(", "),
        care: section.lines().filter_map(reason).collect(),
    })
}

/// The verdicts of a text, as they are written: how many are met, and by how much the others are missed. Nothing of a
/// text without any.
pub fn counted(text: &str) -> Option<String> {
    let met = text.matches(": met").count();
    let mut missed: Vec<&str> =
        text.split("**missed by ").skip(1).filter_map(|rest| rest.split("**").next()).collect();
    // Of some it is not said by how much.
    missed.extend(text.matches(": missed").map(|_| "missed"));
    // A goal of which no run counts, or nothing can be shown, is not met either.
    let unknown = text.matches(": not measured").count();
    let undecided = text.matches(tell::NO_VERDICT).count();
    let nothing = text.matches(SHOWS_NOTHING).count();
    let goals = met + missed.len() + unknown + undecided + nothing;
    let some = |count: usize, what: &str| match count {
        0 => String::new(),
        _ => format!(", {count} {what}"),
    };
    let unsure = some(text.matches(tell::UNSURE).count(), "not sure");
    let (unknown, nothing) = (some(unknown, "not measured"), some(nothing, "not shown"));
    let undecided = some(undecided, "without a verdict");
    (goals > 0)
        .then(|| format!("{met} of {goals}{unsure}{undecided}{unknown}{nothing} | {}", missed.join(", ")))
}

/// The day in the line that says where a result comes from; other lines have none.
fn day(line: &str) -> Option<&str> {
    let (_, behind) = line.split_once("; load before it began ")?;
    let (_, behind) = behind.split_once("; ")?;
    behind.get(..10).filter(|day| day.starts_with(|first: char| first.is_ascii_digit()))
}

/// Why a result is to be taken with care, of a line that says so.
fn reason(line: &str) -> Option<String> {
    let whole = |why: &str| why.trim_end_matches('.').to_owned();
    let weak = line.strip_prefix(tell::WEAK).map(whole);
    weak.or_else(|| line.strip_prefix(tell::STALE).map(|why| format!("stale: {}", whole(why))))
}

/// The table.
pub fn table(judged: &[Judged]) -> String {
    let mut out = String::from(
        "\n## All goals\n\n| question | met | missed by | measured | weak or stale |\n|---|---|---|---|---|\n",
    );
    for Judged { question, place, verdicts, days, care } in judged {
        let _ = writeln!(out, "| [{question}]({place}) | {verdicts} | {days} | {} |", care.join("; "));
    }
    out + "\nA result is of the program of its day, with the commit that stands at its section: its verdicts say nothing of what \
           was changed since. Absolute figures of sections of different days must not be compared.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tell::{Goal, staleness, weakness};
    use thalweg_lab::bench::statistics::Series;

    /// The rows that such sections give.
    fn rows(sections: &str) -> Vec<String> {
        let table = table(&of_sections(sections));
        let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        rows.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
    }

    #[test]
    fn goals_are_counted_section_by_section() {
        let verdicts = [Goal::AtMost(1.0).verdict(0.5), Goal::AtLeast(1.0).verdict(0.75)];
        let sections = format!(
            "\n## A file, far\n\n| {} |\n| {} |\n\n## Nothing asked\n\nx\n\n## Later\n\nNot measured yet.\n",
            verdicts[0], verdicts[1]
        );
        let later = "| [Later](#later) | not measured yet |  |  |  |";
        assert_eq!(rows(&sections), ["| [A file, far](#a-file-far) | 1 of 2 | 25.0 % |  |  |", later]);
    }

    #[test]
    fn a_goal_that_was_not_measured_is_counted_as_one() {
        let goal = Goal::AtMost(1.0);
        let told = |values: &[f64]| {
            let verdicts: Vec<String> = values.iter().map(|value| goal.verdict(*value)).collect();
            rows(&format!("\n## Near\n\n| {} |\n", verdicts.join(" |\n| "))).remove(0)
        };
        let row = "| [Near](#near) | 2 of 4, 1 not measured | 50.0 % |  |  |";
        assert_eq!(told(&[0.5, f64::NAN, 0.25, 1.5]), row);
        assert_eq!(told(&[f64::NAN]), "| [Near](#near) | 0 of 1, 1 not measured |  |  |  |");
    }

    #[test]
    fn a_goal_of_which_too_few_rounds_tell_is_counted_as_one_without_a_verdict() {
        let goal = Goal::AtLeast(0.97);
        let rounds = |runs: usize| (1..=runs).map(|run| (run, 1.0)).collect::<Series>();
        let verdicts = [0, 2, 3].map(|runs| goal.verdict_of_rounds(&rounds(runs), &rounds(3)));
        let row = "| [Near](#near) | 1 of 3, 1 without a verdict, 1 not measured |  |  |  |";
        assert_eq!(rows(&format!("\n## Near\n\n| {} |\n", verdicts.join(" |\n| "))), [row]);
    }

    #[test]
    fn of_goals_that_are_met_or_missed_it_is_counted_which_are_not_sure() {
        let goal = Goal::AtLeast(0.95);
        let verdicts =
            [[0.9, 0.96, 1.0], [0.8, 0.76, 1.0], [0.96, 0.97, 1.0]].map(|all| goal.verdict_of(&all));
        let sections = format!("\n## Near\n\n| {} |\n", verdicts.join(" |\n| "));
        assert_eq!(rows(&sections), ["| [Near](#near) | 2 of 3, 2 not sure | 15.8 % |  |  |"]);
    }

    #[test]
    fn what_is_missed_without_a_number_or_shows_nothing_is_no_goal_that_is_met() {
        let told = format!("x (at most 5 %: missed); y ({SHOWS_NOTHING}: all alike); z (at most 1: met)");
        assert_eq!(counted(&told).unwrap(), "1 of 3, 1 not shown | missed");
        assert_eq!(counted("no goal: mother knows"), None);
    }

    #[test]
    fn few_runs_and_a_busy_machine_are_said_in_the_section_and_beside_its_goals() {
        assert_eq!(weakness(3, None, 2.0, 2.0), None);
        assert_eq!(weakness(3, None, f64::NAN, f64::NAN), None);
        let stale = staleness(Some("lacks series `x`".into())).unwrap();
        let row = "| [Near](#near) | 1 of 1 |  |  | stale: lacks series `x` |";
        assert_eq!(rows(&format!("\n## Near\n\nx: met\n\n{stale}\n")), [row]);
        let both = weakness(1, None, 2.5, 2.0).unwrap();
        assert_eq!(
            both,
            "**Weak:** 1 run, fewer than 3; busy machine: load 2.50 before it began, on 2 cores."
        );
        let met = Goal::AtMost(1.0).verdict(0.5);
        let few = weakness(2, None, 0.1, 2.0).unwrap();
        let sections = format!("\n## Near\n\n{met}\n\n{both}\n\n## Far\n\n{met}\n\n{few}\n{both}\n");
        let busy = "1 run, fewer than 3; busy machine: load 2.50 before it began, on 2 cores";
        assert_eq!(
            rows(&sections),
            [
                format!("| [Near](#near) | 1 of 1 |  |  | {busy} |"),
                format!("| [Far](#far) | 1 of 1 |  |  | 2 runs, fewer than 3; {busy} |")
            ]
        );
    }

    #[test]
    fn beside_the_goals_of_a_section_stand_the_days_of_its_results() {
        let busy = weakness(3, None, 2.5, 2.0).unwrap();
        let of = |day: &str| format!("`a`: 3 runs. CPU; load before it began 0.50; {day}, commit 33fe18f.");
        let results = [of("2026-11-22"), of("2026-11-22"), of("2026-11-29")].join("\n");
        let sections =
            format!("\n## Near\n\nx: met\n\n{busy}\n\n{results}\n\n## Far\n\nx: met\n\n{}\n", of(""));
        let rows = rows(&sections);
        assert!(
            rows[0].starts_with("| [Near](#near) | 1 of 1 |  | 2026-11-22, 2026-11-29 | busy"),
            "{rows:?}"
        );
        assert_eq!(rows[1], "| [Far](#far) | 1 of 1 |  |  |  |");
        assert!(table(&[]).contains("must not be compared"));
    }
}
