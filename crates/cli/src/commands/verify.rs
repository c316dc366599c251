//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there? Several receipts, of the parts of a copy, are
//! one. And with no place: what it certifies (`--show`), and its files for others to verify (`--as-b3sum`).

use crate::args::places::VerifyArgs;
use crate::commands::places::Troubles;
use crate::exit::Exit;
use crate::place::Places;
use crate::progress::{Progress, Ticker};
use crate::{begun, json, out, show, units};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use thalweg_client::reach::Reach;
use thalweg_client::receipt_file::{Seal, selection};
use thalweg_client::verify::{self, Expected, Found, Parts, Receipt, Sample, Sampled, Told, Unlisted};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_wire::RelativePath;
use thalweg_wire::message::{PartOf, Place};
use thalweg_wire::path::{Escaped, Sentence};

/// Of parts whose receipts are not there so many are named.
const PARTS_NAMED_MAX: usize = 16;

/// `thalweg verify`.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed; when the place
/// cannot be reached, or is written as none is.
pub fn verify(args: &VerifyArgs, places: &Places) -> Result<Exit> {
    let (receipts, place) = read_words(args)?;
    let receipts =
        receipts.iter().map(|path| Receipt::open(Path::new(path))).collect::<Result<Vec<Receipt>>>()?;
    let (both, sender, receiver) = (args.keys.clone(), args.sender.clone(), args.receiver.clone());
    let expected = Expected { both, sender, receiver };
    let seal = |receipt: &Receipt| verify::seal(receipt, &expected);
    let seals = receipts.iter().map(seal).collect::<Result<Vec<Seal>>>()?;
    let all: Vec<(&Receipt, &Seal)> = receipts.iter().zip(&seals).collect();
    let [first, ..] = all[..] else { return Err(usage("the receipt is missing")) };
    let sealed: Vec<&Seal> = seals.iter().collect();
    let json = args.ask.json;
    if args.show {
        return tell_certified(first.1, &expected, json);
    }
    if !json {
        seals.iter().flat_map(lines).for_each(|line| show::line(&line));
        let mut doubted: Vec<String> = Vec::new();
        for doubt in seals.iter().flat_map(|seal| doubts(seal, &expected)) {
            // What is to be said of several is said once.
            if !doubted.contains(&doubt) {
                show::line(&doubt);
                doubted.push(doubt);
            }
        }
        let together = verify::doubts_together(&sealed);
        together.iter().for_each(|doubt| show::line(&format!("warning: {doubt}")));
    }
    let Some(place) = place else { return as_b3sum(first.0, first.1) };
    let seed = || args.seed.clone().unwrap_or_else(verify::random_seed);
    let sample = args.sample.map(|size| Sample::draw(first.0, first.1, size, seed())).transpose()?;
    if let Some(sample) = sample.as_ref().filter(|_| !json) {
        show::line(&drawn(sample));
    }
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let reach = Reach::open(place, &mut far_movers)?;
    reach.refuse_misspelt()?;
    begun::tell();
    let meter = Arc::new(Meter::default());
    verify::expect_all(&meter, &sealed);
    let ticker = json.then(|| Ticker::start(meter.clone())).transpose()?;
    let progress = Mutex::new(Progress::start(std::slice::from_ref(&meter), false, json));
    let aside = |work: &mut dyn FnMut()| match &*lock(&progress) {
        Some(progress) => progress.aside(work),
        None => work(),
    };
    let mut troubles = Troubles::new(json);
    let mut tell = |told: Told<'_>| match told {
        Told::Looked(bytes) => verify::looked(&meter, bytes),
        Told::Difference(what, path, why) => aside(&mut || difference(json, what, path, why)),
        Told::Damage(path, ranges) => aside(&mut || damage(json, path, ranges)),
        Told::Trouble(failure) => aside(&mut || troubles.add(failure)),
    };
    // A signal ends the process: nothing is left half done by reading.
    let never = Stop::default();
    let found = verify::verify_all(&all, &reach, args.strict, sample.as_ref(), &mut tell, &never);
    // Nothing comes behind the last line.
    drop((ticker, progress));
    let certified = || -> Vec<Value> {
        seals.iter().map(|seal| Value::Object(verify::certified(seal, &expected))).collect()
    };
    Ok(end(json, &found?, sample.as_ref(), &Parts::of(&sealed), certified))
}

