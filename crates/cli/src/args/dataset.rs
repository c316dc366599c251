//! The command line of `thalweg dataset`.

use crate::args::whole;
use clap::Subcommand;
use std::path::PathBuf;
use thalweg_client::options::dataset::{Sizes, parse_content, parse_percent, parse_sizes};
use thalweg_mover::endpoint::content::Content;
use thalweg_mover::endpoint::dataset::DatasetSpec;

/// What to do with a data set.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Write files whose names, sizes and bytes come from a seed
    Make(MakeArgs),
    /// Compare files with the seed that they were made from: no second copy is needed
    Check(CheckSetArgs),
}

impl DatasetCommand {
    /// Whether results are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            DatasetCommand::Make(args) => args.json,
            DatasetCommand::Check(args) => args.json,
        }
    }
}

/// Options of `thalweg dataset make`.
#[derive(Debug, clap::Args)]
pub struct MakeArgs {
    /// Where to: a directory that is empty or not there, or holds this very set
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// What it is.
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg dataset check`.
#[derive(Debug, clap::Args)]
pub struct CheckSetArgs {
    /// A set, or a copy of one: its dataset.json says what should be there
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a set is like.
#[derive(Debug, clap::Args)]
pub struct SpecArgs {
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..))]
    pub files: u64,
    /// Bytes of each file; or a distribution, SIZE:WEIGHT,SIZE:WEIGHT,...: 1KiB:70,1MiB:25,1GiB:5
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_sizes)]
    pub size: Sizes,
    /// noise (does not compress), frames (of a detector: smooth, 16 bits a pixel), text (lines of words)
    #[arg(long, value_name = "KIND", default_value = "noise", value_parser = parse_content)]
    pub content: Content,
    /// Share of each file's mebibytes that are holes
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_percent)]
    pub sparse: u8,
    /// Where names, sizes and bytes come from
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..))]
    pub seed: u64,
}

impl SpecArgs {
    /// As the mover takes it.
    pub fn spec(&self) -> DatasetSpec {
        DatasetSpec {
            files: self.files,
            sizes: self.size.0.clone(),
            content: self.content,
            sparse_percent: self.sparse,
            seed: self.seed,
        }
    }
}
