//! What is kept beside an object: names, and how values are written.

use super::{About, Head, Seen};
use crate::answers::{crc64_of, http_time_of, plain_etag, storage_class};
use std::borrow::Cow;
use thalweg_wire::hex::unhex;
use thalweg_wire::{Digest, Time};
use ureq::http::HeaderMap;

const MTIME: &str = "x-amz-meta-mtime";
const MODE: &str = "x-amz-meta-mode";
const UID: &str = "x-amz-meta-uid";
const GID: &str = "x-amz-meta-gid";
const BLAKE3: &str = "x-amz-meta-blake3";
/// Which upload in parts an object was made by.
pub(super) const MARK: &str = "x-amz-meta-thalweg-upload";

const SECOND_NS: i128 = 1_000_000_000;

/// What a request says of an object.
pub(super) fn headers(about: &About) -> Vec<(&'static str, Cow<'static, str>)> {
    let mut headers = Vec::new();
    let mut add = |name, value: Option<String>| headers.extend(value.map(|value| (name, Cow::Owned(value))));
    add(MTIME, about.mtime.map(words_of_time));
    add(MODE, about.mode.map(|mode| format!("{mode:o}")));
    add(UID, about.uid.map(|uid| uid.to_string()));
    add(GID, about.gid.map(|gid| gid.to_string()));
    add(BLAKE3, about.blake3.map(|digest| digest.to_string()));
    headers
}

/// What an answer says of the object `key`. `None` if it lacks what every object has.
pub(super) fn head(key: &str, headers: &HeaderMap) -> Option<Head> {
    let about = About {
        mtime: word(headers, MTIME).and_then(time_of_words),
        mode: word(headers, MODE).and_then(|words| mode_of_words(words, key.ends_with('/'))),
        uid: word(headers, UID).and_then(|words| words.parse().ok()),
        gid: word(headers, GID).and_then(|words| words.parse().ok()),
        blake3: word(headers, BLAKE3)
            .and_then(unhex)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .map(Digest),
    };
    let seen = Seen {
        size: word(headers, "content-length")?.parse().ok()?,
        etag: etag(headers),
        modified: http_time_of(word(headers, "last-modified")?)?,
        storage_class: word(headers, "x-amz-storage-class").and_then(storage_class),
    };
    // One of parts' checksums says nothing about the whole.
    let of_whole = word(headers, "x-amz-checksum-type").is_none_or(|words| words == "FULL_OBJECT");
    Some(Head { seen, about, crc64: crc64(headers).filter(|_| of_whole) })
}

/// A mode, in octal as rclone writes it or in decimal as s3fs does. Read in the other way it has the type of something
/// that is no file, or, of a marker, no directory: without that a file of mode 0600 would be one of mode 3152.
fn mode_of_words(words: &str, is_marker: bool) -> Option<u32> {
    let of_type = if is_marker { 0o040_000 } else { 0o100_000 };
    let is_one = |mode: &u32| *mode <= 0o177_777 && (mode & 0o170_000 == 0 || mode & 0o170_000 == of_type);
    [8, 10].into_iter().find_map(|radix| u32::from_str_radix(words, radix).ok().filter(is_one))
}

/// A line of an answer's head.
pub(super) fn word<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// The version that an answer names.
pub(super) fn etag(headers: &HeaderMap) -> String {
    plain_etag(word(headers, "etag").unwrap_or_default())
}

/// The checksum that an answer tells.
pub(super) fn crc64(headers: &HeaderMap) -> Option<u64> {
    word(headers, "x-amz-checksum-crc64nvme").and_then(crc64_of)
}

/// Seconds, and behind a point as many digits as it takes: as rclone writes them.
fn words_of_time(time: Time) -> String {
    let nanos = i128::from(time.seconds) * SECOND_NS + i128::from(time.nanos);
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (nanos.abs() / SECOND_NS, nanos.abs() % SECOND_NS);
    match nanos {
        0 => format!("{sign}{seconds}"),
        _ => format!("{sign}{seconds}.{nanos:09}").trim_end_matches('0').to_owned(),
    }
}

