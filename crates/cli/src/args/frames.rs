//! The command line of `thalweg frames`.

use crate::args::jobs::StatedJobArgs;
use crate::args::link::{CongestionArgs, FamilyArgs, SshArgs, TypedWay, WayArgs};
use crate::args::{stream_count, whole};
use crate::exit;
use crate::units;
use clap::Subcommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::far_movers::{How, SshOptions};
use thalweg_client::frames::{ChannelWishes, FrameFrom, FramePolicy};
use thalweg_client::options::knobs;
use thalweg_client::place::Places;
use thalweg_mover::admission::SlotAsked;
use thalweg_wire::limits;

/// Frames of detectors, from memory to memory by way of a channel at a daemon.
#[derive(Debug, Subcommand)]
pub enum FramesCommand {
    /// Send files, or standard input, as frames
    Push(FramesPushArgs),
    /// Take frames, and write them into files as they come
    Pull(FramesPullArgs),
    /// How a channel stands: producers, consumers, how far they are behind, losses, tails
    Status(FramesStatusArgs),
}

impl FramesCommand {
    /// Whether events are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            FramesCommand::Push(args) => args.link.json,
            FramesCommand::Pull(args) => args.link.json,
            FramesCommand::Status(args) => args.json,
        }
    }
}

/// The way to a channel, and how it is kept.
#[derive(Debug, clap::Args)]
pub struct ChannelArgs {
    /// Before the options themselves, for what is read of them is taken.
    #[command(flatten)]
    pub typed: TypedWay,
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Bytes that are under way and not taken, from 64KiB to 256MiB, or one larger frame. No more than this goes in
    /// each round trip; the hub gives a new one at most a quarter of what is left (`thalweg serve --frames-memory`)
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_window)]
    pub window: u64,
    /// TCP connections (default: by round trip and cores, at most 4)
    #[arg(long, value_name = "N", value_parser = stream_count())]
    pub streams: Option<u16>,
    /// How its streams answer congestion.
    #[command(flatten)]
    pub congestion: CongestionArgs,
    /// Which ways they take.
    #[command(flatten)]
    pub way: WayArgs,
    /// Which addresses are dialled.
    #[command(flatten)]
    pub family: FamilyArgs,
    /// If this opens the channel: bytes of frames that the hub holds in memory (default: 256MiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_window_min)]
    pub memory: Option<u64>,
    /// Have the hub write every frame to the spill log: late consumers replay it, and a hub that was killed goes on
    /// from it
    #[arg(long)]
    pub record: bool,
    /// If this opens the spill log: the most that it may have (default: 16GiB); beyond, or beyond 1048576 frames, the
    /// oldest are forgotten. A recorded log never gets less than it had
    #[arg(long, value_name = "SIZE", value_parser = parse_spill)]
    pub spill_size: Option<u64>,
    /// If this opens the channel, or pushes to it: frames that come while nobody consumes go nowhere, rather than wait;
    /// nor do those of others wait any more that did
    #[arg(long)]
    pub unattended: bool,
    /// Drop a link that acknowledges nothing for so long, and dial again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_stall)]
    pub stall_timeout: Duration,
    /// Give up when there was no link for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_time)]
    pub patience: Duration,
    /// Only errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Events as JSON, one a line, on stdout; on stderr if stdout is the destination
    #[arg(long)]
    pub json: bool,
}

impl ChannelArgs {
    /// How the far mover is reached.
    pub fn how(&self, places: &Places) -> How {
        let how = self.way.on(How::to_ask(places, self.ticket.as_deref(), SshOptions::default()));
        let family = self.family.only();
        How { patience: self.patience, stall_timeout: self.stall_timeout, family, ..how }
    }

    /// How the channel shall be kept.
    pub fn wishes(&self) -> ChannelWishes {
        ChannelWishes {
            memory_bytes: self.memory,
            is_recorded: self.record,
            spill_bytes: self.spill_size,
            is_unattended: self.unattended,
        }
    }
}

