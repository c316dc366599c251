//! Buckets and keys as users write them.

use std::fmt;
use thalweg_mover::failure::shown_path;
use thalweg_mover::{Failure, FailureKind, Result};

/// What a place in a bucket begins with.
pub const SCHEME: &str = "s3://";

/// The longest key that stores take, in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 1024;

/// How long the name of a bucket is, in bytes.
const BUCKET_BYTES: std::ops::RangeInclusive<usize> = 3..=63;

/// Ends of names of what is reached in another way: directory buckets, and their access points.
const DIRECTORY_BUCKETS: [&str; 2] = ["--x-s3", "--xa-s3"];

/// `s3://BUCKET[/KEY]`: a bucket, and an object or a prefix in it.
///
/// The key is what stands behind the first `/`, byte for byte: nothing in it is decoded, folded or left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of an object, or what keys begin with. Empty: the whole bucket.
    pub key: String,
}

impl Location {
    /// Reads `s3://BUCKET[/KEY]`.
    ///
    /// # Errors
    /// `Usage` for what is not written so, a name that no bucket has, and a key that is no path: see [`why_no_path`].
    /// `Unsupported` for directory buckets and for names of access points.
    pub fn parse(text: &str) -> Result<Location> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| {
            let shown = shown_path(text.as_bytes());
            usage(format!("`{shown}` is no place in a bucket: write {SCHEME}BUCKET/KEY"))
        })?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        // What stands before it may be a secret, and is not repeated.
        if bucket.contains('@') {
            let cause = "a place in a bucket names no user: who you are to the store is told by the \
                         environment, or by a profile";
            return Err(usage(cause.to_owned()));
        }
        check_bucket(bucket)?;
        // A slash at the end says that what is below is meant, and is none of the path.
        if let Some(why) = why_no_path(key.strip_suffix('/').unwrap_or(key)).filter(|_| !key.is_empty()) {
            let shown = shown_path(text.as_bytes());
            return Err(usage(format!("`{shown}`: the key {why}, so that it is no path")));
        }
        Ok(Location { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        match self.key.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.key),
        }
    }
}

/// What keeps a key from being the path of a file, in words that follow "the key"; `None` if nothing does.
pub fn why_no_path(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        return Some("is empty");
    }
    if key.len() > KEY_BYTES_MAX {
        return Some("has more than 1024 bytes");
    }
    if key.contains('\0') {
        return Some("has a zero byte");
    }
    if key.starts_with('/') {
        return Some("begins with a slash");
    }
    if key.ends_with('/') {
        return Some("ends with a slash");
    }
    key.split('/').find_map(|component| match component {
        "" => Some("has two slashes in a row"),
        "." | ".." => Some("has `.` or `..` as a component"),
        _ => None,
    })
}

/// Looks at the name of a bucket.
fn check_bucket(bucket: &str) -> Result<()> {
    let shown = shown_path(bucket.as_bytes());
    let unsupported = |what: &str| {
        let cause = format!("`{SCHEME}{shown}`: {what}");
        Err(Failure::new(FailureKind::Unsupported, READ_PLACE, cause))
    };
    if DIRECTORY_BUCKETS.iter().any(|end| bucket.ends_with(end)) {
        return unsupported("directory buckets are not supported: take a general purpose bucket");
    }
    if bucket.starts_with("arn:") {
        return unsupported("names of access points are not supported: take the alias of the access point");
    }
    // What Amazon allows, and what else other stores have: Ceph names a tenant before a colon.
    let is_inner = |c: char| c.is_ascii_alphanumeric();
    let why = if bucket.is_empty() {
        "the name of the bucket is missing"
    } else if !BUCKET_BYTES.contains(&bucket.len()) {
        "names of buckets have 3 to 63 characters"
    } else if !bucket.chars().all(|c| is_inner(c) || matches!(c, '.' | '-' | '_' | ':')) {
        "names of buckets have letters, digits, dots, dashes, `_` and `:`"
    } else if !bucket.starts_with(is_inner) || !bucket.ends_with(is_inner) || bucket.contains("..") {
        "names of buckets begin and end with a letter or a digit, and have no two dots in a row"
    } else {
        return Ok(());
    };
    Err(usage(format!("`{SCHEME}{shown}`: {why}")))
}

/// Looks at the name of a bucket at Amazon's store, which allows less.
///
/// # Errors
/// `Usage` for a name that no bucket has there.
pub(crate) fn check_amazon_bucket(bucket: &str) -> Result<()> {
    let may_stand = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    if bucket.chars().all(may_stand) {
        return Ok(());
    }
    let shown = shown_path(bucket.as_bytes());
    let why = "names of buckets at Amazon have lower-case letters, digits, dots and dashes; is the endpoint \
               of another store missing?";
    Err(usage(format!("`{SCHEME}{shown}`: {why}")))
}

