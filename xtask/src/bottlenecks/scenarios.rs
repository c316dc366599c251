//! The bottlenecks: what is made narrow, what else is limited, and what must be named.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// A side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// With the sender.
    Source = 0,
    /// With the receiver.
    Destination = 1,
}

/// Makes something narrow.
#[derive(Debug, Clone, Copy)]
pub enum Throttle {
    /// Reads at the source, writes at the destination: bytes a second.
    Disk(Side, u64),
    /// Thousandths of a CPU.
    Cpu(Side, u32),
    /// The cable, both ways, as tc writes rates.
    Link(&'static str),
    /// The sides are the hosts of `thalweg testbed up` with these options.
    Path(&'static [&'static str]),
    /// Of ten thousand packets so many are lost.
    Loss(u32),
    /// Each of these system calls takes so many microseconds more.
    Calls(Side, &'static str, u32),
    /// Options of the copy.
    Args(&'static [&'static str]),
    /// Each stream has a rate of its own, one of them a lower one.
    SlowStream {
        /// Of the others.
        each: &'static str,
        /// Of that one.
        slow: &'static str,
    },
    /// The cable, and a second one beside it, of these rates; streams go over both.
    TwoCards(&'static str, &'static str),
}

/// What is copied.
#[derive(Debug, Clone, Copy)]
pub enum Files {
    /// One file of so many MiB.
    Big(u64),
    /// So many directories with as many small files in each.
    Small {
        /// Directories.
        directories: u32,
        /// Files in each.
        files: u32,
    },
}

impl Files {
    /// Name below the mount.
    pub fn name(&self) -> &'static str {
        match self {
            Files::Big(_) => "big",
            Files::Small { .. } => "small",
        }
    }

    /// Makes them anew if they are not there in this form. Returns their bytes.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make(&self, below: &Path) -> Result<u64> {
        let path = below.join(self.name());
        let note = below.join("form");
        let form = format!("{self:?}");
        let is_there = fs::read_to_string(&note).is_ok_and(|text| text == form) && path.exists();
        match *self {
            Files::Big(mebibytes) => {
                if !is_there {
                    let mut noise = blake3::Hasher::new().finalize_xof();
                    let mut content = vec![0; (mebibytes << 20) as usize];
                    noise.fill(&mut content);
                    fs::write(&path, content)?;
                    fs::write(note, form)?;
                }
                Ok(mebibytes << 20)
            }
            Files::Small { directories, files } => {
                if !is_there {
                    if path.exists() {
                        fs::remove_dir_all(&path)?;
                    }
                    for directory in 0..directories {
                        let directory = path.join(format!("d{directory}"));
                        fs::create_dir_all(&directory)?;
                        for file in 0..files {
                            fs::write(directory.join(format!("f{file}")), [file as u8; SMALL_BYTES])?;
                        }
                    }
                    fs::write(note, form)?;
                }
                Ok(u64::from(directories * files) * SMALL_BYTES as u64)
            }
        }
    }

    /// Makes its directories, each with a file of another name.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make_others(&self, below: &Path) -> Result<()> {
        let Files::Small { directories, .. } = *self else { return Ok(()) };
        for directory in 0..directories {
            let directory = below.join(self.name()).join(format!("d{directory}"));
            fs::create_dir_all(&directory)?;
            fs::write(directory.join("other"), [0; SMALL_BYTES])?;
        }
        Ok(())
    }
}

/// What stands at the destination before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// All of it.
    Same,
    /// The directories, each with a file of another name: each file that comes gets its name by itself. Those of a
    /// directory that the copy makes get theirs all by one rename, which no delay of a rename makes slow.
    Others,
}

const SMALL_BYTES: usize = 1024;

/// Through the page cache at the destination. Past it writes are in flight while a stream goes on receiving: strace
/// delays no `io_uring`, and what a throttled disk has to spare shows in no account.
const CACHED: &[&str] = &["--direct", "destination=off"];
/// The same with two streams.
const CACHED_TWO: &[&str] = &["--direct", "destination=off", "--streams", "2"];
/// With one.
const CACHED_ONE: &[&str] = &["--direct", "destination=off", "--streams", "1"];

const SMALL_WINDOWS: &[&str] =
    &["--rtt", "50ms", "--rate", "1Gbit", "--sysctl", "net.ipv4.tcp_rmem=4096 131072 524288"];
