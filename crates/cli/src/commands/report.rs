//! `thalweg plot` and `thalweg report`: figures and a page from result files.

use crate::exit::Exit;
use crate::{files, json, out, show, units};
use std::fs;
use std::path::{Path, PathBuf};
use thalweg_cli::args::report::{Format, PlotArgs, ReportArgs};
use thalweg_lab::bench::record::Results;
use thalweg_lab::plot::{self, Figure};
use thalweg_lab::report::{figures, html};
use thalweg_mover::failure::{self, Failure, FailureKind, Result, of_io};

const DRAW: &str = "write the figure";
const KEEP_DATA: &str = "write the figure's data";

/// Endings of pictures and documents that are written by no command here.
const OTHER_FORMS: [&str; 19] = [
    "pdf", "ps", "eps", "svgz", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "tif", "tiff", "csv", "txt",
    "md", "tex", "docx", "odt", "epub",
];

/// `thalweg report RESULT…`.
///
/// # Errors
/// If a result cannot be read or none of the files is one, or the page not be written; `Usage` if it would replace one
/// of them, or its name says another form.
pub fn report(args: &ReportArgs) -> Result<Exit> {
    const OPERATION: &str = "write the report";
    files::refuse_input(OPERATION, &args.out, &args.results)?;
    refuse_form(OPERATION, &args.out, &["svg", "png"], "a report is HTML: name another --out")?;
    let results = read(&args.results)?;
    files::write_whole(OPERATION, &args.out, html(&args.title, &results).as_bytes())?;
    let samples: usize = results.iter().map(|results| results.samples.len()).sum();
    out::line(&json::inert(&format!(
        "{}: {} from {}",
        args.out.display(),
        units::counted(figures(&results).len() as u64, "figure", "figures"),
        units::counted(samples as u64, "sample", "samples")
    )))?;
    out::flush()?;
    Ok(Exit::Done)
}

/// `thalweg plot RESULT…`.
///
/// # Errors
/// As [`report`]; `Usage` if there is no such figure.
pub fn plot(args: &PlotArgs) -> Result<Exit> {
    let results = read(&args.results)?;
    let all = figures(&results);
    if args.list {
        for figure in &all {
            out::line(&json::inert(&format!("{}: {}", figure.name, figure.title)))?;
        }
        out::flush()?;
        return Ok(Exit::Done);
    }
    let chosen: Vec<&Figure> = match &args.figure {
        Some(name) => all.iter().filter(|figure| figure.name == *name).collect(),
        None => all.iter().collect(),
    };
    let Some(first) = chosen.first() else { return Err(nothing(args, &all, &results)) };
    let to = args.out.clone().unwrap_or_default();
    let format = Format::of(&to);
    // What is there already may be called as it likes.
    if format.is_none() && !to.is_dir() {
        let why = "figures are svg or png: name FILE.svg, FILE.png, or a directory";
        refuse_form(DRAW, &to, &["html", "htm"], why)?;
    }
    let ending = args.format.ending();
    let drawings: Vec<(&Figure, PathBuf)> = match format {
        Some(_) => vec![(*first, to.clone())],
        None => chosen.iter().map(|&one| (one, to.join(format!("{}.{ending}", one.name)))).collect(),
    };
    // Before the first is written: none or all.
    for (_, path) in &drawings {
        files::refuse_input(DRAW, path, &args.results)?;
        files::refuse_input(KEEP_DATA, &data_of(path), &args.results)?;
    }
    if format.is_none() {
        fs::create_dir_all(&to).map_err(|error| failed("make a directory", &to, &error))?;
    }
    for (figure, path) in &drawings {
        draw(figure, path, format.unwrap_or(args.format), args)?;
    }
    out::flush()?;
    Ok(Exit::Done)
}

fn nothing(args: &PlotArgs, all: &[Figure], results: &[Results]) -> Failure {
    let cause = match &args.figure {
        _ if results.iter().all(|results| results.samples.is_empty()) => {
            "there is no sample in it".to_owned()
        }
        _ if all.is_empty() => {
            let suites: Vec<String> = results.iter().map(|one| format!("`{}`", one.about.suite)).collect();
            format!("no figure is known for results of {}", json::inert(&suites.join(", ")))
        }
        Some(name) => format!("there is no figure `{name}`; --list names those there are"),
        None => "there is no figure".to_owned(),
    };
    Failure::new(FailureKind::Usage, "choose a figure", cause)
}

/// Refuses a name whose ending is of none of the forms that are written under it: of [`OTHER_FORMS`] or of `more`.
fn refuse_form(operation: &str, out: &Path, more: &[&str], why: &str) -> Result<()> {
    let Some(ending) = out.extension() else { return Ok(()) };
    if OTHER_FORMS.iter().chain(more).any(|form| ending.eq_ignore_ascii_case(form)) {
        return Err(failure::at_path(Failure::new(FailureKind::Usage, operation, why), out));
    }
    Ok(())
}

/// Where the data of a figure go: beside it.
fn data_of(figure: &Path) -> PathBuf {
    figure.with_extension("csv")
}

/// A figure, and its data beside it.
fn draw(figure: &Figure, to: &Path, format: Format, args: &PlotArgs) -> Result<()> {
    let width = f64::from(args.width);
    let drawn = match format {
        Format::Svg => plot::svg(figure, width).into_bytes(),
        Format::Png => plot::png(figure, width, f32::from(args.scale)).map_err(|error| {
            Failure::new(FailureKind::Internal, "draw a figure", format!("{}: {error}", figure.name))
        })?,
    };
    files::write_whole(DRAW, to, &drawn)?;
    files::write_whole(KEEP_DATA, &data_of(to), plot::csv(figure).as_bytes())?;
    out::line(&json::inert(&format!("{}: {}", to.display(), figure.title)))
}

/// Results among these files. Of several, one that is none is passed over with a word: a directory of them may hold
/// what others wrote.
fn read(paths: &[PathBuf]) -> Result<Vec<Results>> {
    let mut results = Vec::new();
    let mut passed_over = Vec::new();
    for path in paths {
        match Results::read(path) {
            Ok(result) => results.push(result),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => passed_over.push((path, error)),
            Err(error) => return Err(failed("read a result", path, &error)),
        }
    }
    match passed_over.first() {
        Some((path, error)) if results.is_empty() => return Err(failed("read a result", path, error)),
        _ => {}
    }
    for (path, error) in passed_over {
        show::line(&json::inert(&format!("passed over: `{}`: {error}", path.display())));
    }
    Ok(results)
}

fn failed(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    failure::at_path(of_io(operation, error), path)
}
