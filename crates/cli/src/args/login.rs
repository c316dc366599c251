//! Options of login and logout.

use crate::exit;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of login, which logout has as well.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct LoginArgs {
    /// A place at the daemon, tw://HOST[:PORT]/EXPORT/PATH or @NAME: its place file is the `ticket` of its
    /// [place.NAME], else that of --ticket
    #[arg(value_name = "PLACE")]
    pub place: Option<OsString>,
    /// The place file that `thalweg serve` wrote: it says whose tokens are taken there, and how one logs in
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Where the place file names several issuers, this one (default: to log in the first that has logins, to log out
    /// all)
    #[arg(long, value_name = "URL")]
    pub issuer: Option<String>,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of logout.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct LogoutArgs {
    /// Of which daemon and issuer.
    #[command(flatten)]
    pub of: LoginArgs,
    /// All logins that are kept, whatever their place files say by now; --ticket is not asked then
    #[arg(long, conflicts_with_all = ["place", "issuer"])]
    pub all: bool,
}
