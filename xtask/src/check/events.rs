//! docs/reference/json.md has every event that `--json` tells.

use super::text::{code_lines, quoted, sources_below};
use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

/// What a program reads it has to be able to look up.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    const PAGE: &str = "docs/reference/json.md";
    let page = fs::read_to_string(checkout::root().join(PAGE)).context(PAGE)?;
    let told: Vec<&str> = quoted(&page).collect();
    for source in ["crates/cli/src", "crates/client/src"] {
        for file in sources_below(&checkout::root().join(source))? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            for (number, line) in code_lines(&text) {
                for event in events_in(line).filter(|event| !told.contains(event)) {
                    let place = file.strip_prefix(checkout::root()).unwrap_or(&file).display();
                    breaches.push(format!("{place}:{number} tells `{event}`, which is not in {PAGE}"));
                }
            }
        }
    }
    Ok(())
}

/// Events whose names stand in a line of code, behind the field or in an object about a path.
fn events_in(line: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 4] = ["\"event\": \"", "(\"event\".into(), \"", "(\"event\", \"", "about(\""];
    let rests = BEFORE.into_iter().flat_map(move |before| line.split(before).skip(1));
    let names = rests.filter_map(|rest| rest.split('"').next());
    names.filter(|name| name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_in_the_reference() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
        let told = |line: &'static str| events_in(line).collect::<Vec<&str>>();
        assert_eq!(told(r#"json!({"event": "set", "frames": 3})"#), ["set"]);
        assert_eq!(told(r#"put("event", "finished".into());"#), ["finished"]);
        assert_eq!(told(r#"object.insert("event".into(), "why".into());"#), ["why"]);
        assert_eq!(told(r#"let mut object = json::about("damage", path);"#), ["damage"]);
        assert_eq!(told(r#"json!({"event": name})"#), [""; 0]);
        assert_eq!(told(r#"about("read a result file", &args.file, &error)"#), [""; 0]);
    }
}
