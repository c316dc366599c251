//! The form of a receipt file: docs/reference/receipt.md. JSON lines, written by [`receipt`](crate::receipt), read by
//! [`verify`](crate::verify).
//!
//! 1. The header: what was asked for. Its digest is in the statement of the side that writes the file.
//! 2. The lines of settled entries, block by block as they became complete, which the signed root is computed over;
//!    before that of a large file, maybe others between, the digests of its parts, which join to the digest in its
//!    line.
//! 3. The footer: both signed statements, and what they say in words.
//!
//! What is read has to be what is written here, byte for byte: so there is no room for words that nobody signed, nor
//! for lines that are cut elsewhere. Of the blocks only the order of their numbers is signed.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{Fingerprint, public_key_of};
use thalweg_mover::run::agree::is_signed;
use thalweg_wire::digest::{self, PIECES_MAX, Pieces};
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::message::{Place, Totals};
use thalweg_wire::path::Escaped;
use thalweg_wire::receipt::{self, Line, Side, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, RelativePath, limits};

/// Which names were asked for.
pub mod selection;

/// Version that is written.
pub const VERSION: u64 = 1;
/// A line with the longest path there can be, escaped twice, or with the digests of all parts of a file.
pub(crate) const LINE_BYTES_MAX: u64 = 8 << 20;

/// The numbers of a copy.
pub fn totals(totals: &Totals) -> Map<String, Value> {
    let value = json!({
        "done": totals.done, "unchanged": totals.unchanged, "skipped": totals.skipped, "failed": totals.failed,
        "deleted": totals.deleted, "bytes_done": totals.bytes_done, "bytes_received": totals.bytes_received,
        "bytes_resumed": totals.bytes_resumed, "bytes_same": totals.bytes_same, "chunks_repaired": totals.chunks_repaired,
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The text in front of the lines of a block.
pub fn block(number: u64) -> String {
    json!({ "block": number }).to_string()
}

/// The text of an entry's line.
pub fn line(line: &str) -> String {
    json!({ "line": line }).to_string()
}

/// The text of the digests of a file's parts.
pub fn pieces(path: &RelativePath, pieces: &Pieces) -> String {
    let digests: String = pieces.digests.iter().map(|digest| hex(&digest.0)).collect();
    let value = json!({"path": path.to_string(), "piece_bytes": pieces.piece_bytes, "digests": digests});
    json!({ "pieces": value }).to_string()
}

/// The footer.
pub fn footer(sender: &Signed, receiver: &Signed) -> Value {
    let Statement { root, entries, kind, session, place, totals: numbers, .. } = &receiver.statement;
    let Statement { verify, check, chunk_bytes, segment_bytes, .. } = &receiver.statement;
    let word = |debug: String| debug.to_lowercase();
    let side = |signed: &Signed| {
        json!({
            "when": signed.statement.signed_at,
            "ephemeral": signed.statement.signer.is_ephemeral,
            "fingerprint": Fingerprint::of(&signed.certificate.as_slice().into()).to_string(),
            "public_key": public_key_of(&signed.certificate).map(|key| hex(&key)),
            "signed": hex(&signed.to_bytes()),
        })
    };
    json!({
        "root": root.to_string(),
        "entries": entries,
        "kind": kind.word(),
        "session": session.map(|session| session.to_string()),
        "place": place.as_ref().map(|Place { export, path }| {
            json!({ "export": export, "path": Escaped(path).to_string() })
        }),
        "totals": totals(numbers),
        "unread": sender.statement.unread,
        "terms": {
            "verify": word(format!("{verify:?}")),
            "check": word(format!("{check:?}")),
            "chunk_bytes": chunk_bytes,
            "segment_bytes": segment_bytes,
        },
        "sender": side(sender),
        "receiver": side(receiver),
    })
}

/// What stands between header and footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The lines of this block follow.
    Block(u64),
    /// Line of an entry.
    Line(Line),
    /// Digests of the parts of this file.
    Pieces(RelativePath, Pieces),
}

/// Reads a receipt from its beginning to its end, in memory for a digest of each block, and of each file whose line has
/// not come yet.
pub struct Reader<R> {
    file: R,
    header: Digest,
    /// What the header says of when the copy began, in seconds since 1970.
    began: u64,
    /// What it says of places.
    asked: Map<String, Value>,
    lines: Lines,
    /// As it was read, and as it is written.
    footer: Option<(Value, Vec<u8>)>,
    /// Its last line has no end.
    is_cut: bool,
}

/// What the root is computed over.
#[derive(Default)]
struct Lines {
    entries: u64,
    closed: BTreeMap<u64, Digest>,
    open: Option<(u64, blake3::Hasher)>,
}

impl Lines {
    fn begin(&mut self, block: u64) -> Result<()> {
        self.closed.extend(self.open.replace((block, blake3::Hasher::new())).map(closed));
        match self.closed.contains_key(&block) {
            true => Err(damage("a block of it comes twice")),
            false => Ok(()),
        }
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let (_, block) = self.open.as_mut().ok_or_else(|| damage("a line of it is in no block"))?;
        block.update(line.as_bytes());
        self.entries += 1;
        Ok(())
    }

    fn root(mut self) -> Digest {
        self.closed.extend(self.open.take().map(closed));
        receipt::root_of(self.closed.into_values())
    }
}

/// Who signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer {
    /// Ed25519 key.
    pub public_key: [u8; 32],
    /// SHA-256 of the certificate.
    pub certificate: Fingerprint,
    /// The key was kept nowhere: nobody can tell later whose it was.
    pub is_ephemeral: bool,
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the certificate {} (key {})", self.certificate, hex(&self.public_key))
    }
}

