//! Where a suite works: a directory that goes with it, the program as client and server, and what they took.

// Its directory.
mod scratch;

// What runs.
mod processes;

// Servers.
mod daemon;

// Clients.
mod clients;

pub use clients::{Copied, Said, overdue};
pub use daemon::Daemon;
pub use processes::{Noted, end};

use super::Wishes;
use super::network::Host;
use clients::patience;
use processes::{Running, cpu_of};
use scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Reason, Result, at_path, of_io};
use thalweg_sys::Dir;
use thalweg_sys::child::dies_with_us;
use thalweg_sys::cpu_time::children_cpu;

/// See the module.
pub struct Workspace {
    program: PathBuf,
    scratch: Scratch,
    stop: Arc<AtomicBool>,
    /// How long one copy may take.
    patience: Duration,
    running: Running,
    /// Servers so far: each has a state and a ticket of its own.
    daemons: AtomicUsize,
}

impl Workspace {
    /// Makes its directory, after it has removed those of runs that were killed; `hear` is told of them.
    /// `budget_bytes`: of the largest data set.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(wishes: &Wishes, budget_bytes: u64, hear: &mut dyn FnMut(&str)) -> Result<Workspace> {
        let failed =
            |error: std::io::Error| at_path(of_io("make a scratch directory", &error), &wishes.directory);
        let parent = fs::canonicalize(&wishes.directory).map_err(failed)?;
        scratch::remove_deserted(&parent, hear);
        let workspace = Workspace {
            program: wishes.program.clone(),
            scratch: Scratch::new(&parent).map_err(failed)?,
            stop: wishes.stop.clone(),
            patience: patience(wishes, budget_bytes),
            running: Running::default(),
            daemons: AtomicUsize::new(0),
        };
        // Nobody's configuration but ours.
        fs::write(workspace.path("config.toml"), "").map_err(failed)?;
        Ok(workspace)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path.join(name)
    }

    /// Removes what is there, if anything.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(of_io("remove", &error)),
            _ => Ok(()),
        }
    }

    /// Lets no write of others be under way when a measurement begins.
    ///
    /// # Errors
    /// What the file system says.
    pub fn settle(&self) -> Result<()> {
        let synced = Dir::open(&self.scratch.path).and_then(|directory| directory.sync_file_system());
        synced.map_err(|error| of_io("sync the scratch directory", &error))
    }

    /// Bytes that are free for data.
    ///
    /// # Errors
    /// What the file system says.
    pub fn free_bytes(&self) -> Result<u64> {
        let told = rustix::fs::statvfs(&self.scratch.path);
        let told = told.map_err(|error| of_io("ask for free space", &error.into()))?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    /// Refuses what does not fit, before it is begun.
    ///
    /// # Errors
    /// `Space`.
    pub fn needs(&self, bytes: u64) -> Result<()> {
        let free = self.free_bytes()?;
        if free / 10 * 9 >= bytes {
            return Ok(());
        }
        let cause = format!(
            "{} MiB are needed in {}, {} MiB are free: a smaller --budget needs less, --dir names another place",
            bytes >> 20,
            self.scratch.path.display(),
            free >> 20
        );
        Err(Failure::new(FailureKind::Space, MEASURE, cause).because(Reason::BeginsAnew))
    }

    /// CPU of all clients and servers so far, those that ended too, and of whatever else was started; only differences
    /// mean anything.
    pub fn cpu_s(&self) -> f64 {
        // Those that ended between the two looks are missed for once, never counted twice.
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let live: f64 = running.iter().filter_map(|&pid| cpu_of(pid)).sum();
        live + children_cpu().as_secs_f64()
    }

    /// The program that is measured, with a state and a configuration of its own. It ends with us.
    pub fn command(&self, who: &str) -> Command {
        self.command_of(&self.program, who)
    }

    /// The same of this program: what makes a path is the same, whichever program is measured over it.
    ///
    /// # Errors
    /// If it cannot be found.
    pub fn own_command(&self, who: &str) -> Result<Command> {
        let own = std::env::current_exe().map_err(|error| of_io("find the program thalweg", &error))?;
        Ok(self.command_of(&own, who))
    }

    fn command_of(&self, program: &Path, who: &str) -> Command {
        let mut command = Command::new(program);
        dies_with_us(&mut command);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command.env("THALWEG_STATE", self.path(who)).env("THALWEG_CONFIG", self.path("config.toml"));
        command
    }
}

/// Through `thalweg testbed run`, which becomes the program: its number stays the same.
fn enter(host: Option<&Host>, command: Command) -> Command {
    match host {
        Some(host) => host.enter(&command),
        None => command,
    }
}
