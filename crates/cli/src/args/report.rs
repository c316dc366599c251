//! The command lines of `thalweg plot` and `thalweg report`.

use crate::args::whole;
use crate::exit;
use std::path::PathBuf;

/// Options of plot.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct PlotArgs {
    /// Results of `thalweg bench`; foreign ones (`thalweg bench import`) stand in the same figures
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// FILE.svg or FILE.png for one figure, with its data in FILE.csv; a directory for all of them
    #[arg(short = 'o', long, value_name = "PLACE", required_unless_present = "list")]
    pub out: Option<PathBuf>,
    /// Which figure, by its name in --list; for a directory all, else the first
    #[arg(long, value_name = "NAME")]
    pub figure: Option<String>,
    /// Form of the figures in a directory
    #[arg(long, value_enum, default_value = "svg")]
    pub format: Format,
    /// Pixels from side to side
    #[arg(long, value_name = "PIXELS", default_value_t = 760, value_parser = whole::<u16>(320..=2000))]
    pub width: u16,
    /// Pixels of a PNG for each of these
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<u8>(1..=8))]
    pub scale: u8,
    /// Only say which figures there are: name and title
    #[arg(long, conflicts_with_all = ["out", "figure"])]
    pub list: bool,
}

/// Form of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines and letters: for pages and print
    Svg,
    /// Pixels
    Png,
}

/// Options of report.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct ReportArgs {
    /// Results of `thalweg bench`; foreign ones (`thalweg bench import`) stand in the same figures
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// The page
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// What stands over it
    #[arg(long, value_name = "TEXT", default_value = "thalweg: measurements")]
    pub title: String,
}
