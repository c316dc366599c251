//! `thalweg gc`: what unfinished copies left behind.

use crate::args::places::GcArgs;
use crate::commands::places::Troubles;
use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{json, out, units};
use std::ffi::OsString;
use std::time::SystemTime;
use thalweg_mover::endpoint::local::staging::leftover::{LeftoverState, leftovers};
use thalweg_mover::failure::{Failure, FailureKind, Result};

/// `thalweg gc`.
///
/// # Errors
/// When a place makes no sense (then nothing was removed), or cannot be listed.
pub fn gc(args: &GcArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::new(args.json);
    let read = |typed: &OsString| match Place::parse(typed, places)? {
        Place::Local(path) => Ok(path),
        far => {
            let cause = format!(
                "`{far}`: only directories of this machine are cleaned up: run `thalweg gc` where they are"
            );
            Err(Failure::new(FailureKind::Unsupported, "clean up", cause))
        }
    };
    let older_than = args.older_than.unwrap_or_default();
    // All of them before anything is removed.
    for path in args.places.iter().map(read).collect::<Result<Vec<_>>>()? {
        let now = SystemTime::now();
        for left in leftovers(&path, args.yes, older_than, now, &mut |failure| troubles.add(&failure))? {
            let (word, more) = match left.state {
                LeftoverState::InUse => ("in-use", "a copy uses it"),
                LeftoverState::Unknown => ("unknown", "its lock is not below this directory"),
                LeftoverState::Left => ("left", "remove it with --yes"),
                LeftoverState::Recent => ("recent", "--older-than keeps it"),
                LeftoverState::Removed => ("removed", "nothing uses it"),
            };
            if args.json {
                let mut object = json::about("leftover", &left.path);
                object.insert("state".into(), word.into());
                object.insert("bytes".into(), left.bytes.into());
                object.insert("age_s".into(), left.age.map(|age| age.as_secs()).into());
                json::tell(&serde_json::Value::Object(object));
            } else {
                let age = left.age.map(|age| units::time(age.as_secs() as f64));
                let changed = age.map(|age| format!("changed {age} ago; ")).unwrap_or_default();
                out::tell(&format!("{word}  {}  {}  ({changed}{more})", units::size(left.bytes), left.path));
            }
        }
    }
    out::answered(Ok(()), troubles.exit())
}
