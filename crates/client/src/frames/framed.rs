//! Frames as one stream of bytes, for programs in other languages: `frames pull --framed` writes it into a pipe, and
//! `frames push --framed` reads it from one.
//!
//! A record is one line, a JSON object; behind that of a frame stands its payload, of as many bytes as the line says:
//!
//! ```text
//! {"bytes": 4, "set": [42, 0], "dtype": "<u2", "shape": [2]}
//! ....{"end_set": 42}
//! ```
//!
//! The line of a frame has what an index has of it, but for its place in a file. To push one it needs no more than
//! `bytes`; `producer` and `sequence` are passed over, and a `digest` is held against the payload. Other lines are
//! `lost` and `set_over` of what came, which a push passes over, and `declare_set` and `end_set` of what is to be
//! pushed.

use super::files::{LINE_BYTES_MAX, REUSED_BYTES_MAX, no_memory};
use super::{Frame, LostRange, NewFrame, Payload, SetReport};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::memory::Shelf;
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::limits;

/// What reading such a stream is called where it fails.
pub const READ_FRAMED: &str = "read framed frames";

/// Where [`read`] is in its stream, for what it reads from: who shall stop ends between two records, and gives a byte
/// of a line at a time, for what is behind its end may be another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Nothing of a record was read.
    #[default]
    Between,
    /// In a line.
    Line,
    /// In a payload: it asks for no byte behind it.
    Payload,
}

/// What a program gives.
#[derive(Debug)]
pub enum Given {
    /// A frame.
    Frame(NewFrame),
    /// A set has so many frames.
    Declare {
        /// Which.
        set: u64,
        /// How many.
        frames: u32,
    },
    /// No more of this set will come.
    EndSet(u64),
}

/// What an index and a stream have of a frame.
pub(super) fn frame_line(frame: &Frame) -> Value {
    json!({
        "bytes": frame.payload.len(), "producer": frame.producer, "sequence": frame.sequence, "set": frame.set,
        "time_ns": frame.time_ns, "deadline_ns": frame.deadline_ns, "dtype": frame.dtype, "shape": frame.shape,
        "metadata": hex(&frame.metadata), "digest": frame.digest.to_string(),
    })
}

/// The same of what was lost.
pub(super) fn lost_line(lost: &LostRange) -> Value {
    json!({
        "lost": {"producer": lost.producer.as_str(), "first": lost.first, "end": lost.end,
            "reason": lost.reason.name()},
    })
}

/// The same of a set that is over.
pub(super) fn set_line(set: &SetReport) -> Value {
    json!({
        "set_over": {"set": set.set, "frames": set.frames, "delivered": set.delivered, "missing": set.missing},
    })
}

/// Writes a frame.
///
/// # Errors
/// What `out` says.
pub fn write_frame(out: &mut dyn Write, frame: &Frame) -> io::Result<()> {
    writeln!(out, "{}", frame_line(frame))?;
    out.write_all(&frame.payload)
}

/// Writes what was lost.
///
/// # Errors
/// What `out` says.
pub fn write_lost(out: &mut dyn Write, lost: &LostRange) -> io::Result<()> {
    writeln!(out, "{}", lost_line(lost))
}

/// Writes that a set is over.
///
/// # Errors
/// What `out` says.
pub fn write_set(out: &mut dyn Write, set: &SetReport) -> io::Result<()> {
    writeln!(out, "{}", set_line(set))
}

