//! Objects on their way to the store: in one piece, or in parts.
//!
//! With the first content that is written CRC64NVME and MD5 travel both. A store that tells the CRC back has compared
//! it, and from then on it travels alone; to all others `Content-MD5` goes with everything. So nothing is written that
//! the store did not compare, whichever it is. Objects and parts are learned of one by one: some stores know it of one
//! only.
//!
//! An answer that is lost may be one of a success: then a condition refuses what is asked again. What stands there is
//! looked at, and if it is what was sent, it is ours. An upload in parts is known again by its mark.
//!
//! An object that arrived damaged is removed: under its name it would be taken for the file.

use super::about::{MARK, crc64, etag, headers, word};
use super::asking::{Got, Refused, Wish};
use super::listing::{ENDLESS, PAGE_MAX, md5_words};
use super::{About, Checks, If, NO_VERSION, PARTS_MAX, Part, Seen, Sent, Store, Upload};
use crate::answers::xml::escape;
use crate::answers::{self, LIST_BYTES_MAX, crc64_words, http_time_of, quoted_etag, storage_class};
use crate::http::COMPLETE_LIMIT;
use crc_fast::CrcAlgorithm::Crc64Nvme;
use rusty_s3::Method;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::Time;
use ureq::http::HeaderMap;

const WRITE: &str = "write the object";
const BEGIN: &str = "begin the upload";
const WRITE_PART: &str = "write a part of the object";
const LIST_PARTS: &str = "list the parts of the upload";
const COMPLETE: &str = "complete the object";
const ABORT: &str = "give the upload up";

const CRC: &str = "x-amz-checksum-crc64nvme";

impl Store {
    /// Writes an object in one piece: at most 5 GiB at Amazon's. It is there as a whole or not at all, and durable when
    /// this returns. The time of what it returns is that of the answer: [`Store::head`] tells the object's own.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold; `Damage` if something else arrived, which is then removed; `Protocol`
    /// if the store calls it written and it is not there; what the store says, if it refuses.
    pub fn put(&self, key: &str, content: &[u8], about: &About, only: &If) -> Result<Seen> {
        let mut wish = Wish::new(WRITE, "s3:PutObject", Method::Put, Some(key));
        wish.headers = headers(about);
        wish.headers.extend(condition(only));
        wish.content = Some(content);
        let crc = crc64_of(content);
        let size = content.len() as u64;
        match self.send(Sent::Object, &mut wish, content, crc, "the object") {
            Ok(got) if etag(&got.headers).is_empty() => self.arrived(&wish, key, size, crc),
            Ok(got) => Ok(Seen {
                size,
                etag: etag(&got.headers),
                modified: self.date(&got.headers),
                storage_class: word(&got.headers, "x-amz-storage-class").and_then(storage_class),
            }),
            // What stands there is of the PUT before this trial.
            Err(refused) if *only == If::Is(NO_VERSION.to_owned()) => Err(of_condition(refused, only)),
            Err(refused) => match self.written(key, size, Some(crc), None, &refused, &[409, 412]) {
                Some((seen, beside)) if beside == *about => Ok(seen),
                _ => Err(of_condition(refused, only)),
            },
        }
    }

    /// What stands there where the store said no more than that it went well: whatever is between may say that.
    fn arrived(&self, wish: &Wish<'_>, key: &str, size: u64, crc: u64) -> Result<Seen> {
        match self.head(key)? {
            Some(head) if head.seen.size == size && head.crc64.is_none_or(|told| told == crc) => {
                Ok(head.seen)
            }
            _ => Err(self.nonsense(wish, "it names no version, and what was sent is not there")),
        }
    }

