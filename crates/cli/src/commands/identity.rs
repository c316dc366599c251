//! `thalweg identity`: whom receipts of this user, or of a server, name as who signed.

use super::serve;
use crate::exit::Exit;
use crate::{json, out};
use serde_json::json;
use std::path::Path;
use thalweg_cli::args::identity::IdentityArgs;
use thalweg_client::identity;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Identity, Pass};
use thalweg_wire::hex::hex;
use thalweg_wire::path::Escaped;

/// Prints fingerprint, public key and certificate; of a ticket, or a place file, the fingerprint of its server.
///
/// # Errors
/// `NotFound` if no server ever was there; `Permission` if a key is closed to this user, open to others, or cannot be
/// kept; `Usage` for a file that is none.
pub fn identity(args: &IdentityArgs) -> Result<Exit> {
    if let Some(ticket) = &args.of_ticket {
        let fingerprint = Pass::read(ticket)?.server().to_string();
        let told = match args.json {
            true => json::line(&json!({
                "event": "identity", "fingerprint": fingerprint, "public_key": null, "certificate": null,
            })),
            false => out::line(&format!("fingerprint  {fingerprint}")),
        };
        return out::answered(told, Exit::Done);
    }
    let state = args.state.as_deref();
    let identity = match args.server {
        // Whoever only asks makes no directory.
        true => Identity::load(&identity::state_path(state)?.join(serve::IDENTITY))?,
        false => own(&identity::state_directory(state)?)?,
    };
    let (fingerprint, certificate) = (identity.fingerprint().to_string(), identity.certificates_pem());
    let key = hex(&identity.public_key());
    let told = match args.json {
        true => json::line(&json!({
            "event": "identity", "fingerprint": fingerprint, "public_key": key, "certificate": certificate,
        })),
        false => {
            out::write(format!("fingerprint  {fingerprint}\npublic key   {key}\n{certificate}").as_bytes())
        }
    };
    out::answered(told, Exit::Done)
}

/// That of the user. One that signs nothing tomorrow is nothing to tell anybody.
fn own(state: &Path) -> Result<Identity> {
    let own = identity::own(state)?;
    if own.signatory().is_ephemeral {
        let cause = format!("no key can be kept in `{}`", Escaped(state.as_os_str().as_encoded_bytes()));
        return Err(Failure::new(FailureKind::Permission, "make identity", cause));
    }
    Ok(own)
}