/// What the signatures hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Who read the source.
    pub sender: Signer,
    /// Who wrote the destination.
    pub receiver: Signer,
    /// What was moved.
    pub kind: TransferKind,
    /// Where the receiver wrote, as it says; `None` if it kept nothing.
    pub place: Option<Place>,
    /// When the copy began, in seconds since 1970 by the clock of who wrote the receipt.
    pub began: u64,
    /// Entries in the receipt.
    pub entries: u64,
    /// Content bytes of them.
    pub bytes: u64,
    /// Hard links among them.
    pub hard_links: u64,
    /// Entries that failed: they are not in the receipt.
    pub failed: u64,
    /// Entries that were skipped: they are not in the receipt either.
    pub skipped: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// What its lines join to.
    pub root: Digest,
    /// An object of all that was signed beside the lines: `began`, `from` (a list), `to`, of a part `part`, and the
    /// keys of a [`selection`] of the header, and what the footer says in words. Texts are as they were written, and
    /// may hold anything.
    pub words: Value,
}

impl Seal {
    /// Whether one key signed for both sides: whoever has that can have written all of it.
    pub fn has_one_signer(&self) -> bool {
        self.sender.public_key == self.receiver.public_key
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// `Usage` if this is no receipt, or one of a later version; what the file system says.
    pub fn begin(file: R) -> Result<Reader<R>> {
        let (header, lines) = (Digest::default(), Lines::default());
        let asked = Map::new();
        let mut reader = Reader { file, header, began: 0, asked, lines, footer: None, is_cut: false };
        let text = reader.next_text()?.ok_or_else(|| none("it is empty"))?;
        let header: Value = serde_json::from_slice(&text).map_err(|error| none(&error.to_string()))?;
        reader.header = Digest(*blake3::hash(&text).as_bytes());
        reader.began = header.get("began").and_then(Value::as_u64).unwrap_or_default();
        reader.asked = places(&header);
        match header.get("thalweg_receipt").and_then(Value::as_u64) {
            Some(VERSION) => Ok(reader),
            Some(version) => Err(none(&format!("version {version} is not known to this program"))),
            None => Err(none("the first line is no header")),
        }
    }

    /// The next part; `None` at the footer.
    ///
    /// # Errors
    /// `Usage` for what is no JSON, `Damage` for what no mover writes; what the file system says.
    pub fn next_part(&mut self) -> Result<Option<Part>> {
        let Some(text) = self.next_text()? else { return Ok(None) };
        let value: Value = serde_json::from_slice(&text).map_err(|error| none(&error.to_string()))?;
        let (part, written) = if let Some(value) = value.get("line") {
            let line = value.as_str().ok_or_else(|| damage("a line of it is no text"))?;
            self.lines.add(line)?;
            let read =
                line.parse::<Line>().map_err(|_| damage("a line of it is none that a mover writes"))?;
            (Part::Line(read), self::line(line))
        } else if let Some(number) = value.get("block") {
            let number = number.as_u64().ok_or_else(|| damage("a block of it has no number"))?;
            self.lines.begin(number)?;
            (Part::Block(number), block(number))
        } else if let Some(value) = value.get("pieces") {
            let (path, pieces) =
                parse_pieces(value).ok_or_else(|| damage("parts of a file are not readable"))?;
            let written = self::pieces(&path, &pieces);
            (Part::Pieces(path, pieces), written)
        } else {
            self.footer = Some((value, text));
            return Ok(None);
        };
        match written.as_bytes() == text {
            true => Ok(Some(part)),
            false => Err(damage("it has words that nobody signed, or is written in another way")),
        }
    }

    /// What the lines so far join to.
    pub fn root(self) -> Digest {
        self.lines.root()
    }

    /// Reads the rest, and checks that both sides signed all of it: signatures, both statements against each other, the
    /// header, the lines, the parts of files against them, and the words of the footer. Whether those who signed are
    /// whom you know is left to the caller.
    ///
    /// # Errors
    /// `Damage`, saying what is not what was signed; as [`Reader::next_part`].
    pub fn authenticate(mut self) -> Result<Seal> {
        let (mut hard_links, mut bytes) = (0u64, 0u64);
        let mut waiting = Waiting::default();
        while let Some(part) = self.next_part()? {
            match part {
                Part::Block(_) => {}
                Part::Line(line) => {
                    hard_links += u64::from(line.kind == "hardlink");
                    bytes = bytes.saturating_add(line.bytes);
                    waiting.come(line)?;
                }
                Part::Pieces(path, pieces) => waiting.wait(path, &pieces)?,
            }
        }
        let footer = self.footer.take().ok_or_else(|| none("it has no end"))?;
        if self.next_text()?.is_some() {
            return Err(damage("there is more behind its end"));
        }
        if self.is_cut {
            return Err(damage("its last line has no end"));
        }
        waiting.end()?;
        let entries = self.lines.entries;
        let root = std::mem::take(&mut self.lines).root();
        let seal = self.authenticate_footer(&footer, root, entries)?;
        Ok(Seal { hard_links, bytes, ..seal })
    }

    fn authenticate_footer(
        &self,
        (footer, text): &(Value, Vec<u8>),
        root: Digest,
        entries: u64,
    ) -> Result<Seal> {
        let signed = |who| {
            signed_bytes(footer, who).and_then(|bytes| {
                Signed::from_bytes(&bytes).map_err(|_| none("a signed statement is not readable"))
            })
        };
        let (sender, receiver) = (signed("sender")?, signed("receiver")?);
        for (who, side, signed, other) in
            [("sender", Side::Sender, &sender, &receiver), ("receiver", Side::Receiver, &receiver, &sender)]
        {
            let statement = &signed.statement;
            if !is_signed(signed) {
                return Err(damage(&format!("the signature of the {who} is not valid")));
            }
            if (statement.root, statement.entries) != (root, entries) {
                return Err(damage(&format!("its {entries} lines are not those that the {who} signed")));
            }
            if statement.header.is_some_and(|header| header != self.header) {
                return Err(damage(&format!("its header is not the one that the {who} signed")));
            }
            if statement.signer.certificate != fingerprint(signed).0 {
                return Err(damage(&format!("the {who} signed as somebody else")));
            }
            if statement.side != side || statement.peer != other.statement.signer {
                return Err(damage(&format!("the {who} signed a copy with somebody else")));
            }
        }
        if sender.statement.place.is_some() || receiver.statement.unread != 0 {
            return Err(damage("a side states what is the other's to say"));
        }
        // By its totals a copy of which a part failed differs from one of all with the same lines, by its session from
        // any other.
        let copy = |s: &Statement| {
            let terms = (s.verify, s.check, s.chunk_bytes, s.segment_bytes);
            (s.kind, s.session, terms, s.totals)
        };
        if copy(&sender.statement) != copy(&receiver.statement) {
            return Err(damage("the two statements are not of one copy"));
        }
        if sender.statement.header.is_none() && receiver.statement.header.is_none() {
            return Err(damage("nobody signed its header"));
        }
        if self::footer(&sender, &receiver).to_string().as_bytes() != text.as_slice() {
            return Err(damage("the words of its footer are not what was signed"));
        }
        let signer = |signed: &Signed| Signer {
            public_key: public_key_of(&signed.certificate).unwrap_or_default(),
            certificate: fingerprint(signed),
            is_ephemeral: signed.statement.signer.is_ephemeral,
        };
        let totals = &receiver.statement.totals;
        Ok(Seal {
            sender: signer(&sender),
            receiver: signer(&receiver),
            kind: receiver.statement.kind,
            place: receiver.statement.place.clone(),
            began: self.began,
            entries,
            bytes: 0,
            hard_links: 0,
            failed: totals.failed,
            skipped: totals.skipped,
            segment_bytes: u64::from(receiver.statement.segment_bytes),
            root,
            words: self.words(footer),
        })
    }

    /// See [`Seal::words`].
    fn words(&self, footer: &Value) -> Value {
        let mut words = footer.as_object().cloned().unwrap_or_default();
        for who in ["sender", "receiver"] {
            // What is said in words.
            let side = words.get_mut(who).and_then(Value::as_object_mut);
            drop(side.and_then(|side| side.remove("signed")));
        }
        words.extend(self.asked.clone());
        words.insert("began".into(), self.began.into());
        Value::Object(words)
    }

    /// The next line, without its end.
    fn next_text(&mut self) -> Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(&mut self.file, LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut text);
        let got = read.map_err(|error| failure::of_io("read the receipt", &error))?;
        if text.last() == Some(&b'\n') {
            text.pop();
        } else if got as u64 == LINE_BYTES_MAX {
            return Err(none("a line of it is too long"));
        } else {
            self.is_cut |= got > 0;
        }
        Ok((got > 0).then_some(text))
    }
}

