//! What is known of a way from earlier transfers and probes, kept in the state directory: `profiles.json`.
//!
//! A way is where content is read, where it is written, and how it gets there: of a place here its file system, of a
//! far one the mover and its export. By ssh there are no exports, and nobody asks the far side for its file systems:
//! there it is the directory of the root that the path is in. In the file stands a hash of that, keyed with random
//! bytes of the file's own, and no name. What is turned by hand is part of it: a copy with one stream says nothing of
//! those that thalweg plans itself, and is predicted by others with one stream. Written as a whole or not at all; of
//! two programs that write at once one is not remembered.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use thalweg_mover::basin::times::{self, Passage};
use thalweg_mover::basin::{self, Cause, Evidence, Where};
use thalweg_mover::endpoint::simulated::ArraySpec;
use thalweg_mover::history::{BYTES_MAX, History, Moved, Observed, Probed, Way};
use thalweg_mover::model::prediction::{self, Compared, Comparison, LeftOut, Taken, Work};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan::{self, Tuned};
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{Beginning, Fidelity, From, Movement, Report, To, Wishes};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::message::{Check, Disk, Place, Totals, VerifyLevel};

const NAME: &str = "profiles.json";

/// Copies of this process learn one after the other.
static WRITING: Mutex<()> = Mutex::new(());

/// How the words of [`ByHand`] begin that are of the way.
const WORDS_OF_WAY: [&str; 4] = ["cipher ", "tls ", "via ", "bind "];

/// How those begin that change nothing of what a path carries, nor with how many streams: where a cipher, memory or a
/// second reading is the bound, the path is not, and a copy teaches its route nothing anyway.
const WORDS_BESIDE_PATH: [&str; 9] =
    ["chunk ", "request ", "concurrency ", "disk ", "memory ", "cipher ", "tls ", "dscp ", "reads twice"];

/// What of a copy was turned by hand and not planned; nothing, mostly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByHand(Vec<String>);

impl ByHand {
    /// Of a copy. Everything that may be of the way is named, so that what is new there is decided about here.
    pub fn of(wishes: &Wishes) -> ByHand {
        let Wishes {
            fidelity,
            movement,
            // What is to be moved is the work, not the way.
            selection: _,
            // Not turned by hand: what is known of earlier copies.
            remembered: _,
            // Of these nothing is remembered.
            dry_run: _,
            trial: _,
            // It is done beside the way.
            removes_sources: _,
            // What is told and written besides.
            asked_of_way: _,
            unused: _,
            receipt: _,
        } = wishes;
        let Fidelity {
            verify,
            check,
            finds_renames,
            // What is to be kept is the work too.
            preserve: _,
            delete_max: _,
        } = fidelity;
        let Movement {
            asked,
            // It begins without what was learned and what trials found, and stays there.
            holds_still,
            link,
            has_via,
            has_bind,
            // One that a limit held is told apart by its verdict.
            rate: _,
        } = movement;
        let plan::Asked {
            streams,
            chunk_bytes,
            concurrency,
            depth,
            window_bytes,
            request_bytes,
            memory_bytes,
            yields,
            disk,
            compress,
            compress_always,
            // The copy itself fills these in.
            rate_bits_per_s: _,
            no_io_uring: _,
            // Only of streams, of frames, and of what a daemon copies.
            streams_most: _,
        } = asked;
        let LinkSettings {
            cipher,
            tls_form,
            congestion,
            dscp,
            // Of one that waited so long nothing is remembered: it was cut off.
            stall_timeout: _,
            patience: _,
            spent: _,
            foreseen: _,
        } = link;
        let usual = LinkSettings::default();
        let ByHand(mut words) = ByHand::streams(*streams).and_reads_twice(reads_twice(*verify));
        let mut put =
            |name: &str, value: Option<String>| words.extend(value.map(|value| format!("{name} {value}")));
        put("chunk", chunk_bytes.map(|bytes| bytes.to_string()));
        put("request", request_bytes.map(|bytes| bytes.to_string()));
        put("concurrency", concurrency.map(|files| files.to_string()));
        put("depth", depth.map(|tasks| tasks.to_string()));
        put("window", window_bytes.map(|bytes| bytes.to_string()));
        put("memory", memory_bytes.map(|bytes| bytes.to_string()));
        put("disk", (*disk != Disk::default()).then(|| format!("{disk:?}")));
        put("congestion", congestion.clone());
        put("yields", yields.then(String::new));
        put("compress", compress.then(String::new));
        put("compress always", compress_always.then(String::new));
        put("check", (*check == Check::Digest).then(String::new));
        put("renames", finds_renames.then(String::new));
        put("cipher", (*cipher != usual.cipher).then(|| format!("{cipher:?}")));
        put("tls", (*tls_form != usual.tls_form).then(|| format!("{tls_form:?}")));
        put("dscp", dscp.map(|mark| mark.to_string()));
        put("via", has_via.then(String::new));
        put("bind", has_bind.then(String::new));
        put("still", holds_still.then(String::new));
        ByHand(words)
    }

