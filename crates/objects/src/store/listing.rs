//! What a bucket holds: lists, heads, removal.
//!
//! A list comes in pages. Where it goes on is the store's word, and so is not believed: keys have to come in the order
//! of their bytes, each page behind the one before, so that a list ends however the store answers.

use super::about::head;
use super::asking::{Refused, Wish};
use super::{Head, Listed, Page, Seen, Store, Upload};
use crate::answers::xml::{escape, is_sayable};
use crate::answers::{self, LIST_BYTES_MAX};
use md5::{Digest as _, Md5};
use rusty_s3::Method;
use std::fmt::Write as _;
use thalweg_mover::failure::{Failure, FailureKind, Result, shown_path};

const LIST: &str = "list the bucket";
const LOOK: &str = "look at the object";
const REMOVE: &str = "remove objects";
const LIST_UPLOADS: &str = "list unfinished uploads";

/// What a list is told that would be asked for again and again.
pub(super) const ENDLESS: &str = "its list goes on where it did before, and so would never end";

/// Pages in a row that may be empty: a store that removed much may show some.
const EMPTY_PAGES_MAX: u32 = 1000;
/// Objects that one request removes.
const REMOVED_MAX: usize = 1000;
/// Unfinished uploads that are told of: more are left for another time.
const UPLOADS_MAX: usize = 10_000;
/// Requests for these.
const UPLOAD_PAGES_MAX: usize = 1000;

/// Where a list goes on: the store's token, and what was seen before it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Place {
    /// The last key or prefix so far.
    last: String,
    token: String,
    empty_pages: u32,
}

impl Place {
    fn words(&self) -> String {
        format!("{}:{}:{}{}", self.empty_pages, self.last.len(), self.last, self.token)
    }

    fn of(words: &str) -> Option<Place> {
        let (empty_pages, rest) = words.split_once(':')?;
        let (length, rest) = rest.split_once(':')?;
        let (last, token) = rest.split_at_checked(length.parse().ok()?)?;
        Some(Place { last: last.to_owned(), token: token.to_owned(), empty_pages: empty_pages.parse().ok()? })
    }
}

