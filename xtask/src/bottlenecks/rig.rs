//! Two places on this machine, each with a disk, a control group and a network of its own, that can be made narrow.
//!
//! - Disks: ext4 on loop devices in memory (so that nobody else's work on the real disk counts), slowed by the block
//!   throttle of the root control group (`blkio.throttle`, version 1).
//! - CPU: a control group for each side with a quota.
//! - Path: two network name spaces with a cable; tbf or htb for its rate, nft to lose packets.
//! - Long ways: `thalweg testbed`.
//! - Single system calls: strace delays them.
//!
//! Everything goes with the value.

use super::scenarios::{Before, Files, Scenario, Side, Throttle};
use crate::scratch::Scratch;
use crate::{command, packages, trees};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A copy takes no longer.
const PATIENCE: Duration = Duration::from_secs(90);
/// The far end of the cable.
const ADDRESS: &str = "10.78.0.2:8487";
/// The far ends of both cables.
const BOTH_CARDS: &str = "10.78.0.2:8487,10.79.0.2:8487";
/// Where the daemon is to be found over both.
const EVERYWHERE: &str = "0.0.0.0:8487";
/// The cables, with the networks that they make.
const CABLES: [(&str, &str); 2] = [("wire", "10.78.0"), ("wire2", "10.79.0")];
/// The host on the right of a testbed.
const ADDRESS_FAR: &str = "10.77.2.1:8487";
const CPU: &str = "/sys/fs/cgroup/cpu";
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// See the module.
pub struct Rig {
    // Unmounted before the directory that they are in goes.
    disks: [Disk; 2],
    scratch: Scratch,
    thalweg: PathBuf,
    testbed: PathBuf,
    name: String,
}

/// What is done under the throttles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A copy, then `thalweg why`.
    Copy,
    /// `thalweg probe`.
    Probe,
}

/// What one run was judged.
pub struct Answer {
    /// Time of the transfer itself; of a probe all of it.
    pub seconds: f64,
    /// What `thalweg why --json`, or `thalweg probe --json`, said.
    pub why: Value,
    /// What the emulated path itself cost, in CPU seconds for 10^9 bytes carried; none where there was none.
    pub path_cpu_s_per_gb: Option<f64>,
}

impl Rig {
    /// Builds it; `None`, with the reason told, where that cannot be done.
    ///
    /// # Errors
    /// If something fails that should not.
    pub fn new(thalweg: &Path, testbed: &Path) -> Result<Option<Rig>> {
        let needed = [CPU, BLKIO, "/dev/loop-control"];
        if let Some(missing) = needed.iter().find(|path| !Path::new(path).exists()) {
            println!(
                "skipped: there is no {missing} (control groups of version 1 and loop devices are needed)"
            );
            return Ok(None);
        }
        packages::install(&[
            ("strace", "/usr/bin/strace"),
            ("nftables", "/usr/sbin/nft"),
            ("iproute2", "/usr/sbin/tc"),
        ])?;
        let scratch = Scratch::new("bottlenecks")?;
        let name = format!("why{}", std::process::id());
        let disks = [Disk::new(&scratch, "source")?, Disk::new(&scratch, "destination")?];
        let (thalweg, testbed) = (thalweg.to_owned(), testbed.to_owned());
        let rig = Rig { disks, scratch, thalweg, testbed, name };
        let (a, b) = (rig.space("a"), rig.space("b"));
        for space in [&a, &b] {
            quiet("ip", &["netns", "add", space])?;
        }
        for (cable, network) in CABLES {
            quiet(
                "ip",
                &["-n", &a, "link", "add", cable, "type", "veth", "peer", "name", cable, "netns", &b],
            )?;
            for (space, host) in [(&a, 1), (&b, 2)] {
                let address = format!("{network}.{host}/24");
                quiet("ip", &["-n", space, "addr", "add", &address, "dev", cable])?;
                quiet("ip", &["-n", space, "link", "set", "lo", "up"])?;
                quiet("ip", &["-n", space, "link", "set", cable, "up"])?;
            }
        }
        for side in [Side::Source, Side::Destination] {
            fs::create_dir(rig.group(side)).context("a control group for CPU")?;
        }
        Ok(Some(rig))
    }