    /// So many streams, and nothing else.
    pub fn streams(streams: Option<u16>) -> ByHand {
        ByHand(streams.map(|streams| format!("streams {streams}")).into_iter().collect())
    }

    /// What of it says which way the streams take, and in which form: settings that trials found there are for no
    /// other.
    #[must_use]
    pub fn of_way(&self) -> ByHand {
        let is_of_way = |word: &&String| WORDS_OF_WAY.iter().any(|name| word.starts_with(name));
        ByHand(self.0.iter().filter(is_of_way).cloned().collect())
    }

    /// Whether the path was used as a copy uses it that nobody turned by hand, so that what it carried says something
    /// of others. Not where streams, windows or their congestion control were chosen, a way or a card was, the copy
    /// gives way to others, or what travels is compressed or compared.
    pub fn leaves_path(&self) -> bool {
        let is_beside = |word: &String| WORDS_BESIDE_PATH.iter().any(|name| word.starts_with(name));
        self.0.iter().all(is_beside)
    }

    /// The source is read twice, and both times while content is sent. (Reading back is a cost of its own, and what is
    /// known of a way keeps copies with it apart.)
    #[must_use]
    pub fn and_reads_twice(mut self, reads_twice: bool) -> ByHand {
        self.0.extend(reads_twice.then(|| "reads twice".to_owned()));
        self
    }

    /// It goes through a stage: a limit holds for each leg by itself, and each reads back what it wrote.
    #[must_use]
    pub(crate) fn and_staged(mut self, bytes_per_s_max: Option<u64>, verify: VerifyLevel) -> ByHand {
        self.0.extend(bytes_per_s_max.map(|rate| format!("limit {rate}")));
        self.0.extend(reads_back(verify).then(|| "reads back".to_owned()));
        self
    }
}

/// Whether a copy says how long others take: some entries came, and most of their content travelled. One that mostly
/// found what it was to bring is of another kind, and so is one that went on where an earlier attempt had ended: what
/// that had left is read again before the first content comes, which others do not wait for.
fn teaches(totals: &Totals) -> bool {
    is_of_kind(totals) && totals.bytes_resumed == 0
}

/// Whether others say how long a copy takes: some entries came, and most of the content that was left to move
/// travelled. What an earlier attempt had left is no part of that.
fn is_of_kind(totals: &Totals) -> bool {
    let left_bytes = totals.bytes_done.saturating_sub(totals.bytes_resumed);
    let is_left = left_bytes > 0 || totals.bytes_resumed == 0;
    is_left && totals.done > totals.unchanged && totals.bytes_received.saturating_mul(2) >= left_bytes
}

/// Where content is read, where it is written, and what it passes between: ways are told apart by that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends(Vec<String>);

impl Ends {
    /// Of a copy that this machine has a part in; `None` without a source.
    pub fn of(from: &From, to: &To) -> Option<Ends> {
        let at = |far: &FarMover, place: &Place| {
            let part = place.export.clone().unwrap_or_else(|| top_of(&place.path));
            format!("{}/{part}", far.name())
        };
        let source = match from {
            From::Local(paths) => file_system(paths.first()?),
            From::Zero(_) | From::Noise(..) | From::Dataset(_) => "zero:".to_owned(),
            From::Far(far, places) => at(far, places.first()?),
            From::Simulated(array) => simulated(array),
            From::Given(given) => given.way.clone(),
        };
        let destination = match to {
            To::Local(path) | To::Scratch(path, _) => file_system(path),
            To::Null => "null:".to_owned(),
            To::Far(far, place) => at(far, place),
            To::Simulated(array) => simulated(array),
            To::Given(given) => given.way.clone(),
        };
        Some(Ends(vec![source, destination]))
    }

