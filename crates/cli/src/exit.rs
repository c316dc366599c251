//! Exit codes: the one home of their meaning. Never renumbered.

use thalweg_wire::message::FailureKind;

/// What the exit code of a command says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything verified and durable.
    Done,
    /// 1: the command line makes no sense.
    Usage,
    /// 2: some entries failed; they were listed.
    Partial,
    /// 3: nothing could be done (connection, permission).
    Nothing,
    /// 4: damage that could not be repaired.
    Damage,
    /// 5: a source changed while it was read, again and again.
    Changed,
    /// 6: no space, quota used up, read-only, or a disk that fails.
    Space,
    /// 130: stopped by SIGINT or SIGHUP, resumable.
    Interrupted,
    /// 143: stopped by SIGTERM, resumable.
    Terminated,
}

/// Every code with its meaning: `--help` and docs/reference/exit-codes.md are made from it.
pub const TABLE: [(Exit, &str); 9] = [
    (Exit::Done, "everything was done; of a copy: everything is verified and durable"),
    (Exit::Usage, "the command line makes no sense"),
    (Exit::Partial, "some entries failed, or differ; each was listed"),
    (Exit::Nothing, "nothing could be done: connection, permission, no such place"),
    (Exit::Damage, "damage that could not be repaired, or a receipt that is not what was signed"),
    (Exit::Changed, "a source changed while it was read, again and again"),
    (Exit::Space, "no space, quota used up, read-only, or a disk that fails"),
    (Exit::Interrupted, "stopped in order by SIGINT or SIGHUP; the same command resumes"),
    (Exit::Terminated, "stopped in order by SIGTERM; the same command resumes"),
];

/// The table, for `--help`.
pub fn help() -> String {
    let lines = TABLE.iter().map(|(exit, meaning)| format!("\n  {:>3}  {meaning}", exit.code()));
    format!("Exit codes:{}", lines.collect::<String>())
}

impl Exit {
    /// The code for a command that failed as a whole; which signal stopped one knows who listened for it.
    pub fn of(kind: FailureKind) -> Exit {
        match kind {
            FailureKind::Usage => Exit::Usage,
            FailureKind::Damage => Exit::Damage,
            FailureKind::Changed => Exit::Changed,
            FailureKind::Space | FailureKind::Io => Exit::Space,
            FailureKind::Stopped => Exit::Interrupted,
            _ => Exit::Nothing,
        }
    }

    /// The code for a command in which these entries failed.
    pub fn of_entries(kinds: impl Iterator<Item = FailureKind>) -> Exit {
        kinds.fold(Exit::Done, |worst, kind| {
            worst.worst(match Exit::of(kind) {
                // One file that cannot be read: of a destination that fails the whole copy ends.
                Exit::Space if kind == FailureKind::Io => Exit::Partial,
                Exit::Nothing | Exit::Usage | Exit::Interrupted => Exit::Partial,
                exit => exit,
            })
        })
    }

    /// The code with this number, which another thalweg ended with; `None` if it has none.
    pub fn of_code(code: i32) -> Option<Exit> {
        TABLE.iter().map(|(exit, _)| *exit).find(|exit| i32::from(exit.code()) == code)
    }

    /// What it says, in words.
    pub fn meaning(self) -> &'static str {
        TABLE.iter().find(|(exit, _)| *exit == self).map_or("", |(_, meaning)| meaning)
    }

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Usage => 1,
            Exit::Partial => 2,
            Exit::Nothing => 3,
            Exit::Damage => 4,
            Exit::Changed => 5,
            Exit::Space => 6,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// The graver of two: of several copies in one command it is the command's.
    pub fn worst(self, other: Exit) -> Exit {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Graver is higher.
    fn rank(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Changed => 1,
            Exit::Partial => 2,
            Exit::Usage | Exit::Nothing => 3,
            Exit::Space => 4,
            Exit::Damage => 5,
            Exit::Interrupted => 6,
            Exit::Terminated => 7,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_known_by_its_number_and_what_has_none_is_none() {
        for (exit, _) in TABLE {
            assert_eq!(Exit::of_code(i32::from(exit.code())), Some(exit));
        }
        for code in [-1, 7, 101, 137, 255, 256] {
            assert_eq!(Exit::of_code(code), None);
        }
    }
}