const SMALL_BUFFER: &[&str] = &["--rtt", "200ms", "--rate", "1Gbit"];

/// Places, as a verdict names them.
const SOURCE: &str = "source";
const DESTINATION: &str = "destination";
const PATH: &str = "path";

/// What would be next, where nothing else is.
const PACE_48: Throttle = Throttle::Args(&["--bwlimit", "48MB/s"]);
const PACE_40: Throttle = Throttle::Args(&["--bwlimit", "40MB/s"]);

/// One bottleneck.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Cause that must be named.
    pub cause: &'static str,
    /// Place that must be named.
    pub place: &'static str,
    /// What is copied.
    pub files: Files,
    /// From the daemon rather than to it.
    pub is_pull: bool,
    /// What the destination has already.
    pub before: Before,
    /// Options of the copy.
    pub args: &'static [&'static str],
    /// Made narrow; lifted in the run that tells the true factor.
    pub narrow: Vec<Throttle>,
    /// In force in both runs.
    pub beside: Vec<Throttle>,
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    let groups =
        [disks(), links_and_limits(), processors(), streams(), small_files(), durability(), long_ways()];
    groups.into_iter().flatten().collect()
}

/// Reads and writes are slow: the disk has a rate, or each call takes longer.
fn disks() -> Vec<Scenario> {
    use Side::{Destination, Source};
    use Throttle::{Calls, Disk};
    vec![
        big("disk read, push", "source-disk", SOURCE, Disk(Source, 16_000_000), PACE_48),
        pull(big("disk read, pull", "source-disk", SOURCE, Disk(Source, 16_000_000), PACE_40)),
        big("disk written, push", "destination-disk", DESTINATION, Disk(Destination, 16_000_000), PACE_48),
        pull(big(
            "disk written, pull",
            "destination-disk",
            DESTINATION,
            Disk(Destination, 16_000_000),
            PACE_40,
        )),
        big("slow reads", "source-disk", SOURCE, Calls(Source, "pread64", 100_000), PACE_48),
        cached(big(
            "slow writes",
            "destination-disk",
            DESTINATION,
            Calls(Destination, "pwrite64", 100_000),
            PACE_48,
        )),
    ]
}

/// The link is thin, or a rate was asked for; what is next is known.
fn links_and_limits() -> Vec<Scenario> {
    use Side::Destination;
    use Throttle::{Args, Disk, Link};
    vec![
        big("thin link, push", "link", PATH, Link("100mbit"), PACE_40),
        cached(pull(big(
            "thin link, pull, disk next",
            "link",
            PATH,
            Link("100mbit"),
            Disk(Destination, 30_000_000),
        ))),
        cached(big(
            "rate limit, disk next",
            "rate-limit",
            SOURCE,
            Args(&["--bwlimit", "12MB/s"]),
            Disk(Destination, 36_000_000),
        )),
        // Packets are spaced for twice the rate, which this link never has to pass: no account of the copy can tell how
        // wide it is. Its factor stays wrong, for users meet it.
        pull(big(
            "rate limit, pull, link next",
            "rate-limit",
            SOURCE,
            Args(&["--bwlimit", "12MB/s"]),
            Link("300mbit"),
        )),
    ]
}

/// A side has a share of a processor.
fn processors() -> Vec<Scenario> {
    use Side::{Destination, Source};
    use Throttle::{Args, Cpu};
    vec![
        Scenario {
            files: Files::Big(256),
            args: &["--cipher", "chacha20"],
            ..pull(big(
                "CPU of the source",
                "cpu-quota",
                SOURCE,
                Cpu(Source, 60),
                Args(&["--bwlimit", "150MB/s"]),
            ))
        },
        Scenario {
            files: Files::Big(256),
            ..big(
                "CPU of the destination",
                "cpu-quota",
                DESTINATION,
                Cpu(Destination, 30),
                Args(&["--bwlimit", "150MB/s"]),
            )
        },
        Scenario {
            files: Files::Big(256),
            args: &["--cipher", "chacha20"],
            ..big("CPU of the client", "cpu-quota", SOURCE, Cpu(Source, 60), Args(&["--bwlimit", "150MB/s"]))
        },
    ]
}

