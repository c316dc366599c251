//! One thing that is asked, however often: signed, sent, answered, tried again.

use super::Store;
use super::about::word;
use crate::answers::{self, Refusal, WORDS_BYTES_MAX};
use crate::http::{self, ANSWER_LIMIT, Answer, Content, STALL_LIMIT, Trouble};
use crate::retries::{self, ATTEMPTS_UNKNOWN_MAX, Advice, Budget};
use jiff::Timestamp;
use rusty_s3::{Credentials, Method, S3Action as _};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, UNIX_EPOCH};
use thalweg_mover::failure::{Failure, FailureKind, Reason, shown_path};
use thalweg_mover::mutex::lock;
use ureq::http::{HeaderMap, Method as HttpMethod};
use url::Url;

/// How long a signed address can be used: it is used at once, and may lie in somebody's log.
const SIGNED_FOR: Duration = Duration::from_secs(900);
/// Content from this length on is not sent before the bucket is known to be where it is looked for. A store that
/// refuses in the middle of content closes the connection, and what it said may be lost.
const LARGE_BYTES: usize = 64 << 10;

/// Patiences that one operation may cost, one after the other and with no sound answer to any of its kind in between:
/// then each of them is asked for once, until one is answered. A store that fails for each key would cost each entry of
/// a copy a patience.
const WORN_MAX: u32 = 3;

/// How often an operation failed for a whole patience.
pub(super) struct Worn {
    patiences: u32,
    /// What began before this request counts with the last one: many wait at once.
    until: u64,
}

/// What there was before the first attempt.
#[derive(Clone, Copy)]
pub(super) struct Before {
    sound_answers: u64,
    /// Requests.
    requests: u64,
}

/// What is asked.
pub(super) struct Wish<'a> {
    /// What it is to its user: `read the object`.
    pub operation: &'static str,
    /// The right that it takes, as policies name it.
    pub right: &'static str,
    pub method: Method,
    /// `None`: it is about the bucket.
    pub key: Option<&'a str>,
    pub query: Vec<(&'static str, Cow<'a, str>)>,
    /// Names in lower case.
    pub headers: Vec<(&'static str, Cow<'a, str>)>,
    pub content: Option<&'a [u8]>,
    /// In this time the answer begins; and ends, if it is in words.
    pub limit: Duration,
    /// Bytes of an answer in words. `None`: it is an object's content.
    pub words_max: Option<usize>,
    /// Bytes of content that the connection is to carry besides, as far as that is known; else 0.
    pub carries: u64,
    /// A store that does not answer this is not given up for it.
    pub is_try: bool,
    /// What may pass is not asked again: who asks looks before.
    pub once: bool,
}

impl<'a> Wish<'a> {
    /// One without content, that is answered in few words.
    pub fn new(operation: &'static str, right: &'static str, method: Method, key: Option<&'a str>) -> Self {
        let (query, headers, content) = (Vec::new(), Vec::new(), None);
        let words_max = Some(WORDS_BYTES_MAX);
        let limit = ANSWER_LIMIT;
        let (carries, is_try, once) = (0, false, false);
        Wish {
            operation,
            right,
            method,
            key,
            query,
            headers,
            content,
            limit,
            words_max,
            carries,
            is_try,
            once,
        }
    }
}

/// What a success says.
pub(super) struct Got {
    pub status: u16,
    pub headers: HeaderMap,
    /// Empty where it is an object's content.
    pub words: String,
    pub content: Option<Content>,
}

/// No success, and none to come.
pub(super) struct Refused {
    pub failure: Box<Failure>,
    /// HTTP's number; 0 if there was no answer.
    pub status: u16,
    /// The store's word for it.
    pub code: String,
    /// An attempt before this one may have been carried out, and its answer lost.
    pub lost: bool,
    /// It may pass, and was asked for once: how long that took, and when the store said to come back.
    pub again: Option<(Duration, Option<Duration>)>,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        *refused.failure
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure: Box::new(failure), status: 0, code: String::new(), lost: false, again: None }
    }
}

/// What was put right already: each once, so that nothing is asked for ever.
#[derive(Default)]
struct Cured {
    credentials: bool,
    clock: bool,
    region: bool,
    /// It does not know how to be asked first.
    expectation: bool,
}

/// An answer, as far as it is here.
enum Heard {
    Success(Got),
    Refusal { status: u16, headers: HeaderMap, refusal: Refusal },
}

impl Store {
    /// Asks for as long as the patience lasts.
    ///
    /// # Errors
    /// What the store says, or that it says nothing.
    pub(super) fn ask(&self, wish: &Wish<'_>) -> Result<Got, Refused> {
        self.ask_within(wish, &mut self.budget())
    }