    /// Whether there is a testbed to be had.
    pub fn has_testbed(&self) -> bool {
        let help = Command::new(&self.testbed).args(["testbed", "--help"]).output();
        help.is_ok_and(|output| output.status.success())
    }

    /// One copy under these throttles.
    ///
    /// # Errors
    /// If it does not succeed.
    pub fn run(&self, scenario: &Scenario, throttles: &[Throttle], deed: Deed) -> Result<Answer> {
        let (source, destination) = (&self.disks[0].mount, &self.disks[1].mount);
        let bytes = scenario.files.make(source)?;
        ensure!(bytes > 0, "nothing to copy");
        match (scenario.before, deed) {
            (Before::Same, _) => drop(self.once(scenario, &[], Deed::Copy)?),
            (Before::Others, Deed::Copy) => scenario.files.make_others(destination)?,
            _ => {}
        }
        // With what lies below the disks.
        command::run(Command::new("sync").arg("-f").arg(source))?;
        command::run(Command::new("sync").arg("-f").arg(destination))?;
        command::run(Command::new("sync").arg("-f").arg(self.scratch.path("")))?;
        let is_cold = throttles.iter().any(|throttle| matches!(throttle, Throttle::Disk(Side::Source, _)));
        self.prepare(&source.join(scenario.files.name()), is_cold)?;
        let path = path_of(throttles);
        if let Some(options) = path {
            let made = Command::new(&self.testbed)
                .args(["testbed", "up", "--name", &self.name])
                .args(options)
                .output()?;
            ensure!(made.status.success(), "testbed: {}", String::from_utf8_lossy(&made.stderr));
        }
        let mut answer = self.once(scenario, throttles, deed);
        if path.is_some() {
            if let Ok(answer) = &mut answer {
                answer.path_cpu_s_per_gb = self.path_cost();
            }
            self.testbed_down();
        }
        self.loosen()?;
        // Not a million files: a few thousand at most.
        for entry in fs::read_dir(destination)? {
            let path = entry?.path();
            match path.is_dir() && !path.ends_with("lost+found") {
                true => fs::remove_dir_all(path)?,
                false => drop(fs::remove_file(path)),
            }
        }
        answer
    }

    fn once(&self, scenario: &Scenario, throttles: &[Throttle], deed: Deed) -> Result<Answer> {
        let (client, server) = match scenario.is_pull {
            true => (Side::Destination, Side::Source),
            false => (Side::Source, Side::Destination),
        };
        let export = format!("d={}", self.disks[server as usize].mount.display());
        let ticket = self.scratch.path("ticket");
        let _ = fs::remove_file(&ticket);
        let has_two_cards = throttles.iter().any(|throttle| matches!(throttle, Throttle::TwoCards(..)));
        let listen = if has_two_cards { EVERYWHERE } else { address(throttles) };
        let mut words = vec!["serve", "--listen", listen, "--export", &export, "--ticket-file"];
        let shown = ticket.display().to_string();
        words.push(&shown);
        let mut daemon = self.start(server, "b", &words, "server-state", throttles, Stdio::null())?;
        let answer = self.copy(scenario, client, &ticket, throttles, deed);
        daemon.end();
        answer
    }