/// Packets are lost, or one of several streams or cards is behind the others.
fn streams() -> Vec<Scenario> {
    use Throttle::{Loss, SlowStream, TwoCards};
    vec![
        Scenario {
            args: &["--streams", "1", "--cca", "cubic"],
            ..big("lossy link", "loss", PATH, Loss(300), PACE_48)
        },
        Scenario {
            files: Files::Big(24),
            args: &["--streams", "3", "--bwlimit", "12MB/s"],
            beside: vec![SlowStream { each: "20mbit", slow: "20mbit" }],
            ..big(
                "one slow stream",
                "slow-stream",
                PATH,
                SlowStream { each: "20mbit", slow: "2mbit" },
                PACE_48,
            )
        },
        Scenario {
            args: &["--streams", "4"],
            beside: vec![TwoCards("160mbit", "160mbit")],
            ..big("one slow card", "slow-card", PATH, TwoCards("160mbit", "16mbit"), PACE_48)
        },
    ]
}

/// Each file costs a call or two: opened, created, named, listed, looked at.
fn small_files() -> Vec<Scenario> {
    use Side::{Destination, Source};
    use Throttle::Calls;
    vec![
        Scenario {
            // For long enough: start and end take half a second, whatever is between.
            files: Files::Small { directories: 80, files: 100 },
            ..into_others(small(
                "small files opened",
                "small-files-read",
                SOURCE,
                Calls(Source, "openat", 3_000),
                Calls(Destination, "renameat2", 500),
            ))
        },
        small(
            "small files created",
            "small-files-write",
            DESTINATION,
            Calls(Destination, "openat", 3_000),
            Calls(Source, "getdents64", 20_000),
        ),
        into_others(small(
            "names",
            "names",
            DESTINATION,
            Calls(Destination, "renameat2", 1_500),
            Calls(Source, "getdents64", 25_000),
        )),
        into_others(small(
            "listing",
            "scan",
            SOURCE,
            Calls(Source, "getdents64", 80_000),
            Calls(Destination, "renameat2", 500),
        )),
        Scenario {
            before: Before::Same,
            ..small(
                "looking at what is there",
                "look",
                DESTINATION,
                Calls(Destination, "statx", 2_000),
                Calls(Source, "getdents64", 25_000),
            )
        },
    ]
}

/// What was written is synced, or read back.
fn durability() -> Vec<Scenario> {
    use Side::Destination;
    use Throttle::{Args, Calls};
    vec![
        Scenario {
            files: Files::Big(16),
            ..big(
                "slow sync",
                "slow-sync",
                DESTINATION,
                Calls(Destination, "fsync,fdatasync,syncfs", 700_000),
                Args(&["--bwlimit", "16MB/s"]),
            )
        },
        Scenario {
            // One call at a time, so that the delay is its rate.
            args: &["--verify", "readback", "--no-io-uring", "--io-depth", "1"],
            ..big(
                "reading back",
                "destination-disk",
                DESTINATION,
                Calls(Destination, "pread64", 120_000),
                PACE_48,
            )
        },
        Scenario {
            // Four at a time.
            args: &["--verify", "readback", "--io-depth", "4"],
            ..small(
                "reading back small files",
                "destination-disk",
                DESTINATION,
                Calls(Destination, "pread64", 5_000),
                Calls(Side::Source, "getdents64", 25_000),
            )
        },
    ]
}