/// From where a header says that it was copied, to where, which part, if it was one, and which names. It is as it was
/// signed, and may be of any form.
fn places(header: &Value) -> Map<String, Value> {
    let from = header.get("from").and_then(Value::as_array).into_iter().flatten();
    let from: Value = from.filter(|place| place.is_string()).cloned().collect();
    let to = header.get("to").filter(|place| place.is_string()).cloned().unwrap_or_default();
    let part = header.get("part").filter(|part| part.is_string()).cloned();
    let part = part.map(|part| ("part".to_owned(), part));
    let places = [("from".to_owned(), from), ("to".to_owned(), to)];
    places.into_iter().chain(part).chain(selection::read(header)).collect()
}

fn closed((number, block): (u64, blake3::Hasher)) -> (u64, Digest) {
    (number, Digest(*block.finalize().as_bytes()))
}

fn signed_bytes(footer: &Value, who: &str) -> Result<Vec<u8>> {
    let text = footer.get(who).and_then(|side| side.get("signed")).and_then(Value::as_str);
    text.and_then(unhex).ok_or_else(|| none("a signed statement is missing"))
}

fn parse_pieces(value: &Value) -> Option<(RelativePath, Pieces)> {
    let path = thalweg_wire::path::unescape(value.get("path")?.as_str()?).ok()?;
    let piece_bytes = value.get("piece_bytes")?.as_u64()?;
    let bytes = unhex(value.get("digests")?.as_str()?)?;
    let (digests, rest) = bytes.as_chunks::<32>();
    let fits = rest.is_empty()
        && (2..=PIECES_MAX).contains(&(digests.len() as u64))
        && piece_bytes.is_power_of_two()
        && piece_bytes >= limits::CHUNK_BYTES_MIN;
    let digests = digests.iter().map(|bytes| Digest(*bytes)).collect();
    // The root of a tree is no file.
    let path = RelativePath::new(path).ok().filter(|path| !path.is_root())?;
    fits.then_some((path, Pieces { piece_bytes, digests }))
}

