//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there? And with no place: what it certifies
//! (`--show`), and its files for others to verify (`--as-b3sum`).

use crate::args::places::VerifyArgs;
use crate::commands::places::Troubles;
use crate::exit::Exit;
use crate::place::Places;
use crate::progress::{Progress, Ticker};
use crate::{begun, json, out, show, units};
use serde_json::{Map, Value};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use thalweg_client::reach::Reach;
use thalweg_client::receipt_file::Seal;
use thalweg_client::verify::{self, Expected, Found, Receipt, Sample, Sampled, Told, Unlisted};
use thalweg_mover::failure::Result;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_wire::RelativePath;
use thalweg_wire::message::Place;
use thalweg_wire::path::{Escaped, Sentence};

/// `thalweg verify`.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed; when the place
/// cannot be reached, or is written as none is.
pub fn verify(args: &VerifyArgs, places: &Places) -> Result<Exit> {
    let receipt = Receipt::open(&args.receipt)?;
    let (both, sender, receiver) = (args.keys.clone(), args.sender.clone(), args.receiver.clone());
    let expected = Expected { both, sender, receiver };
    let seal = verify::seal(&receipt, &expected)?;
    let json = args.ask.json;
    if args.show {
        return tell_certified(&seal, &expected, json);
    }
    if !json {
        lines(&seal).iter().chain(&doubts(&seal, &expected)).for_each(|line| show::line(line));
    }
    let Some(place) = args.place.as_ref().filter(|_| !args.as_b3sum) else {
        return as_b3sum(&receipt, &seal);
    };
    let seed = || args.seed.clone().unwrap_or_else(verify::random_seed);
    let sample = args.sample.map(|size| Sample::draw(&receipt, &seal, size, seed())).transpose()?;
    if let Some(sample) = sample.as_ref().filter(|_| !json) {
        show::line(&drawn(sample));
    }
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let reach = Reach::open(place, &mut far_movers)?;
    reach.refuse_misspelt()?;
    begun::tell();
    let meter = Arc::new(Meter::default());
    verify::expect(&meter, &seal);
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
    let found =
        verify::verify_sample(&receipt, &seal, &reach, args.strict, sample.as_ref(), &mut tell, &never);
    // Nothing comes behind the last line.
    drop((ticker, progress));
    Ok(end(json, &found?, sample.as_ref(), || verify::certified(&seal, &expected)))
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
    let mut lines =
        vec![format!("{} from {} to `{}`, begun {began}", seal.kind.word(), from.join(" "), word("/to"))];
    if let Some(Place { export, path }) = &seal.place {
        let export = export.as_ref().map(|export| format!("{}/", Escaped(export.as_bytes())));
        let place = format!("{}{}", export.unwrap_or_default(), Escaped(path));
        lines.push(format!("written to `{place}`, as the receiver says"));
    }
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

/// What it shows that what was read of a sample is as the receipt says, and how somebody else reads the same.
fn shown_by(sample: &Sample, read: &Sampled) -> String {
    let again = format!("--sample {} --seed {}", sample.drawn.files.max(1), sample.seed);
    let shown = match read.least_found() {
        None => "no file was read, which shows nothing of content".to_owned(),
        Some(_) if read.files == read.of_files => "all files with a digest were read".to_owned(),
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

/// The last line, or event. `certified`: what the receipt says of itself.
fn end(
    json: bool,
    found: &Found,
    sample: Option<&Sample>,
    certified: impl FnOnce() -> Map<String, Value>,
) -> Exit {
    let Found { entries, bytes, missing, differing, extra, unreadable, .. } = *found;
    let Found { without_digest, failed, skipped, sampled, .. } = *found;
    let sampled = sample.zip(sampled);
    let exit = match (differing, found.is_whole()) {
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
        json::tell(&serde_json::json!({
            "event": "verified", "exit": exit.code(), "entries": entries, "bytes": bytes,
            "missing": missing, "differing": differing, "extra": extra, "unreadable": unreadable,
            "without_digest": without_digest, "failed": failed, "skipped": skipped, "sample": sample,
            "receipt": certified(),
        }));
        return exit;
    }
    let verdict = match (found.is_same(), failed, without_digest) {
        (false, ..) => "NOT as the receipt says",
        (true, 1.., _) => "NOT whole",
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
    let extra = extra.map_or("extra not looked for (--strict)".to_owned(), |extra| format!("{extra} extra"));
    let not_in_it = match failed > 0 || skipped > 0 {
        true => {
            format!("; {failed} failed and {skipped} skipped when it was copied, of which it has nothing")
        }
        false => String::new(),
    };
    out::tell(&format!(
        "{verdict}: {looked}; {missing} missing, {differing} differ, {extra}, {unreadable} unreadable, \
         {without_digest} without a digest to compare{not_in_it}; modes, owners and times are not compared"
    ));
    match &sampled {
        Some((sample, read)) if found.is_same() => out::tell(&shown_by(sample, read)),
        Some(_) => show::line("hint: files that were not drawn were not read: verify without --sample"),
        None => {}
    }
    if without_digest > 0 {
        show::line(
            "hint: what was found unchanged by size and time was not read, and may have no digest: a copy \
             with --check digest and --receipt, over what is there, gives a receipt with all of them",
        );
    }
    exit
}