    /// Of a copy between two daemons, each with its address and the export there.
    pub fn between_daemons(source: (&str, &str), destination: (&str, &str)) -> Ends {
        let at = |(address, export): (&str, &str)| format!("daemon {address}/{export}");
        Ends(vec![at(source), at(destination)])
    }

    /// The same by way of a stage in this directory.
    #[must_use]
    pub fn through(mut self, stage: &Path) -> Ends {
        self.0.push(format!("stage on {}", file_system(stage)));
        self
    }
}

/// The profiles of this user.
pub struct Profiles {
    path: PathBuf,
    history: History,
}

impl Profiles {
    /// Reads them; what cannot be read is nothing.
    pub fn read(state: &Path) -> Profiles {
        let path = state.join(NAME);
        let history = start_of(&path, BYTES_MAX).ok().and_then(|bytes| History::from_json(&bytes));
        let history = history.unwrap_or_else(|| {
            let mut salt = [0; 16];
            // Without randomness the hashes are as good for us, and hide names less well.
            if let Ok(random) = start_of(Path::new("/dev/urandom"), salt.len()) {
                salt.iter_mut().zip(random).for_each(|(to, from)| *to = from);
            }
            History::new(salt)
        });
        Profiles { path, history }
    }

    /// What is known of a way.
    pub fn of(&self, from: &From, to: &To, by_hand: &ByHand) -> Option<&Way> {
        self.of_ends(&Ends::of(from, to)?, by_hand)
    }

    /// What is known of a way, by its ends.
    pub fn of_ends(&self, ends: &Ends, by_hand: &ByHand) -> Option<&Way> {
        self.history.of(&self.key_of(ends, by_hand), unix_seconds())
    }

    /// Remembers a transfer that came to its end, if it teaches others; `attempts` and `is_rate_changed` as for
    /// [`compared`].
    pub fn observe(
        state: &Path,
        ends: &Ends,
        wishes: &Wishes,
        report: &Report,
        attempts: u32,
        is_rate_changed: bool,
    ) {
        // One that was cut off shows how long the outage was, whether it began again or went on; and one whose rate was
        // changed a mean of two rates, of which neither may be the way's.
        if attempts > 1 || report.is_cut_off() || is_rate_changed || !teaches(&report.totals) {
            return;
        }
        let is_limit = |cause: Cause| matches!(cause, Cause::RateLimit | Cause::OperatorLimit);
        let limited = report.verdict.as_ref().is_some_and(|why| is_limit(why.narrowest.cause));
        let (evidence, passage) = (&report.evidence, &report.passage);
        let moved = moved(evidence, passage, report.totals.done, reads_back(wishes.fidelity.verify));
        let observed = Observed::of(&times::taken(evidence, passage), &moved, limited);
        let narrowest = report.verdict.as_ref().map(|why| match why.narrowest.place {
            Where::Path => "the path".to_owned(),
            Where::Both => format!("{} of this machine", why.narrowest.stage),
            place => format!("{} at the {}", why.narrowest.stage, place.name()),
        });
        Profiles::learn(state, ends, &ByHand::of(wishes), observed, narrowest);
    }

    /// Remembers what a transfer showed; `narrowest`: its narrowest stage, in words.
    pub(crate) fn learn(
        state: &Path,
        ends: &Ends,
        by_hand: &ByHand,
        observed: Observed,
        narrowest: Option<String>,
    ) {
        Profiles::change(state, |profiles| {
            let key = profiles.key_of(ends, by_hand);
            profiles.history.observe(&key, observed, narrowest, unix_seconds());
        });
    }

    /// Remembers a probe.
    pub fn probed(state: &Path, from: &From, to: &To, by_hand: &ByHand, probed: Probed) {
        Profiles::change(state, |profiles| {
            if let Some(key) = profiles.key(from, to, by_hand) {
                profiles.history.probed(&key, probed, unix_seconds());
            }
        });
    }

    /// Remembers what trials found best, or forgets it; `by_hand` as [`ByHand::of_way`] has it. `false` for places that
    /// nobody learns from.
    pub fn tuned(state: &Path, from: &From, to: &To, by_hand: &ByHand, tuned: Option<Tuned>) -> bool {
        let mut is_kept = false;
        Profiles::change(state, |profiles| {
            if let Some(key) = profiles.key(from, to, by_hand) {
                profiles.history.tuned(&key, tuned, unix_seconds());
                is_kept = true;
            }
        });
        is_kept
    }

