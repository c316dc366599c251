//! One bucket.
//!
//! A [`Store`] asks and is answered; what it is told is checked, and what does not go is tried again or said. It knows
//! keys and bytes, no trees: those are [`crate::source`]'s and [`crate::destination`]'s.
//!
//! What it promises:
//! - A request that may pass is made again, as [`crate::retries`] decides, for as long as the patience lasts. Where it
//!   ends and nobody was answered meanwhile, the store is given up ([`Store::lost`]): others do not wait as long again.
//!   Nor do they where it answers, but one operation fails for patience after patience.
//! - An object is read as it was seen, or the reader hears that it changed.
//! - What is written arrived as it was sent: the store compares a checksum that travels with it, and says so.
//! - Addresses are signed for a quarter of an hour, and in no error, log or `Debug`; nor are keys and tokens.
//!
//! What it does not: two who write one key at a time are told apart only by [`If`].

use crate::credentials::Credentials;
use crate::http::{Agents, Content};
use crate::location::{KEY_BYTES_MAX, Location};
use crate::options::{Options, Surroundings};
use crate::retries::Budget;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_http::is_loopback;
use thalweg_mover::failure::{Failure, FailureKind, Result, shown_path};
use thalweg_mover::mutex::lock;
use thalweg_wire::{Digest, Time};
use url::Url;

pub(crate) use at_once::requests_at_once;
pub use listing::UploadsFrom;
pub(crate) use listing::is_any;
pub use removing::Removed;

mod about;

mod asking;

mod at_once;

mod listing;

mod reading;

mod writing;

mod removing;

#[cfg(test)]
mod tests;

/// Parts of one upload.
pub const PARTS_MAX: u16 = 10_000;

/// An object as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its length in bytes.
    pub size: u64,
    /// Its version, as the store names it: no checksum, and without quotes. Empty if the store has none.
    pub etag: String,
    /// When it was written, by the store's clock, to the second.
    pub modified: Time,
    /// How it is kept, if the store says so: `GLACIER`.
    pub storage_class: Option<String>,
}

/// An object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// What the list tells of it.
    pub seen: Seen,
}

/// A piece of a list: keys and prefixes in the store's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Objects.
    pub objects: Vec<Listed>,
    /// What keys begin with up to the next `/`, where that was asked for.
    pub prefixes: Vec<String>,
    /// How to ask for the next piece. `None`: this is the last one.
    pub next: Option<String>,
}

/// What is kept beside an object, under rclone's names, and `blake3`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct About {
    /// When the content was last changed, by its source's clock.
    pub mtime: Option<Time>,
    /// Type and permissions, as `stat` has them.
    pub mode: Option<u32>,
    /// Its owner's number.
    pub uid: Option<u32>,
    /// Its group's number.
    pub gid: Option<u32>,
    /// The content's digest.
    pub blake3: Option<Digest>,
}

/// All that is told of an object without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What lists tell, too.
    pub seen: Seen,
    /// What is kept beside it. What cannot be read counts as not there.
    pub about: About,
    /// CRC64NVME of the whole object, if the store tells it.
    pub crc64: Option<u64>,
}

/// Whether an object is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum If {
    /// In any case.
    Any,
    /// Only if there is none of this key.
    Absent,
    /// Only in place of this version.
    Is(String),
}

/// No store names a version so: what is written in place of it is refused where conditions are heeded.
pub(crate) const NO_VERSION: &str = "0";

/// A part of an upload that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 1.
    pub number: u16,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its version.
    pub etag: String,
    /// CRC64NVME: ours of what was sent, or the store's, if a list tells it.
    pub crc64: Option<u64>,
}

/// An upload in parts that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Of the object that it becomes.
    pub key: String,
    /// What the store calls it.
    pub id: String,
    /// When, by the store's clock; `None` of one that was begun just now.
    pub begun: Option<Time>,
    /// What its object is known by, among those that others write under this key: random, of 16 hex digits. `None` of
    /// one that another process began.
    pub mark: Option<String>,
}

/// What is verified. Stores know checksums of one kind and not of another.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Object,
    Part,
    Upload,
}

/// How a store is known to verify what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// Nothing was written yet. Both travel.
    Unknown,
    /// By CRC64NVME: it says in its answer what it computed.
    Crc64,
    /// By `Content-MD5`, which every store compares and none tells.
    Md5,
}

