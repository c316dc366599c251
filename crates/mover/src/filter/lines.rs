//! Lines of filter files, and rules that are typed.

use super::usage;
use crate::failure::Result;
use thalweg_wire::message::FilterRule;
use thalweg_wire::path::Escaped;

/// Reads one line of a filter file or a `--filter`: `+ pattern` or `- pattern` (or `include`, `exclude`).
/// `None` for an empty line and a comment (`#` or `;`).
///
/// # Errors
/// `Usage` for anything else; rsync's merge files and modifiers are not known here.
pub fn parse_filter_line(line: &str) -> Result<Option<FilterRule>> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.trim().is_empty() || line.starts_with(['#', ';']) {
        return Ok(None);
    }
    let starts = [("+ ", true), ("- ", false), ("include ", true), ("exclude ", false)];
    match starts.iter().find_map(|(start, include)| Some((line.strip_prefix(start)?, *include))) {
        Some((pattern, include)) if !pattern.is_empty() => {
            Ok(Some(FilterRule { include, pattern: pattern.to_owned() }))
        }
        _ => Err(usage(format!(
            "the filter rule `{}` is not understood: write `+ PATTERN` or `- PATTERN`",
            Escaped(line.as_bytes())
        ))),
    }
}

/// Reads one line of an `--exclude-from` or `--include-from` file: a pattern, or a rule with its own sign.
///
/// # Errors
/// As [`parse_filter_line`].
pub fn parse_pattern_line(line: &str, include: bool) -> Result<Option<FilterRule>> {
    let bare = line.trim_end_matches(['\n', '\r']);
    if bare.starts_with("+ ")
        || bare.starts_with("- ")
        || bare.trim().is_empty()
        || bare.starts_with(['#', ';'])
    {
        return parse_filter_line(line);
    }
    Ok(Some(FilterRule { include, pattern: bare.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_lines_have_signs_and_comments() {
        let rule = |include, pattern: &str| Some(FilterRule { include, pattern: pattern.to_owned() });
        assert_eq!(parse_filter_line("- *.o\n").unwrap(), rule(false, "*.o"));
        assert_eq!(parse_filter_line("+ a b").unwrap(), rule(true, "a b"));
        assert_eq!(parse_filter_line("include x\r\n").unwrap(), rule(true, "x"));
        for nothing in ["", "  ", "# - x", "; y"] {
            assert_eq!(parse_filter_line(nothing).unwrap(), None);
        }
        for refused in ["x", "- ", ". file", "!", "-! x"] {
            assert!(parse_filter_line(refused).is_err(), "{refused}");
        }
        assert_eq!(parse_pattern_line("*.o", false).unwrap(), rule(false, "*.o"));
        assert_eq!(parse_pattern_line("+ *.o", false).unwrap(), rule(true, "*.o"));
        assert_eq!(parse_pattern_line("# x", false).unwrap(), None);
    }
}
