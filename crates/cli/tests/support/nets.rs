//! Two network name spaces joined by a cable that can be pulled. They go with the value, also when the test panics.

use super::chance;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_lab::wrap::wrap;

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
        Cable::with_wires(row, 1)
    }

    /// Several wires side by side, each with a network of its own: see [`Cable::address`].
    pub fn with_wires(row: &str, wires: u8) -> Option<Cable> {
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
        for number in 0..wires {
            let wire = &Cable::wire(number);
            // Both ends are made where they stay: names need not be unique in the world.
            ip(&[
                "-n", &cable.a, "link", "add", wire, "type", "veth", "peer", "name", wire, "netns", &cable.b,
            ]);
            for (space, end) in [(&cable.a, 1), (&cable.b, 2)] {
                ip(&[
                    "-n",
                    space,
                    "addr",
                    "add",
                    &format!("{}/24", Cable::address(number, end)),
                    "dev",
                    wire,
                ]);
                ip(&["-n", space, "link", "set", "lo", "up"]);
                ip(&["-n", space, "link", "set", wire, "up"]);
            }
        }
        Some(cable)
    }

    /// Name of a wire, the same at both ends.
    pub fn wire(number: u8) -> String {
        if number == 0 { "wire".to_owned() } else { format!("wire{number}") }
    }

    /// Address of the client's end (1) or the daemon's (2) of a wire.
    pub fn address(number: u8, end: u8) -> String {
        format!("10.77.{number}.{end}")
    }

    /// The client's end up or down.
    pub fn set(&self, up: bool) {
        ip(&["-n", &self.a, "link", "set", "wire", if up { "up" } else { "down" }]);
    }

    /// A wire that takes everything and delivers nothing, at both ends.
    pub fn cut(&self, number: u8) {
        let wire = Cable::wire(number);
        let rules = format!(
            "flush ruleset\ntable inet t {{\nchain i {{\ntype filter hook input priority 0;\niifname {wire} drop\n}}\nchain \
             o {{\ntype filter hook output priority 0;\noifname {wire} drop\n}}\n}}\n"
        );
        self.rule(&self.a, &rules);
        self.rule(&self.b, &rules);
    }

    /// All wires deliver again what they take.
    pub fn mend(&self) {
        self.rule(&self.a, "flush ruleset\n");
        self.rule(&self.b, "flush ruleset\n");
    }

    /// Counts packets that arrive at the daemon's side, those with this mark apart. See [`Cable::counted`].
    pub fn count_marks(&self, name: &str) {
        let rules = format!(
            "flush ruleset\ntable inet t {{\nchain i {{\ntype filter hook input priority 0;\nmeta l4proto tcp counter\nip \
             dscp {name} counter\nip6 dscp {name} counter\n}}\n}}\n"
        );
        self.rule(&self.b, &rules);
    }

    /// All TCP packets that were counted, and those of IPv4 and IPv6 that have the mark; each with its bytes.
    pub fn counted(&self) -> [(u64, u64); 3] {
        let output = self.enter_space(&self.b, "nft").args(["list", "ruleset"]).output().expect("nft");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<(u64, u64)> = text
            .split("counter packets ")
            .skip(1)
            .filter_map(|rest| {
                let mut words = rest.split_whitespace();
                Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
            })
            .collect();
        numbers.try_into().expect("three counters")
    }

    /// Gives the client's end another address, as when it moves to another network: the one it had is gone.
    pub fn renumber(&self) {
        ip(&["-n", &self.a, "addr", "flush", "dev", "wire"]);
        ip(&["-n", &self.a, "addr", "add", &format!("{}/24", Cable::ADDRESS_A_LATER), "dev", "wire"]);
    }

    /// No more than this passes, in both directions.
    pub fn limit(&self, rate: &str) {
        self.limit_wire(0, rate, "50ms");
    }

    /// As [`Cable::limit`] for one wire, with a queue of so much time before it.
    pub fn limit_wire(&self, number: u8, rate: &str, queue: &str) {
        let wire = Cable::wire(number);
        for space in [&self.a, &self.b] {
            let args =
                ["tc", "qdisc", "replace", "dev", &wire, "root", "tbf", "rate", rate, "burst", "256kb"];
            let mut command = self.enter_space(space, args[0]);
            let output = command.args(&args[1..]).args(["latency", queue]).output().expect("tc");
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
        self.rule(&self.b, &rules);
    }

    fn rule(&self, space: &str, rules: &str) {
        let path = std::env::temp_dir().join(format!("{space}.nft"));
        std::fs::write(&path, rules).unwrap();
        let output = self.enter_space(space, "nft").arg("-f").arg(&path).output().expect("nft");
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "nft: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Bytes that the client's end sent.
    pub fn bytes_sent(&self) -> u64 {
        self.counters(0).1
    }

    /// Bytes that the client's end of a wire sent and received.
    pub fn bytes_moved_by(&self, number: u8) -> u64 {
        let (received, sent) = self.counters(number);
        received + sent
    }

    /// Bytes received and sent.
    fn counters(&self, number: u8) -> (u64, u64) {
        // sysfs shows the name space that mounted it; /proc/net follows the reader.
        let text = self.enter_space(&self.a, "cat").arg("/proc/self/net/dev").output().expect("cat").stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = format!("{}:", Cable::wire(number));
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&name)).expect("a wire");
        let number = |at| line.split_whitespace().nth(at).and_then(|text: &str| text.parse().ok());
        number(0).zip(number(8)).expect("counters")
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
        entered.arg(format!("--net=/run/netns/{space}")).arg("--");
        wrap(entered, command)
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
