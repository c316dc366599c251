//! `thalweg login` and `thalweg logout`: tokens of an identity provider, for all commands of this user.

use crate::exit::Exit;
use crate::place::{Place, Places};
use crate::{json, out, show, signals, units};
use serde_json::json;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_cli::args::login::{LoginArgs, LogoutArgs};
use thalweg_client::login::{Account, TakenBack, counts_before};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Pass;
use thalweg_sys::socket::{Interest, poll};
use thalweg_wire::path::Escaped;

/// Logs in at an issuer that a place file names.
///
/// # Errors
/// As [`Account::log_in`]; `Usage` where no place file says how.
pub fn login(args: &LoginArgs, places: &Places) -> Result<Exit> {
    // One at a time is approved.
    let (mut accounts, path) = accounts(args, places)?;
    let account = accounts.swap_remove(0);
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
        &|| stop.load(Ordering::Acquire) || is_unheard(args.json),
    )?;
    if let Some(place) = counts_before() {
        show::line(&format!("warning: {place} has a token, which counts before this login: remove it"));
    }
    let at =
        format!("logged in at {issuer} for the daemon of {}", Escaped(path.as_os_str().as_encoded_bytes()));
    let told = match args.json {
        true => json::line(&json!({
            "event": "logged-in", "issuer": issuer, "client": client, "expires_at": logged_in.ends_at,
            "renews": logged_in.renews,
        })),
        false => out::line(&match logged_in.renews {
            true => format!("{at}, until `thalweg logout` or as long as it permits"),
            false => format!(
                "{at}, without a refresh token: log in again when the token ends; `offline_access` in `scopes` may \
                 give one"
            ),
        }),
    };
    out::answered(told, Exit::Done)
}

/// Whether nobody can read what is told any more: who came by ssh without a terminal, and went, leaves it asking else.
fn is_unheard(json: bool) -> bool {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let fd = if json { stdout.as_fd() } else { stderr.as_fd() };
    let polled = poll(&[(fd, Interest { read: false, write: false })], Some(Duration::ZERO));
    polled.is_ok_and(|found| found.iter().any(|found| found.error || found.hung_up))
}

/// Forgets the logins at the issuers that a place file names, or all, and has them taken back.
///
/// # Errors
/// `NotFound` if nobody is logged in; `Usage` where no place file says how; what the file system says, of one login:
/// where there are several that is told, and the others are forgotten.
pub fn logout(args: &LogoutArgs, places: &Places) -> Result<Exit> {
    let (mut exit, mut were_there) = (Exit::Done, false);
    let json = args.of.json;
    let found: Vec<Result<Account>> = match args.all {
        true => Account::all_kept()?,
        false => accounts(&args.of, places)?.0.into_iter().map(Ok).collect(),
    };
    let issuers: Vec<String> =
        found.iter().flatten().map(|account| format!("`{}`", account.issuer())).collect();
    let is_several = found.len() > 1;
    for account in found {
        let done = account.and_then(|account| account.log_out().map(|taken_back| (account, taken_back)));
        let (account, taken_back) = match done {
            Ok((account, Some(taken_back))) => (account, taken_back),
            Ok((_, None)) => continue,
            // The others are no less to be forgotten.
            Err(failure) if is_several => {
                (exit, were_there) = (Exit::Partial, true);
                if json {
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
            TakenBack::Yes => "which gives no more tokens by that login; the last is good until it ends",
            TakenBack::NoPlace => "which cannot revoke: what it gave is good until it ends",
            TakenBack::Failed(failure) => {
                show::failure(failure);
                exit = Exit::Partial;
                "where it was not revoked: what it gave is good until it ends"
            }
        };
        let error = match &taken_back {
            TakenBack::Failed(failure) => Some(failure.to_string()),
            TakenBack::Yes | TakenBack::NoPlace => None,
        };
        let told = match json {
            true => json::line(&json!({
                "event": "logged-out", "issuer": issuer, "client": client,
                "revoked": matches!(taken_back, TakenBack::Yes), "error": error,
            })),
            false => out::line(&format!("logged out at {issuer}, {how}")),
        };
        told?;
    }
    if !were_there {
        let cause = match args.all {
            true => "you are not logged in anywhere".to_owned(),
            false => format!("you are not logged in at {} for this daemon", issuers.join(", ")),
        };
        return Err(Failure::new(FailureKind::NotFound, "log out", cause));
    }
    out::answered(out::flush(), exit)
}

/// One at least: those of the place file, or the one that was asked for; and that file.
fn accounts(args: &LoginArgs, places: &Places) -> Result<(Vec<Account>, PathBuf)> {
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
        false => Ok((accounts, path.to_owned())),
    }
}
