//! Options of doctor.

use crate::args::link::FamilyArgs;
use crate::exit;
use crate::units;
use std::net::SocketAddrV6;
use std::path::PathBuf;
use thalweg_mover::link::Family;
use thalweg_mover::model::loss::BBR_LOSS_MAX;

/// Options of doctor.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct DoctorArgs {
    /// Directories that data are read from or written to: their disks are measured for some five seconds each, with a
    /// file of 256 MiB at most that has no name, written over as often as the disk is quick
    #[arg(value_name = "DIR")]
    pub paths: Vec<PathBuf>,
    /// Measure the round trip time and the MTU of the path to an open TCP port of another machine, the MTU by datagrams
    /// to its port 33434; buffers are judged by that round trip time
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_to)]
    pub to: Option<String>,
    /// With --to, dial only addresses of IPv4
    #[arg(short = '4', long, requires = "to", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// With --to, dial only addresses of IPv6
    #[arg(short = '6', long, requires = "to")]
    pub ipv6: bool,
    /// Try what is proposed in a testbed, before against after (at the round trip time of --to, else 50 ms; at the rate
    /// of the line up to 4 Gbit/s, 1 Gbit/s where no card says), and recommend only what helps; with --apply, change
    /// only that. Needs root and takes up to three minutes for each trial
    #[arg(long, conflicts_with = "undo")]
    pub prove: bool,
    /// With --prove, share of packets that the path loses at random, up to 0.05 [default: what this machine sent again
    /// since boot, if that is more than 4.6e-5; else none]
    #[arg(long, value_name = "SHARE", requires = "prove", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// Change kernel settings, also for the next start (a file of sysctl.d), and write a tuned profile; say what was
    /// changed
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Put back what was there before --apply
    #[arg(long, conflicts_with_all = ["paths", "to"])]
    pub undo: bool,
    /// Explain what is good as well
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Tell results as JSON, one object on a line
    #[arg(long)]
    pub json: bool,
    /// Keep what was there before --apply in DIR/doctor [default: $XDG_STATE_HOME/thalweg], and record the testbed of
    /// --prove in DIR/testbed
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Read and change the machine whose /proc, /sys, /etc and /run are below DIR; nothing is measured; for tests
    #[arg(long, value_name = "DIR", hide = true, requires = "state", conflicts_with_all = ["paths", "to"])]
    pub root: Option<PathBuf>,
}

impl DoctorArgs {
    /// The family of addresses that are dialled, if only those of one are.
    pub fn family(&self) -> Option<Family> {
        FamilyArgs { ipv4: self.ipv4, ipv6: self.ipv6 }.only()
    }
}

/// A share that a testbed's path may lose. Beyond it not even bbr goes on, and nothing is proved.
fn parse_loss(text: &str) -> Result<f64, String> {
    match units::parse_share(text)? {
        share if share <= BBR_LOSS_MAX => Ok(share),
        _ => Err(format!("at most {BBR_LOSS_MAX}: beyond it no congestion control goes on")),
    }
}

/// A port of another machine. What is none is no way that could not be measured.
fn parse_to(text: &str) -> Result<String, String> {
    let is_odd = |letter: char| letter.is_whitespace() || matches!(letter, ':' | '/' | '@' | '[' | ']');
    // With a zone too, where it is a number: of a link-local address nothing else leads anywhere.
    let is_host = |host: &str| match host.starts_with('[') {
        true => text.parse::<SocketAddrV6>().is_ok(),
        false => !host.is_empty() && !host.contains(is_odd),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port)) {
        true => Ok(text.to_owned()),
        false => Err("HOST:PORT (of IPv6 [ADDRESS]:PORT), with a port from 1 to 65535".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_to_a_port_of_a_host() {
        for good in ["dtn.example.org:8487", "127.0.0.1:1", "[::1]:65535", "[fe80::1%2]:22"] {
            assert_eq!(parse_to(good), Ok(good.to_owned()));
        }
        let none =
            ["foo", "foo:", ":22", "127.0.0.1:0", "127.0.0.1:99999", "::1:22", "[x]:22", "a b:22", "u@h:22"];
        let six = ["[::1]:0", "[::1", "[::1%]:22", "[fe80::1%x]:22"];
        for odd in none.into_iter().chain(six) {
            assert!(parse_to(odd).is_err_and(|why| why.contains("HOST:PORT")), "{odd}");
        }
    }

    #[test]
    fn a_path_to_prove_on_loses_no_more_than_bbr_bears() {
        assert_eq!(parse_loss("1e-3"), Ok(1e-3));
        assert_eq!(parse_loss("5%"), Ok(0.05));
        assert!(parse_loss("0.06").is_err_and(|why| why.contains("at most 0.05")));
        assert!(parse_loss("some").is_err());
    }
}
