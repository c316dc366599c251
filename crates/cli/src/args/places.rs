//! Options of what looks at places: ls, du, cat, rm, check, verify, gc.

use super::filters::FilterArgs;
use super::jobs::StatedJobArgs;
use super::link::{FamilyArgs, SshArgs};
use crate::place::Places;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::far_movers::{FarMovers, How};
use thalweg_client::options::knobs;
use thalweg_client::verify::{SampleSize, parse_key, parse_seed, parse_size};
use thalweg_mover::run::client::LinkSettings;
use thalweg_wire::message::PartOf;

/// Options of everything that only asks.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Which addresses are dialled.
    #[command(flatten)]
    pub family: FamilyArgs,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

impl AskArgs {
    /// How far movers are reached.
    pub fn how(&self, places: &Places) -> How {
        let how = How::to_ask(places, self.ticket.as_deref(), self.ssh.options());
        How { family: self.family.only(), ..how }
    }

    /// The far movers of its places.
    pub fn far_movers(&self, places: &Places) -> FarMovers {
        FarMovers::new(self.how(places))
    }
}

/// For how long a link that is lost is dialled again.
#[derive(Debug, clap::Args)]
pub struct PatienceArgs {
    /// Give up without progress for so long: a link that is lost is dialled again until then
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_stall)]
    pub patience: Duration,
}

impl PatienceArgs {
    /// The far movers of places that are asked about: as long as we dial one again, ssh's waits for us.
    pub fn far_movers(&self, ask: &AskArgs, places: &Places) -> FarMovers {
        let patience = self.patience;
        let questions = LinkSettings { patience, ..LinkSettings::default() };
        FarMovers::new(How { patience, questions, ..ask.how(places) })
    }
}