/// The receipts, and the place that they are compared with, if one is.
fn read_words(args: &VerifyArgs) -> Result<(&[OsString], Option<&OsString>)> {
    if args.show || args.as_b3sum {
        return match args.words.len() {
            1 => Ok((&args.words[..], None)),
            _ => Err(usage("--show and --as-b3sum take one receipt, and no place")),
        };
    }
    match args.words.split_last() {
        Some((_, receipts)) if args.sample.is_some() && receipts.len() > 1 => {
            Err(usage("--sample draws from one receipt, and several are named"))
        }
        Some((place, receipts)) if !receipts.is_empty() => Ok((receipts, Some(place))),
        _ => Err(usage("the place is missing: name the receipt, or those of all parts, and then the place")),
    }
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

/// `--show`.
fn tell_certified(seal: &Seal, expected: &Expected, json: bool) -> Result<Exit> {
    if json {
        let mut object = verify::certified(seal, expected);
        object.insert("event".into(), "receipt".into());
        return out::answered(json::line(&Value::Object(object)), Exit::Done);
    }
    let printed = lines(seal).iter().try_for_each(|line| out::line(line));
    doubts(seal, expected).iter().for_each(|line| show::line(line));
    out::answered(printed, Exit::Done)
}

/// Prints a line for each file. What `b3sum` could not check is told, and such a list is not whole.
fn as_b3sum(receipt: &Receipt, seal: &Seal) -> Result<Exit> {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    receipt.refuse_to_replace(stdout.and_then(|stdout| File::from(stdout).metadata()))?;
    let mut unlisted = Unlisted::default();
    let printed = receipt.sums(seal, &mut unlisted, &mut |line| out::write(line.as_bytes()));
    for (count, why) in [
        (
            unlisted.without_digest,
            "the receipt has no digest of them that b3sum knows (unchanged, hard links, large holes)",
        ),
        (unlisted.unnamed, "b3sum takes no names that are not UTF-8"),
    ] {
        if count > 0 {
            show::line(&format!("warning: {} left out: {why}", units::entries(count)));
        }
    }
    out::answered(printed, if unlisted.is_whole(seal) { Exit::Done } else { Exit::Partial })
}

/// What it certifies, for people.
fn lines(seal: &Seal) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(|text| Sentence(text).to_string());
    let word = |pointer: &str| seal.words.pointer(pointer).and_then(text).unwrap_or_default();
    let count = |pointer: &str| seal.words.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let signed = |side: &str| {
        let when = seal.words.pointer(&format!("/{side}/when")).and_then(Value::as_i64);
        units::moment(when.unwrap_or_default())
    };
    let from = seal.words.pointer("/from").and_then(Value::as_array).into_iter().flatten();
    let from: Vec<String> = from.filter_map(text).map(|place| format!("`{place}`")).collect();
    let began = units::moment(i64::try_from(seal.began).unwrap_or_default());
    let (sent, received) = (signed("sender"), signed("receiver"));
    let part = seal.words.get("part").and_then(text);
    let part = part.map(|part| format!(", part {part},")).unwrap_or_default();
    let kind = seal.kind.word();
    let mut lines = vec![format!("{kind}{part} from {} to `{}`, begun {began}", from.join(" "), word("/to"))];
    if let Some(Place { export, path }) = &seal.place {
        let export = export.as_ref().map(|export| format!("{}/", Escaped(export.as_bytes())));
        let place = format!("{}{}", export.unwrap_or_default(), Escaped(path));
        lines.push(format!("written to `{place}`, as the receiver says"));
    }
    lines.extend(selection::sentences(&seal.words));
    lines.push(format!(
        "{}: {} done, {} unchanged, {} skipped, {} failed, {} deleted; --verify {}, --check {}",
        units::entries(seal.entries),
        count("/totals/done"),
        count("/totals/unchanged"),
        count("/totals/skipped"),
        count("/totals/failed"),
        count("/totals/deleted"),
        word("/terms/verify"),
        word("/terms/check"),
    ));
    let unread = count("/unread");
    if unread > 0 {
        let whose = "are the receiver's word: the sender did not read those files for this transfer";
        lines.push(format!("of {} the digests {whose}", units::entries(unread)));
    }
    lines.push(format!("root {}", seal.root));
    lines.push(format!("signed by the sender {sent} with {}", seal.sender));
    lines.push(format!("  and the receiver {received} with {}", seal.receiver));
    lines
}

