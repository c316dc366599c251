//! What sources answer: credentials as JSON, times, and whether keys may be keys.
//!
//! Of an answer that is none nothing is repeated but where it goes wrong: the rest may be a secret.

use super::failed;
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_mover::{FailureKind, Result};
use thalweg_sys::clock::days_from_civil;
use thalweg_wire::path::Escaped;

/// The longest key, secret and token that there may be, in bytes: those of Amazon have 128, 40 and a few thousand.
const KEY_BYTES_MAX: usize = 256;
const SECRET_BYTES_MAX: usize = 1024;
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Credentials, and when they end if they do.
pub(super) struct Found {
    pub(super) credentials: rusty_s3::Credentials,
    pub(super) until: Option<SystemTime>,
}

impl Found {
    /// Credentials of these parts.
    ///
    /// # Errors
    /// `Usage` naming the source and the part that cannot be one.
    pub(super) fn new(
        source: &str,
        key: &str,
        secret: &str,
        token: Option<&str>,
        until: Option<SystemTime>,
    ) -> Result<Found> {
        let parts = [
            ("access key", key, KEY_BYTES_MAX),
            ("secret key", secret, SECRET_BYTES_MAX),
            ("session token", token.unwrap_or("none"), TOKEN_BYTES_MAX),
        ];
        for (name, part, bytes_max) in parts {
            let is_sound = (1..=bytes_max).contains(&part.len());
            if !is_sound || !part.bytes().all(|byte| byte.is_ascii_graphic()) {
                let cause = format!("the {name} is empty, too long, or has characters that none has");
                return Err(failed(FailureKind::Usage, source, cause));
            }
        }
        let credentials = match token {
            Some(token) => rusty_s3::Credentials::new_with_token(key, secret, token),
            None => rusty_s3::Credentials::new(key, secret),
        };
        Ok(Found { credentials, until })
    }
}

/// Credentials as programs and services write them in JSON.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    version: Option<u64>,
    code: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    #[serde(alias = "Token")]
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Reads an answer in JSON: `Version`, where there has to be one, is 1; `Code`, where there is one, is `Success`.
///
/// # Errors
/// `Usage` for another version; `Permission` for another code, which is named; `Protocol` for what is no such answer.
pub(super) fn read(source: &str, text: &str, has_version: bool) -> Result<Found> {
    let wrong = |cause: String| failed(FailureKind::Protocol, source, cause);
    let written: Written = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(format!("the answer is no JSON with credentials, at line {line}, column {column}"))
    })?;
    if has_version && written.version != Some(1) {
        return Err(failed(FailureKind::Usage, source, "the answer has no `Version` 1"));
    }
    if let Some(code) = written.code.filter(|code| code != "Success") {
        return Err(failed(FailureKind::Permission, source, format!("the answer is `{}`", shown(&code))));
    }
    let until = match written.expiration {
        None => None,
        Some(text) => Some(parse_time(&text).ok_or_else(|| wrong("its `Expiration` is no time".to_owned()))?),
    };
    let (Some(key), Some(secret)) = (written.access_key_id, written.secret_access_key) else {
        return Err(wrong("the answer has no `AccessKeyId` or no `SecretAccessKey`".to_owned()));
    };
    let token = written.session_token.filter(|token| !token.is_empty());
    Found::new(source, &key, &secret, token.as_deref(), until)
}

/// Words of a service in a message: inert, and the beginning of long ones.
pub(super) fn shown(words: &str) -> String {
    let beginning: String = words.trim().chars().take(200).collect();
    Escaped(beginning.as_bytes()).to_string()
}

/// A time as RFC 3339 has it, from 1970 on, with any fraction and any zone: `2026-11-27T20:25:36Z`. A leap second is
/// the one after it.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let mark = |at: usize, marks: &[u8]| text.as_bytes().get(at).is_some_and(|byte| marks.contains(byte));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let (nanos, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let kept = rest.bytes().chain(std::iter::repeat(b'0'));
            let kept = kept.enumerate().map(|(at, byte)| if at < digits { byte } else { b'0' });
            let nanos = kept.take(9).fold(0, |nanos, byte| nanos * 10 + u32::from(byte - b'0'));
            ((digits > 0).then_some(nanos)?, &rest[digits..])
        }
    };
    let seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    let seconds = u64::try_from(seconds - zone_seconds(zone)?).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

/// `Z`, `+01:00` or `-0800`, in seconds east of Greenwich.
fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = zone.get(1..)?.replacen(':', "", 1);
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = (digits[..2].parse::<i64>().ok()?, digits[2..].parse::<i64>().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Option<u64> {
        Some(parse_time(text)?.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn times_are_read_in_every_form_that_sources_write() {
        // By `date -d TEXT +%s`.
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:00:00Z"), Some(951_825_600));
        for text in [
            "2001-09-09T01:46:40Z",
            "2001-09-09t01:46:40z",
            "2001-09-09 01:46:40+00:00",
            "2001-09-09T01:46:40.123456789012Z",
            "2001-09-09T03:46:40+02:00",
            "2001-09-08T17:46:40-0800",
        ] {
            assert_eq!(seconds(text), Some(1_000_000_000), "{text}");
        }
        let fraction = parse_time("1970-01-01T00:00:00.25Z").unwrap().duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(fraction, Duration::from_millis(250));
        for text in [
            "",
            "soon",
            "2001-09-09T01:46:40",
            "2001-13-09T01:46:40Z",
            "2001-09-09T24:46:40Z",
            "2001-09-09T01:46:40.Z",
            "2001-09-09T01:46:+4Z",
            "2001-09-09T01:46:40+0é",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_that_is_none_is_told_without_its_content() {
        for (text, why) in [
            ("", "line 1"),
            ("<canary/>", "no JSON"),
            ("{\"Version\":\"canary\"}", "no JSON"),
            ("{\"Version\":2,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"canary\"}", "`Version` 1"),
            ("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"canary\"}", "`Version` 1"),
            ("{\"Version\":1,\"SecretAccessKey\":\"canary\"}", "no `AccessKeyId`"),
            ("{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"can ary\"}", "the secret key"),
            ("{\"Version\":1,\"Expiration\":\"canary\"}", "no time"),
            ("{\"Version\":1,\"Code\":\"AssumeRoleUnauthorizedAccess\"}", "AssumeRoleUnauthorizedAccess"),
        ] {
            let failure = read("here", text, true).err().expect(text);
            let shown = format!("{failure:?}");
            assert!(failure.cause.contains(why) && failure.cause.contains("here"), "{text}: {failure}");
            assert!(!shown.contains("canary") && !shown.contains("can ary"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_source_says_is_read_or_refused(text in ".{0,60}", time in "[0-9TZ:+. -]{0,30}") {
            let _ = (read("here", &text, false).is_ok(), parse_time(&text), parse_time(&time));
        }
    }
}
