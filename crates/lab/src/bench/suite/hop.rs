//! `hop`: a file from the host that has the disk, and through one more host (002 section VI-C, Table I).
//!
//! 002 compares a mover on the storage's own host with one on a *data transfer node* that gets at the storage over a
//! network. Here the data are on the left, node and destination on the right, the path is between the sides. Either the
//! data go straight to the destination; or through the node, which passes them on as they come, or stores them first.

use super::{
    GBIT, MIB, OVER_A_PATH, Planned, Suite, VERIFIED, encrypted, of_copy, scaled, size, testbed_kind, words,
};
use crate::bench::network::{Host, PathWish, Testbed};
use crate::bench::record::Sample;
use crate::bench::workspace::{Copied, Daemon, Workspace};
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::fs;
use std::path::Path;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};

pub const SUITE: Suite = Suite {
    name: "hop",
    asks: "what does one more host on the way cost? (002 Table I)",
    runs: 5,
    budget_bytes: 256 * MIB,
    takes: OVER_A_PATH,
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

/// From the storage's network to a node of the same site.
const RTT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    PassedOn,
    Stored,
}

impl Way {
    const ALL: [Way; 3] = [Way::Straight, Way::PassedOn, Way::Stored];

    fn name(self) -> &'static str {
        match self {
            Way::Straight => "straight from the storage's host",
            Way::PassedOn => "through a node that passes on",
            Way::Stored => "through a node that stores",
        }
    }
}

fn plan(_: &Wishes) -> Vec<Planned> {
    let named = |way: Way| Sample { series: way.name().to_owned(), ..Sample::default() };
    Way::ALL.map(|way| Planned::of(named(way), Vec::new())).into()
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, RTT, GBIT)
}

fn set(wishes: &Wishes) -> DatasetSpec {
    let bytes = SUITE.budget_bytes(wishes);
    DatasetSpec { files: 1, sizes: vec![(bytes, 1)], seed: wishes.seed(), ..DatasetSpec::default() }
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let path = path(wishes);
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: VERIFIED.to_owned(),
        changes: vec![
            scaled("file", "10 GB (002 section VI-C)", size(set(wishes).bytes())),
            scaled("storage", "GPFS on 51 disks behind 8 hosts", "one disk, one host".to_owned()),
            scaled("network between storage and node", "10 Gbit/s", {
                format!("{} Gbit/s", path.rate_bits_per_s as f64 / 1e9)
            }),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let set = set(bench.wishes);
    bench.workspace.needs(4 * set.bytes())?;
    let testbed = Testbed::up_with(&bench.workspace, "hop", &path(bench.wishes), TUNED, 2)?;
    let Some(far) = testbed.beyond.first() else {
        return Err(Failure::new(FailureKind::Internal, MEASURE, "there is no second host"));
    };
    let storage = bench.workspace.daemon(Some(&testbed.left))?;
    let node = bench.workspace.daemon(Some(&testbed.right))?;
    let destination = bench.workspace.daemon(Some(far))?;
    dataset::make(&storage.path("made"), &set)?;
    let name = set.file(0).path;
    let (made, copied) = (format!("made/{name}"), format!("copy/{name}"));
    let parent = destination.path(&copied).parent().map(Path::to_owned).unwrap_or_default();
    bench.take_turns(Way::ALL.to_vec(), |bench, _, way| {
        let workspace = &bench.workspace;
        workspace.settle()?;
        fs::create_dir_all(&parent).map_err(|error| of_io("make a directory", &error))?;
        let sample = super::over(&testbed, || {
            let taken = match way {
                Way::Straight => {
                    copy(workspace, &testbed.left, &storage.path(&made), (&destination, &copied))?
                }
                Way::PassedOn => {
                    workspace.relay(&testbed.right, (&storage, &made), (&destination, &copied))?
                }
                Way::Stored => {
                    let first = copy(workspace, &testbed.left, &storage.path(&made), (&node, "stored"))?;
                    let second =
                        copy(workspace, &testbed.right, &node.path("stored"), (&destination, &copied))?;
                    let cpu_s = first.cpu_s.zip(second.cpu_s).map(|(first, second)| first + second);
                    Copied { wall_s: first.wall_s + second.wall_s, cpu_s, ..second }
                }
            };
            Ok(of_copy(way.name(), &taken, set.bytes(), 1))
        })?;
        super::sound(&destination.path("copy"), &set)?;
        for done in [destination.path("copy"), node.path("stored")] {
            workspace.remove(&done)?;
        }
        Ok(Some(sample))
    })
}

/// A file of this host to a server.
fn copy(workspace: &Workspace, host: &Host, from: &Path, (daemon, to): (&Daemon, &str)) -> Result<Copied> {
    let line = words(&["cp", "--no-tune", &from.display().to_string(), &daemon.url(to)]);
    workspace.copy(Some(host), Some(daemon), &line)
}