/// Whether these are the parts of a file of this length and digest.
pub fn are_parts_of(pieces: &Pieces, file_bytes: u64, digest: Digest) -> bool {
    has_parts(file_bytes, of_pieces(pieces)) && digest::join(&pieces.digests, true) == digest
}

/// Bytes of a part, and how many there are.
type Parts = (u64, u64);

fn of_pieces(pieces: &Pieces) -> Parts {
    (pieces.piece_bytes, pieces.digests.len() as u64)
}

fn has_parts(file_bytes: u64, (piece_bytes, parts): Parts) -> bool {
    file_bytes.div_ceil(piece_bytes) == parts
}

/// Parts of files whose lines come behind them, by name and by what they join to: a file that changed when it was done
/// can be in a receipt twice.
#[derive(Default)]
struct Waiting(HashMap<(RelativePath, Digest), Parts>);

impl Waiting {
    fn wait(&mut self, path: RelativePath, pieces: &Pieces) -> Result<()> {
        let (joined, parts) = (digest::join(&pieces.digests, true), of_pieces(pieces));
        match self.0.insert((path, joined), parts) {
            Some(other) if other != parts => Err(damage("the parts of a file are told in two ways")),
            _ => Ok(()),
        }
    }

    fn come(&mut self, line: Line) -> Result<()> {
        // Parts of a file with marked holes could not be compared with bytes.
        if self.0.is_empty() || line.kind != "file" {
            return Ok(());
        }
        let Some(digest) = line.digest else { return Ok(()) };
        let key = (line.path, digest);
        match self.0.remove(&key) {
            Some(parts) if !has_parts(line.bytes, parts) => Err(do_not_join(&key.0)),
            _ => Ok(()),
        }
    }