    /// Begins an upload in parts. Until it is complete or given up, what was sent is kept, and paid for.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn begin(&self, key: &str, about: &About) -> Result<Upload> {
        let mut wish = Wish::new(BEGIN, "s3:PutObject", Method::Post, Some(key));
        wish.query.push(("uploads", "1".into()));
        wish.headers = headers(about);
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{:016x}", fastrand::Rng::with_seed(self.surroundings.seed ^ number).u64(..));
        wish.headers.push((MARK, mark.clone().into()));
        wish.content = Some(&[]);
        let plain = wish.headers.len();
        let checks = self.checks_of(Sent::Upload);
        if checks != Checks::Md5 {
            wish.headers.push(("x-amz-checksum-algorithm", "CRC64NVME".into()));
            wish.headers.push(("x-amz-checksum-type", "FULL_OBJECT".into()));
        }
        let mut asked = self.ask(&wish);
        if checks == Checks::Unknown && asked.as_ref().is_err_and(refuses_headers) {
            wish.headers.truncate(plain);
            asked = self.ask(&wish);
            if asked.is_ok() {
                self.learn(Sent::Upload, Checks::Md5);
            }
        }
        let got = asked?;
        let id = answers::upload_id(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
        Ok(Upload { key: key.to_owned(), id, begun: None, mark: Some(mark) })
    }

    /// Writes part `number` of an upload, from 1 to 10,000; one that is there already is replaced.
    ///
    /// # Errors
    /// `Damage` if something else arrived; `NotFound` if the upload is complete or given up; what the store says, if it
    /// refuses.
    pub fn put_part(&self, upload: &Upload, number: u16, content: &[u8]) -> Result<Part> {
        if number == 0 || number > PARTS_MAX {
            let words = format!("there is no part {number}: they go from 1 to {PARTS_MAX}");
            return Err(self.failure(FailureKind::Unsupported, WRITE_PART, Some(upload.key.as_str()), words));
        }
        let mut wish = Wish::new(WRITE_PART, "s3:PutObject", Method::Put, Some(upload.key.as_str()));
        wish.query.push(("partNumber", number.to_string().into()));
        wish.query.push(("uploadId", upload.id.as_str().into()));
        wish.content = Some(content);
        let crc = crc64_of(content);
        let got = self.send(Sent::Part, &mut wish, content, crc, &format!("part {number}"))?;
        let etag = etag(&got.headers);
        if etag.is_empty() {
            return Err(self.nonsense(&wish, &format!("it does not say which version part {number} is")));
        }
        Ok(Part { number, bytes: content.len() as u64, etag, crc64: Some(crc) })
    }

    /// The parts of an upload that arrived, in order.
    ///
    /// # Errors
    /// `NotFound` if the upload is complete or given up; if the list makes no sense.
    pub fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut after: Option<u16> = None;
        loop {
            let mut wish =
                Wish::new(LIST_PARTS, "s3:ListMultipartUploadParts", Method::Get, Some(upload.key.as_str()));
            wish.words_max = Some(LIST_BYTES_MAX);
            wish.query.push(("uploadId", upload.id.as_str().into()));
            wish.query.push(("max-parts", PAGE_MAX.into()));
            if let Some(after) = after {
                wish.query.push(("part-number-marker", after.to_string().into()));
            }
            let got = self.ask(&wish)?;
            let (some, next) =
                answers::part_list(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
            for part in some {
                if part.number > PARTS_MAX || part.number <= parts.last().map_or(0, |before| before.number) {
                    return Err(self.nonsense(&wish, &format!("part {} is out of order", part.number)));
                }
                let answers::ListedPart { number, bytes, etag, crc64 } = part;
                parts.push(Part { number, bytes, etag, crc64 });
            }
            // It grows, so this ends.
            match next {
                None => return Ok(parts),
                Some(next) if next <= after.unwrap_or(0) => {
                    return Err(self.nonsense(&wish, ENDLESS));
                }
                Some(_) => after = next,
            }
        }
    }