/// Reads all of `from`. `at` says where it is whenever it reads.
///
/// # Errors
/// What `sink` says; when it cannot be read; `Usage` for what is no such stream, or ends in the middle of a record;
/// `Damage` for a frame that is not what its digest says.
pub fn read(
    from: &mut dyn Read,
    at: &Cell<Reading>,
    sink: &mut dyn FnMut(Given) -> Result<()>,
) -> Result<()> {
    let mut from = BufReader::new(from);
    let shelf = Shelf::new(REUSED_BYTES_MAX);
    let failed = |error: io::Error| failure::of_io(READ_FRAMED, &error);
    // Memory grows with what is read, not with what a line says.
    let (mut number, mut usual) = (0u64, 0);
    loop {
        at.set(Reading::Between);
        let is_over = from.fill_buf().map_err(failed)?.is_empty();
        at.set(Reading::Line);
        if is_over {
            return Ok(());
        }
        number += 1;
        let mut line = Vec::new();
        from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        if line.last() != Some(&b'\n') {
            return Err(bad(number, "it does not end, or is too long"));
        }
        let row: Value = serde_json::from_slice(&line).map_err(|_| bad(number, "it is not JSON"))?;
        if row.get("lost").is_some() || row.get("set_over").is_some() {
            continue;
        }
        let (bytes, given) = given(&row).ok_or_else(|| bad(number, "it says nothing of a frame or a set"))?;
        let frame = match given {
            Given::Frame(frame) => frame,
            other => {
                sink(other)?;
                continue;
            }
        };
        let mut payload = shelf.room(usual).map_err(|_| no_memory())?;
        // Nothing behind it goes into the buffer, or a stream that never rests would never be between two records.
        let buffered = bytes.min(from.buffer().len() as u64);
        payload.read_all(from.by_ref().take(buffered)).map_err(failed)?;
        at.set(Reading::Payload);
        payload.read_all(from.get_mut().take(bytes - buffered)).map_err(failed)?;
        if payload.len() as u64 != bytes {
            return Err(bad(number, "the stream ends in the middle of its frame"));
        }
        let is_sound = |digest: &str| blake3::hash(&payload).to_string() == digest;
        let digest = row.get("digest").filter(|digest| !digest.is_null());
        if digest.is_some_and(|digest| !digest.as_str().is_some_and(is_sound)) {
            let failure = bad(number, "the frame is not what its digest says");
            return Err(Failure { kind: FailureKind::Damage, ..failure });
        }
        usual = payload.len();
        sink(Given::Frame(NewFrame { payload: Payload::new(payload), ..frame }))?;
    }
}

fn bad(number: u64, what: &str) -> Failure {
    Failure::new(FailureKind::Usage, READ_FRAMED, format!("line {number}: {what}"))
}