/// Options of frames push.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct FramesPushArgs {
    /// Files, - for standard input, then the channel: tw://HOST[:PORT]/EXPORT/NAME or @NAME/PATH
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub places: Vec<OsString>,
    /// Cut what is read into frames of so many bytes. A last one that has fewer is sent as it is, and told (exit 2)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size,
        required_unless_present_any = ["index", "framed"])]
    pub frame_bytes: Option<u64>,
    /// The files are indexes that `frames pull` wrote: send the frames that they name, with the times at which these
    /// were made; with --frames-per-s as if they were made now
    #[arg(long, conflicts_with_all = ["frame_bytes", "dtype", "shape"])]
    pub index: bool,
    /// What is read has each frame behind a line of JSON, as another program writes it into a pipe: its bytes, and its
    /// set, time, deadline, type, shape and metadata as far as it has them
    #[arg(long, conflicts_with_all = ["frame_bytes", "index", "dtype", "shape", "set"])]
    pub framed: bool,
    /// Type of an element, as NumPy writes it, for instance <u2
    #[arg(long, value_name = "DTYPE", default_value = "")]
    pub dtype: String,
    /// Elements along each axis, slowest first, for instance 2048,2048
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = whole::<u64>(0..))]
    pub shape: Vec<u64>,
    /// All of it is this set, and its consumers are told whether they got the whole
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(0..))]
    pub set: Option<u64>,
    /// The set has so many frames, 1 to 1048576 (default: as the sizes of the files say). Say it for a pipe: consumers
    /// are told what is missing if this is killed. If there are fewer the exit code is 2, and if there are more, which
    /// are not sent
    #[arg(long, value_name = "N", requires = "set",
        value_parser = whole::<u32>(1..=i128::from(limits::SET_FRAMES_MAX)))]
    pub set_frames: Option<u32>,
    /// Name of this producer: one that comes again under its name goes on with its sequence (default: a random one)
    #[arg(long, value_name = "NAME")]
    pub producer: Option<String>,
    /// Go on where a push of the same files under this --producer ended, also one that was killed: leave out as many
    /// frames as the hub has of it. The name has to be of this push alone: if the files have fewer frames, the exit
    /// code is 5. A set that was begun is over a minute after a kill, and takes no more. Without this they are sent
    /// once more, as further frames
    #[arg(long, requires = "producer")]
    pub resume: bool,
    /// A frame counts as sent when it is synced in the spill log of the hub, not when the hub holds it. Implies
    /// --record
    #[arg(long)]
    pub durable: bool,
    /// Nanoseconds, micro- or milliseconds, ... in which a frame should be with its consumers. Those that come later
    /// are counted, not dropped
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub deadline: Option<Duration>,
    /// Send so many frames a second, as far as they can be had. Each counts as made when it was due, also if it goes
    /// later
    #[arg(long, value_name = "N", value_parser = parse_frames_per_s)]
    pub frames_per_s: Option<f64>,
    /// Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all
    /// the time, and are to be at the hub within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be
    /// promised is refused, with by how much it does not fit or what would
    #[arg(long, value_name = "PERIOD:BYTES:DEADLINE|RATE:DEADLINE", value_parser = units::parse_slot)]
    pub slot: Option<SlotAsked>,
    /// Whether it is a job.
    #[command(flatten)]
    pub stated: StatedJobArgs,
    /// The way, and the channel.
    #[command(flatten)]
    pub link: ChannelArgs,
}