    /// Forgets the congestion control that trials found on a way, because who sends there does not permit it any more;
    /// the rest stays.
    pub fn forget_congestion(state: &Path, from: &From, to: &To, by_hand: &ByHand) {
        Profiles::change(state, |profiles| {
            let key = profiles.key(from, to, by_hand);
            let found = key.as_ref().and_then(|key| profiles.history.of(key, unix_seconds())?.tuned.clone());
            if let (Some(key), Some(tuned)) = (key, found) {
                profiles.history.tuned(&key, tuned.without_congestion(), unix_seconds());
            }
        });
    }

    /// What cannot be written is not worth a word: the next prediction knows less.
    fn change(state: &Path, change: impl FnOnce(&mut Profiles)) {
        let _writing = lock(&WRITING);
        let mut profiles = Profiles::read(state);
        change(&mut profiles);
        if let Err(error) = profiles.write() {
            tracing::info!(%error, "what this transfer showed is not kept");
        }
    }

    fn write(&self) -> Result<(), atomic_file::Error> {
        atomic_file::write(&self.path, self.history.to_json().as_bytes(), 0o600, Durability::Unsynced)
    }

    /// `None` without a source.
    fn key(&self, from: &From, to: &To, by_hand: &ByHand) -> Option<String> {
        Some(self.key_of(&Ends::of(from, to)?, by_hand))
    }

    fn key_of(&self, ends: &Ends, by_hand: &ByHand) -> String {
        let words: Vec<String> = ends.0.iter().chain(&by_hand.0).cloned().collect();
        self.history.key(&words)
    }
}

