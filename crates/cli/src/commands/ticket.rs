//! `thalweg ticket`: tickets of a daemon's users, by its state directory.

use crate::exit::Exit;
use crate::{identity, json, out, show, units};
use serde_json::json;
use std::path::PathBuf;
use thalweg_cli::args::ticket::{ListArgs, NewArgs, RevokeArgs, TicketCommand};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{Identity, Ticket};
use thalweg_service::tickets::{self, Daemon, Part, Reach, Record, Standing};
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::path::Escaped;

/// `thalweg ticket …`.
///
/// # Errors
/// `NotFound` if no daemon began with the state directory, or no ticket has the name; `Conflict` if one has, or had, or
/// if the file is there; else what reading and writing say.
pub fn ticket(command: &TicketCommand) -> Result<Exit> {
    match command {
        TicketCommand::New(args) => new(args),
        TicketCommand::List(args) => list(args),
        TicketCommand::Revoke(args) => revoke(args),
    }
}

fn new(args: &NewArgs) -> Result<Exit> {
    let state = identity::state_path(args.state.as_deref())?;
    let Daemon { server, addresses, exports } = Daemon::read(&state)?;
    if addresses.is_empty() {
        let cause = "the daemon found no address at which clients reach it: start it with --advertise";
        return Err(Failure::new(FailureKind::NotFound, "make a ticket", cause));
    }
    tickets::check_free(&state, &args.name)?;
    let now = unix_seconds();
    let client = Identity::generate(&args.name)?;
    let mut record = Record::of(&args.name, client.fingerprint(), now);
    record.expires_at = args.expires.map(|end| end.at(now));
    record.bits_per_s_max = args.bwlimit;
    if record.standing(now) != Standing::Valid {
        let cause = "--expires is over already: nobody would come in";
        return Err(Failure::new(FailureKind::Usage, "make a ticket", cause));
    }
    if !args.export.is_empty() {
        let below = args.below.clone().unwrap_or_default();
        let narrowed = |part: &Part| Part { below: below.clone(), ..part.clone() };
        record.reach = Reach::Only(args.export.iter().map(narrowed).collect());
    }
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.ticket", args.name)));
    Ticket { addresses, server, identity_pem: client.to_pem() }.write_new(&file)?;
    // Until then nobody comes in by the file; where it cannot be, nobody ever does.
    tickets::add(&state, &record).inspect_err(|_| {
        let _ = std::fs::remove_file(&file);
    })?;
    for part in args.export.iter().filter(|part| !exports.contains(&part.export)) {
        show::line(&format!("warning: the daemon has no export `{}` so far", part.export));
    }
    let shown = failure::shown_path(file.as_os_str().as_encoded_bytes());
    let (rights, ends) = (rights(&record), ends(&record));
    out::answered(out::line(&format!("{}  {rights}  {ends}  written to {shown}", record.name)), Exit::Done)
}

fn list(args: &ListArgs) -> Result<Exit> {
    let state = identity::state_path(args.state.as_deref())?;
    let (records, troubles) = tickets::all(&state)?;
    let exit = if troubles.is_empty() { Exit::Done } else { Exit::Partial };
    for failure in &troubles {
        match args.json {
            true => json::line(&json::error(failure, None))?,
            false => show::failure(failure),
        }
    }
    let now = unix_seconds();
    for record in &records {
        // Before it was made another had its name, the file of which is gone.
        let used_at = tickets::used_at(&state, &record.name).filter(|at| *at >= record.made_at);
        match args.json {
            true => json::line(&as_json(record, used_at, now))?,
            false => out::line(&listed(record, used_at, now))?,
        }
    }
    out::answered(out::flush(), exit)
}

fn listed(record: &Record, used_at: Option<u64>, now: u64) -> String {
    let (rights, ends) = (rights(record), ends(record));
    let made = moment(record.made_at);
    let used = used_at.map_or("never used".to_owned(), |at| format!("used {}", moment(at)));
    let revoked = record.revoked_at.map(|at| format!("  revoked {}", moment(at))).unwrap_or_default();
    format!("{}  {}  {rights}  made {made}  {ends}  {used}{revoked}", record.name, word(record.standing(now)))
}

fn as_json(record: &Record, used_at: Option<u64>, now: u64) -> serde_json::Value {
    let exports = match &record.reach {
        Reach::All => None,
        Reach::Only(parts) => Some(parts),
    };
    json!({
        "event": "ticket", "name": record.name, "state": word(record.standing(now)),
        "certificate": record.certificate.to_string(), "made_at": record.made_at,
        "expires_at": record.expires_at, "revoked_at": record.revoked_at, "used_at": used_at,
        "exports": exports, "limit_bits_per_s": record.bits_per_s_max,
    })
}

fn revoke(args: &RevokeArgs) -> Result<Exit> {
    let state = identity::state_path(args.state.as_deref())?;
    let before = tickets::revoke(&state, &args.name, unix_seconds())?;
    let name = Escaped(args.name.as_bytes());
    let told = match before.revoked_at {
        Some(at) => format!("{name} was revoked {} already", moment(at)),
        None => format!("{name} is revoked: what runs with it ends within seconds"),
    };
    out::answered(out::line(&told), Exit::Done)
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Valid => "valid",
        Standing::Expired(_) => "expired",
        Standing::Revoked(_) => "revoked",
    }
}

/// What it permits, in words.
fn rights(record: &Record) -> String {
    let reach = match &record.reach {
        Reach::All => "all exports".to_owned(),
        Reach::Only(parts) => {
            let of = |part: &Part| match part.below.as_str() {
                "" => part.shown(),
                below => format!("{} below {}", part.shown(), Escaped(below.as_bytes())),
            };
            parts.iter().map(of).collect::<Vec<_>>().join(", ")
        }
    };
    match record.bits_per_s_max {
        Some(bits) => format!("{reach}, at most {}", units::bit_rate(bits as f64)),
        None => reach,
    }
}

fn ends(record: &Record) -> String {
    record.expires_at.map_or("no end".to_owned(), |at| format!("ends {}", moment(at)))
}

fn moment(seconds_since_1970: u64) -> String {
    units::moment(i64::try_from(seconds_since_1970).unwrap_or(0))
}
