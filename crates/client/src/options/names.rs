//! Names below a source, of which a list says that only these are meant.

use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::RelativePath;
use thalweg_wire::path::Escaped;

/// Reads them. Leading slashes and `./` go, as with rsync; an empty one says nothing.
///
/// # Errors
/// `Usage` for a name that leads out of the source, or an empty list.
pub fn relative<'a>(listed: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<RelativePath>> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "read the list of names", cause);
    let mut names = Vec::new();
    for name in listed {
        let parts: Vec<&[u8]> =
            name.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        if parts.is_empty() {
            continue;
        }
        let path = RelativePath::new(parts.join(&b'/'))
            .map_err(|error| usage(format!("`{}`: {error}", Escaped(name))))?;
        names.push(path);
    }
    if names.is_empty() {
        return Err(usage("the list is empty: nothing would be copied".into()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_source_and_none_leads_out_of_it() {
        let read = |listed: &[&[u8]]| relative(listed.iter().copied());
        let names = read(&[b"/a//b", b"./c/", b"", b"\xff"]).unwrap();
        let bytes: Vec<&[u8]> = names.iter().map(RelativePath::as_bytes).collect();
        assert_eq!(bytes, [&b"a/b"[..], b"c", b"\xff"]);
        let odd: [&[&[u8]]; 3] = [&[b"a/../../b"], &[], &[b"/", b"."]];
        for odd in odd {
            assert_eq!(read(odd).unwrap_err().kind, FailureKind::Usage);
        }
    }
}
