//! Command lines: this machine's ssh, and the program at the far side.

use super::child::{end, read_some};
use super::words::{check_destination, quote_all, split_words};
use super::{RUN, START};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::Family;
use std::ffi::{OsStr, OsString};
use std::io::PipeWriter;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_sys::child::{stderr_apart, with_users_umask};

/// Time for `ssh -G`, which connects to nobody.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for sshd to answer where nobody waits for a login.
const IMPATIENT_MAX: Duration = Duration::from_secs(10);

/// How to start ssh to one host.
#[derive(Debug, Clone)]
pub struct Ssh {
    words: Vec<OsString>,
    destination: String,
    port: Option<u16>,
    family: Option<Family>,
    never_asks: bool,
    connect_max: Option<Duration>,
    /// Where its words go; `None`: to its user.
    words_to: Option<Arc<PipeWriter>>,
}

impl Ssh {
    /// ssh to `destination` (`[user@]host`). `command` is the program and its own arguments, as one would type them
    /// (`ssh -J gate`, see [`split_words`]).
    ///
    /// # Errors
    /// `Usage` for a command that cannot be split, or a destination that [`check_destination`] refuses.
    pub fn new(command: &OsStr, destination: &str, port: Option<u16>) -> Result<Ssh> {
        let words = split_words(command.as_bytes()).map_err(|why| usage(&format!("--rsh: {why}")))?;
        if words.is_empty() {
            return Err(usage("--rsh: the command is empty"));
        }
        check_destination(destination).map_err(usage)?;
        let destination = destination.to_owned();
        let (family, connect_max, words_to) = (None, None, None);
        Ok(Ssh { words, destination, port, family, never_asks: false, connect_max, words_to })
    }

    /// The same, which dials only addresses of this family, if one is given.
    pub fn only(self, family: Option<Family>) -> Ssh {
        Ssh { family, ..self }
    }

    /// The same, which asks its user for nothing: where a login needs that, it fails.
    pub fn never_asking(self) -> Ssh {
        Ssh { never_asks: true, ..self }
    }

    /// The same, beside which others log in, if a time is given: it waits at most so long until sshd answers, in whole
    /// seconds; a password may be typed for longer. Only OpenSSH is told, and not where its configuration or `command`
    /// say how long to wait, or a way through another host: a login there counts as waiting.
    pub fn within(self, connect_max: Option<Duration>) -> Ssh {
        Ssh { connect_max, ..self }
    }

    /// For how long it waits beside others; `None` where it is alone.
    pub fn connect_max(&self) -> Option<Duration> {
        self.connect_max
    }

    /// The same, which asks its user for nothing, and whose words go there; `None` of another program than OpenSSH's,
    /// which may ask whatever it is told.
    pub fn silent(&self, words: PipeWriter) -> Option<Ssh> {
        let words_to = Some(Arc::new(words));
        self.is_openssh().then(|| Ssh { never_asks: true, words_to, ..self.clone() })
    }

    /// Whether it asks its user for nothing.
    #[cfg(test)]
    pub(crate) fn asks_nothing(&self) -> bool {
        self.never_asks
    }

    /// Says this in the place of ssh, where its words go.
    #[cfg(test)]
    pub(crate) fn say(&self, words: &[u8]) {
        use std::io::Write;
        if let Some(mut to) = self.words_to.as_deref() {
            to.write_all(words).unwrap();
        }
    }

    /// The family whose addresses alone are dialled.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// `[user@]host[:port]`, for messages and as the far side's name.
    pub fn name(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.destination),
            None => self.destination.clone(),
        }
    }

    /// The host, without the user.
    pub fn host(&self) -> &str {
        self.destination.rsplit_once('@').map_or(&self.destination, |(_, host)| host)
    }

    /// Whether the command is OpenSSH's (or one that takes its options), by its name.
    fn is_openssh(&self) -> bool {
        std::path::Path::new(&self.words[0]).file_name().is_some_and(|name| name == "ssh")
    }

    /// Program and arguments, for a remote command line that is quoted already.
    pub(super) fn command(&self, remote: &OsStr, patient: bool) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        if self.is_openssh() {
            // Neither a terminal nor forwarding of anything, whatever the configuration has for everyday logins.
            command.args(["-T", "-x", "-a", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no"]);
            command.args(["-oRemoteCommand=none", "-oRequestTTY=no", "-oForkAfterAuthentication=no"]);
            let waits = |_: &Duration| !waits_otherwise(&self.configuration().unwrap_or_default());
            let connect_max = if patient { self.connect_max.filter(waits) } else { Some(IMPATIENT_MAX) };
            command.args(connect_max.map(|max| format!("-oConnectTimeout={}", max.as_secs())));
            if self.never_asks {
                command.arg("-oBatchMode=yes");
            }
        }
        self.add_options(&mut command);
        if self.is_openssh() {
            command.arg("--");
        }
        let words_to = self.words_to.as_ref().and_then(|words| words.try_clone().ok());
        command.arg(&self.destination).arg(remote).stderr(words_to.map_or_else(stderr_apart, Stdio::from));
        // What it makes, as a socket to share, is the user's.
        with_users_umask(&mut command);
        command
    }

    /// Options that other programs in ssh's place have to know too.
    fn add_options(&self, command: &mut Command) {
        command.args(self.family.map(Family::option));
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
    }

    /// The host name that ssh itself would dial, after aliases of its configuration. The host as given if ssh does not
    /// say.
    pub fn dialled_host(&self) -> String {
        let given = self.host().to_owned();
        let text = self.configuration().unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("hostname "))
            .map_or(given, |name| name.trim().to_owned())
    }

    /// What OpenSSH goes by for this host, in lines `option value`; `None` if it does not say.
    fn configuration(&self) -> Option<String> {
        if !self.is_openssh() {
            return None;
        }
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("-G");
        self.add_options(&mut command);
        command.arg("--").arg(&self.destination);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = with_users_umask(&mut command).spawn().ok()?;
        let output = read_some(&mut child, CONFIG_TIMEOUT);
        end(&mut child, Duration::ZERO);
        Some(String::from_utf8_lossy(&output).into_owned())
    }
}

