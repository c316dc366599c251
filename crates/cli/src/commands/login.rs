//! `thalweg login` and `thalweg logout`: tokens of an identity provider, for all commands of this user.

use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{json, out, show, signals, units};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_cli::args::login::LoginArgs;
use thalweg_client::login::{Account, TakenBack};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Pass;

/// Logs in at an issuer that a place file names.
///
/// # Errors
/// As [`Account::log_in`]; `Usage` where no place file says how.
pub fn login(args: &LoginArgs, places: &Places) -> Result<Exit> {
    // One at a time is approved.
    let account = accounts(args, places)?.swap_remove(0);
    let stop = Arc::new(AtomicBool::new(false));
    signals::flag_on(stop.clone())?;
    let (issuer, client) = (account.issuer(), account.client());
    let logged_in = account.log_in(
        |asked| {
            let within = units::time(asked.lasts.as_secs_f64());
            show::line(&format!(
                "open {} and approve the code {}, within {within}",
                asked.address, asked.user_code
            ));
            if let Some(address) = &asked.address_with_code {
                show::line(&format!("or open {address}, and see that it shows that code"));
            }
            if args.json {
                json::tell(&json!({
                    "event": "login", "issuer": issuer, "client": client, "url": asked.address,
                    "url_with_code": asked.address_with_code, "code": asked.user_code,
                    "expires_in_s": asked.lasts.as_secs(),
                }));
            }
            Ok(())
        },
        &|| stop.load(Ordering::Acquire),
    )?;
    let told = match args.json {
        true => json::line(&json!({
            "event": "logged-in", "issuer": issuer, "client": client, "expires_at": logged_in.ends_at,
            "renews": logged_in.renews,
        })),
        false => out::line(&match logged_in.renews {
            true => format!("logged in at {issuer}, until `thalweg logout` or as long as it permits"),
            false => {
                format!("logged in at {issuer}, until the token ends: it gives nothing to have another by")
            }
        }),
    };
    out::answered(told, Exit::Done)
}

/// Forgets the logins at the issuers that a place file names, and has them taken back.
///
/// # Errors
/// `NotFound` if nobody is logged in; `Usage` where no place file says how; what the file system says, of one login:
/// where there are several that is told, and the others are forgotten.
pub fn logout(args: &LoginArgs, places: &Places) -> Result<Exit> {
    let (mut exit, mut were_there) = (Exit::Done, false);
    let accounts = accounts(args, places)?;
    for account in &accounts {
        let taken_back = match account.log_out() {
            Ok(Some(taken_back)) => taken_back,
            Ok(None) => continue,
            // The others are no less to be forgotten.
            Err(failure) if accounts.len() > 1 => {
                (exit, were_there) = (Exit::Partial, true);
                if args.json {
                    json::tell(&json::error(&failure, None));
                }
                show::failure(&failure);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        were_there = true;
        let (issuer, client) = (account.issuer(), account.client());
        let how = match &taken_back {
            TakenBack::Yes => "and it took back what it gave",
            TakenBack::NoPlace => "which takes nothing back: what it gave is good until it ends",
            TakenBack::Failed(failure) => {
                show::failure(failure);
                exit = Exit::Partial;
                "which was not told: what it gave is good until it ends"
            }
        };
        let told = match args.json {
            true => json::line(&json!({
                "event": "logged-out", "issuer": issuer, "client": client,
                "revoked": matches!(taken_back, TakenBack::Yes),
            })),
            false => out::line(&format!("logged out at {issuer}, {how}")),
        };
        told?;
    }
    if !were_there {
        let issuers: Vec<String> = accounts.iter().map(|account| format!("`{}`", account.issuer())).collect();
        let cause = format!("nobody is logged in at {}", issuers.join(", "));
        return Err(Failure::new(FailureKind::NotFound, "log out", cause));
    }
    out::answered(out::flush(), exit)
}

/// One at least: those of the place file, or the one that was asked for.
fn accounts(args: &LoginArgs, places: &Places) -> Result<Vec<Account>> {
    let usage = |cause: &str| Failure::new(FailureKind::Usage, "read the command line", cause);
    let of_place = match args.place.as_ref().map(|place| Place::parse(place, places)).transpose()? {
        Some(Place::Daemon { ticket, .. }) => ticket,
        Some(_) => return Err(usage("a login is for a daemon: name a place at one, or its place file")),
        None => None,
    };
    let path = of_place.as_deref().or(args.ticket.as_deref());
    let path = path.ok_or_else(|| {
        usage(
            "name the place file of the daemon with --ticket, THALWEG_TICKET or `ticket` of its [place.NAME]",
        )
    })?;
    let refuse = |why: &str| failure::at_path(usage(why), path);
    let Pass::Place(place) = Pass::read(path)? else {
        return Err(refuse("it is a ticket, which is shown as it is: a login is for a place file"));
    };
    let mut accounts = Account::all_of(&place)?;
    accounts.retain(|account| args.issuer.as_deref().is_none_or(|asked| asked == account.issuer()));
    match accounts.is_empty() {
        true => Err(refuse(
            "it does not say how one logs in there: have a token in another way, or ask who runs the daemon \
             (`client` in the file of --issuers)",
        )),
        false => Ok(accounts),
    }
}
