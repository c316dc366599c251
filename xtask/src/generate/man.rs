//! Man pages: one of the program, and one of each command.

use super::visible;
use anyhow::Result;
use clap::Command;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where they are.
pub const DIRECTORY: &str = "packaging/man";

/// All of them, by their path.
///
/// # Errors
/// If one cannot be rendered.
pub fn files(command: &Command) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    page("thalweg", command, &mut files)?;
    Ok(files)
}

/// The page of a command, then those of what is below it.
fn page(name: &str, command: &Command, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let mut text = Vec::new();
    let titled = command.clone().name(name.to_owned()).display_name(name.to_owned());
    // Of what the short help leaves out, the page has the long help only.
    let explained = titled.mut_args(|argument| match (argument.get_long_help(), argument.get_help()) {
        (None, Some(help)) => {
            let help = help.clone();
            argument.long_help(help)
        }
        _ => argument,
    });
    clap_mangen::Man::new(explained).render(&mut text)?;
    files.insert(Path::new(DIRECTORY).join(format!("{name}.1")), text);
    for sub in visible(command) {
        page(&format!("{name}-{}", sub.get_name()), sub, files)?;
    }
    Ok(())
}