/// Options of ls.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY; tw://HOST[:PORT]/ alone has exports
    #[arg(value_name = "PLACE", default_value = ".")]
    pub place: OsString,
    /// With kind, mode, owner, bytes and time
    #[arg(short = 'l', long)]
    pub long: bool,
    /// All levels
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// What symbolic links lead to instead of the links. From a daemon none that leads out of its export
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// For how long a lost link is waited for.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of du.
#[derive(Debug, clap::Args)]
pub struct DuArgs {
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY
    #[arg(value_name = "PLACE", default_value = ".")]
    pub place: OsString,
    /// Only the sum. Always on; accepted for your fingers, as is `-h` beside it
    #[arg(short = 's', long)]
    pub summarize: bool,
    /// What symbolic links lead to instead of the links. From a daemon none that leads out of its export
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// For how long a lost link is waited for.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of cat.
#[derive(Debug, clap::Args)]
pub struct CatArgs {
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY
    #[arg(value_name = "PLACE", required = true)]
    pub places: Vec<OsString>,
    /// For how long a lost link is waited for.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of rm.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A link that is lost ends it, and it does not ask again: what it was to remove may be gone by then, \
and what has the name somebody else's. The same command removes what is left."
)]
pub struct RmArgs {
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY
    #[arg(value_name = "PLACE", required = true)]
    pub places: Vec<OsString>,
    /// Directories, with everything in them
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of check.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0 if both are the same, with 2 if not. With --sample nothing is known of the content of \
files that were not drawn."
)]
pub struct CheckArgs {
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY. Names are relative to it, as of a copy
    /// of `SRC/`
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY; none with --sums
    #[arg(value_name = "DST", required_unless_present = "sums", conflicts_with = "sums")]
    pub destination: Option<OsString>,
    /// Compare the files of SRC with this list (`-`: stdin), as `b3sum` or `thalweg verify --as-b3sum` writes it; names
    /// in it are relative to SRC. What is not in it is not looked for
    #[arg(long, value_name = "FILE")]
    pub sums: Option<PathBuf>,
    /// FIFOs and device nodes too, which a copy without --devices leaves out
    #[arg(short = 'D', long)]
    pub devices: bool,
    /// What symbolic links lead to instead of the links, at both places, as `cp -L` copies it. From a daemon none that
    /// leads out of its export. With --sums always so
    #[arg(short = 'L', long)]
    pub copy_links: bool,
    /// Compare the content of only so many files, or of this share of them (5%, 0.05), drawn by a seed; of all others
    /// name, kind and size. Says how many different files that would have shown
    #[arg(long, value_name = "SHARE|N", value_parser = parse_size, conflicts_with = "sums")]
    pub sample: Option<SampleSize>,
    /// Draw them by this seed: of the same names it draws the same files. Default: a random one, which is told
    #[arg(long, value_name = "SEED", value_parser = parse_seed, requires = "sample")]
    pub seed: Option<String>,
    /// Compare part K of N alone: names are dealt as those of a copy with --part, so that N hosts that see the same
    /// trees share a comparison. Places at several hosts, as cp takes them, are compared so by one command
    #[arg(long, value_name = "K/N", value_parser = knobs::parse_part)]
    pub part: Option<PartOf>,
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// For how long a lost link is waited for.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whether it is a job.
    #[command(flatten)]
    pub stated: StatedJobArgs,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of verify.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0 if everything is as the receipt says, with 2 if something is missing (or \
extra, with --strict), failed when it was copied, has content of which the receipt has no digest, or is of a \
part whose receipt is not named, with 4 if something is damaged, or the receipt is not what was signed, or not \
by whom was expected. With --sample nothing is known of the content of files that were not drawn."
)]
pub struct VerifyArgs {
    /// What `--receipt` wrote, of the parts of a copy all of them; then where it was copied to: PATH, [USER@]HOST:PATH,
    /// tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY
    #[arg(value_name = "RECEIPT... PLACE", required = true, num_args = 1..)]
    pub words: Vec<OsString>,
    /// Look at no place: say what the receipt certifies (when, from where, to where, how far it was verified, how much,
    /// who signed), if it is what was signed
    #[arg(long, conflicts_with_all = ["strict", "as_b3sum"])]
    pub show: bool,
    /// Also report what is there and not in the receipt, or in none of them
    #[arg(long)]
    pub strict: bool,
    /// Read only so many files, or this share of them (5%, 0.05), drawn by a seed; of all others look at name, kind and
    /// size. Says how many damaged files that would have shown
    #[arg(long, value_name = "SHARE|N", value_parser = parse_size, conflicts_with_all = ["show", "as_b3sum"])]
    pub sample: Option<SampleSize>,
    /// Draw them by this seed: with the same receipt it draws the same files. Default: a random one, which is told
    #[arg(long, value_name = "SEED", value_parser = parse_seed, requires = "sample")]
    pub seed: Option<String>,
    /// Look at no place: print the files of the receipt, if it is what was signed, as `b3sum --check` takes them
    #[arg(long, conflicts_with_all = ["strict", "json"])]
    pub as_b3sum: bool,
    /// Who may have signed as the sender: SHA-256 fingerprints of certificates (`thalweg identity`, or `openssl x509
    /// -in CERT -noout -fingerprint -sha256`) or Ed25519 public keys, in hexadecimal
    #[arg(long, value_name = "FINGERPRINT", value_delimiter = ',', value_parser = parse_key)]
    pub sender: Vec<String>,
    /// Who may have signed as the receiver, in the same form
    #[arg(long, value_name = "FINGERPRINT", value_delimiter = ',', value_parser = parse_key)]
    pub receiver: Vec<String>,
    /// Who may have signed on either side, in the same form. One of them may have signed for both
    #[arg(long, value_name = "FINGERPRINT", value_delimiter = ',', value_parser = parse_key)]
    pub keys: Vec<String>,
    /// For how long a lost link is waited for.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whether it is a job.
    #[command(flatten)]
    pub stated: StatedJobArgs,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of gc.
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// A directory of this machine; or s3://BUCKET[/PREFIX], where uploads that nobody completed are what is left
    #[arg(value_name = "DIR", required = true)]
    pub places: Vec<OsString>,
    /// Remove what no copy uses; without it only list. Copies that would resume from it begin anew
    #[arg(long)]
    pub yes: bool,
    /// Remove only what has not changed for so long, for instance 7d: a copy may still resume from the rest. In a
    /// bucket what was begun so long ago, by whatever program; without, only what copies with this state directory left
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub older_than: Option<Duration>,
    /// Where thalweg keeps its keys and what it remembers: which uploads to a bucket it left
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}
