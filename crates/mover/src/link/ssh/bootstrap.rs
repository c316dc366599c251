//! Places our own static program at a far side that has none, when the user asked for it.
//!
//! 1. Find a program of ours that runs anywhere: the file that `THALWEG_STATIC` names; if it names none, this
//!    one if it is static, else `thalweg-static` beside this one. Where this one is another's (an
//!    interpreter), whoever asks says where ours may be.
//! 2. Ask the far side what machine it is, and whether the program is in its cache already: under its own SHA-256, and
//!    with it; and whether it may run there.
//! 3. Upload: under another name, mode 0700, digest compared there, then renamed. The digest is computed at both ends
//!    of ssh, so what is started is what was sent.
//! 4. When it is there, what step 3 placed earlier goes: of this user, by its name a digest, run by nobody on that
//!    machine, and not used for [`UNUSED_DAYS`]. The time of its directory is that of its last use, which who runs it
//!    says once a day: where machines share a home, none sees what the others run. In the same login as step 3.
//!
//! Each step is a login of its own; who types a password types it for each.
//!
//! Not guaranteed: that what is old goes where nothing new is placed.

use super::script::run_script;
use super::{PLACE, START, Ssh};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use thalweg_wire::hex::hex;

/// Names a static program of ours.
pub(crate) const STATIC_ENV: &str = "THALWEG_STATIC";
/// Its name beside the running program.
pub(crate) const STATIC_NAME: &str = "thalweg-static";
/// Far more than the program has.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// What was placed and not used for more days than this goes when another is placed: a month in which nobody came back.
pub const UNUSED_DAYS: u32 = 30;

/// Hexadecimal digits of a SHA-256, by which each program's directory is called.
const DIGEST_DIGITS: usize = 64;

/// The directory that [`place`] made for this program, if it did.
pub fn placed_in(program: &Path) -> Option<&Path> {
    let directory = program.parent()?;
    let is_digest = |name: &OsStr| {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        name.len() == DIGEST_DIGITS && name.as_bytes().iter().all(is_digit)
    };
    let is_ours = program.file_name()? == "thalweg"
        && is_digest(directory.file_name()?)
        && directory.parent()?.file_name()? == "thalweg";
    is_ours.then_some(directory)
}

/// For the far shell: removes what was placed earlier, see step 4. What is not ours to the last name stays.
fn tidy(sha256: &str) -> String {
    format!(
        "for o in \"$c\"/*; do n=\"${{o##*/}}\"; r=; test \"$n\" = {sha256} && continue; \
         test \"${{#n}}\" = {DIGEST_DIGITS} && test \"$(expr \"$n\" : \"[0-9a-f]*\")\" = {DIGEST_DIGITS} || continue; \
         test -n \"$(find \"$o\" -prune -type d -user \"$(id -u)\" -mtime +{UNUSED_DAYS})\" || continue; \
         for p in /proc/[0-9]*/exe; do test \"$p\" -ef \"$o/thalweg\" && r=y; done; \
         test -z \"$r\" && rm -f \"$o/thalweg\" \"$o\"/.thalweg.* && rmdir \"$o\"; done 2>/dev/null"
    )
}

/// A program to be placed.
struct Program {
    file: std::fs::File,
    sha256: String,
    /// As `uname -m` names it.
    machine: &'static str,
}

/// Sees to it that the far side has our program; its path there. `ours`: where a static one may be, in this
/// order; `None`: it is the one that runs, or beside that. Once it `is_over` nothing more is placed.
///
/// # Errors
/// `Usage` if we have no static program; `Unsupported` if it is for another machine; `Damage` if it arrived damaged;
/// `Permission` where it may not run, `Io` where it cannot be kept; `Connection` if ssh does not get there.
pub fn place(ssh: &Ssh, ours: Option<&[PathBuf]>, is_over: &dyn Fn() -> bool) -> Result<OsString> {
    let program = own_program(std::env::var_os(STATIC_ENV).map(PathBuf::from), ours)?;
    let sha256 = &program.sha256;
    // Single lines without single quotes or `!`, so that every login shell hands them to `sh` unharmed.
    let directory = format!("c=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/thalweg\"; d=\"$c/{sha256}\"");
    // Of the shells that may start it later not all tell what may not run from what is not there.
    let told = "\"$d/thalweg\" --version >/dev/null 2>&1; \
                if test $? = 126; then echo \"THALWEG-BARRED $c\"; else echo \"THALWEG-CACHE $d/thalweg\"; fi";
    let is_there = format!(
        "{directory}; touch -c \"$d\" 2>/dev/null; echo; echo \"THALWEG-UNAME $(uname -sm)\"; \
         if test -x \"$d/thalweg\" && test \"$(sha256sum < \"$d/thalweg\")\" = \"{sha256}  -\"; \
         then {told}; fi"
    );
    let (said, _) = run_script(ssh, &is_there, None, is_over)?;
    let ours = format!("Linux {}", program.machine);
    match line(&said, b"THALWEG-UNAME ") {
        Some(theirs) if theirs == ours.as_bytes() => {}
        theirs => {
            let theirs =
                theirs.map_or("not told".into(), |theirs| String::from_utf8_lossy(&theirs).into_owned());
            let cause = format!("{} is `{theirs}`, the program to be placed is for `{ours}`", ssh.name());
            return Err(Failure::new(FailureKind::Unsupported, START, cause));
        }
    }
    if let Some(path) = placed(ssh, &said)? {
        return Ok(path);
    }
    let full = "{ rm -f \"$t\"; echo; echo \"THALWEG-CLOSED $c\"; exit 3; }";
    let tidy = tidy(sha256);
    let upload = format!(
        "umask 077; {directory}; t=\"$d/.thalweg.$$\"; mkdir -p \"$d\" && cat > \"$t\" && chmod 700 \"$t\" || {full}; \
         echo; if test \"$(sha256sum < \"$t\")\" = \"{sha256}  -\"; then mv -f \"$t\" \"$d/thalweg\" || {full}; {told}; {tidy}; \
         else rm -f \"$t\"; echo \"THALWEG-DAMAGED .\"; fi"
    );
    let (said, code) = run_script(ssh, &upload, Some(program.file), is_over)?;
    if let Some(path) = placed(ssh, &said)? {
        return Ok(path);
    }
    let name = ssh.name();
    if line(&said, b"THALWEG-DAMAGED ").is_some() {
        let cause = format!("the program did not arrive whole at {name}, or there is no `sha256sum` there");
        return Err(Failure::new(FailureKind::Damage, START, cause));
    }
    let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
    let cause =
        format!("the program could not be placed in the cache of {name}: the far shell ended with {code}");
    Err(Failure::new(FailureKind::Io, PLACE, cause).because(Reason::NotPlaced))
}