/// A bucket. Threads share it: each request has a connection of its own.
pub struct Store {
    name: String,
    bucket_name: String,
    agents: Agents,
    credentials: Credentials,
    surroundings: Surroundings,
    is_amazon: bool,
    style: rusty_s3::UrlStyle,
    /// Where it is, as far as known: the endpoint, and the bucket there.
    bucket: Mutex<(Url, Arc<rusty_s3::Bucket>)>,
    /// The store's clock minus ours, in seconds.
    skew_seconds: AtomicI64,
    /// It answered, whatever it said.
    answered: AtomicBool,
    /// Answers other than that it is busy or fails: who hears of no more of them knows that all of it does.
    sound_answers: AtomicU64,
    /// In what time it answered soonest but for the first time, in ns; `u64::MAX` before it ever did.
    soonest_ns: AtomicU64,
    /// In what time it answered first, in ns, and how many round trips that took.
    first_ns: AtomicU64,
    round_trips_of_first: u64,
    /// Why it was given up.
    lost: Mutex<Option<Failure>>,
    /// Nobody waits for it any more.
    is_given_up: AtomicBool,
    /// Operations that failed for whole patiences since the last sound answer to one.
    worn: Mutex<HashMap<&'static str, asking::Worn>>,
    /// One for each kind of what is sent.
    checks: [AtomicU8; 3],
    /// What it makes of conditions on removals.
    removals: AtomicU8,
    /// One more for each request: no two have the same jitter.
    requests: AtomicU64,
    /// Pieces of content that connections took.
    sent_pieces: AtomicU64,
    /// The oldest first.
    bodies: Mutex<VecDeque<Body>>,
}

/// An object on its way, the rest of which somebody will read.
struct Body {
    key: String,
    etag: String,
    /// Which version it is where it has no name: when it was written, in seconds since 1970.
    modified: i64,
    /// Where the next byte stands.
    at: u64,
    /// Up to where it goes, exclusive.
    through: u64,
    /// Its length was not told: that it ends here has to show.
    shows_end: bool,
    /// Nobody has read of it yet.
    is_ahead: bool,
    content: Content,
}

impl Store {
    /// The bucket of `location`, whatever its key. Nothing is asked yet.
    ///
    /// # Errors
    /// If options, profile or certificates make no sense, or the bucket's name is none for a host.
    pub fn open(location: &Location, options: &Options, surroundings: &Surroundings) -> Result<Store> {
        let settled = options.settle(&location.bucket, surroundings)?;
        let is_near = is_loopback(&settled.endpoint);
        let agents = Agents::new(settled.ca.as_deref(), is_near)?;
        let services = match (settled.services_ca == settled.ca && !is_near) || settled.anonymous {
            true => agents.of_words().clone(),
            false => Agents::new(settled.services_ca.as_deref(), false)?.of_words().clone(),
        };
        let bucket = bucket(&settled.endpoint, settled.style, &location.bucket, &settled.region)?;
        let mut name = format!("s3://{}", location.bucket);
        if !settled.is_amazon {
            // Without user and password, which an address may have.
            name = format!("{name} ({})", settled.endpoint.origin().ascii_serialization());
        }
        Ok(Store {
            name,
            bucket_name: location.bucket.clone(),
            credentials: Credentials::of(&settled, surroundings.clone(), services),
            agents,
            surroundings: surroundings.clone(),
            is_amazon: settled.is_amazon,
            style: settled.style,
            // TCP's, TLS's, and its own.
            round_trips_of_first: if settled.endpoint.scheme() == "https" { 3 } else { 2 },
            bucket: Mutex::new((settled.endpoint, Arc::new(bucket))),
            skew_seconds: AtomicI64::new(0),
            answered: AtomicBool::new(false),
            sound_answers: AtomicU64::new(0),
            soonest_ns: AtomicU64::new(u64::MAX),
            first_ns: AtomicU64::new(u64::MAX),
            lost: Mutex::default(),
            is_given_up: AtomicBool::new(false),
            worn: Mutex::default(),
            checks: [(); 3].map(|()| AtomicU8::new(Checks::Unknown as u8)),
            removals: AtomicU8::new(removing::Heeds::Unknown as u8),
            requests: AtomicU64::new(0),
            sent_pieces: AtomicU64::new(0),
            bodies: Mutex::new(VecDeque::new()),
        })
    }

    /// `s3://BUCKET`, and where that is, if it is not Amazon's.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// How long a request that may pass is made again.
    pub fn patience(&self) -> Duration {
        self.surroundings.patience
    }

    /// A number that grows while long content gets across, also in the middle of a request.
    pub fn moved(&self) -> u64 {
        self.sent_pieces.load(Ordering::Relaxed)
    }

    /// How the store verifies objects that are sent in one piece, as far as it showed.
    pub fn checks(&self) -> Checks {
        self.checks_of(Sent::Object)
    }

    fn checks_of(&self, sent: Sent) -> Checks {
        match self.checks[sent as usize].load(Ordering::Relaxed) {
            known if known == Checks::Crc64 as u8 => Checks::Crc64,
            known if known == Checks::Md5 as u8 => Checks::Md5,
            _ => Checks::Unknown,
        }
    }

