//! What a deputy and who started it say to each other over ssh: a line each, an object that says one thing.
//!
//! ```text
//! from the deputy   noise ... THALWEG-DEPUTY 1 {"versions":[1,1],"version":"0.1.0"}\n
//! to the deputy     {"errand":{"words":["digits",...],"files":[{"name":"ticket","bytes":812}],...}}\n
//!                   {"piece":{"file":0,"data":"digits"}}\n                    until all files are whole
//!                   {"begin":{}}\n
//! from the deputy   {"out":"a line"}\n {"err":"a line"}\n {"progress":{...}}\n    any number of them
//!                   {"evidence":{...}}\n                                    once a second
//!                   {"ask":{"id":1,"what":{"summon":{"client":"64 digits","first":true}}}}\n
//! to the deputy     {"answer":{"id":1,"outcome":{"ready":{...}}}}\n {"stop":{}}\n
//!                   {"limit":{"bytes_per_s":1000000}}\n
//!                   {"here":{}}\n                                            from then on, every 10 s
//! from the deputy   {"file":{"name":"receipt","data":"digits"}}\n {"file_end":{"name":"receipt"}}\n
//!                   {"exit":0}\n                                              the last
//! ```
//!
//! Words and bytes of files are hexadecimal digits: they need not be text. What is not known is no error, so that later
//! versions can say more: an object without a name of ours says nothing, and other keys are passed over.

use super::line::of_magic;
use super::{NOISE_BYTES_MAX, Ready, START};
use crate::failure::{Failure, FailureKind, Reason, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::limits;
use thalweg_wire::message::ErrandCounts;

/// Begins the deputy's first line. The number behind it is that of this way to start.
pub const DEPUTY_MAGIC: &str = "THALWEG-DEPUTY ";
/// Longest line of either side.
pub const ERRAND_LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a file in one line, at most.
pub const PIECE_BYTES_MAX: usize = 32 << 10;
/// Text in one line, at most: in JSON each byte of it may have six.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of all files that go along with an errand, at most.
pub const ATTACHED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a file that comes back, at most: a receipt has some 200 of each entry, and nobody copies so many.
pub const RETURNED_BYTES_MAX: u64 = 1 << 40;
/// Files that go along, and that come back, at most.
pub const FILES_MAX: usize = 64;
/// Words of a command, at most.
const WORDS_MAX: usize = 4096;
/// Letters of a file's name, at most.
const NAME_BYTES_MAX: usize = 64;
/// Between two words that who asked is still there.
pub const HERE_EVERY: Duration = Duration::from_secs(10);
/// Without a word of who asked for so long, a deputy takes him for gone: nothing else tells that a network is, before
/// TCP gives up after a quarter of an hour.
pub const SILENT_IS_GONE: Duration = Duration::from_secs(60);
/// Asks that wait for their answers at the same time, at most: one for each stream that is dialled, and some more.
pub const ASKS_MAX: usize = limits::STREAMS_MAX as usize + 8;

/// The deputy's first word.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deputy {
    /// Protocol versions that it speaks.
    pub versions: (u16, u16),
    /// Its own version, for people.
    pub version: String,
}

impl Deputy {
    /// This one.
    pub fn own() -> Deputy {
        Deputy {
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The line, with a new line in front in case something before it did not end its own.
    pub fn to_line(&self) -> String {
        super::line::with_magic(DEPUTY_MAGIC, self)
    }

    /// Reads what stood behind [`DEPUTY_MAGIC`].
    ///
    /// # Errors
    /// `Protocol`, saying which side to update.
    pub fn of_line(line: &str) -> Result<Deputy> {
        of_magic(line)
    }
}

/// What a deputy is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Errand {
    /// The words of the command behind `thalweg`, each in hexadecimal digits. Of one that is `{file:NAME}`, or ends in
    /// `={file:NAME}`, that becomes the path of a file that goes along; of `{back:NAME}` that of one that comes back.
    pub words: Vec<String>,
    /// Files that go along.
    #[serde(default)]
    pub files: Vec<Attached>,
    /// Names of files that come back, where the command wrote them.
    #[serde(default)]
    pub returned: Vec<String>,
    /// Whether to tell how far it is, and where its time goes.
    #[serde(default)]
    pub progress: bool,
    /// Which copy of its command it is, from 1 on.
    #[serde(default)]
    pub number: usize,
    /// How many there are.
    #[serde(default)]
    pub copies: usize,
}

/// A file that goes along.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attached {
    /// As words name it: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Errand {
    /// The words.
    ///
    /// # Errors
    /// `Protocol` if there is none, or one is not in digits.
    pub fn words(&self) -> Result<Vec<Vec<u8>>> {
        let words: Option<Vec<Vec<u8>>> = self.words.iter().map(|word| unhex(word)).collect();
        words.filter(|words| !words.is_empty()).ok_or_else(|| odd("the words of the command are none"))
    }

