//! The programs of tests, several at once. Most of them wait most of the time, for a link, a daemon or a clock: one
//! after the other, as `cargo test` runs them, they leave two cores idle for four fifths of half an hour. What measures
//! runs by itself afterwards.

use crate::tools::{self, Built};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many run at once, each with its own threads. More would make those wait that have work to do.
const AT_ONCE: usize = 3;

/// Hold what they measure against what must be: of other work beside them they would measure that.
const MEASURING: [&str; 9] =
    ["doctor", "long_way", "path", "predict", "probe", "slots", "testbed", "tune", "why"];

/// Last longest, and begin first: else they would end last, alone.
const LONG: [&str; 7] = ["bench", "ssh", "hostile", "network", "stream", "objects", "thalweg_mover"];

/// A program that runs longer is ended, and has failed.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// How often is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Builds and runs the tests of all crates, but those in the documentation.
///
/// # Errors
/// If they do not build; at the end, with the names of those that failed.
pub fn run() -> Result<()> {
    let all = tools::built(&["test", "--workspace"])?;
    for name in MEASURING.iter().chain(&LONG) {
        ensure!(
            all.iter().any(|built| built.name == *name),
            "no program of tests has the name {name} any more"
        );
    }
    let (measuring, mut others): (Vec<Built>, Vec<Built>) =
        all.into_iter().partition(|built| MEASURING.contains(&built.name.as_str()));
    others.sort_by_key(|built| LONG.iter().position(|long| *long == built.name).unwrap_or(LONG.len()));
    let mut failed = at_once(others, AT_ONCE)?;
    failed.extend(at_once(measuring, 1)?);
    if failed.is_empty() {
        return Ok(());
    }
    bail!("tests failed in {}: `cargo test --workspace` with that name runs them alone", failed.join(", "));
}

/// Runs all of them, so many at a time, in their order. The names of those that failed.
fn at_once(programs: Vec<Built>, limit: usize) -> Result<Vec<String>> {
    let mut failed = Vec::new();
    let mut running: Vec<Running> = Vec::new();
    let mut left = programs.into_iter();
    loop {
        while running.len() < limit
            && let Some(built) = left.next()
        {
            running.push(Running::start(built)?);
        }
        if running.is_empty() {
            return Ok(failed);
        }
        let mut still = Vec::new();
        for mut one in running {
            match one.ended()? {
                None => still.push(one),
                Some(is_good) => {
                    one.tell()?;
                    if !is_good {
                        failed.push(std::mem::take(&mut one.built.name));
                    }
                }
            }
        }
        running = still;
        std::thread::sleep(LOOK);
    }
}

/// A program that runs, in our process group: Ctrl-C ends it and what it started. What it says goes into a file without
/// a name, and is told in one piece.
struct Running {
    built: Built,
    child: Child,
    said: File,
    since: Instant,
}

impl Running {
    fn start(built: Built) -> Result<Running> {
        let said = tempfile::tempfile().context("a file for what the tests say")?;
        let child = Command::new(&built.program)
            .current_dir(&built.directory)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()
            .with_context(|| format!("start {}", built.program.display()))?;
        Ok(Running { built, child, said, since: Instant::now() })
    }

    /// Whether it went well, once it has ended.
    fn ended(&mut self) -> Result<Option<bool>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if self.since.elapsed() < LIMIT {
            return Ok(None);
        }
        println!("{} did not end within {} minutes", self.built.name, LIMIT.as_secs() / 60);
        self.end();
        Ok(Some(false))
    }

    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn tell(&mut self) -> Result<()> {
        let mut said = Vec::new();
        self.said.seek(SeekFrom::Start(0))?;
        self.said.read_to_end(&mut said)?;
        let seconds = self.since.elapsed().as_secs();
        println!("{}, {seconds} s:{}", self.built.program.display(), String::from_utf8_lossy(&said));
        Ok(())
    }
}

/// Whatever else went wrong, none runs on.
impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
