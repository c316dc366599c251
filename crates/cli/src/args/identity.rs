//! Options of identity.

use std::path::PathBuf;

/// Options of identity.
#[derive(Debug, clap::Args)]
#[command(after_help = "What it prints is no secret. `openssl x509` reads the certificate in it.")]
pub struct IdentityArgs {
    /// A ticket or a place file that `thalweg serve` wrote: print the fingerprint of that server. It signs with its
    /// key, you with your own and not with that of the ticket
    #[arg(value_name = "TICKET", conflicts_with = "server")]
    pub of_ticket: Option<PathBuf>,
    /// Print the identity of the server whose state directory this is, not that of the user
    #[arg(long)]
    pub server: bool,
    /// Where the keys are. That of the user is made there if there is none
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}
