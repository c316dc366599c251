//! Where settings were changed: in which network namespace, and by whom. `--undo` and another `--apply` belong there:
//! elsewhere settings of the same names are others, and what `--apply` put there would be taken for what was there
//! before it.

use super::machine::is_first_namespace;
use super::roots::{Roots, read};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{Failure, FailureKind, Result};

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Space {
    /// The kernel's first.
    First,
    /// Another.
    Other {
        /// The run of the machine in which it is; empty where the kernel does not tell.
        boot: String,
        /// As the kernel names it: `net:[4026532008]`. A later one may get the same name, but not as long as this one
        /// exists.
        name: String,
    },
}

impl Space {
    /// That of the calling thread.
    pub fn here(roots: &Roots) -> Space {
        if is_first_namespace(roots) {
            return Space::First;
        }
        let name = fs::read_link(roots.proc.join("thread-self/ns/net"));
        let name = name.map_or_else(|_| String::new(), |name| name.display().to_string());
        Space::Other { boot: boot(roots), name }
    }

    /// Whether it ended with an earlier run of the machine, and its settings with it.
    pub fn is_of_earlier_run(&self, roots: &Roots) -> bool {
        match self {
            Space::First => false,
            Space::Other { boot: then, .. } => *then != boot(roots),
        }
    }
}

fn boot(roots: &Roots) -> String {
    read(&roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}

/// Whether settings that were changed in one network namespace may be changed or put back in another.
///
/// # Errors
/// `Unsupported`, which says where they may be. `record`: the file that tells of them.
pub fn check_space(operation: &str, then: &Space, here: &Space, record: &Path) -> Result<()> {
    if then == here {
        return Ok(());
    }
    let cause = match then {
        Space::First => "settings were changed in the kernel's first network namespace, and this is another one: run it there, \
                         outside of `ip netns exec`, `thalweg testbed run` and containers"
            .to_owned(),
        Space::Other { name, .. } => format!(
            "settings were changed in the network namespace {name}, and this is another one: run it there. If that one is \
             gone, its settings are too: remove {}",
            record.display()
        ),
    };
    Err(Failure::new(FailureKind::Unsupported, operation, cause))
}

/// Whether none of `files` is one that an `--apply` wrote, for who has no record of one: it begins with `head`.
///
/// # Errors
/// `NotFound`, which names the file and where its record was looked for. A record also goes with an undo that left the
/// file, as somebody had changed it since: nobody can tell that from here.
pub fn check_unwritten(operation: &str, files: &[PathBuf], head: &str, record: &Path) -> Result<()> {
    let is_written = |file: &&PathBuf| fs::read(file).is_ok_and(|bytes| bytes.starts_with(head.as_bytes()));
    let Some(file) = files.iter().find(is_written) else { return Ok(()) };
    let cause = format!(
        "`thalweg doctor --apply` wrote {}, and there is no record of what was there before at {}: run it as who applied \
         it (root, after `sudo`), with the same --state, HOME and XDG_STATE_HOME. If that record is lost, or an --undo \
         left the file as somebody had changed it by hand, remove the file",
        file.display(),
        record.display()
    );
    Err(Failure::new(FailureKind::NotFound, operation, cause))
}