    /// The same, within a budget that others use, too.
    pub(super) fn ask_within(&self, wish: &Wish<'_>, budget: &mut Budget) -> Result<Got, Refused> {
        if let Some(key) = wish.key {
            self.check_key(wish.operation, key)?;
        }
        let is_large = wish.content.is_some_and(|content| content.len() >= LARGE_BYTES);
        if is_large {
            self.find();
        }
        let mut cured = Cured::default();
        let (mut lost, mut asks_first) = (false, false);
        let before = self.before();
        loop {
            let begun = Instant::now();
            let credentials = match self.credentials.now() {
                Ok(credentials) => credentials,
                Err(failure) => {
                    let may_pass = failure.kind == FailureKind::Connection;
                    let refused = Refused { lost, ..failure.into() };
                    if !may_pass {
                        return Err(refused);
                    }
                    self.wait_or_end(wish, budget, (begun.elapsed(), None), before, refused)?;
                    continue;
                }
            };
            let at = self.now_seconds().saturating_add(self.skew_seconds.load(Ordering::Relaxed));
            let sent = Instant::now();
            let heard = self.hear(wish, credentials.as_deref(), at, asks_first)?;
            if heard.is_ok() {
                self.answered_in(sent.elapsed());
            }
            let took = begun.elapsed();
            let (told, refused) = match heard {
                Ok(Heard::Success(got)) => {
                    self.is_sound(wish);
                    return Ok(got);
                }
                // Not the store, but what it was asked to say first.
                Ok(Heard::Refusal { status: 417, .. }) if asks_first => {
                    (asks_first, cured.expectation) = (false, true);
                    continue;
                }
                Ok(Heard::Refusal { status, headers, mut refusal }) => {
                    if refusal.code.is_empty() && matches!(wish.method, Method::Head) {
                        refusal = self.why(wish, credentials.as_deref(), at, status).unwrap_or(refusal);
                    }
                    let region = word(&headers, "x-amz-bucket-region")
                        .filter(|region| answers::is_region(region))
                        .map(str::to_owned)
                        .or(refusal.region.take());
                    let here = self.bucket().region().to_owned();
                    let date =
                        word(&headers, "date").and_then(answers::http_time_of).map(|time| time.seconds);
                    let advice = retries::advice(&retries::Refused {
                        status,
                        code: &refusal.code,
                        elsewhere: region.as_ref().is_some_and(|region| *region != here),
                        skew: Duration::from_secs(date.map_or(0, |date| date.abs_diff(at))),
                    });
                    if advice != Advice::Later {
                        self.is_sound(wish);
                    }
                    let put_right = match advice {
                        Advice::Renew if !cured.credentials => {
                            cured.credentials = true;
                            credentials.as_ref().is_some_and(|these| {
                                self.credentials.refuse(these);
                                true
                            })
                        }
                        Advice::SetClock if !cured.clock => {
                            cured.clock = true;
                            date.is_some_and(|date| self.set_clock(date))
                        }
                        Advice::Move if !cured.region => {
                            cured.region = true;
                            region.as_ref().is_some_and(|region| self.move_to(region))
                        }
                        _ => false,
                    };
                    if put_right {
                        continue;
                    }
                    let mut failure = self.refusal(wish, status, &refusal, credentials.as_deref());
                    if let (Advice::SetClock, Some(date)) = (advice, date) {
                        let (its, ours) = (shown_time(date), shown_time(at));
                        failure.cause = format!("{}; its clock says {its}, ours {ours}", failure.cause);
                    }
                    if let (Advice::Move, Some(region)) = (advice, &region) {
                        failure.cause = format!("{}; the bucket is in the region `{region}`", failure.cause);
                    }
                    if advice == Advice::Later {
                        failure.kind = FailureKind::Connection;
                    }
                    let (failure, code) = (Box::new(failure), refusal.code);
                    let refused = Refused { failure, status, code, lost, again: None };
                    if advice != Advice::Later {
                        return Err(refused);
                    }
                    // One that is busy did nothing. What is between may say 503 for one that did.
                    let is_busy = matches!(refused.code.as_str(), "SlowDown" | "ServiceUnavailable");
                    lost |= status != 429 && !(status == 503 && is_busy);
                    let told = word(&headers, "retry-after").and_then(|words| words.parse().ok());
                    (told.map(Duration::from_secs), Refused { lost, ..refused })
                }
                Err(trouble) => {
                    let failure = self.trouble(wish, &trouble);
                    if !trouble.passes {
                        return Err(Refused { lost, ..failure.into() });
                    }
                    // Where nobody was reached, nothing was done.
                    lost |= trouble.reason != Reason::StoreNotAnswered;
                    // It may have been refused before all was sent.
                    asks_first = is_large && !asks_first && !cured.expectation;
                    (None, Refused { lost, ..failure.into() })
                }
            };
            self.wait_or_end(wish, budget, (took, told), before, refused)?;
        }
    }