/// Where the program is by what a script of ours said; `None` if it said nothing of that.
fn placed(ssh: &Ssh, said: &[u8]) -> Result<Option<OsString>> {
    let shown = |directory: &[u8]| format!("`{}` at {}", failure::shown_path(directory), ssh.name());
    if let Some(directory) = line(said, b"THALWEG-BARRED ") {
        let cause = format!("{} does not let programs run (noexec?)", shown(&directory));
        return Err(Failure::new(FailureKind::Permission, PLACE, cause).because(Reason::NotPlaced));
    }
    if let Some(directory) = line(said, b"THALWEG-CLOSED ") {
        let cause = format!("{} does not take it; why not, stands above", shown(&directory));
        return Err(Failure::new(FailureKind::Io, PLACE, cause).because(Reason::NotPlaced));
    }
    Ok(line(said, b"THALWEG-CACHE ").map(OsString::from_vec))
}

/// What stands behind `marker` at the beginning of a line.
fn line(said: &[u8], marker: &[u8]) -> Option<Vec<u8>> {
    said.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(marker)).map(<[u8]>::to_vec)
}

/// The one that the user `named`, which must be it, or else the first static one.
fn own_program(named: Option<PathBuf>, ours: Option<&[PathBuf]>) -> Result<Program> {
    if let Some(named) = named {
        let is_none = || Failure::new(FailureKind::Usage, START, "it is no static program for Linux");
        let found = open(&named).and_then(|program| program.ok_or_else(is_none));
        return found.map_err(|failure| failure::at_path(failure, &named));
    }
    let candidates = match ours {
        Some(ours) => ours.to_vec(),
        None => {
            let own = std::env::current_exe().map_err(|error| failure::of_io(START, &error))?;
            let beside = own.with_file_name(STATIC_NAME);
            vec![own, beside]
        }
    };
    if let Some(program) = candidates.iter().find_map(|path| open(path).ok().flatten()) {
        return Ok(program);
    }
    let cause = match ours {
        Some(ours) => {
            let looked: Vec<String> = ours.iter().map(|path| format!("`{}`", path.display())).collect();
            format!(
                "there is no static thalweg to be placed (looked at {}); name one with {STATIC_ENV}. \
                 README.md says how to build one",
                looked.join(", ")
            )
        }
        None => format!(
            "this thalweg is not static, so no copy of it would run elsewhere; name a static one with \
             {STATIC_ENV}, or put it beside this one as `{STATIC_NAME}`. README.md says how to build one"
        ),
    };
    Err(Failure::new(FailureKind::Usage, START, cause))
}

/// `None`: not a static program.
fn open(path: &Path) -> Result<Option<Program>> {
    let of_io = |error: std::io::Error| failure::of_io(START, &error);
    let mut file = std::fs::File::open(path).map_err(of_io)?;
    if file.metadata().map_err(of_io)?.len() > PROGRAM_BYTES_MAX {
        return Ok(None);
    }
    let mut head = Vec::new();
    (&file).take(16 << 10).read_to_end(&mut head).map_err(of_io)?;
    let Some(machine) = machine_of_static(&head) else { return Ok(None) };
    file.rewind().map_err(of_io)?;
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(of_io)? {
            0 => break,
            read => context.update(&piece[..read]),
        }
    }
    file.rewind().map_err(of_io)?;
    let sha256 = hex(context.finish().as_ref());
    Ok(Some(Program { file, sha256, machine }))
}

