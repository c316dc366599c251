//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there? And with `--as-b3sum` and no place: what it says, for
//! others to verify.

use crate::args::places::VerifyArgs;
use crate::commands::places::{Troubles, answered};
use crate::exit::Exit;
use crate::place::Places;
use crate::reach::{self, Reach};
use crate::{json, out, show, units};
use serde_json::Value;
use std::ops::Range;
use thalweg_client::receipt_file::Seal;
use thalweg_client::sums;
use thalweg_client::verify::{self, Found, Receipt, Told};
use thalweg_mover::failure::Result;
use thalweg_mover::run::copy::Stop;
use thalweg_wire::RelativePath;
use thalweg_wire::path::Sentence;

/// `thalweg verify`.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed; when the place
/// cannot be reached, or is written as none is.
pub fn verify(args: &VerifyArgs, places: &Places) -> Result<Exit> {
    let receipt = Receipt::open(&args.receipt)?;
    let seal = verify::seal(&receipt, &args.keys)?;
    let json = args.ask.json;
    if !json {
        tell_signers(&seal, args.keys.is_empty());
    }
    let Some(place) = args.place.as_ref().filter(|_| !args.as_b3sum) else {
        return as_b3sum(&receipt, &seal);
    };
    let mut far_movers = reach::far_movers(&args.ask, places);
    let reach = Reach::open(place, &mut far_movers)?;
    reach.refuse_misspelt()?;
    let mut troubles = Troubles::new(json);
    let mut tell = |told: Told<'_>| match told {
        Told::Difference(what, path, why) => difference(json, what, path, why),
        Told::Damage(path, ranges) => damage(json, path, ranges),
        Told::Trouble(failure) => troubles.add(failure),
    };
    // A signal ends the process: nothing is left half done by reading.
    let never = Stop::default();
    let found = verify::verify(&receipt, &seal, &reach, args.strict, &mut tell, &never)?;
    Ok(end(json, &found))
}

/// Prints a line for each file. What `b3sum` could not check is told, and such a list is not whole.
fn as_b3sum(receipt: &Receipt, seal: &Seal) -> Result<Exit> {
    let (mut unknown, mut unnamed) = (0u64, 0u64);
    let printed = receipt.last_lines(seal, &mut |line| {
        match (line.kind.as_str(), line.digest) {
            // It is what `b3sum` prints of a file that has no marked holes.
            ("file" | "hardlink", Some(digest)) => match sums::line(&line.path, digest) {
                Some(text) => return out::write(text.as_bytes()),
                None => unnamed += 1,
            },
            ("file" | "file-marked-holes" | "hardlink", _) => unknown += 1,
            _ => {}
        }
        Ok(())
    });
    for (count, why) in [
        (unknown, "the receipt has no digest of them that b3sum knows (unchanged, hard links, large holes)"),
        (unnamed, "b3sum takes no names that are not UTF-8"),
    ] {
        if count > 0 {
            show::line(&format!("warning: {} left out: {why}", units::entries(count)));
        }
    }
    let is_whole = unknown + unnamed == 0 && seal.failed == 0;
    answered(printed, if is_whole { Exit::Done } else { Exit::Partial })
}

fn tell_signers(seal: &Seal, unknown: bool) {
    use std::io::Write;
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "signed by the sender with {}", seal.sender);
    let _ = writeln!(err, "  and the receiver with {}", seal.receiver);
    if unknown {
        let _ =
            writeln!(err, "warning: anybody can sign a receipt; give the keys that you expect with --keys");
    }
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

fn end(json: bool, found: &Found) -> Exit {
    let Found { entries, bytes, missing, differing, extra, unreadable, without_digest, failed, skipped } =
        *found;
    let exit = match (differing, found.is_whole()) {
        (1.., _) => Exit::Damage,
        (0, false) => Exit::Partial,
        (0, true) => Exit::Done,
    };
    if json {
        json::tell(&serde_json::json!({
            "event": "verified", "exit": exit.code(), "entries": entries, "bytes": bytes,
            "missing": missing, "differing": differing, "extra": extra, "unreadable": unreadable,
            "without_digest": without_digest, "failed": failed, "skipped": skipped,
        }));
        return exit;
    }
    let verdict = match (found.is_same(), failed) {
        (false, _) => "NOT as the receipt says",
        (true, 0) => "verified",
        (true, _) => "NOT whole",
    };
    let extra = extra.map_or("extra not looked for (--strict)".to_owned(), |extra| format!("{extra} extra"));
    let not_in_it = match failed > 0 || skipped > 0 {
        true => {
            format!("; {failed} failed and {skipped} skipped when it was copied, of which it has nothing")
        }
        false => String::new(),
    };
    out::tell(&format!(
        "{verdict}: {} in {}; {missing} missing, {differing} differ, {extra}, {unreadable} unreadable, \
         {without_digest} without a digest to compare{not_in_it}",
        units::size(bytes),
        units::entries(entries),
    ));
    exit
}