/// Options of frames pull.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct FramesPullArgs {
    /// The channel: tw://HOST[:PORT]/EXPORT/NAME or @NAME/PATH; with --hub its name alone
    #[arg(value_name = "PLACE")]
    pub place: OsString,
    /// Directory for the files, - for the bare payloads to standard output, or null:
    #[arg(value_name = "DIR")]
    pub directory: OsString,
    /// To standard output (-): each frame behind a line of JSON, for another program to read; lines of their own say
    /// what was lost, and which sets are over
    #[arg(long, conflicts_with_all = ["every", "file_name"])]
    pub framed: bool,
    /// Frames of a file; the end of a set ends one too (default: all in one)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..))]
    pub every: u64,
    /// What the files are called: NAME-000000.raw, and NAME-000000.jsonl beside it
    #[arg(long, value_name = "NAME", default_value = "frames", value_parser = parse_name)]
    pub file_name: String,
    /// When this is slower than the producers: block (they wait), spill (the hub writes what its memory does not hold),
    /// drop-oldest, drop-oldest:N (at most N frames behind), latest-only
    #[arg(long, value_name = "POLICY", default_value = "block", value_parser = parse_policy)]
    pub policy: FramePolicy,
    /// Share the frames with all others of this group: each goes to one
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Begin with everything that is there (start), with what comes (now), or with this sequence of each producer
    #[arg(long, value_name = "start|now|SEQUENCE", default_value = "start", value_parser = parse_from)]
    pub from: FrameFrom,
    /// End when so many producers have finished, and all that are known
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(0..))]
    pub producers: u32,
    /// End after so many frames
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..))]
    pub count: Option<u64>,
    /// A name to come back under: a pull that was killed or stopped, or had its --count, goes on behind what it had put
    /// away, within --keep
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// For so long the hub keeps the place of a consumer whose link was closed, as by a kill; in an outage as long as
    /// its --patience, if that is longer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_time)]
    pub keep: Duration,
    /// What the link could carry, for instance 10Gbit/s: with it the end has a Streaming Speed Score
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub link_rate: Option<u64>,
    /// Have the hub in this process, without a daemon: frames are taken out of its memory, with one hop less. It makes
    /// DIR/ticket, which producers need, and keeps spill logs in DIR/spill; it ends with this command
    #[arg(long, value_name = "DIR")]
    pub hub: Option<PathBuf>,
    /// Where that hub listens (default: 127.0.0.1:0, the kernel chooses the port; the place to push to is told)
    #[arg(long, value_name = "ADDRESS:PORT", requires = "hub")]
    pub listen: Option<String>,
    /// The way, and the channel.
    #[command(flatten)]
    pub link: ChannelArgs,
}

/// Options of frames status.
#[derive(Debug, clap::Args)]
pub struct FramesStatusArgs {
    /// The channel
    #[arg(value_name = "PLACE")]
    pub place: OsString,
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Which addresses are dialled.
    #[command(flatten)]
    pub family: FamilyArgs,
    /// As JSON, one object
    #[arg(long)]
    pub json: bool,
}

fn parse_window(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::lane)
}

fn parse_window_min(text: &str) -> Result<u64, String> {
    at_least(limits::LANE_BYTES_MIN, text)
}

/// Bytes of a spill log.
pub fn parse_spill(text: &str) -> Result<u64, String> {
    at_least(limits::SPILL_BYTES_MIN, text)
}

fn at_least(least: u64, text: &str) -> Result<u64, String> {
    let bytes = units::parse_size(text)?;
    if bytes >= least { Ok(bytes) } else { Err(format!("{} or more", units::typed_size(least))) }
}

fn parse_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_plain = !text.is_empty() && text.len() <= 100 && !text.starts_with('.') && text.chars().all(plain);
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err("letters, digits, `-`, `_` and `.`, and no `.` first".into())
    }
}

/// The policies by their names; `drop-oldest` is also told with a depth.
pub const POLICIES: [&str; 4] = ["block", "spill", "drop-oldest", "latest-only"];

fn parse_policy(text: &str) -> Result<FramePolicy, String> {
    match text {
        "block" => Ok(FramePolicy::Block),
        "spill" => Ok(FramePolicy::Spill),
        "drop-oldest" => Ok(FramePolicy::DropOldest { depth: 0 }),
        "latest-only" => Ok(FramePolicy::LatestOnly),
        _ => {
            let depth = text.strip_prefix("drop-oldest:").and_then(|depth| depth.parse().ok());
            let depth = depth.filter(|&depth| depth > 0);
            let known = "block, spill, drop-oldest, drop-oldest:N or latest-only";
            depth.map(|depth| FramePolicy::DropOldest { depth }).ok_or_else(|| known.to_owned())
        }
    }
}

fn parse_from(text: &str) -> Result<FrameFrom, String> {
    match text {
        "start" => Ok(FrameFrom::Start),
        "now" => Ok(FrameFrom::Now),
        _ => text.parse().map(FrameFrom::Sequence).map_err(|_| "start, now, or a sequence number".to_owned()),
    }
}

fn parse_frames_per_s(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a number of frames a second".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("more than nothing".to_owned()) }
}
