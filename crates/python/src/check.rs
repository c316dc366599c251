//! Two places compared, or one with a list, as Python asks for it.

use crate::failures::raise;
use crate::options::{odd, only, part, rules};
use crate::reaching::Reaching;
use crate::waiting::unless_stopped;
use crate::work::Work;
use pyo3::prelude::*;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_client::check::{self as comparing, List, Selected};
use thalweg_client::events;
use thalweg_client::reach::Reach;
use thalweg_mover::failure::Result;
use thalweg_mover::run::copy::Meter;
use thalweg_wire::path::Escaped;

/// What is compared.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CheckOptions {
    /// A list of `b3sum`, in place of a second place.
    sums: Option<PathBuf>,
    devices: bool,
    /// Compare what symbolic links lead to. With a list it is always so.
    copy_links: bool,
    /// Only this part of it.
    part: Option<(u32, u32)>,
    filter: Vec<String>,
    files_from: Option<Vec<Vec<u8>>>,
}

/// Begins to compare two places, or one with a list.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    places: Vec<OsString>,
    options: CheckOptions,
    reaching: Reaching,
) -> PyResult<Work> {
    let selected = rules(&options.filter)
        .and_then(|rules| Selected::new(rules, only(options.files_from.as_deref())?))
        .and_then(|selected| part("check", options.part).map(|part| selected.in_part(part)))
        .map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, Arc::default(), true, move |teller, stop| {
        let CheckOptions { sums, devices, copy_links, .. } = options;
        let follows = copy_links && sums.is_none();
        let of_list = sums.as_ref().map(|list| list.clone().into_os_string());
        let shown: Vec<OsString> = of_list.into_iter().chain(places.iter().cloned()).collect();
        let mut far_movers = reaching.to_ask()?;
        let (_far_movers, list, sides) = unless_stopped(stop, move || {
            // What is wrong with it is told before anybody is asked for a password.
            let list = sums.as_deref().map(open_list).transpose()?;
            let open = |place: &OsString| {
                Reach::open(place, &mut far_movers).map(|reach| reach.following_links(follows))
            };
            let sides = places.iter().map(open).collect::<Result<Vec<Reach>>>()?;
            Ok((far_movers, list, sides))
        })?;
        let mut tell = |told: comparing::Told<'_>| -> Result<()> {
            teller.tell(match told {
                comparing::Told::Difference(what, path, why) => events::difference(what, path, why),
                comparing::Told::Trouble(side, failure) => events::error_at(&shown[side], failure),
            });
            Ok(())
        };
        let found = match (list, &sides[..]) {
            (Some(list), [place]) => comparing::check_list(list, place, &selected, &meter, &mut tell, stop)?,
            (None, [source, destination]) => {
                comparing::check([source, destination], &selected, devices, &meter, &mut tell, stop)?
            }
            _ => return Err(odd("a place is compared with another, or with a list".into())),
        };
        Ok(json!({
            "entries": found.entries, "files": found.files, "bytes": found.bytes, "same": found.same,
            "missing": found.missing, "extra": found.extra, "differing": found.differing,
            "unreadable": found.unreadable, "left_out": found.left_out,
            "links_lost": found.links_lost,
        }))
    })
}

/// A list that has an end: who waits for a pipe hears of no stop.
fn open_list(path: &Path) -> Result<List> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let name = Escaped(path.as_os_str().as_encoded_bytes());
            Err(odd(format!("sums: `{name}` is no regular file")))
        }
        _ => List::open(path),
    }
}