impl Store {
    /// Objects whose keys begin with `prefix`, up to 1000 at a time, in the order of their keys' bytes. With
    /// `delimiter`, keys that go on with a `/` somewhere behind it count as one prefix up to there. `after` is where
    /// the page before said that it goes on.
    ///
    /// # Errors
    /// If the store refuses, or if its list has no order, no end, or keys that were not asked for.
    pub fn list(&self, prefix: &str, delimiter: bool, after: Option<&str>) -> Result<Page> {
        let place = match after {
            Some(words) => Place::of(words).ok_or_else(|| {
                self.failure(FailureKind::Usage, LIST, None, "no page said that the list goes on there")
            })?,
            None => Place::default(),
        };
        let mut wish = Wish::new(LIST, "s3:ListBucket", Method::Get, None);
        wish.words_max = Some(LIST_BYTES_MAX);
        wish.query = vec![("list-type", "2".into()), ("encoding-type", "url".into())];
        if !prefix.is_empty() {
            wish.query.push(("prefix", prefix.into()));
        }
        if delimiter {
            wish.query.push(("delimiter", "/".into()));
        }
        if after.is_some() {
            wish.query.push(("continuation-token", place.token.as_str().into()));
        }
        let got = self.ask(&wish)?;
        let list = answers::object_list(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
        let keys = list.objects.iter().map(|object| &object.key);
        let mut last = place.last.as_str();
        for names in [keys.collect::<Vec<_>>(), list.prefixes.iter().collect()] {
            let mut before = place.last.as_str();
            for name in names {
                if !name.starts_with(prefix) {
                    let words = format!("`{}` was not asked for", shown_path(name.as_bytes()));
                    return Err(self.nonsense(&wish, &words));
                }
                if name.as_str() <= before && !before.is_empty() {
                    let (name, before) = (shown_path(name.as_bytes()), shown_path(before.as_bytes()));
                    return Err(self.nonsense(&wish, &format!("`{name}` comes behind `{before}`")));
                }
                before = name;
            }
            last = last.max(before);
        }
        let is_empty = list.objects.is_empty() && list.prefixes.is_empty();
        let next = match &list.token {
            None => None,
            Some(token) if after.is_some() && *token == place.token => {
                return Err(self.nonsense(&wish, ENDLESS));
            }
            Some(token) => {
                let empty_pages = if is_empty { place.empty_pages + 1 } else { 0 };
                if empty_pages > EMPTY_PAGES_MAX {
                    return Err(self.nonsense(&wish, "its list goes on and on with nothing in it"));
                }
                Some(Place { last: last.to_owned(), token: token.clone(), empty_pages }.words())
            }
        };
        let objects = list.objects.into_iter().map(|object| {
            let answers::Object { key, size, etag, modified, storage_class } = object;
            Listed { key, seen: Seen { size, etag, modified, storage_class } }
        });
        Ok(Page { objects: objects.collect(), prefixes: list.prefixes, next })
    }

    /// What is told of an object. `None`: there is none of this key.
    ///
    /// # Errors
    /// If the store refuses; it may say that there is none to those who may not list.
    pub fn head(&self, key: &str) -> Result<Option<Head>> {
        let mut wish = Wish::new(LOOK, "s3:GetObject", Method::Head, Some(key));
        wish.headers.push(("x-amz-checksum-mode", "ENABLED".into()));
        match self.ask(&wish) {
            Ok(got) => {
                let head = head(&got.headers);
                head.map(Some).ok_or_else(|| self.nonsense(&wish, "it lacks the object's length or time"))
            }
            Err(Refused { status: 404, .. }) => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Removes these objects; those that are not there count as removed. Tells those that stay, and why.
    ///
    /// # Errors
    /// If the store refuses all.
    pub fn remove(&self, keys: &[String]) -> Result<Vec<(String, Failure)>> {
        let mut staying = Vec::new();
        let mut apart = Vec::new();
        let mut together = Vec::new();
        for key in keys {
            match self.check_key(REMOVE, key) {
                Err(failure) => staying.push((key.clone(), failure)),
                Ok(()) if is_sayable(key) => together.push(key),
                Ok(()) => apart.push(key),
            }
        }
        for some in together.chunks(REMOVED_MAX) {
            match self.remove_together(some) {
                Ok(those) => staying.extend(those),
                // Some stores know only the one that removes one.
                Err(refused) if matches!(refused.code.as_str(), "NotImplemented" | "MethodNotAllowed") => {
                    apart.extend_from_slice(some);
                }
                Err(refused) => return Err(refused.into()),
            }
        }
        for key in apart {
            let wish = Wish::new(REMOVE, "s3:DeleteObject", Method::Delete, Some(key.as_str()));
            match self.ask(&wish) {
                Ok(_) | Err(Refused { status: 404, .. }) => {}
                Err(refused) => staying.push((key.clone(), refused.into())),
            }
        }
        Ok(staying)
    }

    fn remove_together(&self, keys: &[&String]) -> std::result::Result<Vec<(String, Failure)>, Refused> {
        let mut content =
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>".to_owned();
        for key in keys {
            let _ = write!(content, "<Object><Key>{}</Key></Object>", escape(key));
        }
        content.push_str("</Delete>");
        let mut wish = Wish::new(REMOVE, "s3:DeleteObject", Method::Post, None);
        wish.query.push(("delete", "1".into()));
        wish.headers.push(("content-md5", md5_words(content.as_bytes()).into()));
        wish.content = Some(content.as_bytes());
        let got = self.ask(&wish)?;
        let staying = answers::not_removed(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
        let staying = staying.into_iter().filter(|(_, refusal)| refusal.code != "NoSuchKey");
        let staying = staying.map(|(key, refusal)| {
            let words = format!("the store answers {}", shown_path(refusal.code.as_bytes()));
            let kind = crate::retries::kind(500, &refusal.code);
            let failure = self.failure(kind, REMOVE, Some(key.as_str()), words);
            (key, failure)
        });
        Ok(staying.collect())
    }

    /// Uploads that were begun and are not complete, of keys that begin with `prefix`: at most 10,000.
    ///
    /// # Errors
    /// If the store refuses, or its list makes no sense.
    pub fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let mut uploads = Vec::new();
        let mut after: Option<(String, String)> = None;
        for _ in 0..UPLOAD_PAGES_MAX {
            let mut wish = Wish::new(LIST_UPLOADS, "s3:ListBucketMultipartUploads", Method::Get, None);
            wish.words_max = Some(LIST_BYTES_MAX);
            wish.query = vec![("uploads", "1".into()), ("encoding-type", "url".into())];
            if !prefix.is_empty() {
                wish.query.push(("prefix", prefix.into()));
            }
            if let Some((key, id)) = &after {
                wish.query.push(("key-marker", key.clone().into()));
                if !id.is_empty() {
                    wish.query.push(("upload-id-marker", id.clone().into()));
                }
            }
            let got = self.ask(&wish)?;
            let (some, next) =
                answers::upload_list(&got.words).map_err(|words| self.nonsense(&wish, &words))?;
            // Nobody is to end an upload that was not asked for.
            let some = some.into_iter().filter(|upload| upload.key.starts_with(prefix));
            uploads.extend(some.map(|upload| Upload {
                key: upload.key,
                id: upload.id,
                begun: upload.begun,
                mark: None,
            }));
            if next.is_some() && next == after {
                return Err(self.nonsense(&wish, ENDLESS));
            }
            after = next;
            if after.is_none() || uploads.len() >= UPLOADS_MAX {
                break;
            }
        }
        uploads.truncate(UPLOADS_MAX);
        Ok(uploads)
    }
}

/// What `Content-MD5` says of `content`.
pub(super) fn md5_words(content: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(Md5::digest(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn where_a_list_goes_on_is_read_back(
            last in any::<String>(),
            token in any::<String>(),
            empty_pages in any::<u32>(),
        ) {
            let place = Place { last, token, empty_pages };
            prop_assert_eq!(Place::of(&place.words()), Some(place));
        }

        #[test]
        fn noise_is_no_place_and_never_a_panic(words in "[0-9:a-zä]{0,24}") {
            let _ = Place::of(&words);
        }
    }

    #[test]
    fn a_digest_is_written_as_heads_have_it() {
        assert_eq!(md5_words(b""), "1B2M2Y8AsgTpgAmY7PhCfg==");
    }
}