/// What fails where a place is not written as one.
const READ_PLACE: &str = "read place";

fn usage(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, READ_PLACE, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Failure {
        Location::parse(text).expect_err(text)
    }

    #[test]
    fn a_place_is_a_bucket_and_what_stands_behind_it() {
        for (text, bucket, key) in [
            ("s3://run7", "run7", ""),
            ("s3://run7/", "run7", ""),
            ("s3://run7/a", "run7", "a"),
            ("s3://my.run-7/a/b/", "my.run-7", "a/b/"),
            // As other stores than Amazon's have them.
            ("s3://Run_7/a", "Run_7", "a"),
            ("s3://tenant:run7/a", "tenant:run7", "a"),
            // Nothing of a key is decoded.
            ("s3://run7/a%20b?c#d+e\\", "run7", "a%20b?c#d+e\\"),
            ("s3://run7/...", "run7", "..."),
            ("s3://run7/é", "run7", "é"),
        ] {
            let location = Location::parse(text).unwrap();
            assert_eq!((&*location.bucket, &*location.key), (bucket, key), "{text}");
        }
        assert_eq!(Location::parse("s3://run7/a/").unwrap().to_string(), "s3://run7/a/");
        assert_eq!(Location::parse("s3://run7/").unwrap().to_string(), "s3://run7");
    }

    #[test]
    fn a_name_that_no_bucket_has_is_refused_with_what_names_are_like() {
        for (text, why) in [
            ("run7/a", "write s3://BUCKET/KEY"),
            ("S3://run7", "write s3://BUCKET/KEY"),
            ("s3://", "is missing"),
            ("s3:///a", "is missing"),
            ("s3://ab", "3 to 63"),
            ("s3://run 7/a", "dashes"),
            ("s3://run%7/a", "dashes"),
            ("s3://rün7/a", "dashes"),
            ("s3://-run7", "begin and end"),
            ("s3://run7.", "begin and end"),
            ("s3://run..7", "two dots"),
        ] {
            let failure = refused(text);
            assert_eq!(failure.kind, FailureKind::Usage, "{text}");
            assert!(failure.cause.contains(why), "{text}: {failure}");
        }
        assert!(Location::parse(&format!("s3://{}", "a".repeat(63))).is_ok());
        assert!(refused(&format!("s3://{}", "a".repeat(64))).cause.contains("3 to 63"));
    }

    #[test]
    fn what_is_reached_in_another_way_is_refused_by_its_name() {
        for (text, why) in [
            ("s3://run7--euw1-az1--x-s3/a", "directory buckets"),
            ("s3://run7--euw1-az1--xa-s3", "directory buckets"),
            ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/run7", "alias of the access point"),
        ] {
            let failure = refused(text);
            assert_eq!(failure.kind, FailureKind::Unsupported, "{text}");
            assert!(failure.cause.contains(why), "{text}: {failure}");
        }
    }

    #[test]
    fn a_key_that_is_no_path_is_refused_and_none_is_made_one() {
        for (text, why) in [
            ("s3://run7//a", "begins with a slash"),
            ("s3://run7//", "is empty"),
            ("s3://run7/a//b", "two slashes"),
            ("s3://run7/a//", "ends with a slash"),
            ("s3://run7/../a", "`..`"),
            ("s3://run7/a/./b", "`..`"),
            ("s3://run7/a/..", "`..`"),
            ("s3://run7/a\0b", "zero byte"),
        ] {
            let failure = refused(text);
            assert_eq!(failure.kind, FailureKind::Usage, "{text}");
            assert!(failure.cause.contains(why), "{text}: {failure}");
        }
        assert!(Location::parse(&format!("s3://run7/{}", "a".repeat(KEY_BYTES_MAX))).is_ok());
        assert!(refused(&format!("s3://run7/{}", "a".repeat(KEY_BYTES_MAX + 1))).cause.contains("1024"));
    }

    #[test]
    fn a_secret_in_a_place_is_not_repeated() {
        let failure = refused("s3://AKIA:canary@run7/a");
        assert!(failure.cause.contains("profile"), "{failure}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_a_place_that_is_written_the_same_or_is_refused(text in "(s3://)?.{0,80}") {
            if let Ok(location) = Location::parse(&text) {
                let again = location.to_string();
                prop_assert!(again == text || [&*again, "/"].concat() == text);
                prop_assert_eq!(Location::parse(&again).unwrap(), location);
            }
        }
    }
}