/// The first bytes of a file, and one more if there are more than `bytes_max`.
fn start_of(path: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    atomic_file::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An array by what makes it slow; what lies on it is no part of the way.
fn simulated(array: &ArraySpec) -> String {
    format!("{:?}", ArraySpec { bytes: 0, seed: 0, ..array.clone() })
}

/// The file system that a path is on, or would be.
fn file_system(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let device = absolute.ancestors().find_map(|above| Some(std::fs::metadata(above).ok()?.dev()));
    format!("device {}", device.unwrap_or(0))
}

/// The directory of the root that a path of an ssh host is in, with the next one below what holds nothing but file
/// systems; `~` for what is below home.
fn top_of(path: &[u8]) -> String {
    if !path.starts_with(b"/") {
        return "~".to_owned();
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let holds_file_systems = matches!(names.first(), Some(&(b"mnt" | b"media")));
    names.truncate(if holds_file_systems { 2 } else { 1 });
    format!("/{}", String::from_utf8_lossy(&names.join(&b'/')))
}

/// What a transfer took, by the terms of its prediction.
pub fn taken(report: &Report) -> Taken {
    times::taken(&report.evidence, &report.passage)
}

fn moved(evidence: &Evidence, passage: &Passage, entries: u64, reads_back: bool) -> Moved {
    Moved {
        bytes: evidence.content_bytes() as f64,
        first_bytes: passage.first_bytes as f64,
        entries: entries as f64,
        reads_back,
    }
}

fn reads_back(verify: VerifyLevel) -> bool {
    verify != VerifyLevel::Written
}

fn reads_twice(verify: VerifyLevel) -> bool {
    verify == VerifyLevel::Paranoid
}

/// Predicted against actual of a copy that came to its end, from what was known when it began, else from its own
/// beginning; or why not. `attempts`: how often anything of it was tried, also by others than who tells the report.
/// `is_rate_changed`: its rate is another than it was when it began.
///
/// It is held against what was left to move. What an earlier attempt had left, and what was as it should be, is told
/// apart.
pub fn compared(
    foreknown: Option<Foreknown>,
    report: &Report,
    verify: VerifyLevel,
    attempts: u32,
    is_rate_changed: bool,
) -> Compared {
    let compared = match foreknown {
        _ if attempts > 1 || report.is_cut_off() => Compared::CutOff,
        _ if is_rate_changed => Compared::RateChanged,
        _ if !is_of_kind(&report.totals) => Compared::LittleMoved,
        Some(known) => known.compare(report),
        None => Compared::NoProfile,
    };
    let compared = match compared {
        Compared::NoProfile | Compared::Unknown(_) => by_beginning(report, verify).unwrap_or(compared),
        compared => compared,
    };
    match compared {
        Compared::Told(mut told) => {
            let Totals { bytes_resumed: bytes, unchanged: entries, .. } = report.totals;
            told.left_out = LeftOut { bytes, entries };
            Compared::Told(told)
        }
        compared => compared,
    }
}

/// Predicted by the copy's own beginning, where nothing else is known of its way: what came in the first half of the
/// time in which content came, and what it cost. The last look at such a beginning says most. `None` where there was
/// none.
fn by_beginning(report: &Report, verify: VerifyLevel) -> Option<Compared> {
    let reads_back = reads_back(verify);
    let (bytes, entries) = (report.evidence.content_bytes() as f64, report.totals.done as f64);
    let rtt_s = basin::rtt_seconds(&report.evidence);
    let Beginning { evidence, passage } = report.early().filter(|_| report.attempts == 1)?;
    // Those before it showed less.
    let content_s = passage.content_s();
    if content_s < SHOWS_S || content_s < SHOWS_ROUND_TRIPS * rtt_s {
        return None;
    }
    let seen = moved(evidence, passage, evidence.entries, reads_back);
    let left = Work {
        bytes: (bytes - seen.bytes).max(0.0),
        entries: (entries - seen.entries).max(0.0),
        reads_back,
        ..Work::default()
    };
    let passed = times::taken(evidence, passage);
    let observed = Observed::of(&passed, &seen, false);
    let predicted = observed.foretells(&passed, &left, rtt_s).ok()?.ok()?;
    let compared = prediction::compare(predicted, taken(report));
    Some(Compared::Told(Box::new(Comparison { after_s: Some(passage.seconds), ..compared })))
}

/// A beginning shows something once content has come for so many seconds, for looks a tenth of a second apart see its
/// rate then, and for so many round trips, for TCP has found its window.
const SHOWS_S: f64 = 0.75;
const SHOWS_ROUND_TRIPS: f64 = 10.0;

/// What was known when a copy began.
#[derive(Debug, Clone)]
pub struct Foreknown {
    way: Way,
    reads_back: bool,
    bytes_per_s_max: Option<f64>,
}

impl Foreknown {
    /// `None` without a profile.
    pub fn of(way: Option<&Way>, verify: VerifyLevel, bytes_per_s_max: Option<u64>) -> Option<Foreknown> {
        Some(Foreknown {
            way: way?.clone(),
            reads_back: reads_back(verify),
            bytes_per_s_max: bytes_per_s_max.map(|rate| rate.max(1) as f64),
        })
    }

    /// For what it came to be. The costs are those that were known at the start; what there was to move the scan told.
    pub fn compare(self, report: &Report) -> Compared {
        let work = Work {
            bytes: report.evidence.content_bytes() as f64,
            entries: report.totals.done as f64,
            reads_back: self.reads_back,
            bytes_per_s_max: self.bytes_per_s_max,
            ..Work::default()
        };
        // As `thalweg predict` says it before.
        match self.way.predict(&work, basin::rtt_seconds(&report.evidence)) {
            Ok(Ok(predicted)) => Compared::Told(Box::new(prediction::compare(predicted, taken(report)))),
            Ok(Err(missing)) => Compared::Unknown(missing),
            Err(_) => Compared::NoProfile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use thalweg_mover::basin::Outages;
    use thalweg_mover::link::{Identity, KernelTls, ServerTrust, client_config};
    use thalweg_mover::run::client::TcpConnect;
    use thalweg_wire::hello::Cipher;
    use thalweg_wire::message::{Direct, Place as WirePlace};

    #[test]
    fn a_simulated_array_is_a_way_by_what_makes_it_slow_and_not_by_what_lies_on_it() {
        let profiles = Profiles::read(Path::new("/nowhere"));
        let nothing = ByHand::default();
        let of = |array: ArraySpec| profiles.key(&From::Simulated(array), &To::Null, &nothing);
        let array = ArraySpec::default();
        assert!(of(array.clone()).is_some());
        assert_eq!(of(array.clone()), of(ArraySpec { bytes: 1, seed: 9, ..array.clone() }));
        assert_ne!(of(array.clone()), of(ArraySpec { bytes_per_s: 1, ..array.clone() }));
        assert_ne!(of(array.clone()), of(ArraySpec { queue: 4, ..array.clone() }));
        assert_ne!(of(array.clone()), of(ArraySpec { host_bytes_per_s: Some(1), ..array.clone() }));
        assert_ne!(of(array.clone()), of(ArraySpec { is_scattered: true, ..array }));
        // What is turned by hand makes another way of it.
        let one = profiles.key(&From::Zero(1), &To::Null, &ByHand::streams(Some(1)));
        assert_ne!(one, profiles.key(&From::Zero(1), &To::Null, &nothing));
        assert_eq!(one, profiles.key(&From::Zero(9), &To::Null, &ByHand::streams(Some(1))));
    }

    #[test]
    fn each_knob_turned_by_hand_makes_a_way_of_its_own() {
        fn with(turn: fn(&mut Wishes)) -> ByHand {
            let mut wishes = Wishes::default();
            turn(&mut wishes);
            ByHand::of(&wishes)
        }
        let other_cipher = |wishes: &mut Wishes| {
            let usual = LinkSettings::default().cipher;
            wishes.movement.link.cipher = match usual {
                Cipher::ChaCha20Poly1305 => Cipher::Aes256Gcm,
                _ => Cipher::ChaCha20Poly1305,
            };
        };
        type Turn = fn(&mut Wishes);
        let turned: [(&str, Turn); 24] = [
            ("streams", |wishes| wishes.movement.asked.streams = Some(1)),
            ("chunk", |wishes| wishes.movement.asked.chunk_bytes = Some(1)),
            ("request", |wishes| wishes.movement.asked.request_bytes = Some(1)),
            ("concurrency", |wishes| wishes.movement.asked.concurrency = Some(1)),
            ("depth", |wishes| wishes.movement.asked.depth = Some(1)),
            ("window", |wishes| wishes.movement.asked.window_bytes = Some(1)),
            ("memory", |wishes| wishes.movement.asked.memory_bytes = Some(1)),
            ("direct", |wishes| wishes.movement.asked.disk.source.direct = Direct::On),
            ("no io_uring", |wishes| wishes.movement.asked.disk.no_io_uring = true),
            ("congestion", |wishes| wishes.movement.link.congestion = Some("bbr".into())),
            ("yields", |wishes| wishes.movement.asked.yields = true),
            ("compress", |wishes| wishes.movement.asked.compress = true),
            ("compress always", |wishes| wishes.movement.asked.compress_always = true),
            ("check", |wishes| wishes.fidelity.check = Check::Digest),
            ("finds renames", |wishes| wishes.fidelity.finds_renames = true),
            ("reads twice", |wishes| wishes.fidelity.verify = VerifyLevel::Paranoid),
            ("another cipher", other_cipher),
            ("TLS", |wishes| wishes.movement.link.cipher = Cipher::Tls),
            ("kernel TLS", |wishes| wishes.movement.link.tls_form.kernel = KernelTls::On),
            ("records", |wishes| wishes.movement.link.tls_form.records_max -= 1),
            ("dscp", |wishes| wishes.movement.link.dscp = Some(8)),
            ("via", |wishes| wishes.movement.has_via = true),
            ("bind", |wishes| wishes.movement.has_bind = true),
            ("holds still", |wishes| wishes.movement.holds_still = true),
        ];
        for (number, (name, turn)) in turned.iter().enumerate() {
            assert_eq!(with(*turn), with(*turn), "{name}");
            assert_ne!(with(*turn), ByHand::default(), "{name}");
            for (other, turn_other) in &turned[..number] {
                assert_ne!(with(*turn), with(*turn_other), "{name}, {other}");
            }
        }
        // What is no knob, or is kept apart otherwise, makes none.
        let alike: [fn(&mut Wishes); 4] = [
            |_| {},
            |wishes| wishes.fidelity.verify = VerifyLevel::Readback,
            |wishes| wishes.fidelity.delete_max = Some(1),
            |wishes| wishes.movement.link.patience = Duration::ZERO,
        ];
        for turn in alike {
            assert_eq!(with(turn), ByHand::default());
        }
        // `predict` finds those that it can ask for.
        assert_eq!(with(|wishes| wishes.movement.asked.streams = Some(3)), ByHand::streams(Some(3)));
        let both = with(|wishes| {
            wishes.movement.asked.streams = Some(3);
            wishes.fidelity.verify = VerifyLevel::Paranoid;
        });
        assert_eq!(both, ByHand::streams(Some(3)).and_reads_twice(true));
    }

    #[test]
    fn directories_at_the_root_of_an_ssh_host_are_ways_of_their_own() {
        let profiles = Profiles::read(Path::new("/nowhere"));
        let us = Identity::generate("somebody").unwrap();
        let tls = client_config(&us, &ServerTrust::Pinned(us.fingerprint())).unwrap();
        let connect = TcpConnect::new(vec!["host".to_owned()]);
        let far = Arc::new(FarMover::new(Arc::new(connect), tls));
        let of = |export: Option<&str>, path: &str| {
            let place = WirePlace { export: export.map(str::to_owned), path: path.as_bytes().to_vec() };
            profiles.key(&From::Zero(1), &To::Far(far.clone(), place), &ByHand::default())
        };
        let alike: [&[&str]; 6] = [
            &["/nvme/run7", "/nvme", "//./nvme/../nvme/run8/"],
            &["/hdd/run7", "/nvme/../hdd/run7"],
            &["/mnt/fast/run7", "/mnt/fast"],
            &["/mnt/large/run7"],
            &["/media/disk/a/b", "/media/disk"],
            &["", ".", "nvme/run7"],
        ];
        for (number, paths) in alike.iter().enumerate() {
            for (path, other) in paths.iter().flat_map(|path| paths.iter().map(move |other| (path, other))) {
                assert_eq!(of(None, path), of(None, other), "{path}, {other}");
            }
            for other in &alike[..number] {
                assert_ne!(of(None, paths[0]), of(None, other[0]), "{paths:?}, {other:?}");
            }
        }
        // An export is one way as a whole.
        assert_eq!(of(Some("data"), "nvme/run7"), of(Some("data"), "hdd/run7"));
        assert_ne!(of(Some("data"), "nvme/run7"), of(Some("other"), "nvme/run7"));
    }

    #[test]
    fn a_copy_that_was_held_up_or_turned_on_the_way_teaches_none_and_is_held_against_none() {
        let state = tempfile::tempdir().unwrap();
        let ends = Ends::of(&From::Zero(1), &To::Null).unwrap();
        let wishes = Wishes::default();
        let totals = Totals { done: 10, bytes_done: 1 << 30, bytes_received: 1 << 30, ..Totals::default() };
        let passage = Passage { first_s: 1.0, first_bytes: 1 << 20, last_s: 9.0, seconds: 10.0 };
        let came = |outages: Outages| {
            let elapsed_nanos = 10_000_000_000;
            let evidence =
                Evidence { elapsed_nanos, bytes: 1 << 30, entries: 10, outages, ..Evidence::default() };
            Report { totals, evidence, passage, ..crate::events::fields::report() }
        };
        let knows = || Profiles::read(state.path()).of_ends(&ends, &ByHand::default()).is_some();
        let lost = Outages { count: 1, lost_nanos: 5_000_000_000, still_nanos: 0 };
        let still = Outages { still_nanos: 8_000_000_000, ..Outages::default() };
        let none = Outages::default();
        for (outages, attempts, is_rate_changed) in
            [(lost, 1, false), (still, 1, false), (none, 2, false), (none, 1, true)]
        {
            let report = came(outages);
            Profiles::observe(state.path(), &ends, &wishes, &report, attempts, is_rate_changed);
            assert!(!knows(), "{outages:?}, {attempts}, {is_rate_changed}");
            let compared = compared(None, &report, VerifyLevel::Written, attempts, is_rate_changed);
            assert!(matches!(compared, Compared::CutOff | Compared::RateChanged), "{compared:?}");
        }
        Profiles::observe(state.path(), &ends, &wishes, &came(none), 1, false);
        assert!(knows());
    }

    #[test]
    fn a_copy_that_found_most_of_its_content_says_nothing_of_others() {
        let came = Totals { done: 10, bytes_done: 100, bytes_received: 100, ..Totals::default() };
        assert!(teaches(&came) && teaches(&Totals { bytes_done: 0, bytes_received: 0, ..came }));
        assert!(!teaches(&Totals { bytes_received: 20, bytes_same: 80, ..came }));
        assert!(!teaches(&Totals { bytes_received: 20, bytes_resumed: 80, ..came }));
        assert!(!teaches(&Totals { unchanged: 10, ..came }));
    }

    #[test]
    fn a_copy_that_is_resumed_is_of_a_kind_by_what_was_left_to_move_and_teaches_none() {
        let came = Totals { done: 10, bytes_done: 100, bytes_received: 100, ..Totals::default() };
        let resumed = |bytes_received, bytes_resumed, bytes_same| Totals {
            bytes_received,
            bytes_resumed,
            bytes_same,
            ..came
        };
        assert!(is_of_kind(&resumed(20, 80, 0)) && is_of_kind(&resumed(80, 20, 0)));
        assert!(!teaches(&resumed(80, 20, 0)));
        // What was only compared is not there from an earlier attempt.
        assert!(!is_of_kind(&resumed(20, 0, 80)) && !is_of_kind(&resumed(10, 60, 30)));
        // Nothing was left.
        assert!(!is_of_kind(&resumed(0, 100, 0)));
        // It may be the word of somebody else.
        assert!(is_of_kind(&resumed(u64::MAX, 0, 0)));
    }

    #[test]
    fn ways_between_daemons_and_through_a_stage_are_ways_of_their_own() {
        let daemons = Ends::between_daemons;
        let one = daemons(("a:8487", "data"), ("b:8487", "in"));
        assert_eq!(one, daemons(("a:8487", "data"), ("b:8487", "in")));
        assert_ne!(one, daemons(("b:8487", "in"), ("a:8487", "data")));
        assert_ne!(one, daemons(("a:8487", "other"), ("b:8487", "in")));
        let direct = Ends::of(&From::Zero(1), &To::Null).unwrap();
        let staged = direct.clone().through(Path::new("/nowhere"));
        assert_ne!(staged, direct);
        assert_eq!(staged, direct.through(Path::new("/nothing/of/that")));
    }

    #[test]
    fn a_congestion_control_that_is_not_permitted_any_more_is_forgotten_and_the_rest_stays() {
        let state = tempfile::tempdir().unwrap();
        let (from, to) = (From::Zero(1), To::Null);
        let tuned = || {
            let profiles = Profiles::read(state.path());
            profiles.of(&from, &to, &ByHand::default()).and_then(|way| way.tuned.clone())
        };
        // Nothing is known, and nothing is made of that.
        Profiles::forget_congestion(state.path(), &from, &to, &ByHand::default());
        assert!(Profiles::read(state.path()).of(&from, &to, &ByHand::default()).is_none());
        let alone = Tuned { congestion: Some("bbr".into()), rate_bits_per_s: 8, ..Tuned::default() };
        let both = Tuned { streams: Some(3), ..alone.clone() };
        let rest = Tuned { congestion: None, ..both.clone() };
        for (found, left) in [(both, Some(rest.clone())), (rest.clone(), Some(rest)), (alone, None)] {
            assert!(Profiles::tuned(state.path(), &from, &to, &ByHand::default(), Some(found.clone())));
            assert_eq!(tuned(), Some(found));
            Profiles::forget_congestion(state.path(), &from, &to, &ByHand::default());
            assert_eq!(tuned(), left);
        }
    }

    #[test]
    fn settings_found_on_a_way_that_was_asked_for_are_for_copies_that_ask_for_it_too() {
        let state = tempfile::tempdir().unwrap();
        let (from, to) = (From::Zero(1), To::Null);
        let by_hand = |has_bind: bool, streams: Option<u16>| {
            let asked = plan::Asked { streams, ..plan::Asked::default() };
            ByHand::of(&Wishes {
                movement: Movement { asked, has_bind, ..Movement::default() },
                ..Wishes::default()
            })
        };
        let found = Tuned { streams: Some(3), ..Tuned::default() };
        assert!(Profiles::tuned(
            state.path(),
            &from,
            &to,
            &by_hand(true, None).of_way(),
            Some(found.clone())
        ));
        let known = |by_hand: ByHand| {
            let profiles = Profiles::read(state.path());
            profiles.of(&from, &to, &by_hand.of_way()).and_then(|way| way.tuned.clone())
        };
        assert_eq!(known(by_hand(true, Some(8))), Some(found));
        assert_eq!(known(by_hand(false, None)), None);
    }

    #[test]
    fn a_profile_holds_no_names_and_survives_what_cannot_be_read() {
        let state = tempfile::tempdir().unwrap();
        let (from, to) = (From::Local(vec![state.path().join("secret-project")]), To::Null);
        let probed = crate::predict::tests::probed(unix_seconds());
        let nothing = ByHand::default();
        Profiles::probed(state.path(), &from, &to, &nothing, probed);
        let text = std::fs::read_to_string(state.path().join(NAME)).unwrap();
        assert!(!text.contains("secret") && !text.contains("tmp"), "{text}");
        assert!(Profiles::read(state.path()).of(&from, &to, &nothing).is_some());
        assert!(Profiles::read(state.path()).of(&From::Zero(1), &to, &nothing).is_none());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
        for bad in ["", "{", "null", "{\"salt\":[1],\"history\":{}}"] {
            std::fs::write(state.path().join(NAME), bad).unwrap();
            assert!(Profiles::read(state.path()).of(&from, &to, &nothing).is_none(), "{bad}");
        }
    }
}
