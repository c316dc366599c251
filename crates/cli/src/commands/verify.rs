//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there?

use crate::args::places::VerifyArgs;
use crate::commands::places::Troubles;
use crate::exit::Exit;
use crate::place::Places;
use crate::reach::{self, Reach};
use crate::{json, out, units};
use serde_json::Value;
use std::ops::Range;
use thalweg_client::receipt_file::Seal;
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
    let mut far_movers = reach::far_movers(&args.ask, places);
    let reach = Reach::open(&args.place, &mut far_movers)?;
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
        let mut object = json::about("difference", path);
        object.insert("what".into(), word.into());
        object.insert("why".into(), why.into());
        json::tell(&Value::Object(object));
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