    fn copy(
        &self,
        scenario: &Scenario,
        client: Side,
        ticket: &Path,
        throttles: &[Throttle],
        deed: Deed,
    ) -> Result<Answer> {
        until("the daemon's ticket", || ticket.exists())?;
        let state = self.scratch.path("client-state");
        let _ = fs::remove_dir_all(state.join("transfers"));
        let name = scenario.files.name();
        let far = format!("tw://{}/d/{name}", address(throttles));
        let (from, to) = match scenario.is_pull {
            true => (far, self.disks[1].mount.join(name).display().to_string()),
            false => (self.disks[0].mount.join(name).display().to_string(), far),
        };
        let slash = if matches!(scenario.files, Files::Small { .. }) { "/" } else { "" };
        let (from, to) = (format!("{from}{slash}"), format!("{to}{slash}"));
        let ticket = ticket.display().to_string();
        let mut words = match deed {
            // Both runs by one plan: the longer one would be tuned, the other not.
            Deed::Copy => vec!["cp", "-q", "--no-tune", "--ticket", &ticket],
            Deed::Probe => vec!["probe", "--json", "--no-profile", "--ticket", &ticket],
        };
        if deed == Deed::Probe {
            // Of the copy's options it has this one.
            words.extend(scenario.args.windows(2).filter(|pair| pair[0] == "--streams").flatten());
        } else {
            words.extend(scenario.args);
            for throttle in throttles {
                match throttle {
                    Throttle::Args(args) => words.extend(*args),
                    Throttle::TwoCards(..) => words.extend(["--via", BOTH_CARDS]),
                    _ => {}
                }
            }
        }
        words.extend([from.as_str(), to.as_str()]);
        self.tighten(throttles)?;
        let said = self.scratch.path("said");
        let began = Instant::now();
        let mut copy =
            self.start(client, "a", &words, "client-state", throttles, fs::File::create(&said)?.into())?;
        let status = self.wait(&mut copy, throttles);
        copy.end();
        let is_whole = status?;
        if deed == Deed::Probe {
            // What it could not measure it says, and answers by the rest.
            let said = fs::read_to_string(&said)?;
            let why = serde_json::from_str(&said).with_context(|| format!("it failed: {said}"))?;
            return Ok(Answer { seconds: began.elapsed().as_secs_f64(), why, path_cpu_s_per_gb: None });
        }
        ensure!(is_whole, "it failed: {}", fs::read_to_string(&said).unwrap_or_default());
        let output = Command::new(&self.thalweg)
            .args(["why", "--json", "--state"])
            .arg(&state)
            .output()
            .context("thalweg why")?;
        ensure!(output.status.success(), "why: {}", String::from_utf8_lossy(&output.stderr));
        let why: Value = serde_json::from_slice(&output.stdout)?;
        let nanos = why["evidence"]["elapsed_nanos"].as_f64().context("a time")?;
        Ok(Answer { seconds: nanos / 1e9, why, path_cpu_s_per_gb: None })
    }