    /// Whether it is within bounds, and its files have names.
    ///
    /// # Errors
    /// `Protocol`, saying what is not.
    pub fn check(&self) -> Result<()> {
        let named = || self.files.iter().map(|file| &file.name).chain(&self.returned);
        let bytes = self.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
        if self.words.len() > WORDS_MAX {
            return Err(odd(&format!("the command has more than {WORDS_MAX} words")));
        }
        if self.files.len() > FILES_MAX || self.returned.len() > FILES_MAX {
            return Err(odd(&format!("more than {FILES_MAX} files go along, or come back")));
        }
        if bytes > ATTACHED_BYTES_MAX {
            let most = ATTACHED_BYTES_MAX >> 20;
            return Err(odd(&format!("files that go along have more than {most} MiB together")));
        }
        match named().all(|name| is_name(name)) {
            true => Ok(()),
            false => Err(odd("a file that goes along or comes back has no plain name")),
        }
    }
}

/// Whether a file may have this name: it is one component of a path, and no other file's but by its letters.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// A part of a file that goes along.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Piece {
    /// Which of the files, from 0 on.
    pub file: usize,
    /// Its next bytes, in hexadecimal digits.
    pub data: String,
}

/// A part of a file that comes back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Returned {
    /// Its name.
    pub name: String,
    /// Its next bytes, in hexadecimal digits; none at its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
}

/// Bytes as a line has them.
pub fn to_data(bytes: &[u8]) -> String {
    hex(bytes)
}

/// The bytes of a piece.
///
/// # Errors
/// `Protocol` if they are none, or too many.
pub fn of_data(data: &str) -> Result<Vec<u8>> {
    unhex(data).filter(|bytes| bytes.len() <= PIECE_BYTES_MAX).ok_or_else(|| odd("a piece of a file is none"))
}

/// Nothing more than its name.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Nothing {}

/// The rate of a copy from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Content bytes a second, at most; `None`: no bound.
    pub bytes_per_s: Option<u64>,
}

/// What the copy of a deputy needs of who started it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// Tells it from others that wait.
    pub id: u64,
    /// What.
    pub what: What,
}

/// See [`Ask`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Start a mover at the other end, in place of one that was started before.
    Summon {
        /// Fingerprint of the only certificate that it is to admit.
        client: String,
        /// The first one, for which somebody may have to type.
        first: bool,
    },
    /// Whether ssh to that mover has ended: done if it has.
    Look(Nothing),
    /// Have that mover dial the deputy's end.
    DialBack(super::DialBack),
    /// Carry a connection of that mover to a port of the loopback at the deputy's end.
    Bridge {
        /// The port.
        port: u16,
        /// Said there first.
        token: String,
    },
}

/// An answer to an [`Ask`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// To which.
    pub id: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// See [`Answer`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A mover was started.
    Ready {
        /// What it said of itself.
        mover: Ready,
        /// The name by which ssh dials its machine.
        host: String,
    },
    /// It was done, or is on its way.
    Done(Nothing),
    /// It was not.
    Failed(Failed),
}

/// A failure as a line has it. What another version calls otherwise is a failure all the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failed {
    kind: String,
    reason: String,
    operation: String,
    cause: String,
}

