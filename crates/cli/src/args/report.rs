//! The command lines of `thalweg plot` and `thalweg report`.

use crate::args::whole;
use crate::exit;
use clap::ArgMatches;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use std::path::{Path, PathBuf};

/// What `thalweg plot` would not hear: a form, or pixels, beside a file whose ending says another form. From the
/// environment or a file they may be for directories, but whoever types them thinks that they count.
///
/// # Errors
/// As of any option that another one excludes.
pub fn refuse_unheard(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(plot) = matches.subcommand_matches("plot") else { return Ok(()) };
    let is_typed = |option: &str| plot.value_source(option) == Some(ValueSource::CommandLine);
    let form = plot.get_one::<PathBuf>("out").and_then(|out| Format::of(out));
    let Some(form) = form else { return Ok(()) };
    let is_another = plot.get_one::<Format>("format").is_some_and(|format| *format != form);
    let ending = form.ending();
    let why = if is_typed("format") && is_another {
        format!("--out ends in .{ending}, and --format says another form: leave --format out\n")
    } else if is_typed("scale") && form == Format::Svg {
        format!("--out ends in .{ending}, and --scale is of a PNG: leave --scale out, or name FILE.png\n")
    } else {
        return Ok(());
    };
    Err(clap::Error::raw(ErrorKind::ArgumentConflict, why))
}

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

impl Format {
    /// The form of a file by the ending of its name, in letters of either case; nothing where it says none of these.
    pub fn of(file: &Path) -> Option<Format> {
        let ending = file.extension()?;
        [Format::Svg, Format::Png].into_iter().find(|format| ending.eq_ignore_ascii_case(format.ending()))
    }

    /// How names of its files end.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Png => "png",
        }
    }
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