/// Long ways. A path that comes first is the one that is made.
fn long_ways() -> Vec<Scenario> {
    use Side::Destination;
    use Throttle::{Args, Disk, Path};
    vec![
        Scenario {
            // For long enough: start and end take a second, whatever is between.
            files: Files::Big(512),
            args: CACHED_TWO,
            // No rate is asked for: windows that a plan sets are not bounded by what the kernel may tune them to.
            beside: vec![Path(&["--rtt", "50ms", "--rate", "1Gbit"]), Disk(Destination, 40_000_000)],
            ..big("long way, small windows", "window", PATH, Path(SMALL_WINDOWS), PACE_48)
        },
        Scenario {
            files: Files::Big(256),
            args: CACHED_ONE,
            // A buffer that is asked for is bounded by net.core.wmem_max, which no name space has for itself: so many
            // bytes do for a short way and not for a long one.
            beside: vec![Path(&["--rtt", "10ms", "--rate", "1Gbit"]), Disk(Destination, 60_000_000)],
            ..big("long way, small send buffer", "send-buffer", PATH, Path(SMALL_BUFFER), PACE_48)
        },
        Scenario {
            args: &["--streams", "2", "--cca", "cubic"],
            beside: vec![Path(&["--rtt", "10ms", "--rate", "1Gbit"]), Args(&["--bwlimit", "30MB/s"])],
            ..big(
                "long way, lossy",
                "loss",
                PATH,
                Path(&["--rtt", "10ms", "--rate", "1Gbit", "--loss", "1e-3"]),
                PACE_48,
            )
        },
        Scenario {
            args: &["--streams", "4"],
            // The path is much wider than all that the streams ever had to send.
            beside: vec![Path(&["--rtt", "20ms", "--rate", "1Gbit"]), Args(&["--bwlimit", "40MB/s"])],
            ..big("long way, slow source", "source-disk", SOURCE, Disk(Side::Source, 16_000_000), PACE_48)
        },
        full_long_way("long way, full link, CUBIC", &["--streams", "2", "--cca", "cubic"]),
        full_long_way("long way, full link, BBR", &["--streams", "2", "--cca", "bbr"]),
        Scenario {
            args: &["--streams", "4"],
            beside: vec![Path(&["--rtt", "20ms", "--rate", "1Gbit"]), Args(&["--bwlimit", "40MB/s"])],
            ..big(
                "long way, little depth",
                "plan",
                SOURCE,
                Args(&["--depth", "1", "--chunk", "64KiB"]),
                PACE_48,
            )
        },
    ]
}

/// What is lost is lost by the queue in front of the line.
fn full_long_way(name: &'static str, args: &'static [&'static str]) -> Scenario {
    use Throttle::{Args, Path};
    Scenario {
        files: Files::Big(192),
        args,
        beside: vec![Path(&["--rtt", "60ms", "--rate", "1Gbit"]), Args(&["--bwlimit", "40MB/s"])],
        ..big(name, "link", PATH, Path(&["--rtt", "60ms", "--rate", "200Mbit"]), PACE_48)
    }
}

/// One large file, pushed, with one thing narrow and one beside it.
fn big(
    name: &'static str,
    cause: &'static str,
    place: &'static str,
    narrow: Throttle,
    beside: Throttle,
) -> Scenario {
    Scenario {
        name,
        cause,
        place,
        files: Files::Big(64),
        is_pull: false,
        before: Before::Nothing,
        args: &[],
        narrow: vec![narrow],
        beside: vec![beside],
    }
}

/// The same with many small files.
fn small(
    name: &'static str,
    cause: &'static str,
    place: &'static str,
    narrow: Throttle,
    beside: Throttle,
) -> Scenario {
    let files = Files::Small { directories: 40, files: 100 };
    Scenario { files, ..big(name, cause, place, narrow, beside) }
}

fn into_others(scenario: Scenario) -> Scenario {
    Scenario { before: Before::Others, ..scenario }
}

fn pull(scenario: Scenario) -> Scenario {
    Scenario { is_pull: true, ..scenario }
}

fn cached(scenario: Scenario) -> Scenario {
    Scenario { args: CACHED, ..scenario }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Results are told by name.
    #[test]
    fn no_two_bottlenecks_have_one_name() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
    }

    /// The destination has directories of ours that nothing new comes into by one rename.
    #[test]
    fn a_rename_that_is_made_slow_is_one_for_each_file() {
        let is_rename = |throttle: &Throttle| matches!(throttle, Throttle::Calls(_, "renameat2", _));
        for scenario in all() {
            if scenario.narrow.iter().chain(&scenario.beside).any(is_rename) {
                assert_eq!(scenario.before, Before::Others, "{}", scenario.name);
            }
        }
    }

    #[test]
    fn others_stand_in_every_directory_and_are_none_of_the_files_that_come() {
        let scratch = tempfile::tempdir().expect("a directory");
        let files = Files::Small { directories: 2, files: 3 };
        files.make(scratch.path()).expect("files");
        files.make_others(scratch.path()).expect("others");
        for directory in ["d0", "d1"] {
            let path = scratch.path().join(files.name()).join(directory);
            assert_eq!(fs::read_dir(path).expect("a directory").count(), 4);
        }
        // Nothing stands beside a large file.
        Files::Big(1).make_others(&scratch.path().join("none")).expect("nothing");
        assert!(!scratch.path().join("none").exists());
    }
}