    /// What there is before something is asked.
    pub(super) fn before(&self) -> Before {
        Before {
            sound_answers: self.sound_answers.load(Ordering::Relaxed),
            requests: self.requests.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// As [`wait_again`](Self::wait_again); what is asked for once ends instead.
    fn wait_or_end(
        &self,
        wish: &Wish<'_>,
        budget: &mut Budget,
        times: (Duration, Option<Duration>),
        before: Before,
        refused: Refused,
    ) -> Result<(), Refused> {
        let refused = Refused { again: Some(times), ..refused };
        if wish.once { Err(refused) } else { self.wait_again(wish, budget, before, refused) }
    }

    /// Waits before it is asked again, if it may pass.
    ///
    /// # Errors
    /// `refused`, if it may not, the patience is over, or who asks gave the store up; where nobody was answered
    /// meanwhile, and the bucket is not either, it is lost.
    pub(super) fn wait_again(
        &self,
        wish: &Wish<'_>,
        budget: &mut Budget,
        before: Before,
        mut refused: Refused,
    ) -> Result<(), Refused> {
        let Some((took, told)) = refused.again.take().filter(|_| !self.is_given_up()) else {
            return Err(refused);
        };
        let is_known = self.answered.load(Ordering::Relaxed);
        let attempts_max = if is_known { None } else { Some(ATTEMPTS_UNKNOWN_MAX) };
        let is_lost = lock(&self.lost).is_some();
        let wait = budget.wait(took, told, attempts_max);
        // It may answer nobody else until they go.
        self.forget_begun();
        if wait.is_none() && !wish.is_try {
            self.wear(wish, before);
        }
        let is_vain = is_lost || self.is_worn(wish);
        let Some(wait) = wait.filter(|_| !is_vain) else {
            if budget.attempts() > 1 {
                let cause = format!("{}; asked {} times", refused.failure.cause, budget.attempts());
                refused.failure.cause = cause;
            }
            let is_silent =
                !wish.is_try && self.sound_answers.load(Ordering::Relaxed) == before.sound_answers;
            // It may fail for this key alone. One that never answered is not asked once more.
            if is_silent && !is_lost && !(is_known && self.is_there()) {
                lock(&self.lost).get_or_insert_with(|| (*refused.failure).clone());
            }
            return Err(refused);
        };
        tracing::debug!(failure = %refused.failure, ?wait, "it is asked again");
        (self.surroundings.pause)(wait);
        Ok(())
    }

    /// It answers, and neither is busy nor fails.
    fn is_sound(&self, wish: &Wish<'_>) {
        self.sound_answers.fetch_add(1, Ordering::Relaxed);
        lock(&self.lost).take();
        lock(&self.worn).remove(wish.operation);
    }

    /// Notes that this failed for a whole patience.
    fn wear(&self, wish: &Wish<'_>, before: Before) {
        let now = self.requests.load(Ordering::Relaxed);
        let mut worn = lock(&self.worn);
        let of_all = worn.entry(wish.operation).or_insert(Worn { patiences: 0, until: 0 });
        if before.requests >= of_all.until {
            *of_all = Worn { patiences: of_all.patiences.saturating_add(1), until: now };
        }
    }

    /// Whether such a thing is asked for only once.
    fn is_worn(&self, wish: &Wish<'_>) -> bool {
        lock(&self.worn).get(wish.operation).is_some_and(|worn| worn.patiences >= WORN_MAX)
    }

    /// One attempt.
    ///
    /// # Errors
    /// Within: no answer. Outside: it cannot be asked at all.
    fn hear(
        &self,
        wish: &Wish<'_>,
        credentials: Option<&Credentials>,
        at: i64,
        asks_first: bool,
    ) -> Result<Result<Heard, Trouble>, Refused> {
        let request = http::Request {
            method: http_method(wish.method),
            address: self.address(wish, credentials, at)?,
            headers: &wish.headers,
            content: wish.content,
            carries: wish.carries,
            sent: &self.sent_pieces,
            limit: wish.limit,
            is_words: wish.words_max.is_some(),
            asks_first,
        };
        let answer = http::send(&self.agents, &request);
        if answer.is_ok() {
            self.answered.store(true, Ordering::Relaxed);
        }
        Ok(answer.and_then(|answer| read(wish, answer)))
    }

    /// Where to ask, with a signature of the time `at`.
    fn address(&self, wish: &Wish<'_>, credentials: Option<&Credentials>, at: i64) -> Result<Url, Refused> {
        let time = Timestamp::from_second(at).map_err(|_| {
            let words = "no signature has the time that this machine's clock shows";
            self.failure(FailureKind::Usage, wish.operation, wish.key, words)
        })?;
        let bucket = self.bucket();
        let key = wish.key.unwrap_or_default();
        let mut query = wish.query.iter().map(|(name, value)| (*name, &**value)).collect::<Vec<_>>();
        query.sort_unstable();
        let Some(credentials) = credentials else {
            let mut unsigned = bucket.get_object(None, key);
            for (name, value) in query {
                unsigned.query_mut().insert(name, value);
            }
            return Ok(unsigned.sign_with_time(SIGNED_FOR, &time));
        };
        // Stores refuse those of this name that are not signed; others are theirs to see as they are.
        let signed = wish.headers.iter().filter(|(name, _)| name.starts_with("x-amz-"));
        let mut signed = signed.map(|(name, value)| (*name, &**value)).collect::<Vec<_>>();
        signed.sort_unstable();
        Ok(rusty_s3::signing::sign(
            &time,
            wish.method,
            bucket.object_url(key),
            credentials.key(),
            credentials.secret(),
            credentials.token(),
            bucket.region(),
            SIGNED_FOR.as_secs(),
            query.iter().copied(),
            signed.iter().copied(),
        ))
    }

    /// Has the store say where the bucket is before much is sent. What else is wrong shows when it is sent.
    fn find(&self) {
        if self.answered.load(Ordering::Relaxed) {
            return;
        }
        if let Err(refused) = self.ask_for_bucket() {
            tracing::debug!(failure = %refused.failure, "the bucket was not found before content is sent");
        }
    }

    /// Whether the store answers for the bucket, and does not fail.
    fn is_there(&self) -> bool {
        self.ask_for_bucket().map_or_else(|refused| (1..500).contains(&refused.status), |_| true)
    }

    /// Asks for the bucket, once.
    fn ask_for_bucket(&self) -> Result<Got, Refused> {
        let find = Wish::new("find the bucket", "s3:ListBucket", Method::Head, None);
        let wish = Wish { is_try: true, ..find };
        self.ask_within(&wish, &mut Budget::new(Duration::ZERO, 0))
    }

    /// Why a request for a head alone was refused: such answers have no words. Asks for one byte of the content, which
    /// is refused for the same reason, and says so.
    fn why(
        &self,
        wish: &Wish<'_>,
        credentials: Option<&Credentials>,
        at: i64,
        status: u16,
    ) -> Option<Refusal> {
        if !matches!(status, 400 | 403) || wish.key.is_none() {
            return None;
        }
        let mut one = Wish::new(wish.operation, wish.right, Method::Get, wish.key);
        one.headers.push(("range", "bytes=0-0".into()));
        // If the store gives more than that, nobody reads it.
        one.words_max = None;
        match self.hear(&one, credentials, at, false) {
            Ok(Ok(Heard::Refusal { status: again, refusal, .. })) if again == status => Some(refusal),
            _ => None,
        }
    }

    /// What our clock shows, in seconds since 1970.
    pub(super) fn now_seconds(&self) -> i64 {
        let now = (self.surroundings.now)();
        let seconds = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        now.duration_since(UNIX_EPOCH).map_or_else(|before| -seconds(before.duration()), seconds)
    }

    /// Signs by the store's clock from now on.
    fn set_clock(&self, date: i64) -> bool {
        let skew_seconds = date.saturating_sub(self.now_seconds());
        self.skew_seconds.store(skew_seconds, Ordering::Relaxed);
        tracing::warn!(
            skew_seconds,
            "the store's clock is not this machine's; what is asked goes by the store's"
        );
        true
    }

    /// What a refusal is to users.
    fn refusal(
        &self,
        wish: &Wish<'_>,
        status: u16,
        refusal: &Refusal,
        credentials: Option<&Credentials>,
    ) -> Failure {
        let mut words = format!("the store answers {status}");
        for (before, more) in [(" ", &refusal.code), (": ", &refusal.message)] {
            if !more.is_empty() {
                words.push_str(before);
                words.push_str(&clean(more, credentials));
            }
        }
        // Another code names another cause: a wrong key, a clock, an archive.
        if status == 403 && matches!(&*refusal.code, "" | "AccessDenied") {
            words = format!("{words} (it takes the right {})", wish.right);
        }
        self.failure(retries::kind(status, &refusal.code), wish.operation, wish.key, words)
    }

    /// What no answer is to users.
    fn trouble(&self, wish: &Wish<'_>, trouble: &Trouble) -> Failure {
        let words = format!("no answer of the store: {}", trouble.words);
        let kind = match trouble.reason {
            // It is there, and the next attempt finds the same.
            Reason::StoreNotTrusted => FailureKind::Permission,
            _ => FailureKind::Connection,
        };
        self.failure(kind, wish.operation, wish.key, words).because(trouble.reason)
    }

    /// An answer that makes no sense.
    pub(super) fn nonsense(&self, wish: &Wish<'_>, words: &str) -> Failure {
        let words = format!("the store's answer makes no sense: {words}");
        self.failure(FailureKind::Protocol, wish.operation, wish.key, words)
    }
}

/// Reads what is to be read of an answer before it counts as one. An error in the words of a success is a refusal.
fn read(wish: &Wish<'_>, answer: Answer) -> Result<Heard, Trouble> {
    let (status, headers) = (answer.status, answer.headers.clone());
    if !(200..300).contains(&status) {
        // Without its words it is a refusal all the same.
        let words = answer.words(WORDS_BYTES_MAX, wish.limit).unwrap_or_default();
        return Ok(Heard::Refusal { status, headers, refusal: answers::refusal(&words).unwrap_or_default() });
    }
    let Some(words_max) = wish.words_max else {
        let content = Some(answer.content(STALL_LIMIT));
        return Ok(Heard::Success(Got { status, headers, words: String::new(), content }));
    };
    let words = answer.words(words_max, wish.limit)?;
    Ok(match answers::refusal(&words) {
        Some(refusal) => Heard::Refusal { status, headers, refusal },
        None => Heard::Success(Got { status, headers, words, content: None }),
    })
}

/// A store's words, inert, cut, and without what was secret in the request: some tell all that they were asked.
fn clean(words: &str, credentials: Option<&Credentials>) -> String {
    let mut words = words.to_owned();
    let secrets = credentials.map(|these| [Some(these.secret()), these.token()]).unwrap_or_default();
    for secret in secrets.into_iter().flatten().filter(|secret| !secret.is_empty()) {
        words = words.replace(secret, "***");
    }
    // An address, signed: in whatever way it is written, its secrets stand behind this.
    let lower = words.to_ascii_lowercase();
    let names = ["x-amz-signature", "x-amz-security-token", "x-amz-credential"];
    // Some name this one where they say what is wrong with it.
    let is_spoken_of = |at: usize| lower[at..].starts_with("x-amz-credential ");
    let first = |name: &str| lower.match_indices(name).map(|(at, _)| at).find(|&at| !is_spoken_of(at));
    if let Some(end) = names.into_iter().filter_map(first).min() {
        words.truncate(end);
        words.push_str("...");
    }
    shown_path(words.as_bytes())
}

fn shown_time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |time| time.to_string())
}

