//! What the files of sysctl.d set at the next start, by the rules of sysctl.d(5).
//!
//! Files are read in the order of their names, whichever directory they are in, and the last line that sets a key
//! holds. Of files with the same name only that of the first directory is read. Not looked at: patterns
//! (`net.ipv4.conf.*`), which give way to a line that names the key.

use super::roots::{Roots, names, read, spaced};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;

/// A file that sets a key to another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The file.
    pub path: PathBuf,
    /// The key, with points.
    pub key: String,
    /// The value.
    pub value: String,
}

/// Of these settings, which the file `name` sets in the first directory: those that a later file sets to something
/// else.
pub fn others(roots: &Roots, name: &str, settings: &[(String, String)]) -> Vec<Other> {
    let mut last = BTreeMap::new();
    for path in files(roots).range::<str, _>((Bound::Excluded(name), Bound::Unbounded)).map(|(_, path)| path)
    {
        for (key, value) in lines(&read(path).unwrap_or_default()) {
            last.insert(key, (path.clone(), value));
        }
    }
    settings
        .iter()
        .filter_map(|(key, ours)| {
            let (path, value) = last.remove(key)?;
            (value != *ours).then(|| Other { path, key: key.clone(), value })
        })
        .collect()
}

/// By name, of each the one that is read.
fn files(roots: &Roots) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for above in [roots.etc.clone(), roots.run.clone(), roots.usr.join("local/lib"), roots.usr.join("lib")] {
        let directory = above.join("sysctl.d");
        for name in names(&directory).into_iter().filter(|name| name.ends_with(".conf")) {
            files.entry(name.clone()).or_insert_with(|| directory.join(name));
        }
    }
    files
}

/// Keys with points, as the first separator of each says, and values with single spaces.
fn lines(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        // One that may fail.
        let key = key.trim();
        let key = key.strip_prefix('-').unwrap_or(key);
        let is_path = key.find(['.', '/']).is_some_and(|at| key[at..].starts_with('/'));
        let key = if is_path { key.replace('/', ".") } else { key.to_owned() };
        Some((key, spaced(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_however_they_are_written_and_comments_are_not() {
        let text = "# net.a = 1\n; net.a = 2\n net/ipv4/tcp_rmem=4096\t1  2\n-net.core.b = 3\nnet.ipv4.*\n";
        let read: Vec<(String, String)> = lines(text).collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read, [pair("net.ipv4.tcp_rmem", "4096 1 2"), pair("net.core.b", "3")]);
    }
}
