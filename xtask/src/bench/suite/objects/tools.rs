//! The tools that copy to and from a bucket. Each copies what is below a directory; nothing is switched off that a tool
//! does by default.

use super::store::{AWS_CONFIG, CA, PREFIX, REMOTE, Store};
use crate::bench::workspace::Workspace;
use crate::{command, stores};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One of them.
pub struct Tool {
    pub name: &'static str,
    /// What is set, for which shape, and where that is advised.
    pub set: &'static str,
    /// Where it is; none of ours.
    program: Option<fn() -> PathBuf>,
    /// What it was installed from, with its version; one that Debian has tells its own.
    pinned: Option<&'static str>,
    /// Variables that name files of the store's directory.
    files: &'static [(&'static str, &'static str)],
    words: fn(&Job<'_>) -> Vec<String>,
}

/// Ours.
pub const OURS: &str = "thalweg";

/// All of them.
pub const TOOLS: [Tool; 4] = [
    Tool {
        name: OURS,
        set: "its defaults",
        program: None,
        pinned: None,
        files: &[("AWS_CA_BUNDLE", CA)],
        words: thalweg,
    },
    Tool {
        name: "aws-cli",
        set: "`cp --recursive`; 20 requests at once, a queue of 10,000, parts of 16 MB from 64 MB on: the example of its \
              page *S3 Configuration*; without checksums behind the content, of which this store cannot read a few",
        program: Some(|| stores::home().join("aws/bin/aws")),
        pinned: Some(stores::AWS_CLI),
        files: &[("AWS_CA_BUNDLE", CA), ("AWS_CONFIG_FILE", AWS_CONFIG)],
        words: aws_cli,
    },
    Tool {
        name: "rclone",
        set: "`copy`; of one large file 8 parts of 16 MiB at once, which its page on S3 calls sensible; of many 32 files at \
              once, for a fast store, and `--fast-list`, for fewer requests",
        program: Some(|| PathBuf::from("/usr/bin/rclone")),
        pinned: None,
        files: &[("SSL_CERT_FILE", CA)],
        words: rclone,
    },
    Tool {
        name: "s5cmd",
        set: "`cp`; 256 workers, its default; of one large file 10 parts at once, as its README advises",
        program: Some(|| stores::home().join("bin/s5cmd")),
        pinned: Some(stores::S5CMD),
        files: &[("SSL_CERT_FILE", CA)],
        words: s5cmd,
    },
];

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Into the bucket.
    Up,
    /// Out of it.
    Down,
}

impl Way {
    pub const ALL: [Way; 2] = [Way::Up, Way::Down];

    pub fn name(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }
}

/// One copy.
pub struct Job<'a> {
    pub way: Way,
    /// What goes up is below it, and what comes down comes there.
    pub directory: &'a Path,
    /// The objects are below [`PREFIX`] in it.
    pub bucket: &'a str,
    pub has_many_files: bool,
}

impl Job<'_> {
    /// These words, then source and destination, if the bucket's place is written so.
    fn words(&self, before: &[&str], there: String) -> Vec<String> {
        let here = format!("{}/", self.directory.display());
        let places = match self.way {
            Way::Up => [here, there],
            Way::Down => [there, here],
        };
        before.iter().map(|word| (*word).to_owned()).chain(places).collect()
    }

    /// As most write it.
    fn url(&self) -> String {
        format!("s3://{}/{PREFIX}/", self.bucket)
    }
}

impl Tool {
    /// That it fails is a failure of the benchmark.
    pub fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// Its version.
    ///
    /// # Errors
    /// If it is not there.
    pub fn version(&self, workspace: &Workspace) -> Result<String> {
        let program = self.program.map(|program| program());
        if let Some(program) = program.filter(|program| !program.exists()) {
            bail!("{} is not installed", program.file_name().unwrap_or_default().display());
        }
        if let Some(package) = self.pinned {
            return Ok(package.rsplit(['@', '=']).next().unwrap_or_default().to_owned());
        }
        let told = command::says(self.start(workspace).arg("--version"))?;
        let version = told.split_whitespace().nth(1).context("it tells no version")?;
        ensure!(version.contains('.'), "it tells the version {version}");
        Ok(version.to_owned())
    }

    /// The command that does it.
    pub fn command(&self, workspace: &Workspace, store: &Store, job: &Job<'_>) -> Command {
        let mut command = self.start(workspace);
        command.args((self.words)(job));
        store.told_to(command, self.files)
    }

    fn start(&self, workspace: &Workspace) -> Command {
        self.program.map_or_else(|| workspace.thalweg(), |program| Command::new(program()))
    }
}

fn thalweg(job: &Job<'_>) -> Vec<String> {
    job.words(&["cp", "-q"], job.url())
}

fn aws_cli(job: &Job<'_>) -> Vec<String> {
    job.words(&["s3", "cp", "--recursive", "--only-show-errors"], job.url())
}

fn rclone(job: &Job<'_>) -> Vec<String> {
    let options: &[&str] = match job.has_many_files {
        true => &["--transfers", "32", "--fast-list"],
        false => &["--s3-chunk-size", "16M", "--s3-upload-concurrency", "8"],
    };
    let there = format!("{REMOTE}:{}/{PREFIX}/", job.bucket);
    job.words(&[&["copy", "--quiet"][..], options].concat(), there)
}

fn s5cmd(job: &Job<'_>) -> Vec<String> {
    let options: &[&str] = if job.has_many_files { &[] } else { &["--concurrency", "10"] };
    // What it is to take out of a bucket is a pattern.
    let there = match job.way {
        Way::Up => job.url(),
        Way::Down => job.url() + "*",
    };
    job.words(&[&["--log", "error", "cp"][..], options].concat(), there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_told_what_goes_where_and_what_the_page_says_of_it() {
        let told = |way, has_many_files| {
            let job = Job { way, directory: Path::new("/tree"), bucket: "b", has_many_files };
            TOOLS.each_ref().map(|tool| (tool.words)(&job).join(" "))
        };
        assert_eq!(
            told(Way::Up, false),
            [
                "cp -q /tree/ s3://b/data/",
                "s3 cp --recursive --only-show-errors /tree/ s3://b/data/",
                "copy --quiet --s3-chunk-size 16M --s3-upload-concurrency 8 /tree/ store:b/data/",
                "--log error cp --concurrency 10 /tree/ s3://b/data/",
            ]
        );
        assert_eq!(
            told(Way::Down, true),
            [
                "cp -q s3://b/data/ /tree/",
                "s3 cp --recursive --only-show-errors s3://b/data/ /tree/",
                "copy --quiet --transfers 32 --fast-list store:b/data/ /tree/",
                "--log error cp s3://b/data/* /tree/",
            ]
        );
    }
}