fn http_method(method: Method) -> HttpMethod {
    match method {
        Method::Head => HttpMethod::HEAD,
        Method::Get => HttpMethod::GET,
        Method::Post => HttpMethod::POST,
        Method::Put => HttpMethod::PUT,
        Method::Delete => HttpMethod::DELETE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_secret_in_a_request_is_in_no_words_that_a_store_says_of_it() {
        let these = Credentials::new_with_token("AKID", "s3cr3t", "t0k3n");
        for words in [
            "denied: s3cr3t",
            "denied: t0k3n",
            "denied: GET /b/k?X-Amz-Credential=AKID%2F2024&X-Amz-Signature=5ec2e7",
            "denied: x-amz-security-token=abc5ec2e7",
        ] {
            let shown = clean(words, Some(&these));
            assert!(shown.starts_with("denied: "), "{shown}");
            assert!(!["s3cr3t", "t0k3n", "5ec2e7"].iter().any(|secret| shown.contains(secret)), "{shown}");
        }
        // A name without what it stands for says what is wrong.
        let told = "Error parsing the X-Amz-Credential parameter; the region 'a' is wrong; expecting 'b'";
        assert_eq!(clean(told, Some(&these)), told);
        assert_eq!(clean("Access \u{1b}[31mDenied", None), "Access \\x1b[31mDenied");
    }
}
