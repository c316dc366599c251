//! Files of the AWS configuration: sections, names with values, and names below names.
//!
//! What is understood is what the AWS tools agree on:
//! - `[SECTION]` begins one; the same section twice is one.
//! - `NAME = VALUE`; names are the same in either case, and the later of two holds.
//! - A line that is indented deeper than the name before it goes on with that: below a name without a value as
//!   `NAME = VALUE` of its own, kept as `OUTER.NAME`, else as more of the value.
//! - A line that begins with `#` or `;` is a comment, and so is what stands behind ` #` or ` ;`; not in quotes, and not
//!   in a command (`credential_process`), which has all of its line.
//!
//! Nothing of a file is repeated in an error: it may be a secret.

use std::collections::BTreeMap;

/// Names with their values.
pub(super) type Values = BTreeMap<String, String>;

/// Sections with their values, by what stands between the brackets, with single blanks and without quotes.
pub(super) type Sections = BTreeMap<String, Values>;

/// Why a file is none of this form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// What is wrong with it.
    pub(super) why: &'static str,
}

/// Reads a whole file. Memory is at most some three times the text's.
///
/// # Errors
/// The first line that is none of this form.
pub(super) fn parse(text: &str) -> Result<Sections, Trouble> {
    let mut sections = Sections::new();
    let mut section: Option<String> = None;
    // The name that lines may go on with, how far it is indented, and whether it has names below it.
    let mut before: Option<(String, usize, bool)> = None;
    for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let trouble = |why| Trouble { line: at + 1, why };
        let indent = line.len() - line.trim_start().len();
        let goes_on = before.as_ref().filter(|(_, depth, _)| indent > *depth);
        let is_command = match goes_on {
            Some((name, _, has_names)) => name == COMMAND && !has_names,
            None => pair(line).is_some_and(|(name, _)| name == COMMAND),
        };
        let line = without_comment(line, is_command).trim();
        if line.is_empty() {
            continue;
        }
        if indent == 0 && line.starts_with('[') {
            let name = line[1..].strip_suffix(']').ok_or_else(|| trouble("a section ends with `]`"))?;
            let name = section_name(name);
            sections.entry(name.clone()).or_default();
            (section, before) = (Some(name), None);
            continue;
        }
        let section = section.as_ref().ok_or_else(|| trouble("it stands before the first section"))?;
        let values = sections.entry(section.clone()).or_default();
        match &before {
            Some((outer, depth, true)) if indent > *depth => {
                let (name, value) = pair(line).ok_or_else(|| trouble(NO_PAIR))?;
                values.insert(format!("{outer}.{name}"), value.to_owned());
            }
            Some((name, depth, false)) if indent > *depth => {
                let value = values.entry(name.clone()).or_default();
                value.push('\n');
                value.push_str(line);
            }
            _ => {
                let (name, value) = pair(line).ok_or_else(|| trouble(NO_PAIR))?;
                values.insert(name.clone(), value.to_owned());
                before = Some((name, indent, value.is_empty()));
            }
        }
    }
    Ok(sections)
}

/// The name whose value is a command.
const COMMAND: &str = "credential_process";

const NO_PAIR: &str = "it is neither `[SECTION]` nor `NAME = VALUE`";

/// A name and its value.
fn pair(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), value.trim()))
}

/// What stands before a comment.
fn without_comment(line: &str, is_command: bool) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    if is_command {
        return line;
    }
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            // One in the middle of a word is an apostrophe, and one without an end quotes nothing.
            None if matches!(c, '"' | '\'') && matches!(before, ' ' | '\t' | '=') => {
                quote = Some(c).filter(|quote| line[at + 1..].contains(*quote));
            }
            None if matches!(c, '#' | ';') && matches!(before, ' ' | '\t') => return &line[..at],
            None => {}
        }
        before = c;
    }
    line
}

/// `profile NAME`, however many blanks are around and whether or not the name is in quotes.
fn section_name(written: &str) -> String {
    let written = written.trim();
    let (kind, name) = match written.split_once([' ', '\t']) {
        Some((kind, name)) => (Some(kind), name.trim()),
        None => (None, written),
    };
    let quoted = |quote: char| name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote));
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(name);
    kind.map_or_else(|| name.to_owned(), |kind| format!("{kind} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value<'a>(sections: &'a Sections, section: &str, name: &str) -> Option<&'a str> {
        sections.get(section)?.get(name).map(String::as_str)
    }

    #[test]
    fn a_file_as_the_tools_write_it_is_read() {
        let text = "\u{feff}# mine\r\n[default]\r\nregion=eu-west-1\r\n\r\n; more\n\
                    [ profile  \"beam line\" ] ; the other\n  Region = us-west-2 # near\n  output = json\n\
                    s3 =\n    addressing_style = path\n    max_queue_size = 7\n\
                    endpoint_url = https://a/?b=c#d\n\
                    credential_process = \"/opt/a b\"\n   --account # 7\n   7\n\
                    role_session_name = \"a # b\" # c\n\
                    [sso-session x]\nsso_region = a\n[default]\nregion = eu-west-2\nempty =\n";
        let sections = parse(text).unwrap();
        assert_eq!(value(&sections, "default", "region"), Some("eu-west-2"));
        assert_eq!(value(&sections, "default", "empty"), Some(""));
        let of_profile = |name| value(&sections, "profile beam line", name);
        assert_eq!(of_profile("region"), Some("us-west-2"));
        assert_eq!(of_profile("output"), Some("json"));
        assert_eq!(of_profile("s3.addressing_style"), Some("path"));
        assert_eq!(of_profile("s3.max_queue_size"), Some("7"));
        assert_eq!(of_profile("endpoint_url"), Some("https://a/?b=c#d"));
        assert_eq!(of_profile("credential_process"), Some("\"/opt/a b\"\n--account # 7\n7"));
        assert_eq!(of_profile("role_session_name"), Some("\"a # b\""));
        assert_eq!(value(&sections, "sso-session x", "sso_region"), Some("a"));
        assert_eq!(sections.len(), 3);
    }

    #[test]
    fn what_is_none_of_this_form_is_told_by_its_line_and_not_repeated() {
        for (text, line) in [
            ("a = b\n", 1),
            ("[default\n", 1),
            ("# c\n[default]\n\ncanary\n", 4),
            ("[default]\n= canary\n", 2),
            ("[default]\ns3 =\n  canary\n", 3),
        ] {
            let trouble = parse(text).unwrap_err();
            assert_eq!(trouble.line, line, "{text:?}");
            assert!(!format!("{trouble:?}").contains("canary"));
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_file_is_read_or_told_by_its_line(text in "([\\[\\]=#;a \"\n\t\r]|é){0,60}") {
            if let Err(trouble) = parse(&text) {
                prop_assert!((1..=text.lines().count()).contains(&trouble.line));
            }
        }

        #[test]
        fn a_value_is_what_was_written(value in "[a-zA-Z0-9/+=]{1,40}") {
            let sections = parse(&format!("[default]\naws_secret_access_key = {value}\n")).unwrap();
            prop_assert_eq!(&sections["default"]["aws_secret_access_key"], &value);
        }
    }
}
