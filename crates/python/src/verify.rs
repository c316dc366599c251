//! Receipts, and places compared with them, as Python asks for it.

use crate::failures::raise;
use crate::reaching::Reaching;
use crate::waiting::{GivingUp, on_a_thread, unless_stopped};
use crate::work::Work;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_client::reach::Reach;
use thalweg_client::receipt_file::Seal;
use thalweg_client::verify::{self as verifying, Expected, Parts, Receipt, Told, Unlisted};
use thalweg_client::{b3sum, events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::copy::Meter;

/// Keys of either side, of the sender, of the receiver.
type Keys = (Vec<String>, Vec<String>, Vec<String>);

fn expected((both, sender, receiver): &Keys) -> Result<Expected> {
    let read = |name: &str, keys: &[String]| -> Result<Vec<String>> {
        let read = |key: &String| {
            let refuse = |why: String| format!("{name}={key:?}: {why}");
            let usage = |why: String| Failure::new(FailureKind::Usage, "verify", refuse(why));
            verifying::parse_key(key).map_err(usage)
        };
        keys.iter().map(read).collect()
    };
    Ok(Expected {
        both: read("keys", both)?,
        sender: read("sender", sender)?,
        receiver: read("receiver", receiver)?,
    })
}

/// What a receipt certifies, as JSON; its files go into a list of `b3sum`, if one is named.
#[pyfunction]
pub fn read_receipt(
    py: Python<'_>,
    receipt: PathBuf,
    as_b3sum: Option<PathBuf>,
    keys: Keys,
    gives_up: Option<Bound<'_, GivingUp>>,
) -> PyResult<String> {
    let expected = expected(&keys).map_err(|failure| raise(py, &failure))?;
    let told = on_a_thread(py, gives_up.as_ref(), move |stop| {
        let receipt = Receipt::open(&receipt)?;
        let seal = verifying::seal(&receipt, &expected)?;
        let (mut listed, mut unlisted) = (0u64, Unlisted::default());
        if let Some(path) = &as_b3sum {
            receipt.refuse_to_replace(std::fs::metadata(path))?;
            b3sum::write_file(path, |write| {
                receipt.sums(&seal, &mut unlisted, &mut |line| {
                    if stop.is_asked() {
                        let cause = "stopped on request";
                        return Err(Failure::new(FailureKind::Stopped, "write the list", cause));
                    }
                    listed += 1;
                    write(line)
                })
            })?;
        }
        let of_list = |count: u64| as_b3sum.is_some().then_some(count);
        Ok(json!({
            "entries": seal.entries, "bytes": seal.bytes, "failed": seal.failed, "skipped": seal.skipped,
            "sender": seal.sender.to_string(), "receiver": seal.receiver.to_string(),
            "listed": of_list(listed), "without_digest": of_list(unlisted.without_digest),
            "unnamed": of_list(unlisted.unnamed), "receipt": verifying::certified(&seal, &expected),
        }))
    })?;
    told.map(|told| told.to_string()).map_err(|failure| raise(py, &failure))
}

/// Begins to compare a place with a receipt, or with those of the parts of a copy together.
#[pyfunction]
pub fn verify(
    py: Python<'_>,
    receipts: Vec<PathBuf>,
    place: OsString,
    strict: bool,
    keys: Keys,
    reaching: Reaching,
) -> PyResult<Work> {
    let expected = expected(&keys).map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, Arc::default(), true, move |teller, stop| {
        let receipts = receipts.iter().map(|path| Receipt::open(path)).collect::<Result<Vec<Receipt>>>()?;
        let seal = |receipt: &Receipt| verifying::seal(receipt, &expected);
        let seals = receipts.iter().map(seal).collect::<Result<Vec<Seal>>>()?;
        let all: Vec<(&Receipt, &Seal)> = receipts.iter().zip(&seals).collect();
        let sealed: Vec<&Seal> = seals.iter().collect();
        let [first, ..] = sealed[..] else {
            return Err(Failure::new(FailureKind::Usage, "verify", "the receipt is missing"));
        };
        verifying::expect_all(&meter, &sealed);
        let mut far_movers = reaching.to_ask()?;
        let (_far_movers, reach) = unless_stopped(stop, move || {
            let reach = Reach::open(&place, &mut far_movers)?;
            Ok((far_movers, reach))
        })?;
        let reach = reach.until(stop);
        let mut tell = |told: Told<'_>| match told {
            Told::Difference(what, path, why) => teller.tell(events::difference(what, path, why)),
            Told::Damage(path, ranges) => {
                for range in ranges {
                    let mut object = events::about("damage", path);
                    object.insert("start".into(), range.start.into());
                    object.insert("end".into(), range.end.into());
                    teller.tell(object);
                }
            }
            Told::Trouble(failure) => teller.tell(events::error(failure)),
            Told::Looked(bytes) => verifying::looked(&meter, bytes),
        };
        let found = verifying::verify_all(&all, &reach, strict, None, &mut tell, stop)?;
        let certified = |seal: &Seal| Value::Object(verifying::certified(seal, &expected));
        let each: Vec<Value> = match sealed.len() {
            1 => Vec::new(),
            _ => seals.iter().map(certified).collect(),
        };
        Ok(json!({
            "entries": found.entries, "bytes": found.bytes, "missing": found.missing, "differing": found.differing,
            "extra": found.extra, "unreadable": found.unreadable, "without_digest": found.without_digest,
            "failed": found.failed, "skipped": found.skipped,
            "sender": first.sender.to_string(), "receiver": first.receiver.to_string(),
            "receipt": certified(first), "receipts": each, "parts_missing": Parts::of(&sealed).missing,
        }))
    })
}
