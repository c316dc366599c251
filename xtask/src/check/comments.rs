//! Comments are as wide as what stands beside them, so that they are read without scrolling. rustfmt leaves them alone.

use super::text::sources_below;
use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

const BELOW: [&str; 3] = ["crates", "xtask/src", "fuzz"];

/// Columns that a line of a comment may have.
const COLUMNS_MAX: usize = 120;

/// Looks at every line of comments in Rust.
///
/// # Errors
/// If a file cannot be read.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    for below in BELOW {
        for file in sources_below(&checkout::root().join(below))? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let place = file.strip_prefix(checkout::root()).unwrap_or(&file).display();
            breaches.extend(wide(&text).map(|number| {
                format!("{place}:{number} is a comment of more than {COLUMNS_MAX} columns: wrap it")
            }));
        }
    }
    Ok(())
}

/// Lines of comments that are too wide. Rows of tables, links and examples cannot be wrapped.
fn wide(text: &str) -> impl Iterator<Item = usize> {
    let is_wide = |line: &str| {
        let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
        let words = comment.trim_start_matches(['/', '!']).trim_start();
        line.chars().count() > COLUMNS_MAX && !words.starts_with(['|', '[', '{']) && words.contains(' ')
    };
    text.lines().enumerate().filter(move |(_, line)| is_wide(line)).map(|(number, _)| number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_is_too_wide_is_found_and_code_tables_and_links_are_not() {
        let found = |line: String| wide(&line).count();
        let long = "word ".repeat(30);
        assert_eq!(found(format!("    /// {long}")), 1);
        assert_eq!(found(format!("//! {long}")), 1);
        for line in
            [format!("/// | {long} |"), format!("/// [`Name`]: {long}"), format!("let text = \"{long}\";")]
        {
            assert_eq!(found(line.clone()), 0, "{line}");
        }
        assert_eq!(found("// ".to_owned() + &"x".repeat(200)), 0, "one word");
        assert_eq!(found("// ".to_owned() + &"word ".repeat(20)), 0);
    }
}
