//! Words of command lines: what a user wrote is split, what a far shell reads is quoted, a destination is nothing else.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Words in a command that a user gave.
const WORDS_MAX: usize = 256;

/// Whether `[user@]host` can only be that: never an option to ssh, nothing that a shell behind ssh's own configuration
/// (`ProxyCommand` with `%h`, `%r`) would read as more than a word. What OpenSSH refuses since 9.6, everywhere.
///
/// # Errors
/// What is wrong with it.
pub fn check_destination(destination: &str) -> std::result::Result<(), &'static str> {
    let (user, host) = match destination.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, destination),
    };
    if destination.len() > 512 {
        return Err("the host is too long");
    }
    if host.is_empty() || host.starts_with('-') {
        return Err("the host is missing or begins with a dash");
    }
    if user.is_some_and(|user| user.is_empty() || user.starts_with('-')) {
        return Err("the user is missing or begins with a dash");
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || "'`\"$\\;&<>|(){}*?#!".contains(c);
    if host.chars().any(|c| odd(c) || c == '/') {
        return Err("the host has characters that no host has");
    }
    // A domain's user is DOMAIN\user; all else of the list is for shells.
    if user.is_some_and(|user| user.ends_with('\\') || user.chars().any(|c| odd(c) && c != '\\')) {
        return Err("the user has characters that no user has");
    }
    Ok(())
}

/// Splits a command as a POSIX shell would, and does nothing else that a shell does: blanks separate, single quotes
/// keep all, double quotes keep all but a backslash before `"`, `\`, `$` and a back quote, a backslash keeps the next
/// byte.
///
/// # Errors
/// For a quote that does not end, or too many words.
pub fn split_words(text: &[u8]) -> std::result::Result<Vec<OsString>, &'static str> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            0 => return Err("it has a zero byte"),
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                        None => return Err("a quote does not end"),
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'"') => break,
                        Some(b'\\') => match bytes.next() {
                            Some(byte @ (b'"' | b'\\' | b'$' | b'`')) => word.push(byte),
                            Some(byte) => word.extend([b'\\', byte]),
                            None => return Err("a quote does not end"),
                        },
                        Some(byte) => word.push(byte),
                        None => return Err("a quote does not end"),
                    }
                }
            }
            b'\\' => match bytes.next() {
                Some(byte) => word.get_or_insert_default().push(byte),
                None => return Err("it ends with a backslash"),
            },
            byte => word.get_or_insert_default().push(byte),
        }
        if words.len() > WORDS_MAX {
            return Err("it has too many words");
        }
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// Quotes one word for a POSIX shell. `~/` in front stays open, as its user means it.
pub fn quote(word: &[u8]) -> Vec<u8> {
    if let Some(rest) = word.strip_prefix(b"~/") {
        let mut quoted = b"~/".to_vec();
        if !rest.is_empty() {
            quoted.extend(quote(rest));
        }
        return quoted;
    }
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:,@%".contains(b);
    if !word.is_empty() && word[0] != b'-' && word.iter().all(plain) {
        return word.to_vec();
    }
    // Options in our own lists are plain as well.
    if word.starts_with(b"--") && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

pub(super) fn quote_all<'a>(words: impl Iterator<Item = &'a [u8]>) -> OsString {
    let words: Vec<Vec<u8>> = words.map(quote).collect();
    OsString::from_vec(words.join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_destination_is_never_an_option_nor_a_command() {
        for good in ["host", "me@host", "h.example.org", "::1", "me@fe80::1%eth0", "DOM\\me@host", "10.0.0.1"]
        {
            assert_eq!(check_destination(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-oProxyCommand=id",
            "me@-oProxyCommand=id",
            "-l@host",
            "@host",
            "me@",
            "a b",
            "a\nb",
            "a`id`",
            "$(id)",
            "h;id",
            "m|e@host",
            "h/x",
            "me\\@host",
            "h'x",
        ] {
            assert!(check_destination(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_is_split_as_a_shell_would_and_nothing_is_expanded() {
        let split = |text: &str| split_words(text.as_bytes()).unwrap();
        assert_eq!(split("ssh -J gate  -i '/a b/key'"), ["ssh", "-J", "gate", "-i", "/a b/key"]);
        assert_eq!(
            split(r#"ssh "-oProxyCommand=nc \"x\" $HOME" a\ b ''"#),
            ["ssh", r#"-oProxyCommand=nc "x" $HOME"#, "a b", ""]
        );
        assert_eq!(split("  "), Vec::<OsString>::new());
        for bad in ["ssh 'x", "ssh \"x", "ssh \\"] {
            assert!(split_words(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_real_shell_reads_back_what_was_quoted() {
        for word in [
            &b"plain"[..],
            b"",
            b"a b",
            b"it's",
            b"-n",
            b"$HOME `id` \\ \"",
            b"line\nbreak",
            b"\xff*?[x]",
            b"a!b",
        ] {
            let mut script = b"printf %s ".to_vec();
            script.extend(quote(word));
            let out = Command::new("sh").arg("-c").arg(OsString::from_vec(script)).output().unwrap();
            // printf takes `--` and nothing else for itself; a dash in front is data here.
            assert_eq!(out.stdout, word, "{}", String::from_utf8_lossy(word));
        }
        assert_eq!(quote(b"~/a b"), b"~/'a b'");
    }
}