    /// Why the store was given up: it answered nobody for as long as one request's patience, nor then for the bucket.
    /// Each request is made once all the same, and one that is answered ends this.
    pub fn lost(&self) -> Option<Failure> {
        lock(&self.lost).clone()
    }

    /// Has all fail that is asked and that waits to be asked again, now and from now on: whoever asked wants to stop. A
    /// connection that is being made takes its time all the same, at most
    /// [`CONNECT_LIMIT`](crate::http::CONNECT_LIMIT).
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
        (self.surroundings.end_pauses)();
        self.agents.shut_down();
    }

    /// Whether it was given up, for good.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// That it knows the CRC is learned once; that it does not holds from then on.
    fn learn(&self, sent: Sent, checks: Checks) {
        let known = &self.checks[sent as usize];
        if checks == Checks::Crc64 {
            let (unknown, order) = (Checks::Unknown as u8, Ordering::Relaxed);
            let _ = known.compare_exchange(unknown, checks as u8, order, order);
        } else {
            known.store(checks as u8, Ordering::Relaxed);
        }
    }

    /// For one thing that is asked, however often.
    fn budget(&self) -> Budget {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        Budget::new(self.surroundings.patience, self.surroundings.seed ^ number)
    }

    fn bucket(&self) -> Arc<rusty_s3::Bucket> {
        lock(&self.bucket).1.clone()
    }

    /// Goes by another region from now on. `false`: there is no address for that.
    fn move_to(&self, region: &str) -> bool {
        let mut held = lock(&self.bucket);
        let (endpoint, here) = &*held;
        if here.region() == region {
            // Another thread heard it first.
            return true;
        }
        let there = match self.is_amazon {
            true => endpoint_in(endpoint, here.region(), region),
            false => Some(endpoint.clone()),
        };
        let Some(there) = there else { return false };
        let Ok(moved) = bucket(&there, self.style, &self.bucket_name, region) else { return false };
        tracing::info!(bucket = %self.bucket_name, region, "the bucket is in another region");
        *held = (there, Arc::new(moved));
        true
    }

    /// A key of this bucket for people, in backquotes.
    fn place(&self, key: Option<&str>) -> String {
        match key {
            Some(key) => format!("`s3://{}/{}`", self.bucket_name, shown_path(key.as_bytes())),
            None => format!("`s3://{}`", self.bucket_name),
        }
    }

    /// A failure of `operation` that is about `key`.
    fn failure(
        &self,
        kind: FailureKind,
        operation: &str,
        key: Option<&str>,
        words: impl fmt::Display,
    ) -> Failure {
        Failure::new(kind, operation, format!("{}: {words}", self.place(key)))
    }

    /// Whether requests can name this key: addresses resolve dots as paths do, and without a key mean the bucket.
    fn check_key(&self, operation: &str, key: &str) -> Result<()> {
        let words = if key.is_empty() {
            "an object has a key".to_owned()
        } else if key.len() > KEY_BYTES_MAX {
            format!("a key has at most {KEY_BYTES_MAX} bytes")
        } else if key.split('/').any(|component| matches!(component, "." | "..")) {
            "no address can name a key with `.` or `..` between slashes".to_owned()
        } else {
            return Ok(());
        };
        Err(self.failure(FailureKind::Unsupported, operation, Some(key), words))
    }
}

/// Its name: everything else is a secret, or changes.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.name).finish()
    }
}

fn bucket(endpoint: &Url, style: rusty_s3::UrlStyle, name: &str, region: &str) -> Result<rusty_s3::Bucket> {
    rusty_s3::Bucket::new(endpoint.clone(), style, name.to_owned(), region.to_owned()).map_err(|error| {
        let cause = format!("`s3://{name}`: {error}");
        Failure::new(FailureKind::Usage, "open the bucket", cause)
    })
}

/// Amazon's endpoint of another region, of the same kind; `None` if it has none.
fn endpoint_in(endpoint: &Url, from: &str, to: &str) -> Option<Url> {
    let host = endpoint.host_str()?;
    let labels = host.split('.').collect::<Vec<_>>();
    // It was the right one all the time, and only what was signed was not.
    if labels.contains(&to) {
        return Some(endpoint.clone());
    }
    let there = if host == "s3.amazonaws.com" {
        format!("s3.{to}.amazonaws.com")
    } else if labels.contains(&from) && !labels.contains(&"vpce") {
        labels.iter().map(|label| if *label == from { to } else { *label }).collect::<Vec<_>>().join(".")
    } else {
        // One of a customer's own network is in one region; what was chosen is not left for the public one.
        return None;
    };
    let mut endpoint = endpoint.clone();
    endpoint.set_host(Some(&there)).ok()?;
    Some(endpoint)
}