/// The machine that a program is for, if it is a 64-bit little-endian ELF file that asks for no interpreter.
fn machine_of_static(head: &[u8]) -> Option<&'static str> {
    const INTERPRETER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if !head.starts_with(b"\x7fELF\x02\x01") || !matches!(half(16)?, 2 | 3) {
        return None;
    }
    let start = usize::try_from(u64::from_le_bytes(head.get(32..40)?.try_into().ok()?)).ok()?;
    let (bytes, count) = (usize::from(half(54)?), usize::from(half(56)?));
    for number in 0..count {
        let at = start.checked_add(number * bytes)?;
        let kind = head.get(at..at.checked_add(4)?)?;
        if kind == INTERPRETER.to_le_bytes() {
            return None;
        }
    }
    match half(18)? {
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        243 => Some("riscv64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_asks_for_an_interpreter_is_not_static() {
        // Tests are linked with the C library of this machine.
        let own = std::env::current_exe().unwrap();
        let head = std::fs::read(own).unwrap();
        if cfg!(target_env = "gnu") {
            assert_eq!(machine_of_static(&head[..16 << 10]), None);
        }
        assert_eq!(machine_of_static(b"#!/bin/sh\n"), None);
        assert_eq!(machine_of_static(&[]), None);
        assert_eq!(machine_of_static(&head[..60]), None);
    }

    #[test]
    fn what_was_placed_is_known_by_its_name_and_by_where_it_is() {
        let digest = "0123456789abcdef".repeat(4);
        let placed = |path: String| placed_in(Path::new(&path)).map(Path::to_owned);
        let directory = format!("/home/me/.cache/thalweg/{digest}");
        assert_eq!(placed(format!("{directory}/thalweg")), Some(directory.clone().into()));
        for other in [
            format!("{directory}/other"),
            format!("{directory}0/thalweg"),
            format!("/home/me/{digest}/thalweg"),
            format!("/home/me/thalweg/{}/thalweg", digest.to_uppercase()),
            "/usr/bin/thalweg".to_owned(),
            "thalweg".to_owned(),
        ] {
            assert_eq!(placed(other.clone()), None, "{other}");
        }
    }

    /// By the script alone, as the far shell runs it.
    #[test]
    fn of_what_was_placed_that_goes_which_nobody_used_for_long_and_nobody_runs() {
        use std::time::{Duration, SystemTime};
        let scratch = tempfile::tempdir().unwrap();
        let cache = scratch.path().join("a cache");
        let [new, old, fresh, runs, shared] = ["0", "1", "2", "3", "4"].map(|digit| digit.repeat(64));
        let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
        let own = std::env::current_exe().unwrap();
        let [no_digit, too_short] = ["g".repeat(64), "1".repeat(63)];
        let all: [&str; 8] = [&new, &old, &fresh, &runs, &shared, "notes", &no_digit, &too_short];
        for name in all {
            let directory = cache.join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let program = directory.join("thalweg");
            // This process is one that runs.
            match name == runs.as_str() {
                true => std::os::unix::fs::symlink(&own, program).unwrap(),
                false => std::fs::write(program, "x").unwrap(),
            }
            if name == shared.as_str() {
                std::fs::write(directory.join("another's"), "").unwrap();
            }
            if name != fresh.as_str() {
                std::fs::File::open(&directory).unwrap().set_modified(long_ago).unwrap();
            }
        }
        let script = tidy(&new);
        assert!(!script.contains(['\'', '!', '\n']), "{script}");
        let run = || std::process::Command::new("sh").arg("-c").arg(&script).env("c", &cache).status();
        run().unwrap();
        assert!(!cache.join(&old).exists());
        let stay: [&str; 6] = [&new, &fresh, &runs, "notes", &no_digit, &too_short];
        for name in stay {
            assert!(cache.join(name).join("thalweg").symlink_metadata().is_ok(), "{name}");
        }
        assert!(cache.join(&shared).join("another's").exists());
    }

    #[test]
    fn a_static_program_is_looked_for_where_who_asks_says_and_the_running_one_is_not_taken_for_ours() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        // A head without segments asks for no interpreter.
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (head[16], head[18]) = (2, 62);
        std::fs::write(at("static"), &head).unwrap();
        std::fs::write(at("script"), "#!/bin/sh\n").unwrap();
        let (absent, script, good) = (at("absent"), at("script"), at("static"));
        let found = own_program(None, Some(&[absent.clone(), script.clone(), good.clone()])).unwrap();
        assert_eq!(found.machine, "x86_64");
        let missing = own_program(None, Some(&[absent, script.clone()])).err().unwrap();
        assert_eq!(missing.kind, FailureKind::Usage);
        for word in [STATIC_ENV, "script", "absent"] {
            assert!(missing.cause.contains(word), "{missing}");
        }
        // What the user named must be it.
        let odd = own_program(Some(script), Some(&[good])).err().unwrap();
        assert!(odd.cause.contains("is no static program"), "{odd}");
    }
}
