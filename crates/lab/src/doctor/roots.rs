//! Where the machine is read. The roots are arguments, so that any machine can be read from a tree of files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel and the administrator keep their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/etc`.
    pub etc: PathBuf,
    /// `/run`.
    pub run: PathBuf,
    /// `/usr`.
    pub usr: PathBuf,
}

impl Roots {
    /// Those below `root`: `/` is this machine.
    pub fn below(root: &Path) -> Roots {
        let at = |name| root.join(name);
        Roots { proc: at("proc"), sys: at("sys"), etc: at("etc"), run: at("run"), usr: at("usr") }
    }

    /// The file of a kernel setting.
    pub fn sysctl(&self, key: &str) -> PathBuf {
        self.proc.join("sys").join(key.replace('.', "/"))
    }

    /// The value of a kernel setting, with single spaces.
    ///
    /// # Errors
    /// In words.
    pub fn sysctl_value(&self, key: &str) -> Result<String, String> {
        read(&self.sysctl(key)).map(|text| spaced(&text))
    }
}

/// The same words, one space between.
pub fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A small file of the kernel, without white space around it.
///
/// # Errors
/// Which file could not be read, and why.
pub fn read(path: &Path) -> Result<String, String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(error) => Err(unseen(path, &error)),
    }
}

/// A number in a file of its own; none if there is none.
pub fn number<N: std::str::FromStr>(path: &Path) -> Option<N> {
    read(path).ok()?.parse().ok()
}

/// Names in a directory, sorted; none if it cannot be read.
pub fn names(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn unseen(path: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read by this user".to_owned(),
        _ => error.to_string(),
    };
    format!("{} {why}", path.display())
}

/// The numbers of a kernel list such as `0-3,8`; at most 65,536 of them.
pub fn numbers_of_list(list: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            numbers.extend((first..=last).take(65_536 - numbers.len()));
        }
    }
    numbers
}

/// Numbers as the kernel lists them: `0-3,8`. `numbers` are in order, each once.
pub fn list_of_numbers(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_this_user_may_not_read_is_said_to_be_one() {
        let why = unseen(Path::new("/sys/one"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(why, "/sys/one may not be read by this user");
    }

    #[test]
    fn lists_of_the_kernel_are_read_and_bounded() {
        assert_eq!(numbers_of_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(numbers_of_list(""), [0; 0]);
        assert_eq!(numbers_of_list("0-4294967295").len(), 65_536);
    }

    #[test]
    fn numbers_are_listed_as_the_kernel_does() {
        for list in ["0-2,8", "0,2,4294967294-4294967295", "7", ""] {
            assert_eq!(list_of_numbers(&numbers_of_list(list)), list);
        }
    }
}