/// What takes from the worth of the signatures.
fn doubts(seal: &Seal, expected: &Expected) -> Vec<String> {
    let mut doubts = Vec::new();
    if seal.has_one_signer() {
        let worth = "who has it can have written all of the receipt alone";
        doubts.push(format!("warning: ONE key signed for both sides: {worth}"));
    }
    for (side, signer) in [("sender", &seal.sender), ("receiver", &seal.receiver)] {
        if signer.is_ephemeral {
            let worth = "nobody can say whose it was";
            doubts.push(format!("warning: the key of the {side} was kept nowhere: {worth}"));
        }
    }
    let unknown = match expected.is_asked() {
        [true, true] => return doubts,
        [false, false] => "; say whom you expect with --sender and --receiver",
        [false, true] => " as the sender; say whom you expect with --sender",
        [true, false] => " as the receiver; say whom you expect with --receiver",
    };
    doubts.push(format!("warning: anybody can have signed{unknown}"));
    doubts
}

/// What is read of a sample, before it is.
fn drawn(sample: &Sample) -> String {
    let of = sample.drawn;
    format!(
        "{} of {} drawn by the seed {}: {} of {} are read",
        units::count(of.files),
        units::files(of.of_files),
        sample.seed,
        units::size(of.bytes),
        units::size(of.of_bytes),
    )
}

/// What it shows that what was read of a sample of so many `drawn` files is as it should be, and how somebody else
/// reads the same. `all`: what is said where all of them were read.
pub(super) fn shown_by(seed: &str, drawn: u64, read: &Sampled, all: &str) -> String {
    let again = format!("--sample {} --seed {seed}", drawn.max(1));
    let shown = match read.least_found() {
        None => "no file was read, which shows nothing of content".to_owned(),
        Some(_) if read.files == read.of_files => all.to_owned(),
        Some(damaged) => {
            // Rounded down, it says nothing of more than half of them.
            let one_in = read.of_files / damaged.max(1);
            let one_in = if one_in < 2 { String::new() } else { format!(" (1 in {})", units::count(one_in)) };
            format!(
                "damage of at least {} of these files{one_in} would have been found with a probability of \
                 {}, whatever their size, if nobody knew the seed before",
                units::count(damaged),
                units::share(verify::PROBABILITY),
            )
        }
    };
    format!("{shown}; the same sample again: {again}")
}

/// Tells where a damaged file differs.
fn damage(json: bool, path: &RelativePath, ranges: &[Range<u64>]) {
    for range in ranges {
        if json {
            let mut object = json::about("damage", path);
            object.insert("start".into(), range.start.into());
            object.insert("end".into(), range.end.into());
            json::tell(&Value::Object(object));
        } else {
            out::tell(&format!("damaged  {path}  bytes {}..{}", range.start, range.end));
        }
    }
    if ranges.is_empty() && !json {
        out::tell(&format!("damaged  {path}  read again, it is as it was copied: look at the medium"));
    }
}

fn difference(json: bool, word: &str, path: &RelativePath, why: &str) {
    if json {
        json::tell(&json::difference(word, path, why));
    } else {
        out::tell(&format!("{word}  {path}  ({})", Sentence(why)));
    }
}