    /// Makes the object of its parts; it is there, whole and durable, when this returns. Its length is compared with
    /// that of the parts, and its checksum with theirs, where the store tells it.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold; `Damage` if the object is not what the parts were, which is then
    /// removed; `NotFound` if the upload is given up; what the store says, if it refuses. If it could not be looked at
    /// and the store told no checksum, the object is there all the same: that is said.
    pub fn complete(&self, upload: &Upload, parts: &[Part], only: &If) -> Result<Seen> {
        let key = upload.key.as_str();
        let mut parts = parts.iter().collect::<Vec<_>>();
        parts.sort_unstable_by_key(|part| part.number);
        if parts.is_empty() {
            return Err(self.failure(FailureKind::Unsupported, COMPLETE, Some(key), "an upload has a part"));
        }
        let size = parts.iter().fold(0_u64, |size, part| size.saturating_add(part.bytes));
        let whole = combined(&parts);
        let of_parts = self.checks_of(Sent::Part) == Checks::Crc64;
        let compared = whole.filter(|_| of_parts && self.checks_of(Sent::Upload) != Checks::Md5);
        let content = completion(&parts, compared.is_some());
        let plain_content = completion(&parts, false);
        let mut wish = Wish::new(COMPLETE, "s3:PutObject", Method::Post, Some(key));
        wish.query.push(("uploadId", upload.id.as_str().into()));
        wish.headers.extend(condition(only));
        let plain = wish.headers.len();
        if let Some(crc) = compared {
            wish.headers.push((CRC, crc64_words(crc).into()));
            wish.headers.push(("x-amz-checksum-type", "FULL_OBJECT".into()));
        }
        wish.content = Some(content.as_bytes());
        wish.limit = COMPLETE_LIMIT;
        let mut asked = self.ask(&wish);
        if let Err(first) = &asked
            && compared.is_some()
            && refuses_headers(first)
        {
            let lost = first.lost;
            // What the object is shows when it is looked at.
            wish.headers.truncate(plain);
            wish.content = Some(plain_content.as_bytes());
            asked = self.ask(&wish).map_err(|again| Refused { lost: lost || again.lost, ..again });
        }
        let got = match asked {
            Ok(got) => got,
            Err(refused) => {
                let mark = upload.mark.as_deref();
                let made = self.written(key, size, whole, mark, &refused, &[404, 409, 412]);
                return made.map(|(seen, _)| seen).ok_or_else(|| of_condition(refused, only));
            }
        };
        let (etag, told) = answers::completed(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
        let differs = |what: &str| {
            let words = format!("{what} of the object is not that of its parts");
            let failure = self.failure(FailureKind::Damage, COMPLETE, Some(key), words);
            self.remove_damaged(key, &etag, failure)
        };
        if let (Some(told), Some(whole)) = (told, whole)
            && told != whole
        {
            return Err(differs("the checksum"));
        }
        let ours = |etag: String| {
            let modified = self.date(&got.headers);
            Seen { size, etag, modified, storage_class: None }
        };
        let head = match self.head(key) {
            Ok(head) => head,
            Err(_) if !etag.is_empty() && told.is_some() && told == whole => return Ok(ours(etag)),
            Err(mut failure) => {
                let words = "the object is complete, but could not be looked at";
                failure.cause = format!("{}; {words}", failure.cause);
                return Err(failure);
            }
        };
        match head {
            None if etag.is_empty() => {
                Err(self.nonsense(&wish, "it names no version, and the object is not there"))
            }
            // If somebody else's stands there already, it says nothing about this one.
            Some(head) if etag.is_empty() || head.seen.etag == etag => {
                if head.seen.size != size {
                    return Err(differs("the length"));
                }
                match (head.crc64, whole) {
                    (Some(told), Some(whole)) if told != whole => Err(differs("the checksum")),
                    _ => Ok(head.seen),
                }
            }
            _ => Ok(ours(etag)),
        }
    }

    /// Removes an object that arrived damaged, if it still is the one that the store told of; where it named no version
    /// what stands there may be another's, and stays. Whatever becomes of that, `failure` is what is told.
    fn remove_damaged(&self, key: &str, etag: &str, mut failure: Failure) -> Failure {
        let stays = match self.head(key) {
            Ok(None) => return failure,
            Ok(Some(_)) if etag.is_empty() => true,
            Ok(Some(head)) if head.seen.etag != *etag => return failure,
            // Something else by now is another's.
            Ok(Some(head)) => self.remove_seen(key, &head.seen).is_err(),
            Err(_) => true,
        };
        if stays {
            failure.cause = format!("{}; it could not be removed", failure.cause);
        }
        failure
    }

    /// Gives an upload up; one that is not there any more is given up already.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn abort(&self, upload: &Upload) -> Result<()> {
        let key = Some(upload.key.as_str());
        let mut wish = Wish::new(ABORT, "s3:AbortMultipartUpload", Method::Delete, key);
        wish.query.push(("uploadId", upload.id.as_str().into()));
        match self.ask(&wish) {
            Ok(_) | Err(Refused { status: 404, .. }) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Sends content with what the store is to compare it by, and learns what that is.
    fn send(
        &self,
        sent: Sent,
        wish: &mut Wish<'_>,
        content: &[u8],
        crc: u64,
        what: &str,
    ) -> std::result::Result<Got, Refused> {
        let plain = wish.headers.len();
        let checks = self.checks_of(sent);
        if checks != Checks::Md5 {
            wish.headers.push((CRC, crc64_words(crc).into()));
        }
        if checks != Checks::Crc64 {
            wish.headers.push(("content-md5", md5_words(content).into()));
        }
        let asked = self.ask(wish);
        let lost = match &asked {
            Err(refused) if checks != Checks::Md5 && refuses_headers(refused) => refused.lost,
            Err(_) => return asked,
            Ok(got) => match (checks, crc64(&got.headers)) {
                (Checks::Md5, _) => return asked,
                (_, Some(told)) if told != crc => {
                    let words = format!("{what}: what arrived has another checksum");
                    let failure = self.failure(FailureKind::Damage, wish.operation, wish.key, words);
                    return Err(match (sent, wish.key) {
                        (Sent::Object, Some(key)) => self.remove_damaged(key, &etag(&got.headers), failure),
                        _ => failure,
                    }
                    .into());
                }
                (_, Some(_)) => {
                    self.learn(sent, Checks::Crc64);
                    return asked;
                }
                (Checks::Unknown, None) => {
                    self.learn(sent, Checks::Md5);
                    return asked;
                }
                // It is there, and nobody compared it: what is sent once more takes its place.
                (Checks::Crc64, None) => {
                    let conditions = ["if-match", "if-none-match"];
                    let condition = wish.headers.iter_mut().find(|(name, _)| conditions.contains(name));
                    let told = etag(&got.headers);
                    if let Some(condition) = condition.filter(|_| !told.is_empty()) {
                        *condition = ("if-match", quoted_etag(&told).into());
                    }
                    true
                }
            },
        };
        wish.headers.truncate(plain);
        wish.headers.push(("content-md5", md5_words(content).into()));
        let got = self.ask(wish).map_err(|again| Refused { lost: lost || again.lost, ..again })?;
        self.learn(sent, Checks::Md5);
        Ok(got)
    }

    /// The object that stands there, if an attempt whose answer was lost made it: one with this length, and with this
    /// mark or this checksum. Asked only where a later attempt was refused with one of these numbers.
    fn written(
        &self,
        key: &str,
        size: u64,
        crc: Option<u64>,
        mark: Option<&str>,
        refused: &Refused,
        numbers: &[u16],
    ) -> Option<(Seen, About)> {
        if !refused.lost || !numbers.contains(&refused.status) {
            return None;
        }
        let (head, marked) = self.look(key).ok()??;
        let differs = matches!((head.crc64, crc), (Some(told), Some(crc)) if told != crc);
        let is_ours = match (mark, marked) {
            (Some(mark), Some(marked)) => mark == marked && !differs,
            // Where there is none, a store may have left it out.
            _ => crc.is_some() && head.crc64 == crc,
        };
        (head.seen.size == size && is_ours).then_some((head.seen, head.about))
    }

    /// When the store answered.
    fn date(&self, headers: &HeaderMap) -> Time {
        word(headers, "date").and_then(http_time_of).unwrap_or_else(|| Time {
            seconds: self.now_seconds().saturating_add(self.skew_seconds.load(Ordering::Relaxed)),
            nanos: 0,
        })
    }
}

/// Whether this may be because of a head that the store does not know.
pub(super) fn refuses_headers(refused: &Refused) -> bool {
    let vague = ["", "NotImplemented", "InvalidArgument", "InvalidRequest", "UnsupportedArgument"];
    refused.status == 501 || (refused.status == 400 && vague.contains(&refused.code.as_str()))
}

/// An object that is gone is not the version that was seen; a head that is not known may be the condition.
fn of_condition(mut refused: Refused, only: &If) -> Failure {
    if refused.status == 404 && refused.code == "NoSuchKey" && matches!(only, If::Is(_)) {
        refused.failure.kind = FailureKind::Conflict;
    }
    if !matches!(only, If::Any) && refuses_headers(&refused) {
        refused.failure.kind = FailureKind::Unsupported;
    }
    refused.into()
}

fn condition(only: &If) -> Option<(&'static str, Cow<'static, str>)> {
    match only {
        If::Any => None,
        If::Absent => Some(("if-none-match", "*".into())),
        If::Is(etag) => Some(("if-match", quoted_etag(etag).into())),
    }
}

/// CRC64NVME of content.
fn crc64_of(content: &[u8]) -> u64 {
    crc_fast::checksum(Crc64Nvme, content)
}

/// That of the parts one behind the other; `None` if that of one is not known.
fn combined(parts: &[&Part]) -> Option<u64> {
    parts.iter().try_fold(0, |whole, part| {
        let crc = part.crc64?;
        // What is empty changes nothing.
        if part.bytes == 0 {
            return Some(whole);
        }
        Some(crc_fast::checksum_combine(Crc64Nvme, whole, crc, part.bytes))
    })
}

/// What says of which parts the object is made.
fn completion(parts: &[&Part], with_checksums: bool) -> String {
    let mut content =
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
    for part in parts {
        let etag = escape(&quoted_etag(&part.etag));
        let _ = write!(content, "<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag>", part.number);
        if let Some(crc) = part.crc64.filter(|_| with_checksums) {
            let _ = write!(content, "<ChecksumCRC64NVME>{}</ChecksumCRC64NVME>", crc64_words(crc));
        }
        content.push_str("</Part>");
    }
    content.push_str("</CompleteMultipartUpload>");
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_the_one_that_its_definition_gives() {
        // As in the catalogue of parametrised CRC algorithms, CRC-64/NVME.
        assert_eq!(crc64_of(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(crc64_of(b""), 0);
    }

    #[test]
    fn an_object_is_made_of_its_parts_by_number() {
        let part = Part { number: 3, bytes: 1, etag: "a&b".to_owned(), crc64: Some(1) };
        let content = completion(&[&part], true);
        let root = answers::xml::parse(&content).unwrap();
        let part = root.first("Part").unwrap();
        assert_eq!((part.number_of("PartNumber"), part.words_of("ETag")), (Some(3), Some("\"a&b\"")));
        assert_eq!(part.words_of("ChecksumCRC64NVME"), Some("AAAAAAAAAAE="));
    }

    proptest! {
        #[test]
        fn the_checksum_of_parts_together_is_that_of_the_whole(parts in any::<Vec<Vec<u8>>>()) {
            let whole = crc64_of(&parts.concat());
            let parts = parts.iter().map(|part| Part {
                number: 1,
                bytes: part.len() as u64,
                etag: String::new(),
                crc64: Some(crc64_of(part)),
            });
            let parts = parts.collect::<Vec<_>>();
            prop_assert_eq!(combined(&parts.iter().collect::<Vec<_>>()), Some(whole));
        }
    }
}