    fn wait(&self, copy: &mut Group, throttles: &[Throttle]) -> Result<bool> {
        let began = Instant::now();
        let mut slow = throttles.iter().find_map(|throttle| match throttle {
            Throttle::SlowStream { each, slow } => Some((*each, *slow)),
            _ => None,
        });
        while began.elapsed() < PATIENCE {
            if let Some(status) = copy.child.try_wait()? {
                return Ok(status.success());
            }
            if let Some((each, rate)) = slow
                && self.slow_one_stream(each, rate)?
            {
                slow = None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the copy took longer than {} s", PATIENCE.as_secs())
    }

    /// Drops what the page cache holds of the source, or fills it.
    fn prepare(&self, source: &Path, is_cold: bool) -> Result<()> {
        for file in trees::files_below(source).unwrap_or_else(|_| vec![source.to_owned()]) {
            match is_cold {
                true => {
                    let input = format!("if={}", file.display());
                    quiet("dd", &[&input, "iflag=nocache", "count=0"])?;
                }
                false => drop(std::io::copy(&mut fs::File::open(file)?, &mut std::io::sink())?),
            }
        }
        Ok(())
    }

    fn tighten(&self, throttles: &[Throttle]) -> Result<()> {
        // What comes first is in force.
        for throttle in throttles.iter().rev() {
            match *throttle {
                Throttle::Disk(side, rate) => self.disks[side as usize].throttle(side, rate)?,
                Throttle::Cpu(side, milli) => self.quota(side, Some(milli))?,
                Throttle::Link(rate) => self.cable("wire", rate)?,
                Throttle::TwoCards(first, second) => {
                    self.cable("wire", first)?;
                    self.cable("wire2", second)?;
                }
                Throttle::Loss(per_ten_thousand) => {
                    let hook = "type filter hook input priority 0;";
                    let rule = format!("meta l4proto tcp numgen random mod 10000 < {per_ten_thousand} drop");
                    let rules = format!("table inet t {{\nchain c {{\n{hook}\n{rule}\n}}\n}}\n");
                    self.nft(&rules)?;
                }
                Throttle::Calls(..) | Throttle::Args(_) | Throttle::SlowStream { .. } | Throttle::Path(_) => {
                }
            }
        }
        Ok(())
    }

    fn cable(&self, cable: &str, rate: &str) -> Result<()> {
        for space in ["a", "b"] {
            let words = ["qdisc", "replace", "dev", cable, "root", "tbf", "rate", rate];
            self.tc(space, &[&words[..], &["burst", "128kb", "latency", "40ms"]].concat())?;
        }
        Ok(())
    }

    fn loosen(&self) -> Result<()> {
        for side in [Side::Source, Side::Destination] {
            self.disks[side as usize].throttle(side, 0)?;
            self.quota(side, None)?;
        }
        for space in ["a", "b"] {
            for (cable, _) in CABLES {
                let _ = self.tc(space, &["qdisc", "del", "dev", cable, "root"]);
            }
        }
        self.nft("flush ruleset\n")
    }

    fn nft(&self, rules: &str) -> Result<()> {
        let path = self.scratch.path("rules.nft");
        for space in ["a", "b"] {
            fs::write(&path, rules)?;
            let file = path.display().to_string();
            self.inside(space, "nft", &["-f", &file])?;
        }
        Ok(())
    }

    /// Each data stream gets a class of its own, one of them a narrow one. False while there are none yet.
    fn slow_one_stream(&self, each: &str, slow: &str) -> Result<bool> {
        let output = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.space("a")))
            .args(["ss", "-Htn", "state", "established", "dst", ADDRESS])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ports: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2)?.rsplit_once(':').map(|p| p.1))
            .collect();
        // Three streams and the control connection, which was the first.
        if ports.len() < 4 {
            return Ok(false);
        }
        let mut ports: Vec<u16> = ports.iter().filter_map(|port| port.parse().ok()).collect();
        ports.sort_unstable();
        self.tc("a", &["qdisc", "replace", "dev", "wire", "root", "handle", "1:", "htb", "default", "99"])?;
        let class = |id: &str, rate: &str| {
            let words = ["class", "add", "dev", "wire", "parent", "1:", "classid", id, "htb", "rate", rate];
            self.tc("a", &[&words[..], &["burst", "64k", "cburst", "64k"]].concat())
        };
        class("1:99", "10gbit")?;
        for (number, port) in ports.iter().enumerate() {
            let id = format!("1:{}", number + 10);
            // The last one; the first may be the control connection, which needs little.
            class(&id, if number + 1 == ports.len() { slow } else { each })?;
            let port = port.to_string();
            let words =
                ["filter", "add", "dev", "wire", "parent", "1:", "protocol", "ip", "u32", "match", "ip"];
            self.tc("a", &[&words[..], &["sport", &port, "0xffff", "flowid", &id]].concat())?;
        }
        Ok(true)
    }

    fn tc(&self, space: &str, words: &[&str]) -> Result<()> {
        self.inside(space, "tc", words)
    }

    fn inside(&self, space: &str, program: &str, words: &[&str]) -> Result<()> {
        let net = format!("--net=/run/netns/{}", self.space(space));
        quiet("nsenter", &[&[net.as_str(), program], words].concat())
    }

    /// Since it is up, as the testbed says; one that does not say it spoils no run.
    fn path_cost(&self) -> Option<f64> {
        let mut status = Command::new(&self.testbed);
        let told = command::says(status.args(["testbed", "status", "--json", "--name", &self.name])).ok()?;
        let told: Value = serde_json::from_str(&told).ok()?;
        told["status"]["cpu_seconds_per_gb"].as_f64()
    }

    fn testbed_down(&self) {
        let _ = Command::new(&self.testbed).args(["testbed", "down", "--name", &self.name]).output();
    }

    fn quota(&self, side: Side, milli: Option<u32>) -> Result<()> {
        let quota = milli.map_or("-1".to_owned(), |milli| (milli * 50).to_string());
        fs::write(self.group(side).join("cpu.cfs_period_us"), "50000")?;
        fs::write(self.group(side).join("cpu.cfs_quota_us"), quota).context("a CPU quota")
    }

    fn group(&self, side: Side) -> PathBuf {
        Path::new(CPU).join(format!("{}{}", self.name, side as usize))
    }

    fn space(&self, space: &str) -> String {
        format!("{}{space}", self.name)
    }

    /// Starts the program in the place of a side.
    fn start(
        &self,
        side: Side,
        space: &str,
        words: &[&str],
        state: &str,
        throttles: &[Throttle],
        stdout: Stdio,
    ) -> Result<Group> {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.group(side).join("cgroup.procs"));
        match path_of(throttles) {
            Some(_) => {
                let host = if space == "a" { "left" } else { "right" };
                command.arg(&self.testbed).args(["testbed", "run", "--name", &self.name, host]);
            }
            None => {
                command.arg("nsenter").arg(format!("--net=/run/netns/{}", self.space(space)));
            }
        }
        let calls: Vec<(&str, u32)> = throttles
            .iter()
            .filter_map(|throttle| match throttle {
                Throttle::Calls(at, calls, micros) if *at == side => Some((*calls, *micros)),
                _ => None,
            })
            .collect();
        if !calls.is_empty() {
            command.args(["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
            let all: Vec<&str> = calls.iter().map(|(calls, _)| *calls).collect();
            command.arg("-e").arg(format!("trace={}", all.join(",")));
            for (calls, micros) in calls {
                command.arg("-e").arg(format!("inject={calls}:delay_exit={micros}"));
            }
        }
        // By option: the testbed has a state of its own.
        command.arg(&self.thalweg).args(words).arg("--state").arg(self.scratch.path(state));
        command.env_remove("THALWEG_STATE").env("XDG_CONFIG_HOME", self.scratch.path("none"));
        command.stdin(Stdio::null()).stdout(stdout).process_group(0);
        Ok(Group { child: command.spawn().context("starting thalweg")? })
    }
}

