//! What the doctor says: plain values.

use serde::Serialize;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// What machine this is: hardware, guest, container.
    Machine,
    /// Cards, queues, buffers.
    Network,
    /// Congestion control.
    Congestion,
    /// Memory.
    Memory,
    /// Processors.
    Cpu,
    /// Disks and file systems.
    Storage,
    /// What a process may use.
    Limits,
    /// The clock.
    Clock,
}

impl Subject {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Machine => "machine",
            Subject::Network => "network",
            Subject::Congestion => "congestion",
            Subject::Memory => "memory",
            Subject::Cpu => "cpu",
            Subject::Storage => "storage",
            Subject::Limits => "limits",
            Subject::Clock => "clock",
        }
    }
}

/// What is to be thought of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As wanted.
    Good,
    /// Not as wanted.
    Change,
    /// Not as wanted, but a proof that was asked for has not shown that the change helps: no recommendation of it.
    Unproved,
    /// What was seen here speaks for something else, but which is better depends on the path or on what is used: no
    /// fault.
    Depends,
    /// A fact, of which nothing is wanted.
    Told,
    /// It could not be seen.
    Unseen,
}

/// How to change something, and how to take that back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What to do, as a command where there is one.
    pub apply: String,
    /// What takes it back.
    pub undo: String,
    /// Whether `--apply` does it.
    pub by_apply: bool,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// Its name: that of a kernel setting, or of a part of the machine.
    pub name: String,
    /// What it is; nothing if it could not be seen.
    pub current: Option<String>,
    /// What it should be; nothing if it is a fact.
    pub wanted: Option<String>,
    /// What is to be thought of it.
    pub verdict: Verdict,
    /// Why that is wanted, or what the fact means; of what was not seen, why not.
    pub why: String,
    /// Paper, RFC or manual page.
    pub source: Option<String>,
    /// Where a change takes effect (000 Table VI).
    pub scope: Option<String>,
    /// How to change it; nothing where it is good or cannot be changed from here.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A fact.
    pub fn told(
        subject: Subject,
        name: impl Into<String>,
        current: impl ToString,
        why: impl Into<String>,
    ) -> Finding {
        Finding {
            subject,
            name: name.into(),
            current: Some(current.to_string()),
            wanted: None,
            verdict: Verdict::Told,
            why: why.into(),
            source: None,
            scope: None,
            remedy: None,
        }
    }

    /// Something that could not be seen.
    pub fn unseen(subject: Subject, name: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding { current: None, verdict: Verdict::Unseen, ..Finding::told(subject, name, "", why) }
    }

    /// The same, with what is wanted and whether it is so.
    #[must_use]
    pub fn wanted(mut self, wanted: impl ToString, is_good: bool, source: impl Into<String>) -> Finding {
        self.wanted = Some(wanted.to_string());
        self.verdict = if is_good { Verdict::Good } else { Verdict::Change };
        self.source = Some(source.into());
        self
    }

    /// The same, with what may be better, and who says so.
    #[must_use]
    pub fn depends(mut self, wanted: impl ToString, source: impl Into<String>) -> Finding {
        self = self.wanted(wanted, false, source);
        self.verdict = Verdict::Depends;
        self
    }

    /// The same, good as it is if `is_good`, else with what may be better, and who says so.
    #[must_use]
    pub fn depends_unless(self, is_good: bool, wanted: impl ToString, source: impl Into<String>) -> Finding {
        if is_good { self.wanted(wanted, true, source) } else { self.depends(wanted, source) }
    }

    /// The same, with where it takes effect.
    #[must_use]
    pub fn scoped(mut self, scope: impl Into<String>) -> Finding {
        self.scope = Some(scope.into());
        self
    }

    /// The same, with how to change it, which is kept only where something is to be changed, or may be.
    #[must_use]
    pub fn remedied(mut self, apply: impl Into<String>, undo: impl Into<String>) -> Finding {
        if matches!(self.verdict, Verdict::Change | Verdict::Depends) {
            self.remedy = Some(Remedy { apply: apply.into(), undo: undo.into(), by_apply: false });
        }
        self
    }
}

/// What came of a widely held belief on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// What was found here speaks against it.
    No,
    /// What was found here speaks for it: this is a limit here.
    Yes,
    /// Not to be answered here; the answer says why.
    Unknown,
}

/// One of the six beliefs of 000 section III.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Belief {
    /// What is widely believed.
    pub belief: &'static str,
    /// Where 000 examines it.
    pub source: &'static str,
    /// Whether it holds here.
    pub holds: Holds,
    /// What was measured or read here, or why nothing could be.
    pub answer: String,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Things that were looked at.
    pub findings: Vec<Finding>,
    /// The six beliefs.
    pub beliefs: Vec<Belief>,
}
