//! Two network name spaces joined by a cable that can be pulled. They go with the value, also when the test panics.

use super::chance;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// See the module. The daemon lives in `b`, the client in `a`.
pub struct Cable {
    a: String,
    b: String,
}

impl Cable {
    pub const ADDRESS_A: &'static str = "10.77.0.1";
    /// After [`Cable::renumber`].
    pub const ADDRESS_A_LATER: &str = "10.77.0.77";
    pub const ADDRESS_B: &'static str = "10.77.0.2";

    /// `None`, with the reason told, where that cannot be had.
    pub fn new(row: &str) -> Option<Cable> {
        if !chance::is_root() || !chance::has("ip") || !chance::has("nsenter") {
            chance::skipped(row, "needs root, ip and nsenter");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("tw-{}-{number}", std::process::id());
        let cable = Cable { a: format!("{base}-a"), b: format!("{base}-b") };
        for space in [&cable.a, &cable.b] {
            let made = Command::new("ip").args(["netns", "add", space]).output().ok()?;
            if !made.status.success() {
                let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
                chance::skipped(row, &format!("no network name space: {why}"));
                return None;
            }
        }
        // Both ends are made where they stay: names need not be unique in the world.
        ip(&[
            "-n", &cable.a, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", &cable.b,
        ]);
        for (space, address) in [(&cable.a, Cable::ADDRESS_A), (&cable.b, Cable::ADDRESS_B)] {
            ip(&["-n", space, "addr", "add", &format!("{address}/24"), "dev", "wire"]);
            ip(&["-n", space, "link", "set", "lo", "up"]);
            ip(&["-n", space, "link", "set", "wire", "up"]);
        }
        Some(cable)
    }

    /// The client's end up or down.
    pub fn set(&self, up: bool) {
        ip(&["-n", &self.a, "link", "set", "wire", if up { "up" } else { "down" }]);
    }

    /// Gives the client's end another address, as when it moves to another network: the one it had is gone.
    pub fn renumber(&self) {
        ip(&["-n", &self.a, "addr", "flush", "dev", "wire"]);
        ip(&["-n", &self.a, "addr", "add", &format!("{}/24", Cable::ADDRESS_A_LATER), "dev", "wire"]);
    }

    /// No more than this passes, in both directions.
    pub fn limit(&self, rate: &str) {
        for space in [&self.a, &self.b] {
            let args =
                ["tc", "qdisc", "replace", "dev", "wire", "root", "tbf", "rate", rate, "burst", "256kb"];
            let mut command = self.enter_space(space, args[0]);
            let output = command.args(&args[1..]).args(["latency", "50ms"]).output().expect("tc");
            assert!(output.status.success(), "tc: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Rejects or drops all packets by nft: `drop`, or `reject with tcp reset`.
    pub fn filter(&self, verdict: Option<&str>) {
        let mut rules = "flush ruleset\n".to_owned();
        if let Some(verdict) = verdict {
            let hook = "type filter hook input priority 0;";
            rules += &format!("table inet t {{\nchain c {{\n{hook}\nmeta l4proto tcp {verdict}\n}}\n}}\n");
        }
        let path = std::env::temp_dir().join(format!("{}.nft", self.b));
        std::fs::write(&path, rules).unwrap();
        let output = self.enter_space(&self.b, "nft").arg("-f").arg(&path).output().expect("nft");
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "nft: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Bytes that the client's end sent.
    pub fn bytes_sent(&self) -> u64 {
        self.counter("tx_bytes")
    }

    fn counter(&self, name: &str) -> u64 {
        // sysfs shows the name space that mounted it; /proc/net follows the reader.
        let text = self.enter_space(&self.a, "cat").arg("/proc/self/net/dev").output().expect("cat").stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("wire:")).expect("wire");
        let at = if name == "tx_bytes" { 8 } else { 0 };
        line.split_whitespace().nth(at).and_then(|text| text.parse().ok()).expect("a counter")
    }

    /// `program` in the client's place.
    pub fn enter_a(&self, command: &Command) -> Command {
        self.enter(&self.a, command)
    }

    /// `program` in the daemon's place.
    pub fn enter_b(&self, command: &Command) -> Command {
        self.enter(&self.b, command)
    }

    fn enter_space(&self, space: &str, program: &str) -> Command {
        let mut entered = Command::new("nsenter");
        // Not `ip netns exec`: that takes a copy of all mounts along and pins them.
        entered.arg(format!("--net=/run/netns/{space}")).arg("--").arg(program);
        entered
    }

    fn enter(&self, space: &str, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        entered
            .arg(format!("--net=/run/netns/{space}"))
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => entered.env(key, value),
                None => entered.env_remove(key),
            };
        }
        entered
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for space in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().expect("ip");
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