/// Whether this configuration says itself how long to wait for a host, or reaches it through another one.
fn waits_otherwise(configuration: &str) -> bool {
    let options = configuration.lines().filter_map(|line| line.split_once(' '));
    options
        .filter(|(name, _)| matches!(*name, "proxyjump" | "proxycommand" | "connecttimeout"))
        .any(|(_, value)| value.trim() != "none")
}

/// The program where nobody says which.
const USUAL: &str = "thalweg";

/// For a POSIX shell: starts it with these arguments from where the login looks, else from where cargo and users put
/// programs, which is mostly not on the path of a login without a terminal. Where there is none it ends as if the login
/// had not found it. A single line without single quotes or `!`, so that every login shell hands it to `sh` unharmed.
const LOOK_AND_START: &str = "p=thalweg; command -v thalweg >/dev/null 2>&1 || \
     for d in \"$HOME/.cargo/bin\" \"$HOME/.local/bin\"; do \
     if test -f \"$d/thalweg\" && test -x \"$d/thalweg\"; then p=\"$d/thalweg\"; break; fi; done; \
     exec \"$p\" \"$@\"";

/// The program at the far side and what it is given first.
#[derive(Debug, Clone)]
pub struct FarProgram {
    words: Vec<OsString>,
    /// In more places than where the login looks.
    is_looked_for: bool,
}

impl FarProgram {
    /// `thalweg`, from where the login looks, else from `~/.cargo/bin`, else from `~/.local/bin`.
    pub fn looked_for() -> FarProgram {
        FarProgram { words: vec![USUAL.into()], is_looked_for: true }
    }

    /// From what a user wrote, see [`split_words`]: `thalweg`, `/opt/thalweg/bin/thalweg`, `sudo thalweg`.
    ///
    /// # Errors
    /// `Usage` if it cannot be split.
    pub fn from_command(command: &OsStr) -> Result<FarProgram> {
        let words = split_words(command.as_bytes()).map_err(|why| usage(&format!("--far-path: {why}")))?;
        if words.is_empty() {
            return Err(usage("--far-path: the command is empty"));
        }
        Ok(FarProgram { words, is_looked_for: false })
    }

    /// A program by its path.
    pub fn at(path: OsString) -> FarProgram {
        FarProgram { words: vec![path], is_looked_for: false }
    }

    /// The command line for a far shell.
    pub(super) fn line(&self, arguments: &[&str]) -> OsString {
        let arguments = arguments.iter().map(|argument| argument.as_bytes());
        if self.is_looked_for {
            // The last of these words is what the shell calls itself.
            let looks = ["sh", "-c", LOOK_AND_START, "sh"].map(str::as_bytes);
            return quote_all(looks.into_iter().chain(arguments));
        }
        quote_all(self.words.iter().map(|word| word.as_bytes()).chain(arguments))
    }