/// Options of the testbed, if there is to be one.
fn path_of(throttles: &[Throttle]) -> Option<&'static [&'static str]> {
    throttles.iter().find_map(|throttle| match throttle {
        Throttle::Path(options) => Some(*options),
        _ => None,
    })
}

fn address(throttles: &[Throttle]) -> &'static str {
    if path_of(throttles).is_some() { ADDRESS_FAR } else { ADDRESS }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.testbed_down();
        let _ = self.loosen();
        for space in ["a", "b"] {
            let _ = quiet("ip", &["netns", "del", &self.space(space)]);
        }
        for side in [Side::Source, Side::Destination] {
            for _ in 0..50 {
                if fs::remove_dir(self.group(side)).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A process with all that it started.
struct Group {
    child: Child,
}

impl Group {
    fn end(&mut self) {
        // strace leaves what it traced behind; the group ends as a whole.
        let _ = quiet("kill", &["-KILL", "--", &format!("-{}", self.child.id())]);
        let _ = self.child.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file system on a loop device.
struct Disk {
    mount: PathBuf,
    image: PathBuf,
    device: String,
}

impl Disk {
    fn new(scratch: &Scratch, name: &str) -> Result<Disk> {
        let mount = scratch.path(name);
        let memory = Path::new("/dev/shm");
        let image = match memory.is_dir() {
            true => memory.join(format!("thalweg-bottlenecks-{}-{name}.img", std::process::id())),
            false => scratch.path(&format!("{name}.img")),
        };
        fs::create_dir(&mount)?;
        fs::File::create(&image)?.set_len(2 << 30)?;
        // From here on it goes with the value.
        let mut disk = Disk { mount, image, device: String::new() };
        let (image, mount) = (disk.image.display().to_string(), disk.mount.display().to_string());
        quiet("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &image])?;
        quiet("mount", &["-o", "loop", &image, &mount])?;
        let output = Command::new("findmnt").args(["-n", "-o", "MAJ:MIN", "-T", &mount]).output()?;
        String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut disk.device);
        ensure!(disk.device.contains(':'), "no device below {mount}");
        Ok(disk)
    }

    /// Bytes a second of reads at the source, of writes at the destination; 0 for no limit.
    fn throttle(&self, side: Side, rate: u64) -> Result<()> {
        let file = match side {
            Side::Source => "blkio.throttle.read_bps_device",
            Side::Destination => "blkio.throttle.write_bps_device",
        };
        fs::write(Path::new(BLKIO).join(file), format!("{} {rate}", self.device)).context("a disk throttle")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mount = self.mount.display().to_string();
        if quiet("umount", &[&mount]).is_err() {
            let _ = quiet("umount", &["-l", &mount]);
        }
        let _ = fs::remove_file(&self.image);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        ensure!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn quiet(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).output().with_context(|| program.to_owned())?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
