//! Options of the far sides: serve, and mover and deputy, which ssh starts.

use super::link::TlsArgs;
use super::slots::{SlotRate, parse_slot_rate};
use crate::args::whole;
use crate::units;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_service::sessions::HostLimits;

/// Sessions that a daemon may be told to serve: each has threads and descriptors of its own.
const SESSIONS_MAX: i128 = 4096;

/// Options of serve.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Where to listen, ADDRESS:PORT; port 0 lets the kernel choose. May be given several times
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:8487")]
    pub listen: Vec<String>,
    /// A directory that clients may use: NAME=DIR, or NAME=DIR:FLAG,... May be given several times. Flags: ro, they may
    /// only read; no-delete, they delete nothing; no-replace, what is there is never replaced; setid, files that they
    /// leave may have set-id bits and capabilities; min-free=SIZE or min-free=PERCENT%, so much of the file system is
    /// kept free; max-spill=SIZE, spill logs there have that instead of --max-spill; bwlimit=RATE, all transfers there
    /// together move no faster, with equal parts. A DIR whose own name ends like that is followed by :rw
    #[arg(long, value_name = "NAME=DIR[:FLAG,...]", required = true)]
    pub export: Vec<String>,
    /// Where the server keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Write what a client needs (addresses, fingerprint, key) here, readable by you only
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// Let in who shows a token of an identity provider (OpenID Connect): FILE says whose tokens are taken and what
    /// they give. A change counts at a reload, and ends what is under way with a token to which it gives something else
    /// or nothing
    #[arg(long, value_name = "FILE")]
    pub issuers: Option<PathBuf>,
    /// Write what a client with a token needs (addresses, fingerprint, issuers) here, for its --ticket; no secret is in
    /// it
    #[arg(long, value_name = "FILE")]
    pub place_file: Option<PathBuf>,
    /// Address that the ticket names instead of those of this machine, for --via ticket. May be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
    /// Keep a session without a link for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_time)]
    pub patience: Duration,
    /// Without a sign of life for so long, a link counts as lost
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_stall)]
    pub stall_timeout: Duration,
    /// Serve at most so many sessions at a time; a client beyond them is told that the server is busy
    #[arg(
        long,
        value_name = "N",
        default_value_t = HostLimits::SESSIONS,
        value_parser = whole::<usize>(1..=SESSIONS_MAX)
    )]
    pub max_sessions: usize,
    /// Serve at most so many of these from one address (of IPv6: one network of 64 bits) (default: half of them)
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=SESSIONS_MAX))]
    pub max_sessions_per_address: Option<usize>,
    /// Take at most so much memory for buffers of all sessions together, from 8MiB; a stream for which there is none is
    /// refused
    #[arg(long, value_name = "SIZE", value_parser = super::copy::parse_memory)]
    pub memory: Option<u64>,
    /// Move no faster than this, all sessions and both directions together; for instance 5Gbit/s. Sessions
    /// that move data have equal parts, and what one does not use is the others'. `thalweg limit PID RATE`
    /// changes it while the daemon runs, and a reload does. Not with --slots, whose promises it would break
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// Give the way to this server away in slots: streams that ask for one (`thalweg stream --slot`) get windows in
    /// which no other has one, or are refused. RATE is what the way carries, for instance 10Gbit/s; measure: four
    /// fifths of what this machine takes in, measured for some seconds at the start. What comes without a slot waits
    /// while somebody's window is open
    #[arg(long, value_name = "RATE|measure", value_parser = parse_slot_rate)]
    pub slots: Option<SlotRate>,
    /// Bytes of frames that all channels together may hold in memory; as much again is for what is under way from
    /// producers and to consumers (--window) (default: 1GiB, or in a control group an eighth of what it may have, if
    /// that is less)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub frames_memory: Option<u64>,
    /// The most that a client may let the spill log of a channel have (`frames --spill-size`); one that asks for
    /// more is refused. A recorded log keeps what it has. max-spill of an export takes precedence
    #[arg(long, value_name = "SIZE", default_value = "64GiB", value_parser = super::frames::parse_spill)]
    pub max_spill: u64,
    /// A consumer of frames with --policy block that takes nothing may hold producers up for so long: after that the
    /// oldest frames are dropped for it, each is named to it, and producers are told, until it takes something. At
    /// least 5s (default: as long as it is there)
    #[arg(long, value_name = "TIME", value_parser = units::parse_block_max)]
    pub block_max: Option<Duration>,
    /// Write a log to stderr in this form, with a line for each transfer when it is over: what THALWEG_LOG asks for,
    /// else as THALWEG_LOG=info. Without it there is a log, for people, where THALWEG_LOG is set
    #[arg(long, value_name = "FORM", value_enum)]
    pub log_format: Option<LogFormat>,
    /// Answer Prometheus at this address, in clear and without a ticket, for instance 127.0.0.1:9487: what the daemon
    /// counts (`GET /metrics`), and whether it accepts (`GET /healthz`). Port 0 lets the kernel choose (default: none)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<String>,
    /// Let clients send this daemon to these other daemons, of which each has the port of daemons if it names none: for
    /// copies between an export here and one there (`thalweg cp tw://... tw://...`), which it then runs. With any it
    /// dials wherever a client says. Not with --slots (default: to none)
    #[arg(long, value_name = "HOST[:PORT]|any", value_delimiter = ',')]
    pub errands: Vec<String>,
    /// Refuse transfers of clients that do not ask for TLS records (`--cipher tls`)
    #[arg(long)]
    pub require_tls: bool,
    /// For clients that ask for TLS records.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// An object of JSON on each line
    Json,
}

/// Options of mover. Nothing secret is among them.
#[derive(Debug, clap::Args)]
pub struct MoverArgs {
    /// Bridge stdin and stdout to this port of the loopback
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(1..=65_535))]
    pub bridge: Option<u16>,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Options of deputy. All else is in the errand.
#[derive(Debug, clap::Args)]
pub struct DeputyArgs {
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}