/// What a line says, and how many bytes follow it.
fn given(row: &Value) -> Option<(u64, Given)> {
    if let Some(set) = row.get("end_set") {
        return Some((0, Given::EndSet(set.as_u64()?)));
    }
    if let Some(declared) = row.get("declare_set") {
        let set = declared.get("set")?.as_u64()?;
        let frames = u32::try_from(declared.get("frames")?.as_u64()?).ok()?;
        return Some((0, Given::Declare { set, frames }));
    }
    let there = |key: &str| row.get(key).filter(|value| !value.is_null());
    let number = |key: &str| match there(key) {
        Some(value) => value.as_u64().map(Some),
        None => Some(None),
    };
    let text = |key: &str| there(key).map_or(Some(""), Value::as_str);
    let set = match there("set") {
        Some(set) => Some((set.get(0)?.as_u64()?, u32::try_from(set.get(1)?.as_u64()?).ok()?)),
        None => None,
    };
    let shape: Option<Vec<u64>> = match there("shape") {
        Some(shape) => shape.as_array()?.iter().map(Value::as_u64).collect(),
        None => Some(Vec::new()),
    };
    let bytes = number("bytes")?.filter(|&bytes| bytes <= limits::FRAME_PAYLOAD_BYTES_MAX)?;
    let frame = NewFrame {
        set,
        time_ns: number("time_ns")?,
        deadline_ns: number("deadline_ns")?,
        dtype: text("dtype")?.to_owned(),
        shape: shape?,
        metadata: unhex(text("metadata")?)?,
        payload: Payload::default(),
    };
    Some((bytes, Given::Frame(frame)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of this, as words.
    fn given_by(stream: &[u8]) -> (Vec<String>, Result<()>) {
        let mut all = Vec::new();
        let ended = read(&mut &*stream, &Cell::default(), &mut |given| {
            all.push(match given {
                Given::Frame(frame) => {
                    format!("{:?} {:?}", frame.set, String::from_utf8_lossy(&frame.payload))
                }
                other => format!("{other:?}"),
            });
            Ok(())
        });
        (all, ended)
    }

    #[test]
    fn a_stream_has_frames_with_their_payloads_and_words_of_sets_and_a_push_passes_over_what_was_lost() {
        let digest = blake3::hash(b"{\"\n").to_string();
        let stream = format!(
            "{{\"declare_set\":{{\"set\":4,\"frames\":2}}}}\n\
             {{\"bytes\":3,\"set\":[4,0],\"digest\":\"{digest}\",\"time_ns\":null}}\n{{\"\n\
             {{\"lost\":{{\"producer\":\"cam\"}}}}\n{{\"bytes\":0}}\n{{\"end_set\":4}}\n"
        );
        let (all, ended) = given_by(stream.as_bytes());
        assert_eq!(ended, Ok(()));
        let wanted = ["Declare { set: 4, frames: 2 }", "Some((4, 0)) \"{\\\"\\n\"", "None \"\"", "EndSet(4)"];
        assert_eq!(all, wanted);
    }

    /// Records that never rest. When it shall stop it ends between two of them.
    struct Busy<'a> {
        at: &'a Cell<Reading>,
        given: usize,
    }

    impl Read for Busy<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            const STOPS_AFTER: usize = 100_000;
            let is_asked = self.given >= STOPS_AFTER;
            if is_asked && self.at.get() == Reading::Between {
                return Ok(0);
            }
            assert!(self.given < 2 * STOPS_AFTER, "it is never between two records");
            let most = if is_asked && self.at.get() == Reading::Line { 1 } else { buffer.len() };
            let bytes = RECORD.iter().copied().cycle().skip(self.given % RECORD.len());
            buffer.iter_mut().take(most).zip(bytes).for_each(|(to, byte)| *to = byte);
            self.given += most.min(buffer.len());
            Ok(most.min(buffer.len()))
        }
    }

    /// Of a length that no buffer is a multiple of.
    const RECORD: &[u8] = b"{\"bytes\":5}\n12345";

    #[test]
    fn a_stream_that_never_rests_ends_between_two_records_when_its_push_shall_stop() {
        let (at, mut frames) = (Cell::default(), 0);
        let mut from = Busy { at: &at, given: 0 };
        let ended = read(&mut from, &at, &mut |given| {
            frames += usize::from(matches!(given, Given::Frame(_)));
            Ok(())
        });
        assert_eq!((ended, from.given), (Ok(()), frames * RECORD.len()));
    }

    #[test]
    fn a_stream_that_is_none_or_ends_too_early_is_refused_with_its_line() {
        let cases: [(&[u8], FailureKind, usize); 9] = [
            (b"garbage\n", FailureKind::Usage, 0),
            (b"{}\n", FailureKind::Usage, 0),
            (b"{\"bytes\":-1}\n", FailureKind::Usage, 0),
            (b"{\"bytes\":18446744073709551615}\n", FailureKind::Usage, 0),
            (b"{\"bytes\":1,\"metadata\":\"0\"}\nx", FailureKind::Usage, 0),
            (b"{\"bytes\":1,\"set\":4}\nx", FailureKind::Usage, 0),
            (b"{\"bytes\":1}\nx{\"bytes\":2}\nx", FailureKind::Usage, 1),
            (b"{\"bytes\":1}\nx{\"bytes\":2}", FailureKind::Usage, 1),
            (b"{\"bytes\":1,\"digest\":\"00\"}\nx", FailureKind::Damage, 0),
        ];
        for (stream, kind, frames) in cases {
            let (all, ended) = given_by(stream);
            let failure = ended.expect_err("it is refused");
            assert_eq!((failure.kind, all.len()), (kind, frames), "{failure}");
            assert!(failure.cause.contains(&format!("line {}", frames + 1)), "{failure}");
        }
    }
}
