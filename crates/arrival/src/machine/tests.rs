//! Looks and ends are made up, the time too; what the machine wants is compared, or done in a world that may be killed.

mod again;

mod failures;

mod kills;

mod looks;

mod order;

use super::*;
use crate::item::key_of;
use std::collections::BTreeMap;
use thalweg_wire::Digest;

fn path(text: &str) -> RelativePath {
    RelativePath::new(text.into()).unwrap()
}

fn version(number: u64) -> Version {
    Version { bytes: number, changed_ns: number as i64, mark: number }
}

fn rules(order: Order) -> Rules {
    Rules {
        complete: Complete::Stable(Duration::from_secs(2)),
        order,
        moves_max: 3,
        runs_max: 2,
        attempts_max: 3,
        runs_command: true,
        returns_results: true,
    }
}

fn seen(files: &BTreeMap<String, u64>) -> Vec<Seen> {
    let one = |(name, content): (&String, &u64)| Seen {
        name: path(name),
        version: version(*content),
        is_marked: false,
    };
    files.iter().map(one).collect()
}

/// A look to which nothing was hidden.
fn looked(all: Vec<Seen>) -> Input {
    Input::Looked(all, Vec::new())
}

fn arrived(name: &RelativePath, version: Version) -> Arrived {
    let digest = Digest([version.mark as u8; 32]);
    let (digest, key) = (digest.to_string(), key_of(name, &digest));
    Arrived { version, digest, key, bytes: version.bytes, receipt: String::new(), stale: 0 }
}
