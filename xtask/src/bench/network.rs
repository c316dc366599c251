//! The network name space that a suite has for itself: its loopback, narrow or wide, and emulated paths.

use crate::bench::record::Sample;
use crate::bench::workspace::Workspace;
use crate::command;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use thalweg_lab::bench::Carried;
use thalweg_lab::testbed::daemon::Request;
use thalweg_lab::testbed::registry::Registry;
use thalweg_lab::wrap::wrap;

/// Lets no more than this pass over loopback, both directions together.
///
/// # Errors
/// If the kernel has no token bucket.
pub fn thin_loopback(bits_per_s: u64) -> Result<()> {
    // A bucket that takes several packets of the loopback's 64 KiB; a queue of 20 ms.
    let rate = format!("{bits_per_s}bit");
    let words =
        ["qdisc", "replace", "dev", "lo", "root", "tbf", "rate", &rate, "burst", "512kb", "latency", "20ms"];
    command::run(Command::new("tc").args(words))
}

/// Takes that back.
///
/// # Errors
/// If it was not thin.
pub fn wide_loopback() -> Result<()> {
    command::run(Command::new("tc").args(["qdisc", "del", "dev", "lo", "root"]))
}

/// Bytes that passed over loopback so far, headers and acknowledgements included.
///
/// # Errors
/// If the kernel does not tell.
pub fn loopback_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).context("no loopback")?;
    line.split_whitespace().next().and_then(|word| word.parse().ok()).context("a counter")
}

/// Whether the machine permits this congestion control.
pub fn is_permitted(congestion: &str) -> bool {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    list.is_ok_and(|list| list.split_whitespace().any(|name| name == congestion))
}

/// Two hosts joined by an emulated path (`thalweg testbed`), removed with the value.
pub struct Testbed<'a> {
    workspace: &'a Workspace,
    state: PathBuf,
    /// Of the first host on the right, where servers are.
    pub address: String,
    /// Of all hosts, by their names.
    addresses: BTreeMap<String, String>,
}

const NAME: &str = "bench";
const IPERF_TRIES: u32 = 5;

impl<'a> Testbed<'a> {
    /// Whether the program under test can do it; the reason if not.
    pub fn is_missing(workspace: &Workspace) -> Option<String> {
        let asked = command::says(workspace.thalweg().args(["testbed", "--help"]));
        asked.err().map(|_| "this thalweg has no testbed".to_owned())
    }

    /// Makes it, with options of `testbed up`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn up(workspace: &'a Workspace, options: &[&str]) -> Result<Testbed<'a>> {
        let state = workspace.directory("testbed")?;
        let mut testbed = Testbed { workspace, state, address: String::new(), addresses: BTreeMap::new() };
        let told = command::says(testbed.command("up").args(options).arg("--json"))?;
        let told: Value = serde_json::from_str(&told).context("what `testbed up` says")?;
        let hosts = told["hosts"].as_array().context("no hosts")?;
        let right = hosts.iter().find(|host| host["side"] == "right").context("no host on the right")?;
        testbed.address = right["address"].as_str().context("no address")?.to_owned();
        for host in hosts {
            let of = |key: &str| host[key].as_str().map(str::to_owned).with_context(|| format!("no {key}"));
            testbed.addresses.insert(of("name")?, of("address")?);
        }
        Ok(testbed)
    }

    /// Of the host of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn address_of(&self, host: &str) -> Result<&str> {
        self.addresses.get(host).map(String::as_str).with_context(|| format!("there is no host `{host}`"))
    }

    /// Changes the path, with options of `testbed set`.
    ///
    /// # Errors
    /// If it cannot be changed.
    pub fn set(&self, options: &[&str]) -> Result<()> {
        command::says(self.command("set").args(options)).map(drop)
    }

    /// Measures over the path: what that carried meanwhile, and what it cost this machine, come into the sample.
    ///
    /// # Errors
    /// Those of `measure`; if the testbed does not say.
    pub fn over(&self, measure: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
        let before = self.carried()?;
        let sample = measure()?;
        Ok(self.carried()?.since(&before).told_in(sample))
    }

    /// Payload that arrives of iperf3, in bit/s: a client with these words in the host `left`, whose server is in
    /// `right`.
    ///
    /// # Errors
    /// If it tells no rate, also when it is asked again.
    pub fn iperf(&self, words: &[&str]) -> Result<f64> {
        let mut client = Command::new("iperf3");
        client.args(["--client", &self.address, "--json"]).args(words);
        // Its server takes one client at a time, and is busy for a moment after the last one.
        let mut why = String::new();
        for _ in 0..IPERF_TRIES {
            let output = self.enter("left", &client).output()?;
            let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if let Some(rate) = told["end"]["sum_received"]["bits_per_second"].as_f64() {
                return Ok(rate);
            }
            why = told["error"].as_str().unwrap_or("it tells no rate").to_owned();
            std::thread::sleep(Duration::from_secs(1));
        }
        bail!("iperf3: {why}")
    }

    /// Since it is up.
    fn carried(&self) -> Result<Carried> {
        // Where `--state` has the program keep its testbeds.
        let registry = Registry::new(Some(&self.state.join("testbed")))?;
        Ok(Carried::of(&registry.ask(NAME, &Request::Status)?))
    }

    /// The command, in the host `left` or `right`, or of another name where there are several.
    pub fn enter(&self, host: &str, command: &Command) -> Command {
        let mut entered = self.command("run");
        entered.arg(host);
        wrap(entered, command)
    }

    fn command(&self, what: &str) -> Command {
        let mut command = self.workspace.thalweg();
        command.args(["testbed", what, "--name", NAME, "--state"]).arg(&self.state);
        command
    }
}

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        let _ = command::says(&mut self.command("down"));
    }
}
