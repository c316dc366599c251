//! `thalweg dataset`.

use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::json;
use thalweg_cli::args::dataset::{CheckSetArgs, DatasetCommand, MakeArgs};
use thalweg_client::options::dataset::words;
use thalweg_lab::dataset::{self, Checked};
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::Result;

/// `thalweg dataset …`.
///
/// # Errors
/// If it cannot be done.
pub fn dataset(command: &DatasetCommand) -> Result<Exit> {
    match command {
        DatasetCommand::Make(args) => out::answered(make(args), Exit::Done),
        DatasetCommand::Check(args) => check(args),
    }
}

fn make(args: &MakeArgs) -> Result<()> {
    let spec = args.spec.spec();
    let made = dataset::make(&args.directory, &spec)?;
    if args.json {
        return json::line(&json!({"event": "dataset-made", "dataset": words(&spec), "made": made,
            "core_bytes_per_s": made.bytes_per_s_of_a_core()}));
    }
    // Of empty files, and of holes, nothing was made.
    let speed = match made.made_bytes {
        0 => String::new(),
        bytes => format!(
            ": {}; one core makes {:.2} GB/s",
            units::rate(bytes, made.wall_s),
            made.bytes_per_s_of_a_core() / 1e9
        ),
    };
    out::line(&format!(
        "{} in {} made and written in {}{speed}",
        units::size(made.bytes),
        units::files(made.files),
        units::time(made.wall_s)
    ))
}

fn check(args: &CheckSetArgs) -> Result<Exit> {
    let spec = dataset::described(&args.directory)?;
    let checked = dataset::check(&args.directory, &spec)?;
    let exit = if checked.damaged == 0 { Exit::Done } else { Exit::Damage };
    out::answered(tell_checked(args, &spec, &checked, exit), exit)
}

fn tell_checked(args: &CheckSetArgs, spec: &DatasetSpec, checked: &Checked, exit: Exit) -> Result<()> {
    if args.json {
        return json::line(&json!({"event": "dataset-checked", "dataset": words(spec), "checked": checked,
            "exit": exit.code()}));
    }
    for damage in &checked.damage {
        out::line(&json::inert(&damage.to_string()))?;
    }
    let damaged = match checked.damaged {
        0 => "all as they were made".to_owned(),
        damaged => format!("{} NOT as they were made", units::count(damaged)),
    };
    out::line(&format!(
        "{} in {} ({}) compared with their seed in {}: {damaged}",
        units::size(checked.bytes),
        units::files(checked.files),
        words(spec),
        units::time(checked.wall_s)
    ))
}