impl Failed {
    /// For a line.
    pub fn of(failure: &Failure) -> Failed {
        Failed {
            kind: name_of(failure.kind),
            reason: name_of(failure.reason),
            operation: failure.operation.clone(),
            cause: failure.cause.clone(),
        }
    }

    /// From a line.
    pub fn failure(&self) -> Failure {
        let kind = named(&self.kind).unwrap_or(FailureKind::Connection);
        Failure::new(kind, &self.operation, &self.cause).because(named(&self.reason).unwrap_or_default())
    }
}

fn name_of(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

/// What a deputy hears.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToDeputy {
    /// What to do.
    Errand(Errand),
    /// A part of a file that goes along.
    Piece(Piece),
    /// All files are whole: begin.
    Begin(Nothing),
    /// To an ask.
    Answer(Answer),
    /// Go so fast.
    Limit(Limit),
    /// Stop in order.
    Stop(Nothing),
    /// Who asked is still there.
    Here(Nothing),
}

/// What a deputy says. Its copy says what of this it says itself to the deputy, who hands it on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromDeputy {
    /// The end of a line of the copy's stdout.
    Out(String),
    /// What stands before it, of one that is longer than [`TEXT_BYTES_MAX`].
    OutPart(String),
    /// A line of its stderr, or a part of one.
    Err(String),
    /// How far it is.
    Progress(ErrandCounts),
    /// Where its time goes, as `thalweg why` judges it; another version may have it otherwise.
    Evidence(Value),
    /// What it needs.
    Ask(Ask),
    /// A part of a file that comes back.
    File(Returned),
    /// It is whole.
    FileEnd(Returned),
    /// The exit code of the copy. The last word.
    Exit(i32),
}

/// One of several things that a line may say.
pub trait Said: Serialize + DeserializeOwned {
    /// What they are called there.
    const NAMES: &'static [&'static str];

    /// The line, with its end.
    fn to_line(&self) -> String {
        // Numbers and text: there is nothing in these that JSON could not say.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Reads a line; `None` for what only another version says.
    ///
    /// # Errors
    /// `Protocol` if it is none, or longer than [`ERRAND_LINE_BYTES_MAX`].
    fn of_line(line: &str) -> Result<Option<Self>> {
        if line.len() > ERRAND_LINE_BYTES_MAX {
            return Err(odd("the line is too long"));
        }
        let not_expected =
            |error: serde_json::Error| odd(&format!("the line is not what was expected: {error}"));
        let value: Value = serde_json::from_str(line).map_err(not_expected)?;
        let fields = value.as_object().ok_or_else(|| odd("the line is no object"))?;
        match fields.keys().any(|key| Self::NAMES.contains(&key.as_str())) {
            true => serde_json::from_value(value).map(Some).map_err(not_expected),
            false => Ok(None),
        }
    }
}

impl Said for ToDeputy {
    const NAMES: &'static [&'static str] = &["errand", "piece", "begin", "answer", "limit", "stop", "here"];
}

impl Said for FromDeputy {
    const NAMES: &'static [&'static str] =
        &["out", "out_part", "err", "progress", "evidence", "ask", "file", "file_end", "exit"];
}

/// Lines of a peer, each of bounded length.
pub struct Lines<R> {
    from: BufReader<R>,
}

impl<R: Read> Lines<R> {
    /// Those that come from there.
    pub fn new(from: R) -> Lines<R> {
        Lines { from: BufReader::new(from) }
    }

    /// What stands behind `magic`, in the first line that has it. `Err` with all that was said if there is none in the
    /// first [`NOISE_BYTES_MAX`] bytes.
    pub fn behind(&mut self, magic: &str) -> std::result::Result<String, Vec<u8>> {
        let mut said = Vec::new();
        loop {
            let begin = said.len();
            let most = (NOISE_BYTES_MAX - begin.min(NOISE_BYTES_MAX)) as u64;
            match (&mut self.from).take(most).read_until(b'\n', &mut said) {
                Ok(0) | Err(_) => return Err(said),
                Ok(_) => {}
            }
            let line = &said[begin..];
            if let Some(at) = super::line::find(line, magic.as_bytes())
                && let Ok(text) = std::str::from_utf8(&line[at + magic.len()..])
                && text.ends_with('\n')
            {
                return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
            }
        }
    }

