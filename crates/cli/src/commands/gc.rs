//! `thalweg gc`: what unfinished copies left behind.

use crate::args::places::GcArgs;
use crate::commands::places::Troubles;
use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{json, out, units};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use thalweg_client::far_movers::{FarMovers, How, SshOptions};
use thalweg_client::identity;
use thalweg_client::objects::{Bucket, Cleaning, LeftUpload, UploadState};
use thalweg_client::staged::leftover_stages;
use thalweg_mover::endpoint::local::staging::leftover::{Leftover, LeftoverState, leftovers};
use thalweg_mover::failure::{Failure, FailureKind, Result};

/// What is cleaned up.
enum Cleaned {
    Directory(PathBuf),
    Bucket(Bucket),
}

/// `thalweg gc`.
///
/// # Errors
/// When a place makes no sense (then nothing was removed), or cannot be listed.
pub fn gc(args: &GcArgs, places: &Places) -> Result<Exit> {
    let mut troubles = Troubles::new(args.json);
    let mut stores = FarMovers::new(How::to_ask(places, None, SshOptions::default()));
    let mut read = |typed: &OsString| match Place::parse(typed, places)? {
        Place::Local(path) => Ok(Cleaned::Directory(path)),
        Place::Object { location, settings } => stores.bucket(&location, &settings).map(Cleaned::Bucket),
        far => {
            let cause = format!(
                "`{far}`: only directories of this machine and buckets are cleaned up: run `thalweg gc` where they are"
            );
            Err(Failure::new(FailureKind::Unsupported, "clean up", cause))
        }
    };
    let older_than = args.older_than.unwrap_or_default();
    // All of them before anything is removed.
    for place in args.places.iter().map(&mut read).collect::<Result<Vec<_>>>()? {
        let now = SystemTime::now();
        let mut trouble = |failure: Failure| troubles.add(&failure);
        match place {
            Cleaned::Directory(path) => {
                for left in leftovers(&path, args.yes, older_than, now, &mut trouble)? {
                    tell_leftover(args, &left);
                }
                for left in leftover_stages(&path, args.yes, older_than, now, &mut trouble)? {
                    tell_leftover(args, &left);
                }
            }
            Cleaned::Bucket(bucket) => {
                let state = identity::state_directory(args.state.as_deref())?;
                let (removes, older_than) = (args.yes, args.older_than);
                let cleaning = Cleaning { removes, older_than, state: &state, now };
                bucket.left_uploads(&cleaning, &mut trouble, &mut |left| tell_upload(args, &left))?;
            }
        }
    }
    out::answered(Ok(()), troubles.exit())
}

fn tell_leftover(args: &GcArgs, left: &Leftover) {
    let (word, more) = match left.state {
        LeftoverState::InUse => ("in-use", "a copy uses it"),
        LeftoverState::Unknown => ("unknown", "its lock is not below this directory"),
        LeftoverState::Left => ("left", "remove it with --yes"),
        LeftoverState::Recent => ("recent", "--older-than keeps it"),
        LeftoverState::Removed => ("removed", "nothing uses it"),
    };
    if args.json {
        tell_as_json(json::about("leftover", &left.path), word, left.bytes, left.age);
    } else {
        tell(&left.path.to_string(), (word, more), left.bytes, left.age);
    }
}

fn tell_upload(args: &GcArgs, left: &LeftUpload) {
    let (word, more) = match left.state {
        UploadState::Left => ("left", "remove it with --yes"),
        UploadState::Unknown => {
            ("unknown", "no copy from here left it: --older-than says how old what goes is")
        }
        UploadState::InUse => ("in-use", "a copy uses it"),
        UploadState::Recent => ("recent", "--older-than keeps it"),
        UploadState::Removed => ("removed", "it was not completed"),
    };
    if args.json {
        let mut object = serde_json::Map::new();
        object.insert("event".into(), "leftover".into());
        object.insert("path".into(), left.key.clone().into());
        tell_as_json(object, word, left.bytes, left.age);
    } else {
        tell(&left.key, (word, more), left.bytes, left.age);
    }
}

fn tell_as_json(
    mut object: serde_json::Map<String, serde_json::Value>,
    word: &str,
    bytes: u64,
    age: Option<Duration>,
) {
    object.insert("state".into(), word.into());
    object.insert("bytes".into(), bytes.into());
    object.insert("age_s".into(), age.map(|age| age.as_secs()).into());
    json::tell(&serde_json::Value::Object(object));
}

fn tell(name: &str, (word, more): (&str, &str), bytes: u64, age: Option<Duration>) {
    let age = age.map(|age| units::time(age.as_secs() as f64));
    let changed = age.map(|age| format!("changed {age} ago; ")).unwrap_or_default();
    out::tell(&format!("{word}  {}  {name}  ({changed}{more})", units::size(bytes)));
}
