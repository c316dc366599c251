//! The command line of `thalweg testbed`.

use crate::args::whole;
use crate::units;
use clap::Subcommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_lab::testbed::presets::{MTU_BYTES, PRESETS, RATE_KEPT_BITS_PER_S};
use thalweg_lab::testbed::spec::FRAMING_BYTES_MAX;

/// What to do with a testbed.
#[derive(Debug, Subcommand)]
pub enum TestbedCommand {
    /// Make hosts and join them by an emulated path
    #[command(after_help = presets())]
    Up(UpArgs),
    /// Run any program in a host; its exit code and signals are its own, and it ends with the testbed
    Run(RunArgs),
    /// Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to:
    /// at a faster rate what comes later waits for that, and comes all at once then
    Set(SetArgs),
    /// Show the path, what happened to packets, and what the wire costs
    Status(ShowArgs),
    /// Measure how well the path keeps what was asked. Uses it for some seconds
    Check(ShowArgs),
    /// Show all testbeds; what dead ones left is removed
    List(ListArgs),
    /// End the programs in it and remove it, also one that was killed
    Down(DownArgs),
    /// The process of a testbed; not for people
    #[command(hide = true)]
    Wire(WhichArgs),
    /// The process that ends programs in a testbed that was killed; not for people
    #[command(hide = true)]
    Warden(WhichArgs),
}

impl TestbedCommand {
    /// Whether results are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            TestbedCommand::Up(args) => args.json,
            TestbedCommand::Set(args) => args.json,
            TestbedCommand::Status(args) | TestbedCommand::Check(args) => args.json,
            TestbedCommand::List(args) => args.json,
            TestbedCommand::Run(_)
            | TestbedCommand::Down(_)
            | TestbedCommand::Wire(_)
            | TestbedCommand::Warden(_) => false,
        }
    }
}

/// The testbed that has no name of its own.
pub const NAME: &str = "testbed";

/// Which testbed.
#[derive(Debug, clap::Args)]
pub struct WhichArgs {
    /// Which testbed; several may be up at once
    #[arg(long, value_name = "NAME", default_value = NAME)]
    pub name: String,
    /// Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Options of the path, for `up` and `set`.
#[derive(Debug, clap::Args)]
pub struct PathArgs {
    /// A path from a paper: round trip time and rate, with `up` the MTU as well; other options change it further
    #[arg(long, value_name = "NAME", value_parser = parse_preset())]
    pub preset: Option<String>,
    /// Round trip time, half of it in each direction
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub rtt: Option<Duration>,
    /// Delay from left to right
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub forward_delay: Option<Duration>,
    /// Delay from right to left
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub back_delay: Option<Duration>,
    /// Delay varies by so much to either side, evenly; packets keep their order. Where one direction has no delay, that
    /// of the other
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub jitter: Option<Duration>,
    /// Jitter from left to right
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub forward_jitter: Option<Duration>,
    /// Jitter from right to left
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub back_jitter: Option<Duration>,
    /// Rate of the line in each direction, Ethernet framing counted [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: Option<u64>,
    /// Rate from left to right
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub forward_rate: Option<u64>,
    /// Rate from right to left
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub back_rate: Option<u64>,
    /// Share of packets that are lost, in each direction
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub loss: Option<f64>,
    /// Share of packets that are lost from left to right
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub forward_loss: Option<f64>,
    /// Share of packets that are lost from right to left
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub back_loss: Option<f64>,
    /// Share of packets that come late, so that others pass them
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub reorder: Option<f64>,
    /// How late [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub late_by: Option<Duration>,
    /// Share of packets that come twice
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub duplicate: Option<f64>,
    /// Bytes that may wait in front of the line in each direction; what does not fit is dropped
    /// [default: rate x round trip time, at least 256KiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub queue: Option<u64>,
    /// Bytes that may wait in front of the line from left to right
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub forward_queue: Option<u64>,
    /// Bytes that may wait in front of the line from right to left
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub back_queue: Option<u64>,
    /// Bytes that the line adds to each packet [default: 38, Ethernet]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>(0..=i128::from(FRAMING_BYTES_MAX)))]
    pub framing: Option<u32>,
}

/// Options of `testbed up`.
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Hosts on the left and on the right
    #[arg(long, value_name = "N+M", default_value = "1+1", value_parser = parse_hosts)]
    pub hosts: (u8, u8),
    /// MTU of every device, in bytes [default: the preset's, or 1500]
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>(0..))]
    pub mtu: Option<u32>,
    /// A kernel setting in every host, for instance net.ipv4.tcp_congestion_control=bbr. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_sysctl)]
    pub sysctl: Vec<(String, String)>,
    /// Buffers and congestion control in the hosts as Linux has them where nobody tuned; else they are this
    /// machine's
    #[arg(long, conflicts_with = "tuned")]
    pub stock: bool,
    /// Buffers and congestion control in the hosts as in 000 Table III
    #[arg(long)]
    pub tuned: bool,
    /// Seed of chance: the same packets at the same times meet the same fate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..))]
    pub seed: u64,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `testbed set`.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Take the limit of the rate away
    #[arg(long, conflicts_with_all = ["rate", "forward_rate", "back_rate"])]
    pub no_rate: bool,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `testbed run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// left, right; or left-2 of several
    #[arg(value_name = "SIDE")]
    pub host: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `testbed status` and `check`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `testbed list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `testbed down`.
#[derive(Debug, clap::Args)]
pub struct DownArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// All of them
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}

fn presets() -> String {
    let lines = PRESETS.iter().map(|preset| {
        let (rtt_ms, gbit) = (preset.rtt_ns as f64 / 1e6, preset.rate_bits_per_s as f64 / 1e9);
        let mtu = match preset.mtu_bytes {
            MTU_BYTES => String::new(),
            bytes => format!(", MTU {bytes}"),
        };
        format!("\n  {:<16} {rtt_ms:>6} ms  {gbit:>5} Gbit/s  {}{mtu}", preset.name, preset.source)
    });
    let kept = RATE_KEPT_BITS_PER_S as f64 / 1e9;
    format!(
        "Presets:{}\nOne thread carries each direction, and rates above {kept} Gbit/s were not measured to be kept (100 \
         Gbit/s no thread carries): put one that your machine keeps behind the preset with --rate.",
        lines.collect::<String>()
    )
}

fn parse_preset() -> clap::builder::PossibleValuesParser {
    use clap::builder::{PossibleValue, PossibleValuesParser};
    PossibleValuesParser::new(
        PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.source)),
    )
}

fn parse_hosts(text: &str) -> Result<(u8, u8), String> {
    let odd = || "hosts on the left and on the right, for instance 2+2".to_owned();
    let (left, right) = text.split_once('+').ok_or_else(odd)?;
    Ok((left.trim().parse().map_err(|_| odd())?, right.trim().parse().map_err(|_| odd())?))
}

fn parse_sysctl(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a setting is KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