    /// Where it was looked for in vain, behind its name and the host's; nothing where its user said which it is.
    pub(super) fn where_looked(&self) -> &'static str {
        match self.is_looked_for {
            true => {
                ", neither where a login without a terminal looks (PATH) nor in ~/.cargo/bin or ~/.local/bin"
            }
            false => "",
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn not_reached(ssh: &Ssh) -> Failure {
    let cause = format!("ssh did not reach {}", ssh.name());
    Failure::new(FailureKind::Connection, START, cause).because(Reason::SshEnded)
}

pub(super) fn no_ssh(ssh: &Ssh, error: &std::io::Error) -> Failure {
    let mut failure = failure::of_io(RUN, error).because(Reason::NoSsh);
    failure.cause = format!("`{}`: {}", ssh.words[0].to_string_lossy(), failure.cause);
    failure
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, START, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_gets_the_host_behind_a_double_dash_and_one_remote_word() {
        let ssh = Ssh::new(OsStr::new("/usr/bin/ssh -J gate"), "me@host", Some(2222)).unwrap();
        let program = FarProgram::from_command(OsStr::new("'/opt/my thalweg'")).unwrap();
        let command = ssh.command(&program.line(&["mover", "--bridge", "7"]), true);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(arguments[..2], ["-J", "gate"]);
        let tail = ["-p", "2222", "--", "me@host", "'/opt/my thalweg' mover --bridge 7"];
        assert_eq!(arguments[arguments.len() - 5..], tail);
        let other = Ssh::new(OsStr::new("wrapper"), "host", None).unwrap();
        let arguments: Vec<_> =
            other.command(OsStr::new("x"), true).get_args().map(OsStr::to_owned).collect();
        assert_eq!(arguments, ["host", "x"]);
    }

    #[test]
    fn a_program_that_nobody_named_is_started_from_the_path_else_from_where_cargo_and_users_put_it() {
        use std::os::unix::fs::symlink;
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("a home");
        let (path, cargo, local) = (home.join("path"), home.join(".cargo/bin"), home.join(".local/bin"));
        [&path, &cargo, &local].iter().for_each(|made| std::fs::create_dir_all(made).unwrap());
        symlink("/bin/sh", path.join("sh")).unwrap();
        // A shell in its place says as what it was started.
        let put = |directory: &std::path::Path| symlink("/bin/sh", directory.join("thalweg")).unwrap();
        let line = FarProgram::looked_for().line(&["-c", "echo \"$0\""]);
        // Of those who log in: each reads the line, and hands what is quoted in it to `sh`.
        let shells = ["/bin/sh", "/bin/bash", "/bin/csh", "/usr/bin/fish", "/usr/bin/zsh"];
        let shells = shells.into_iter().filter(|shell| std::path::Path::new(shell).exists());
        let shells: Vec<&str> = shells.collect();
        let each_says = |code: i32, said: &str| {
            for shell in &shells {
                let mut command = Command::new(shell);
                command.arg("-c").arg(&line).env("HOME", &home).env("PATH", &path);
                let out = command.output().unwrap();
                let told = String::from_utf8_lossy(&out.stdout);
                assert_eq!((out.status.code(), told.trim_end()), (Some(code), said), "{shell}: {out:?}");
            }
        };
        let at = |directory: &std::path::Path| directory.join("thalweg").display().to_string();
        each_says(127, "");
        // What is no program is passed over.
        std::fs::write(cargo.join("thalweg"), "").unwrap();
        put(&local);
        each_says(0, &at(&local));
        std::fs::remove_file(cargo.join("thalweg")).unwrap();
        put(&cargo);
        each_says(0, &at(&cargo));
        put(&path);
        each_says(0, "thalweg");
        // The user's own word is taken as it is.
        let given = FarProgram::from_command(OsStr::new("thalweg")).unwrap();
        assert_eq!(given.line(&["mover"]), OsStr::new("thalweg mover"));
    }

    #[test]
    fn ssh_is_told_of_which_family_the_address_has_to_be() {
        let ssh = Ssh::new(OsStr::new("ssh"), "host", Some(22)).unwrap();
        for (family, option) in [(Family::Four, "-4"), (Family::Six, "-6")] {
            let command = ssh.clone().only(Some(family)).command(OsStr::new("x"), true);
            let arguments: Vec<_> = command.get_args().collect();
            assert_eq!(arguments[arguments.len() - 6..], [option, "-p", "22", "--", "host", "x"]);
        }
    }

    #[test]
    fn ssh_waits_for_an_answer_as_long_as_it_is_told_behind_what_its_user_says() {
        // None that would say what it goes by.
        let ssh = Ssh::new(OsStr::new("/none/ssh -oConnectTimeout=3"), "host", None).unwrap();
        let told = |ssh: &Ssh, patient| -> Vec<String> {
            let command = ssh.command(OsStr::new("x"), patient);
            let all = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
            all.filter(|argument| argument.contains("ConnectTimeout")).collect()
        };
        let theirs = "-oConnectTimeout=3";
        assert_eq!(told(&ssh, true), [theirs]);
        assert_eq!(told(&ssh, false), [theirs, "-oConnectTimeout=10"]);
        let within = ssh.within(Some(Duration::from_secs(30)));
        // ssh goes by the first.
        assert_eq!(told(&within, true), [theirs, "-oConnectTimeout=30"]);
    }

    #[test]
    fn a_login_through_another_host_takes_its_time_and_so_does_one_whose_user_says_how_long() {
        for text in ["hostname h\nproxyjump gate\n", "proxycommand nc %h %p\n", "connecttimeout 90\n"] {
            assert!(waits_otherwise(text), "{text}");
        }
        for text in ["", "hostname proxyjump\nconnecttimeout none\n", "proxyjump none\nproxycommand none\n"] {
            assert!(!waits_otherwise(text), "{text}");
        }
    }
}
