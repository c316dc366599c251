//! `thalweg explain-filter`: which rule decides about a path, without a copy.

use crate::args::filters::ExplainArgs;
use crate::exit::Exit;
use crate::out;
use std::os::unix::ffi::OsStrExt;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::filter::Filter;
use thalweg_wire::RelativePath;

/// `thalweg explain-filter`.
///
/// # Errors
/// `Usage` for rules, lists and paths that are none; what the kernel says about files with them.
pub fn explain_filter(args: &ExplainArgs) -> Result<Exit> {
    let only = args.filter.only()?;
    let filter = Filter::new(args.filter.rules()?)?;
    for text in &args.paths {
        let bytes = text.as_bytes();
        let is_dir = bytes.ends_with(b"/");
        let parts: Vec<&[u8]> =
            bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        let path = RelativePath::new(parts.join(&b'/'))
            .map_err(|error| Failure::new(FailureKind::Usage, "read the path", error))?;
        out::tell(&match &only {
            None => filter.explain(&path, is_dir),
            // A directory above a name comes with it, whatever the rules say.
            Some(names) if names.iter().any(|name| is_below(name, &path)) => {
                format!("`{path}` is moved: a name in --files-from is below it")
            }
            Some(names) if names.contains(&path) => filter.explain_alone(&path, is_dir),
            Some(_) => format!("`{path}` is left out: not in --files-from"),
        });
    }
    Ok(Exit::Done)
}

fn is_below(path: &RelativePath, directory: &RelativePath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    directory.is_root() || rest.is_some_and(|rest| rest.starts_with(b"/"))
}