    /// The next line, without its end; `None` when nothing more comes.
    ///
    /// # Errors
    /// `Protocol` for one that is longer than [`ERRAND_LINE_BYTES_MAX`], or no text.
    pub fn next_line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        let most = ERRAND_LINE_BYTES_MAX as u64 + 1;
        // One that was cut off is none.
        match (&mut self.from).take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) if line.last() == Some(&b'\n') => {}
            Ok(_) if line.len() as u64 >= most => return Err(odd("the line is too long")),
            Ok(_) => return Ok(None),
        }
        line.pop();
        String::from_utf8(line).map(Some).map_err(|_| odd("the line is no text"))
    }
}

fn odd(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, START, cause).because(Reason::FarProgramDiffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand() -> Errand {
        Errand {
            words: vec![hex(b"cp"), hex(b"\xff\n")],
            files: vec![Attached { name: "ticket".to_owned(), bytes: 7 }],
            returned: vec!["receipt".to_owned()],
            progress: true,
            number: 1,
            copies: 2,
        }
    }

    #[test]
    fn the_deputys_first_word_is_found_behind_any_noise_of_bounded_length() {
        for noise in ["", "Welcome!\n", "no newline", "THALWEG-", "\u{1b}[31mred\n\n\0\u{7f}"] {
            let text = format!("{noise}{}{}", Deputy::own().to_line(), FromDeputy::Exit(3).to_line());
            let mut lines = Lines::new(text.as_bytes());
            let first = lines.behind(DEPUTY_MAGIC).unwrap();
            assert_eq!(Deputy::of_line(&first).unwrap().version, env!("CARGO_PKG_VERSION"));
            let next = lines.next_line().unwrap().unwrap();
            assert!(matches!(FromDeputy::of_line(&next), Ok(Some(FromDeputy::Exit(3)))), "{next}");
            assert!(lines.next_line().unwrap().is_none());
        }
        let much = vec![b'x'; NOISE_BYTES_MAX + 8192];
        let endless = [DEPUTY_MAGIC.as_bytes(), &much].concat();
        for noise in [much.as_slice(), &endless, b"Welcome!\n", b"THALWEG-DEPUTY 1 {"] {
            assert!(Lines::new(noise).behind(DEPUTY_MAGIC).is_err());
        }
        let failure = Deputy::of_line("2 {}").unwrap_err();
        assert!(failure.cause.contains("update the older side"), "{failure}");
    }

    #[test]
    fn lines_come_back_as_they_went_and_those_of_later_versions_say_nothing() {
        let line = ToDeputy::Errand(errand()).to_line();
        let Ok(Some(ToDeputy::Errand(back))) = ToDeputy::of_line(&line) else { panic!("{line}") };
        back.check().unwrap();
        assert_eq!(back.words().unwrap(), [b"cp".to_vec(), b"\xff\n".to_vec()]);
        let more = line.replace("\"progress\"", "\"later\":[1],\"progress\"");
        assert!(matches!(ToDeputy::of_line(&more), Ok(Some(ToDeputy::Errand(_)))), "{more}");
        assert!(matches!(ToDeputy::of_line("{\"later\":{}}"), Ok(None)));
        assert!(matches!(ToDeputy::of_line("{\"stop\":{\"later\":1}}"), Ok(Some(ToDeputy::Stop(_)))));
        let deep = "[".repeat(100_000);
        let long = format!("{{\"later\":\"{}\"}}", "x".repeat(ERRAND_LINE_BYTES_MAX));
        for bad in ["", "{", "[]", "7", "{\"stop\":7}", "{\"stop\":{},\"begin\":{}}", &deep, &long] {
            assert!(ToDeputy::of_line(bad).is_err(), "{}", &bad[..bad.len().min(40)]);
        }
        // Each of them is known by its name.
        let ready = Outcome::Done(Nothing {});
        let said = [
            ToDeputy::Piece(Piece { file: 0, data: String::new() }),
            ToDeputy::Begin(Nothing {}),
            ToDeputy::Answer(Answer { id: 7, outcome: ready }),
            ToDeputy::Limit(Limit { bytes_per_s: Some(u64::MAX) }),
            ToDeputy::Limit(Limit::default()),
            ToDeputy::Here(Nothing {}),
        ];
        for one in said {
            assert!(ToDeputy::of_line(&one.to_line()).unwrap().is_some(), "{one:?}");
        }
        let summon = What::Summon { client: "ab".repeat(32), first: true };
        let returned = Returned { name: "receipt".to_owned(), data: String::new() };
        let said = [
            FromDeputy::Out("\u{1b}\n".to_owned()),
            FromDeputy::OutPart(String::new()),
            FromDeputy::Err(String::new()),
            FromDeputy::Progress(ErrandCounts::default()),
            FromDeputy::Evidence(serde_json::json!({ "bytes": 7 })),
            FromDeputy::Ask(Ask { id: 1, what: summon }),
            FromDeputy::File(returned.clone()),
            FromDeputy::FileEnd(returned),
        ];
        for one in said {
            let line = one.to_line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(FromDeputy::of_line(&line).unwrap().is_some(), "{one:?}");
        }
    }

    #[test]
    fn an_errand_beyond_its_bounds_is_refused_and_so_is_a_name_that_leads_elsewhere() {
        let refused = |errand: Errand| errand.check().unwrap_err().cause;
        assert!(refused(Errand { words: vec![hex(b"x"); WORDS_MAX + 1], ..errand() }).contains("words"));
        let file = |name: &str, bytes| Attached { name: name.to_owned(), bytes };
        let halves = vec![file("a", ATTACHED_BYTES_MAX), file("b", u64::MAX)];
        assert!(refused(Errand { files: halves, ..errand() }).contains("64 MiB"));
        let many = (0..=FILES_MAX).map(|number| file(&number.to_string(), 0)).collect();
        assert!(refused(Errand { files: many, ..errand() }).contains("more than 64 files"));
        for name in ["", ".", "..", "../x", "/x", "a/b", "a b", "\u{e4}", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(refused(Errand { files: vec![file(name, 0)], ..errand() }).contains("name"), "{name}");
            let returned = vec![name.to_owned()];
            assert!(refused(Errand { returned, ..errand() }).contains("name"), "{name}");
        }
        for words in [vec![], vec!["zz".to_owned()]] {
            assert!(Errand { words, ..errand() }.words().is_err());
        }
        assert!(of_data(&hex(&vec![0; PIECE_BYTES_MAX + 1])).is_err());
        assert_eq!(of_data(&to_data(b"\0\xff")).unwrap(), b"\0\xff");
    }

    #[test]
    fn lines_without_end_are_no_lines_and_take_bounded_memory() {
        assert!(Lines::new(&b"{\"exit\":0}"[..]).next_line().unwrap().is_none(), "it was cut off");
        let failure = Lines::new(std::io::repeat(b'x')).next_line().unwrap_err();
        assert!(failure.cause.contains("too long"), "{failure}");
        assert!(Lines::new(&b"\xff\n"[..]).next_line().is_err());
    }

    #[test]
    fn a_failure_keeps_its_kind_and_reason_and_one_of_another_version_is_an_outage() {
        let failure = Failure::new(FailureKind::NotFound, "start by ssh", "no `thalweg` at b")
            .because(Reason::NoFarProgram);
        let line = serde_json::to_string(&Failed::of(&failure)).unwrap();
        let back: Failed = serde_json::from_str(&line).unwrap();
        assert_eq!(back.failure(), failure);
        let later = line.replace("NotFound", "Later").replace("NoFarProgram", "Later");
        let later: Failed = serde_json::from_str(&later).unwrap();
        let later = later.failure();
        assert_eq!((later.kind, later.reason), (FailureKind::Connection, Reason::Other));
    }
}
