//! What a bucket holds: lists, heads, removal.
//!
//! A list comes in pages. Where it goes on is the store's word, and so is not believed: a list that goes on where it
//! did before, or on and on with nothing new, is ended. Some stores have no order of keys, or another one than that of
//! their bytes: who needs one sorts.

use super::about::{MARK, head, word};
use super::asking::{Refused, Wish};
use super::{Head, Listed, Page, Seen, Store, Upload};
use crate::answers::xml::{escape, is_sayable};
use crate::answers::{self, LIST_BYTES_MAX};
use crate::retries::Budget;
use md5::{Digest as _, Md5};
use rusty_s3::Method;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use thalweg_mover::failure::{Failure, FailureKind, Result, shown_path};
use thalweg_wire::Time;

const LIST: &str = "list the bucket";
const LOOK: &str = "look at the object";
const REMOVE: &str = "remove objects";
const LIST_UPLOADS: &str = "list unfinished uploads";

/// What a list is told that would be asked for again and again.
pub(super) const ENDLESS: &str = "its list goes on where it did before, and so would never end";

/// The same of one that goes on somewhere else each time.
const NOTHING_NEW: &str = "its list goes on and on with nothing new in it";

/// Pages in a row that may have nothing new: a store that removed much may show some.
const EMPTY_PAGES_MAX: u32 = 1000;
/// Tokens of a list that are known again.
const TOKENS_MAX: usize = 1024;
/// Keys of a page that are known again on the next: as many as pages have.
const NAMES_MAX: usize = 1000;
/// Objects that one request removes.
const REMOVED_MAX: usize = 1000;
/// Unfinished uploads, and parts, on one page: some stores have ten times as many on theirs.
pub(super) const PAGE_MAX: &str = "1000";
/// Requests for uploads, at most, before some are told; a list that has none on so many pages is given up.
const UPLOAD_PAGES_MAX: usize = 1000;

/// Where a list goes on: the store's token, and what is known again of what was before it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Place {
    token: String,
    empty_pages: u32,
    /// Keys and prefixes of the page before, hashed.
    names: Vec<u64>,
    /// Where it went on before, hashed: the last ones.
    tokens: Vec<u64>,
}

impl Place {
    fn words(&self) -> String {
        let hashes = |hashes: &[u64]| {
            hashes.iter().fold(String::new(), |mut words, hash| {
                let _ = write!(words, "{hash:016x}");
                words
            })
        };
        format!("{}:{}:{}:{}", self.empty_pages, hashes(&self.names), hashes(&self.tokens), self.token)
    }

    fn of(words: &str) -> Option<Place> {
        let (empty_pages, rest) = words.split_once(':')?;
        let (names, rest) = rest.split_once(':')?;
        let (tokens, token) = rest.split_once(':')?;
        let hashes = |words: &str| -> Option<Vec<u64>> {
            let (hashes, rest) = words.as_bytes().as_chunks::<16>();
            let hash = |hash: &[u8; 16]| u64::from_str_radix(str::from_utf8(hash).ok()?, 16).ok();
            if rest.is_empty() { hashes.iter().map(hash).collect() } else { None }
        };
        Some(Place {
            token: token.to_owned(),
            empty_pages: empty_pages.parse().ok()?,
            names: hashes(names)?,
            tokens: hashes(tokens)?,
        })
    }
}

