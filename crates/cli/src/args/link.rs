//! Options of links: how a far place is reached, ssh, and streams in TLS form.

use crate::args::whole;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::far_movers::SshOptions;
use thalweg_mover::link::ktls::{RECORDS_MAX, RECORDS_MIN};
use thalweg_mover::link::{KernelTls, TlsForm};
use thalweg_wire::message::is_congestion_name;

/// How a far place is reached, and for how long: of commands that keep a link standing.
#[derive(Debug, clap::Args)]
pub struct LinkArgs {
    /// TCP connections (default: by round trip and cores)
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=256))]
    pub streams: Option<u16>,
    /// How its streams answer congestion.
    #[command(flatten)]
    pub congestion: CongestionArgs,
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Drop a link that acknowledges nothing for so long, and dial again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_time)]
    pub stall_timeout: Duration,
    /// Give up without progress for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_time)]
    pub patience: Duration,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// How data streams answer congestion.
#[derive(Debug, clap::Args)]
pub struct CongestionArgs {
    /// Congestion control of the side that sends, for instance cubic or bbr
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    pub cca: Option<String>,
}

/// Options for places that ssh reaches.
#[derive(Debug, clap::Args)]
pub struct SshArgs {
    /// The ssh to start, with its options; split into words, never given to a shell
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub rsh: OsString,
    /// Port of sshd
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(1..=65_535))]
    pub port: Option<u16>,
    /// The thalweg to start at the far side
    #[arg(long, value_name = "PROGRAM", default_value = "thalweg")]
    pub far_path: OsString,
    /// Ports that the far side may listen at, if a firewall lets only some through
    #[arg(long, value_name = "LOW-HIGH", value_parser = parse_ports)]
    pub far_ports: Option<(u16, u16)>,
    /// If the far side has no thalweg, place our own static one in its user's cache
    #[arg(long)]
    pub bootstrap: bool,
    /// Data ride in ssh, as they do when every port is shut
    #[arg(long, hide = true)]
    pub via_ssh: bool,
}

impl SshArgs {
    /// As the library takes them.
    pub fn options(&self) -> SshOptions {
        SshOptions {
            rsh: self.rsh.clone(),
            port: self.port,
            far_path: self.far_path.clone(),
            far_ports: self.far_ports,
            bootstrap: self.bootstrap,
            via_ssh: self.via_ssh,
            ..SshOptions::default()
        }
    }
}

/// How streams in TLS form are, of either side.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct TlsArgs {
    /// With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to
    /// be faster, wherever the kernel can, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub ktls: KtlsArg,
    /// With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640,
    /// which is short of what a key may seal
    #[arg(long, value_name = "COUNT", default_value_t = RECORDS_MAX,
          value_parser = whole::<u64>(i128::from(RECORDS_MIN)..=i128::from(RECORDS_MAX)))]
    pub tls_records: u64,
}

impl TlsArgs {
    /// As the mover takes it.
    pub fn form(self) -> TlsForm {
        let kernel = match self.ktls {
            KtlsArg::Auto => KernelTls::Auto,
            KtlsArg::On => KernelTls::On,
            KtlsArg::Off => KernelTls::Off,
        };
        TlsForm { kernel, records_max: self.tls_records }
    }
}

/// Whether the kernel seals TLS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KtlsArg {
    /// Where it was measured to be faster
    Auto,
    /// Wherever the kernel can
    On,
    /// Never
    Off,
}

fn parse_congestion(text: &str) -> Result<String, String> {
    match is_congestion_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name of at most 15 letters, digits, `_` and `-`".into()),
    }
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let odd = || "two ports, LOW-HIGH".to_owned();
    let (low, high) = text.split_once('-').ok_or_else(odd)?;
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if 0 < low && low <= high => Ok((low, high)),
        _ => Err(odd()),
    }
}