    fn end(&self) -> Result<()> {
        self.0.keys().next().map_or(Ok(()), |(path, _)| Err(do_not_join(path)))
    }
}

fn do_not_join(path: &RelativePath) -> Failure {
    damage(&format!("the digests of the parts of `{path}` do not join to that of the file"))
}

fn fingerprint(signed: &Signed) -> Fingerprint {
    Fingerprint::of(&signed.certificate.as_slice().into())
}

fn none(why: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the receipt", format!("this is no receipt: {why}"))
}

fn damage(why: &str) -> Failure {
    Failure::new(FailureKind::Damage, "check the receipt", why)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::agree::Agreed;
    use thalweg_wire::message::{Check, VerifyLevel};

    /// A receipt as a local copy writes it: the lines of its blocks, each with the parts that are told before it.
    pub(crate) struct Sample {
        identity: Identity,
        header: String,
        blocks: Vec<(u64, Vec<String>)>,
        /// Of the sender, and of the receiver.
        totals: [Totals; 2],
        /// The session as the sender states it, and as the receiver does.
        sessions: [Option<Digest>; 2],
    }

    /// In two parts.
    fn large() -> (RelativePath, Pieces) {
        let digests = vec![Digest([1; 32]), Digest([2; 32])];
        (RelativePath::new(b"large".to_vec()).unwrap(), Pieces { piece_bytes: 64 << 10, digests })
    }

    fn line_of_large() -> String {
        format!("{}  100000  file  done  large\n", digest::join(&large().1.digests, true))
    }

    impl Sample {
        pub(crate) fn new(lines: &[&str]) -> Sample {
            let totals = Totals { done: lines.len() as u64, ..Totals::default() };
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Sample {
                identity: Identity::generate("somebody").unwrap(),
                header: format!("{{\"thalweg_receipt\":{VERSION}}}"),
                blocks: vec![(0, lines)],
                totals: [totals; 2],
                sessions: [None; 2],
            }
        }

        /// With when the copy began, in seconds since 1970.
        pub(crate) fn that_began(mut self, seconds: u64) -> Sample {
            self.header = format!("{{\"began\":{seconds},\"thalweg_receipt\":{VERSION}}}");
            self
        }

        /// With a block that became complete before those that are there.
        pub(crate) fn behind(mut self, number: u64, lines: &[&str]) -> Sample {
            self.blocks.insert(0, (number, lines.iter().map(|line| (*line).to_owned()).collect()));
            self
        }

        /// Some of each kind, in two blocks that became complete in the other order.
        fn of_a_tree() -> Sample {
            let plain = "-  0  directory  done  .\n";
            let named = "-  0  hardlink  unchanged  a\\x0ab  done  c\n";
            let mut sample = Sample::new(&[plain, &line_of_large()]);
            sample.blocks.insert(0, (7, vec![named.to_owned()]));
            sample.totals = [Totals { done: 2, unchanged: 1, ..Totals::default() }; 2];
            sample
        }

        fn signed(&self, side: Side) -> Signed {
            let hashed = |text: &str| Digest(*blake3::hash(text.as_bytes()).as_bytes());
            let sorted: BTreeMap<u64, &Vec<String>> =
                self.blocks.iter().map(|(number, lines)| (*number, lines)).collect();
            let statement = Statement {
                root: receipt::root_of(sorted.values().map(|lines| hashed(&lines.concat()))),
                entries: sorted.values().map(|lines| lines.len() as u64).sum(),
                totals: self.totals[usize::from(side == Side::Receiver)],
                unread: u64::from(side == Side::Sender),
                signed_at: 1_790_000_000,
                side,
                kind: TransferKind::Files,
                signer: self.identity.signatory(),
                peer: self.identity.signatory(),
                session: self.sessions[usize::from(side == Side::Receiver)],
                place: (side == Side::Receiver)
                    .then(|| Place { export: Some("data".into()), path: b"run/7".to_vec() }),
                verify: VerifyLevel::Written,
                check: Check::Evidence,
                chunk_bytes: 64 << 10,
                segment_bytes: 64 << 10,
                header: Some(hashed(&self.header)),
            };
            let signature = self.identity.sign(&statement.signed_bytes());
            Signed { statement, certificate: self.identity.chain()[0].to_vec(), signature }
        }

        /// What both sides sign of it.
        pub(crate) fn agreed(&self) -> Agreed {
            Agreed { sender: self.signed(Side::Sender), receiver: self.signed(Side::Receiver) }
        }

        /// Its lines of text.
        fn texts(&self) -> Vec<String> {
            let mut texts = vec![self.header.clone()];
            for (number, lines) in &self.blocks {
                if lines.contains(&line_of_large()) {
                    texts.push(pieces(&large().0, &large().1));
                }
                texts.push(block(*number));
                texts.extend(lines.iter().map(|text| line(text)));
            }
            texts.push(footer(&self.signed(Side::Sender), &self.signed(Side::Receiver)).to_string());
            texts
        }

        pub(crate) fn text(&self) -> String {
            joined(&self.texts())
        }

        pub(crate) fn seal(&self) -> Seal {
            read(&self.text()).unwrap()
        }
    }

    fn joined(texts: &[String]) -> String {
        texts.iter().map(|text| format!("{text}\n")).collect()
    }

    fn read(text: &str) -> Result<Seal> {
        Reader::begin(text.as_bytes()).and_then(Reader::authenticate)
    }

    fn is_damage(text: &str) {
        let refused = read(text).expect_err(text);
        assert_eq!(refused.kind, FailureKind::Damage, "{refused}: {text}");
    }

    #[test]
    fn what_a_mover_writes_is_authenticated() {
        let sample = Sample::of_a_tree();
        let seal = read(&sample.text()).unwrap();
        assert_eq!((seal.entries, seal.bytes, seal.hard_links, seal.failed), (3, 100_000, 1, 0));
        assert_eq!(seal.root, sample.signed(Side::Sender).statement.root);
        let of_none = Sample { blocks: Vec::new(), ..Sample::new(&[]) };
        assert_eq!(read(&of_none.text()).unwrap().entries, 0);
    }

    /// The order of the fields too: receipts that exist have it.
    #[test]
    fn the_texts_of_a_receipt_stay_as_they_are() {
        assert_eq!(block(7), r#"{"block":7}"#);
        assert_eq!(line("-  0  file  done  \"é\\x0a\n"), r#"{"line":"-  0  file  done  \"é\\x0a\n"}"#);
        let (path, parts) = large();
        let digests = "01".repeat(32) + &"02".repeat(32);
        let expected =
            format!(r#"{{"pieces":{{"digests":"{digests}","path":"large","piece_bytes":65536}}}}"#);
        assert_eq!(pieces(&path, &parts), expected);
        let footer = Sample::of_a_tree().texts().pop().unwrap();
        let mut keys = Vec::new();
        let words = [
            "entries", "kind", "place", "receiver", "root", "sender", "session", "terms", "totals", "unread",
        ];
        for key in words {
            keys.push(footer.find(&format!("\"{key}\":")).unwrap());
        }
        assert!(keys.is_sorted() && keys[0] == 1, "{footer}");
    }

    #[test]
    fn lines_that_are_cut_in_another_way_are_damage() {
        let lines = ["-  0  file  done  a\n", "-  0  file  done  b\n", "-  0  file  done  c\n"];
        let sample = Sample::new(&lines);
        read(&sample.text()).unwrap();
        let (whole, texts) = (lines.concat(), sample.texts());
        let with = |lines: &[&str]| {
            let mut texts = texts.clone();
            drop(texts.splice(2..5, lines.iter().map(|text| line(text))));
            joined(&texts)
        };
        assert_eq!(with(&lines), joined(&texts));
        // Three again, as the statements say: every way to cut the same text.
        for first in 0..whole.len() {
            for second in first..whole.len() {
                let cut = [&whole[..first], &whole[first..second], &whole[second..]];
                if cut != lines {
                    is_damage(&with(&cut));
                }
            }
        }
        let without_ends = lines.map(|line| line.trim_end());
        is_damage(&with(&without_ends));
    }

    #[test]
    fn words_that_nobody_signed_are_damage() {
        let text = Sample::of_a_tree().text();
        let line = line(&line_of_large());
        for (from, into) in [
            (line.clone(), line.replace('}', r#","approved_by":"Director"}"#)),
            (line.clone(), line.replace('{', r#"{"line":"evil","#)),
            (line.clone(), line.replace(':', ": ")),
            (line.clone(), line.replace("large", "\\u006carge")),
            (line.clone(), format!("{line} ")),
            (line.clone(), format!("{line}\n{{\"block\":0}}")),
            (r#"{"block":7}"#.into(), r#"{"block":7,"of":"the Director"}"#.into()),
            (r#"{"block":7}"#.into(), r#"{"block":8,"block":7}"#.into()),
            (r#"{"block":7}"#.into(), r#"{"block":0}"#.into()),
            (r#"{"entries":3"#.into(), r#"{"entries":4,"entries":3"#.into()),
            (r#"{"entries":3"#.into(), r#"{"approved_by":"Director","entries":3"#.into()),
            (r#""root":""#.into(), r#""root":"deadbeef","root":""#.into()),
            (r#""done":2"#.into(), r#""done":200,"done":2"#.into()),
            (r#""path":"large""#.into(), r#""path":"none","path":"large""#.into()),
            (r#""path":"large""#.into(), r#""path":"\\x6carge""#.into()),
            (r#""path":"large""#.into(), r#""path":"large","path_of":"the Director""#.into()),
        ] {
            assert!(text.contains(&from), "{from}");
            is_damage(&text.replacen(&from, &into, 1));
        }
        is_damage(text.trim_end());
        is_damage(&format!("{text}\n"));
        is_damage(&format!("{text}{}\n", block(9)));
    }

    #[test]
    fn parts_that_do_not_join_to_a_file_behind_them_are_damage() {
        let sample = Sample::of_a_tree();
        let (path, parts) = large();
        let with = |path: &RelativePath, parts: &Pieces| {
            sample.text().replacen(&pieces(&large().0, &large().1), &pieces(path, parts), 1)
        };
        assert_eq!(with(&path, &parts), sample.text());
        let zeros = Pieces { digests: vec![Digest::default(); 2], ..parts.clone() };
        is_damage(&with(&path, &zeros));
        is_damage(&with(&path, &Pieces { piece_bytes: 128 << 10, ..parts.clone() }));
        is_damage(&with(&RelativePath::new(b"none".to_vec()).unwrap(), &parts));
        // Behind its file; twice, which says nothing new.
        let mut texts = sample.texts();
        let at = texts.iter().position(|text| text.contains("pieces")).unwrap();
        let told = texts.remove(at);
        read(&joined(&texts)).unwrap();
        texts.insert(texts.len() - 1, told.clone());
        is_damage(&joined(&texts));
        let mut texts = sample.texts();
        texts.insert(at, told);
        read(&joined(&texts)).unwrap();
    }

    #[test]
    fn statements_of_two_copies_with_the_same_lines_do_not_make_a_receipt() {
        let mut sample = Sample::of_a_tree();
        sample.totals[0].failed = 1;
        is_damage(&sample.text());
        sample.totals[1].failed = 1;
        assert_eq!(read(&sample.text()).unwrap().failed, 1);
    }

    #[test]
    fn statements_of_two_sessions_with_the_same_lines_do_not_make_a_receipt() {
        let mut sample = Sample::of_a_tree();
        sample.sessions = [Some(Digest([1; 32])); 2];
        let seal = read(&sample.text()).unwrap();
        assert_eq!((seal.kind, seal.place.unwrap().path), (TransferKind::Files, b"run/7".to_vec()));
        sample.sessions[1] = Some(Digest([2; 32]));
        is_damage(&sample.text());
    }

    #[test]
    fn what_was_signed_beside_the_lines_is_told_in_words() {
        let mut sample = Sample::of_a_tree();
        sample.header =
            format!(r#"{{"began":7,"from":["a",3,"b"],"thalweg_receipt":{VERSION},"to":"tw://host/x"}}"#);
        let seal = sample.seal();
        let words = &seal.words;
        assert_eq!((&words["began"], &words["from"]), (&json!(7), &json!(["a", "b"])));
        assert_eq!((&words["to"], &words["kind"]), (&json!("tw://host/x"), &json!("files")));
        assert_eq!(words["place"], json!({"export": "data", "path": "run/7"}));
        assert_eq!(
            (&words["totals"]["unchanged"], &words["terms"]["check"]),
            (&json!(1), &json!("evidence"))
        );
        for side in ["sender", "receiver"] {
            assert_eq!(words[side]["fingerprint"], sample.identity.fingerprint().to_string());
            assert_eq!(words[side]["when"], 1_790_000_000);
            assert!(words[side].get("signed").is_none());
        }
        assert!(seal.has_one_signer());
        assert!(selection::sentences(words).is_empty());
        let rules = r#"{"count":1,"digest":"d","list":["- *.h5"]}"#;
        sample.header = format!(r#"{{"rules":{rules},"thalweg_receipt":{VERSION}}}"#);
        let words = sample.seal().words;
        assert_eq!(selection::sentences(&words), ["names were left out by 1 rule: `- *.h5`"]);
        sample.header = format!(r#"{{"from":7,"thalweg_receipt":{VERSION},"to":["x"]}}"#);
        let words = sample.seal().words;
        assert_eq!((&words["from"], &words["to"]), (&json!([]), &Value::Null));
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let text = Sample::of_a_tree().text().replacen('\n', &" ".repeat(9 << 20), 1);
        assert_eq!(read(&text).unwrap_err().kind, FailureKind::Usage);
    }
}