fn hash_of(words: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

impl Store {
    /// Objects whose keys begin with `prefix`, up to 1000 at a time, in the store's order: mostly that of their keys'
    /// bytes. With `delimiter`, keys that go on with a `/` somewhere behind it count as one prefix up to there. `after`
    /// is where the page before said that it goes on.
    ///
    /// # Errors
    /// If the store refuses, or if its list has no end, or keys that were not asked for.
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
        let names = list.objects.iter().map(|object| &object.key).chain(&list.prefixes);
        if let Some(name) = names.clone().find(|name| !name.starts_with(prefix)) {
            let words = format!("`{}` was not asked for", shown_path(name.as_bytes()));
            return Err(self.nonsense(&wish, &words));
        }
        let next = match &list.token {
            None => None,
            Some(token) if place.tokens.contains(&hash_of(token)) => {
                return Err(self.nonsense(&wish, ENDLESS));
            }
            Some(token) => {
                let names = names.take(NAMES_MAX).map(|name| hash_of(name)).collect::<Vec<_>>();
                let before = place.names.iter().collect::<HashSet<_>>();
                let is_empty = names.iter().all(|name| before.contains(name));
                let empty_pages = if is_empty { place.empty_pages.saturating_add(1) } else { 0 };
                if empty_pages > EMPTY_PAGES_MAX {
                    return Err(self.nonsense(&wish, NOTHING_NEW));
                }
                let mut tokens = place.tokens;
                if tokens.len() >= TOKENS_MAX {
                    tokens.remove(0);
                }
                tokens.push(hash_of(token));
                Some(Place { token: token.clone(), empty_pages, names, tokens }.words())
            }
        };
        let objects = list.objects.into_iter().map(|object| {
            let answers::Object { key, size, etag, modified, storage_class } = object;
            // A head has seconds only, and both are to be the same.
            let modified = Time { nanos: 0, ..modified };
            Listed { key, seen: Seen { size, etag, modified, storage_class } }
        });
        Ok(Page { objects: objects.collect(), prefixes: list.prefixes, next })
    }

    /// Whether a key begins with `prefix`.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn has_keys(&self, prefix: &str) -> Result<bool> {
        is_any(|after| self.list(prefix, true, after))
    }

    /// What is told of an object. `None`: there is none of this key.
    ///
    /// # Errors
    /// If the store refuses; it may say that there is none to those who may not list.
    pub fn head(&self, key: &str) -> Result<Option<Head>> {
        Ok(self.look(key)?.map(|(head, _)| head))
    }

    /// The same by a connection that carries so many bytes of content next: to a store that is far one is not made
    /// twice.
    ///
    /// # Errors
    /// As [`Store::head`].
    pub fn head_before(&self, key: &str, bytes: u64) -> Result<Option<Head>> {
        Ok(self.look_within(key, bytes, &mut self.budget())?.map(|(head, _)| head))
    }

    /// The same, and the mark of the upload that made it.
    pub(super) fn look(&self, key: &str) -> Result<Option<(Head, Option<String>)>> {
        self.look_within(key, 0, &mut self.budget())
    }

    /// The same by a connection that carries so many bytes besides, within a budget that others use, too.
    pub(super) fn look_within(
        &self,
        key: &str,
        carries: u64,
        budget: &mut Budget,
    ) -> Result<Option<(Head, Option<String>)>> {
        let mut wish = Wish::new(LOOK, "s3:GetObject", Method::Head, Some(key));
        wish.headers.push(("x-amz-checksum-mode", "ENABLED".into()));
        wish.carries = carries;
        match self.ask_within(&wish, budget) {
            Ok(got) => {
                let mark = word(&got.headers, MARK).map(str::to_owned);
                let head = head(key, &got.headers)
                    .ok_or_else(|| self.nonsense(&wish, "it lacks the object's length or time"))?;
                Ok(Some((head, mark)))
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
                Err(refused)
                    if matches!(refused.status, 405 | 501)
                        || matches!(refused.code.as_str(), "NotImplemented" | "MethodNotAllowed") =>
                {
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

    /// Uploads that were begun and are not complete, of keys that begin with `prefix`; not many more than `most`, and
    /// where the list goes on then: that is `after` for the others. If it goes on there is at least one.
    ///
    /// # Errors
    /// If the store refuses, or its list makes no sense.
    pub fn uploads(
        &self,
        prefix: &str,
        after: Option<&UploadsFrom>,
        most: usize,
    ) -> Result<(Vec<Upload>, Option<UploadsFrom>)> {
        let mut uploads = Vec::new();
        let mut after: Option<(String, String)> = after.map(|after| after.0.clone());
        for page in 1..=UPLOAD_PAGES_MAX {
            let mut wish = Wish::new(LIST_UPLOADS, "s3:ListBucketMultipartUploads", Method::Get, None);
            wish.words_max = Some(LIST_BYTES_MAX);
            wish.query = vec![("uploads", "1".into()), ("encoding-type", "url".into())];
            wish.query.push(("max-uploads", PAGE_MAX.into()));
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
            uploads.extend(some.map(|upload| {
                let answers::ListedUpload { key, id, begun } = upload;
                Upload { key, id, begun, mark: None }
            }));
            if next.is_some() && next == after {
                return Err(self.nonsense(&wish, ENDLESS));
            }
            after = next;
            if after.is_none() || uploads.len() >= most {
                break;
            }
            if page == UPLOAD_PAGES_MAX && uploads.is_empty() {
                return Err(self.nonsense(&wish, NOTHING_NEW));
            }
        }
        Ok((uploads, after.map(UploadsFrom)))
    }
}

/// Where a list of uploads goes on: behind this key, and this upload of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadsFrom((String, String));

/// Whether a list has anything in it. Its first pages may be empty and go on, as where much was removed; how many of
/// them do is bounded by who makes the list.
pub(crate) fn is_any(page: impl Fn(Option<&str>) -> Result<Page>) -> Result<bool> {
    let mut after: Option<String> = None;
    loop {
        let Page { objects, prefixes, next } = page(after.as_deref())?;
        if !objects.is_empty() || !prefixes.is_empty() {
            return Ok(true);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
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
            token in any::<String>(),
            empty_pages in any::<u32>(),
            names in any::<Vec<u64>>(),
            tokens in any::<Vec<u64>>(),
        ) {
            let place = Place { token, empty_pages, names, tokens };
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