/// The last line, or event. `certified`: what each receipt says of itself.
fn end(
    json: bool,
    found: &Found,
    sample: Option<&Sample>,
    parts: &Parts,
    certified: impl FnOnce() -> Vec<Value>,
) -> Exit {
    let Found { entries, bytes, missing, differing, extra, unreadable, .. } = *found;
    let Found { without_digest, failed, skipped, sampled, .. } = *found;
    let Parts { alone, missing: parts_missing, count: parts } = parts;
    let sampled = sample.zip(sampled);
    let exit = match (differing, found.is_whole() && parts_missing.is_empty()) {
        (1.., _) => Exit::Damage,
        (0, false) => Exit::Partial,
        (0, true) => Exit::Done,
    };
    if json {
        let sample = sampled.map(|(sample, read)| {
            serde_json::json!({
                "seed": sample.seed, "drawn": sample.drawn.files, "files": read.files, "bytes": read.bytes,
                "of_files": read.of_files, "of_bytes": read.of_bytes, "least_found": read.least_found(),
                "probability": verify::PROBABILITY,
            })
        });
        let mut receipts = certified();
        // Those of a copy in parts are a list.
        let receipt = if receipts.len() == 1 { receipts.pop() } else { None };
        json::tell(&serde_json::json!({
            "event": "verified", "exit": exit.code(), "entries": entries, "bytes": bytes,
            "missing": missing, "differing": differing, "extra": extra, "unreadable": unreadable,
            "without_digest": without_digest, "failed": failed, "skipped": skipped, "sample": sample,
            "receipt": receipt, "receipts": receipts, "parts_missing": parts_missing,
        }));
        return exit;
    }
    let verdict = match (found.is_same(), failed, without_digest) {
        (false, ..) => "NOT as the receipt says",
        (true, 1.., _) => "NOT whole",
        (true, 0, _) if alone.is_none() && !parts_missing.is_empty() => "NOT whole",
        (true, 0, 1..) => "NOT all compared",
        (true, 0, 0) if sampled.is_some() => "verified by sample",
        (true, 0, 0) => "verified",
    };
    let looked = match &sampled {
        Some((_, read)) => format!(
            "{} in {} of {} read, {} looked at",
            units::size(read.bytes),
            units::count(read.files),
            units::files(read.of_files),
            units::entries(entries),
        ),
        None => format!("{} in {}", units::size(bytes), units::entries(entries)),
    };
    let part = alone.map(|PartOf { number, count }| format!(": part {number} of {count}"));
    let part = part.unwrap_or_default();
    let extra = extra.map_or("extra not looked for (--strict)".to_owned(), |extra| format!("{extra} extra"));
    let not_in_it = match failed > 0 || skipped > 0 {
        true => {
            format!("; {failed} failed and {skipped} skipped when it was copied, of which it has nothing")
        }
        false => String::new(),
    };
    out::tell(&format!(
        "{verdict}{part}: {looked}; {missing} missing, {differing} differ, {extra}, {unreadable} unreadable, \
         {without_digest} without a digest to compare{not_in_it}; modes, owners and times are not compared"
    ));
    match &sampled {
        Some((sample, read)) if found.is_same() => {
            let all = "all files with a digest were read";
            out::tell(&shown_by(&sample.seed, sample.drawn.files, read, all));
        }
        Some(_) => show::line("hint: files that were not drawn were not read: verify without --sample"),
        None => {}
    }
    if found.is_nowhere() {
        show::line(
            "hint: nothing of the receipt is there by its name: give the place that was copied to, as the first line \
             has it, or another copy of that",
        );
    }
    if !parts_missing.is_empty() {
        let numbers: Vec<String> = parts_missing.iter().take(PARTS_NAMED_MAX).map(u32::to_string).collect();
        let more = if parts_missing.len() > PARTS_NAMED_MAX { " and more" } else { "" };
        show::line(&format!(
            "hint: of {parts} parts {}{more} are in none of these receipts: name those of all parts",
            numbers.join(", ")
        ));
    }
    if without_digest > 0 {
        show::line(
            "hint: what was found unchanged by size and time was not read, and may have no digest: a copy \
             with --check digest and --receipt, over what is there, gives a receipt with all of them",
        );
    }
    exit
}