/// Reads them; digits behind the ninth are passed over.
fn time_of_words(words: &str) -> Option<Time> {
    let (sign, words) = match words.strip_prefix('-') {
        Some(words) => (-1, words),
        None => (1, words),
    };
    let (seconds, fraction) = words.split_once('.').unwrap_or((words, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let seconds = i128::from(seconds.parse::<i64>().ok()?);
    let fraction = format!("{fraction:0<9}")[..9].parse::<i128>().ok()?;
    let nanos = sign * (seconds * SECOND_NS + fraction);
    let seconds = i64::try_from(nanos.div_euclid(SECOND_NS)).ok()?;
    Some(Time { seconds, nanos: nanos.rem_euclid(SECOND_NS) as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(headers: &[(&'static str, Cow<'static, str>)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        map.insert("content-length", "7".parse().unwrap());
        map.insert("last-modified", "Mon, 12 Oct 2009 17:50:30 GMT".parse().unwrap());
        map
    }

    #[test]
    fn what_is_kept_beside_an_object_is_written_as_rclone_has_it() {
        let about = About {
            mtime: Some(Time { seconds: 1_354_040_105, nanos: 123_000_000 }),
            mode: Some(0o100_644),
            uid: Some(0),
            gid: None,
            blake3: Some(Digest([0xab; 32])),
        };
        let headers = headers(&about);
        let words = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>();
        let blake3 = format!("x-amz-meta-blake3: {}", "ab".repeat(32));
        let expected =
            ["x-amz-meta-mtime: 1354040105.123", "x-amz-meta-mode: 100644", "x-amz-meta-uid: 0", &blake3];
        assert_eq!(words, expected);
        assert_eq!(head("k", &told(&headers)).unwrap().about, about);
    }

    #[test]
    fn what_makes_no_sense_counts_as_not_there() {
        let bad = [
            (MTIME, Cow::Borrowed("12:00")),
            (MODE, Cow::Borrowed("rw")),
            (UID, Cow::Borrowed("-1")),
            (GID, Cow::Borrowed("wheel")),
            (BLAKE3, Cow::Borrowed("abcd")),
        ];
        assert_eq!(head("k", &told(&bad)).unwrap().about, About::default());
        assert_eq!(head("k", &HeaderMap::new()), None, "it has no length");
    }

    #[test]
    fn a_mode_is_that_of_a_file_in_octal_or_in_decimal() {
        for (words, mode) in [
            // As s3fs writes them.
            ("33152", Some(0o100_600)),
            ("33261", Some(0o100_755)),
            ("33188", Some(0o100_644)),
            // As rclone does.
            ("100644", Some(0o100_644)),
            ("0644", Some(0o644)),
            ("104755", Some(0o104_755)),
            // A directory's, a device's and more than a mode has.
            ("40755", None),
            ("20644", None),
            ("1100644", None),
        ] {
            assert_eq!(mode_of_words(words, false), mode, "{words}");
        }
        let of_marker = ["40755", "16877", "755"].map(|words| mode_of_words(words, true));
        assert_eq!(of_marker, [Some(0o040_755), Some(0o040_755), Some(0o755)]);
        assert_eq!(mode_of_words("100644", true), None);
    }

    #[test]
    fn a_checksum_of_parts_is_none_of_the_whole() {
        let crc = ("x-amz-checksum-crc64nvme", Cow::Borrowed("AAAAAAAAAAE="));
        let of = |kind| {
            let kind = ("x-amz-checksum-type", Cow::Borrowed(kind));
            head("k", &told(&[crc.clone(), kind])).unwrap().crc64
        };
        assert_eq!((of("FULL_OBJECT"), of("COMPOSITE")), (Some(1), None));
        assert_eq!(head("k", &told(std::slice::from_ref(&crc))).unwrap().crc64, Some(1));
    }

    proptest! {
        #[test]
        fn a_time_is_read_back(seconds in any::<i32>(), nanos in 0..1_000_000_000_u32) {
            let time = Time { seconds: seconds.into(), nanos };
            prop_assert_eq!(time_of_words(&words_of_time(time)), Some(time));
        }

        #[test]
        fn noise_is_no_time_and_never_a_panic(words in "[-+.0-9e]{0,40}") {
            let _ = time_of_words(&words);
        }
    }
}
