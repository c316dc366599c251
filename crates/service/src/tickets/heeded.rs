//! Tickets as a daemon heeds them while they are made and taken back.
//!
//! 1. It looks at their directory when somebody comes whom it does not know, and about four times a second, and reads
//!    it again if it changed: of that what is new. So a directory of many tickets costs a look at one entry.
//! 2. The file of a ticket is looked at when a session begins with it, each time that something is opened or asked in
//!    one, and about four times a second meanwhile.
//!
//! What cannot be looked at for now (a disk that failed, a directory that is closed) lets nobody in anew, and goes by
//! what was known of it: it ends when that expires. One looks at a time, and who waits for that has what was known a
//! second later.

use super::guests::{Guest, Guests};
use super::issuers::{Issuers, NotTaken};
use super::vouched::{AllVouched, Vouched, known, vouches_for_nobody};
use super::{
    OWNER, READ, Record, SERVE, Standing, TICKETS_MAX, at, directory_of, names, path_of, read, used_at,
    uses_of,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Fingerprint, Register, Token};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::share::{Share, Total};
use thalweg_mover::run::steer::Rate;
use thalweg_sys::{clock, machine};
use thalweg_wire::hello::Answer;
use thalweg_wire::message::Vouch;

/// A directory that changed less than so long ago may change again and look the same: file systems have coarse clocks.
const SETTLED: Duration = Duration::from_secs(2);
/// Between two looks at a directory that did not change, while a file in it cannot be looked at.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// For so long somebody waits for a look of others: on a disk that hangs it takes as long as that does.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// So often a token is checked anew where the rules become others meanwhile, which they do at a reload.
const CHECKS_MAX: usize = 3;

/// What tells a file, or the list of names in a directory, from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it would be another, had something changed since.
    fn is_settled(&self, now: Duration) -> bool {
        let changed = Duration::new(u64::try_from(self.changed.0).unwrap_or(0), 0);
        now.saturating_sub(changed) >= SETTLED
    }
}

/// See the module.
#[derive(Debug)]
pub struct Tickets {
    state: PathBuf,
    directory: PathBuf,
    owner: Arc<Record>,
    known: Mutex<Known>,
    looking: Mutex<Looking>,
    /// A look is over.
    looked: Condvar,
    /// What sessions have a share of, by the tickets with a limit that were used; of tokens also by the limit, as rules
    /// may give one holder several.
    totals: Mutex<HashMap<(String, Option<u64>), Limited>>,
    /// Whose tokens are taken besides, replaced as a whole. The lock of the guests may be held when this one is taken,
    /// and never the other way round.
    issuers: Mutex<Option<Arc<Issuers>>>,
    /// Who came with one.
    guests: Guests,
    /// For whom somebody vouched.
    vouched: AllVouched,
}

/// The limit of a ticket, and what all its sessions share of it.
type Limited = (Arc<Rate>, Arc<Total>);

/// Who looks at the directory: one at a time.
#[derive(Debug, Default)]
struct Looking {
    /// Looks that ever began.
    begun: u64,
    /// The last of them is not over.
    is_under_way: bool,
    /// When it began.
    since: Option<Instant>,
}

/// A look that is under way, until this goes.
struct Look<'a>(&'a Tickets);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        lock(&self.0.looking).is_under_way = false;
        self.0.looked.notify_all();
    }
}

/// What the directory had when it was read last.
#[derive(Debug, Default)]
struct Known {
    /// What it was then; `None`: it is to be read again.
    stamp: Option<Stamp>,
    files: BTreeMap<String, Seen>,
    by_certificate: HashMap<Fingerprint, String>,
    /// That it cannot be read was told.
    has_trouble: bool,
    /// When a file in it could not be looked at, if all others could.
    lacked_at: Option<Instant>,
}

/// A file as it was read last.
#[derive(Debug, Clone)]
struct Seen {
    stamp: Stamp,
    /// `None`: it is no ticket.
    record: Option<Arc<Record>>,
}

impl Tickets {
    /// Those of the daemon with this state directory. `owner`: the certificate of the ticket that has all rights.
    pub fn new(state: &Path, owner: Fingerprint) -> Arc<Tickets> {
        let tickets = Arc::new(Tickets {
            state: state.to_owned(),
            directory: directory_of(state),
            owner: Arc::new(Record::of(OWNER, owner, 0)),
            known: Mutex::default(),
            looking: Mutex::default(),
            looked: Condvar::new(),
            totals: Mutex::default(),
            issuers: Mutex::default(),
            guests: Guests::default(),
            vouched: AllVouched::default(),
        });
        tickets.look();
        tickets
    }

    /// Has tokens of these taken as well from now on, as they say, and of no others. What is under way with a token to
    /// which they give something else, or nothing, ends as with a ticket that was revoked. `now`: in seconds since
    /// 1970. How many had such tokens; `None` if these are those that there are.
    pub fn take_tokens_of(&self, issuers: Option<Issuers>, now: u64) -> Option<usize> {
        let issuers = {
            let mut there = lock(&self.issuers);
            let issuers = match (issuers, &*there) {
                (Some(issuers), Some(there)) if issuers.is_same(there) => return None,
                (None, None) => return None,
                (Some(issuers), Some(there)) => Some(issuers.with_keys_of(there)),
                (issuers, _) => issuers,
            };
            *there = issuers.map(Arc::new);
            there.clone()
        };
        Some(self.guests.go_by(issuers.as_deref(), now))
    }

    fn issuers(&self) -> Option<Arc<Issuers>> {
        lock(&self.issuers).clone()
    }

    /// Who it is that shows a token with this certificate. What that gives, each session that was begun with one which
    /// gives the same has until this one is over. May ask the provider for its keys, which takes some seconds at most.
    ///
    /// # Errors
    /// Why it gives nothing.
    pub(crate) fn introduce(
        &self,
        certificate: Fingerprint,
        token: &Token,
        now: u64,
    ) -> std::result::Result<Arc<Guest>, NotTaken> {
        for _ in 0..CHECKS_MAX {
            let Some(issuers) = self.issuers() else {
                return Err(NotTaken { answer: Answer::TokenRefused, why: "no tokens are taken".to_owned() });
            };
            let given = issuers.given_by(token, certificate, now)?;
            let is_current = || self.issuers().is_some_and(|there| Arc::ptr_eq(&there, &issuers));
            if let Some(guest) = self.guests.welcome(given, now, is_current)? {
                return Ok(guest);
            }
        }
        let why = "what tokens give was changed while it was checked".to_owned();
        Err(NotTaken { answer: Answer::TokenUnchecked, why })
    }

    /// As if a token had been shown that gives this.
    #[cfg(test)]
    pub(crate) fn welcome(&self, record: Record, now: u64) -> Arc<Guest> {
        self.guests.come(record, now).expect("room")
    }

    /// Whether somebody with this certificate has to show a token before anything else.
    pub(crate) fn is_stranger(&self, certificate: &Fingerprint) -> bool {
        self.takes_tokens() && !self.is_known(certificate)
    }

    /// Whether somebody with this certificate has to show a token on the connection that begins a session: of several
    /// that were shown with it, nobody can say which the session is to go by.
    pub(crate) fn wants_token(&self, certificate: &Fingerprint) -> bool {
        self.takes_tokens() && !self.has_ticket(certificate) && self.vouched.find(certificate).is_none()
    }

    /// Whether somebody with this certificate was ever let in, or is vouched for, as far as is known without a look.
    fn is_known(&self, certificate: &Fingerprint) -> bool {
        self.has_ticket(certificate)
            || self.guests.knows(certificate)
            || self.vouched.find(certificate).is_some()
    }

    /// Whether there is a ticket of this certificate, as far as is known without a look.
    fn has_ticket(&self, certificate: &Fingerprint) -> bool {
        certificate.matches(&self.owner.certificate) || self.name_of(certificate).is_some()
    }

    /// Reads the directory again, if it changed. Where others do, that is waited for, for [`LOOK_WAIT`] at most.
    pub fn look(&self) {
        if let Some(_look) = self.begin_look() {
            self.read_if_changed();
        }
    }

    /// `None` if a look that began after this was called is over, or one before it takes too long.
    fn begin_look(&self) -> Option<Look<'_>> {
        let now = Instant::now();
        let mut looking = lock(&self.looking);
        // On a disk that stands still nobody waits longer who comes later.
        let until = looking.since.filter(|_| looking.is_under_way).unwrap_or(now) + LOOK_WAIT;
        let came = looking.begun;
        while looking.is_under_way {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            looking = self.looked.wait_timeout(looking, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if looking.begun > came {
            return None;
        }
        *looking = Looking { begun: came + 1, is_under_way: true, since: Some(Instant::now()) };
        Some(Look(self))
    }

    fn read_if_changed(&self) {
        let (before, lacked_at) = {
            let known = lock(&self.known);
            (known.stamp, known.lacked_at)
        };
        let is_due = lacked_at.is_some_and(|at| at.elapsed() >= TRY_AGAIN);
        let read = match fs::metadata(&self.directory).map(|metadata| Stamp::of(&metadata)) {
            Ok(stamp) if before == Some(stamp) && !is_due => return,
            Ok(stamp) => self.read_all().map(|(files, trouble)| (Some(stamp), files, trouble)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((None, BTreeMap::new(), None)),
            Err(error) => Err(at(READ, &self.directory, &error)),
        };
        let (stamp, files, trouble) = match read {
            Ok(read) => read,
            // Those that are known are looked at one by one when they are used.
            Err(failure) => return self.tell_trouble(&failure),
        };
        let mut by_certificate = HashMap::new();
        let mut twice = Vec::new();
        for record in files.values().filter_map(|seen| seen.record.as_ref()) {
            if by_certificate.insert(record.certificate, record.name.clone()).is_some() {
                twice.push(record.certificate);
            }
        }
        for certificate in twice {
            if let Some(name) = by_certificate.remove(&certificate) {
                tracing::error!(ticket = %name, "another ticket has the same certificate: neither is taken");
            }
        }
        let stamp = stamp.filter(|stamp| stamp.is_settled(clock::since_1970()));
        let has_trouble = trouble.is_some() && lock(&self.known).has_trouble;
        let lacked_at = trouble.is_some().then(Instant::now);
        *lock(&self.known) = Known { stamp, files, by_certificate, has_trouble, lacked_at };
        if let Some(failure) = trouble {
            self.tell_trouble(&failure);
        }
    }

    /// Once, until all is well again: it is looked several times a second.
    fn tell_trouble(&self, failure: &Failure) {
        let was_told = std::mem::replace(&mut lock(&self.known).has_trouble, true);
        if !was_told {
            tracing::error!(%failure, "not all tickets can be looked at");
        }
    }

    /// What is in the directory now, and why some of it cannot be looked at for now: that stays as it was.
    fn read_all(&self) -> Result<(BTreeMap<String, Seen>, Option<Failure>)> {
        let names = names(&self.directory).map_err(|error| at(READ, &self.directory, &error))?;
        let (mut files, mut trouble) = (BTreeMap::new(), None);
        for name in names.into_iter().take(TICKETS_MAX) {
            let seen = self.look_at(&name).unwrap_or_else(|failure| {
                trouble = Some(failure);
                self.seen(&name)
            });
            files.extend(seen.map(|seen| (name, seen)));
        }
        Ok((files, trouble))
    }

    /// One file as it is now; what did not change is not read again. `None` if it is gone.
    fn look_at(&self, name: &str) -> Result<Option<Seen>> {
        let path = path_of(&self.directory, name);
        let stamp = match fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            metadata => Stamp::of(&metadata.map_err(|error| at(READ, &path, &error))?),
        };
        if let Some(before) = self.seen(name).filter(|before| before.stamp == stamp) {
            return Ok(Some(before));
        }
        match read(&self.directory, name) {
            Ok(record) => Ok(Some(Seen { stamp, record: record.map(Arc::new) })),
            Err(failure) if failure.kind == FailureKind::Usage => {
                tracing::error!(%failure, "this is no ticket");
                Ok(Some(Seen { stamp, record: None }))
            }
            Err(failure) => Err(failure),
        }
    }

    fn seen(&self, name: &str) -> Option<Seen> {
        lock(&self.known).files.get(name).cloned()
    }

    fn name_of(&self, certificate: &Fingerprint) -> Option<String> {
        lock(&self.known).by_certificate.get(certificate).cloned()
    }

    /// Lets a guest in, for whom the client of this session vouches: what that client may itself is not looked at here.
    ///
    /// # Errors
    /// `Permission` where that is a guest itself; `Conflict` for a certificate that is let in already; `Busy` where
    /// there are too many.
    pub(crate) fn vouch(&self, session: &Arc<Session>, vouch: Vouch) -> Result<()> {
        if session.kept_of_ticket::<Vouched>().is_some() {
            return Err(vouches_for_nobody());
        }
        let certificate = Fingerprint(vouch.certificate);
        // Else the holder of that ticket would be less than before.
        if self.has_ticket(&certificate) || self.guests.knows(&certificate) {
            return Err(known());
        }
        self.vouched.add(session, vouch)
    }

    /// The guest with this certificate for whom somebody vouched, if it is let in now. What has a ticket is none.
    pub(crate) fn vouched(&self, certificate: &Fingerprint) -> Option<Arc<Vouched>> {
        if self.has_ticket(certificate) { None } else { self.vouched.find(certificate) }
    }

    /// Forgets guests that are over.
    pub(crate) fn tidy(&self) {
        self.vouched.tidy();
    }

    /// Whether the client of this session vouched for somebody.
    pub(crate) fn has_vouched(&self, session: &Session) -> bool {
        self.vouched.has_of(session)
    }

    /// The ticket of this certificate as it is now; `None` if there is none any more.
    ///
    /// # Errors
    /// What the kernel says if it cannot be looked at.
    fn find(&self, certificate: &Fingerprint) -> Result<Option<Arc<Record>>> {
        if certificate.matches(&self.owner.certificate) {
            return Ok(Some(self.owner.clone()));
        }
        let Some(name) = self.name_of(certificate) else { return Ok(None) };
        let Some(seen) = self.look_at(&name)? else { return Ok(None) };
        let record = seen.record.clone().filter(|record| record.certificate.matches(certificate));
        let mut known = lock(&self.known);
        if record.is_some() {
            known.files.insert(name, seen);
        } else {
            // The next look sees which it is.
            known.stamp = None;
        }
        Ok(record)
    }

    /// The ticket with which something is to be begun at this time, in seconds since 1970.
    ///
    /// # Errors
    /// `Permission` if it is not taken (any more), or cannot be looked at.
    pub fn take(&self, certificate: &Fingerprint, now: u64) -> Result<Arc<Record>> {
        let found = self.find(certificate).map_err(|failure| {
            tracing::debug!(%failure, "a ticket cannot be looked at");
            // What is wrong here is no concern of theirs.
            Failure::new(FailureKind::Permission, SERVE, "the daemon cannot look at its tickets")
        });
        let record = found?.ok_or_else(gone)?;
        record.check(now)?;
        Ok(record)
    }

    /// Whether the ticket of this certificate is taken at this time; `None` if there is none, or nobody can say.
    pub fn standing(&self, certificate: &Fingerprint, now: u64) -> Option<Standing> {
        Some(self.find(certificate).ok()??.standing(now))
    }

    /// Why what is under way with this certificate ends at this time, if it does. While nobody can say, what was known
    /// last says it.
    pub fn ends(&self, certificate: &Fingerprint, now: u64) -> Option<Failure> {
        match self.find(certificate) {
            Ok(Some(record)) => record.ends(now),
            Ok(None) => Some(gone()),
            Err(_) => self.name_of(certificate).and_then(|name| self.seen(&name)?.record?.ends(now)),
        }
    }

    /// Why nothing is begun with this certificate at this time, if that is known.
    pub fn refuses(&self, certificate: &Fingerprint, now: u64) -> Option<Failure> {
        match self.find(certificate) {
            Ok(Some(record)) => record.check(now).err(),
            Ok(None) => Some(gone()),
            Err(_) => None,
        }
    }

    /// A share for a session, of what all of this ticket may move, if that is bounded.
    pub fn share(&self, record: &Record) -> Option<Share> {
        record.bits_per_s_max?;
        let of = (record.name.clone(), record.bits_per_s_max.filter(|_| record.issuer.is_some()));
        let mut totals = lock(&self.totals);
        // Holders of tokens come and go without end.
        if !totals.contains_key(&of) {
            totals.retain(|_, (_, total)| Arc::strong_count(total) > 1);
        }
        let (rate, total) = totals.entry(of).or_insert_with(|| {
            let rate = Arc::<Rate>::default();
            (rate.clone(), Total::new(rate, machine::host_name()))
        });
        rate.set_bits(record.bits_per_s_max);
        Some(total.share())
    }

    /// Notes that a ticket was used. What cannot be noted is not.
    pub fn note_use(&self, name: &str, now: u64) {
        /// Often enough for people.
        const EVERY_S: u64 = 60;
        // One of a clock that was ahead is none.
        let is_recent = |at: u64| (at..at.saturating_add(EVERY_S)).contains(&now);
        if name == OWNER || used_at(&self.state, name).is_some_and(is_recent) {
            return;
        }
        let directory = uses_of(&self.state);
        let noted = fs::create_dir_all(&directory)
            .and_then(|()| fs::OpenOptions::new().create(true).append(true).open(directory.join(name)))
            .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(now)));
        if let Err(error) = noted {
            tracing::debug!(%error, ticket = name, "that a ticket was used is not noted");
        }
    }
}

fn gone() -> Failure {
    let cause = "the ticket is not known any more: ask the operator of the daemon for another";
    Failure::new(FailureKind::Permission, SERVE, cause)
}

impl Register for Tickets {
    fn knows(&self, certificate: &Fingerprint) -> bool {
        if self.is_known(certificate) {
            return true;
        }
        // Made a moment ago. Others are served meanwhile, though this is called within a handshake.
        tokio::task::block_in_place(|| self.look());
        self.name_of(certificate).is_some()
    }

    fn takes_tokens(&self) -> bool {
        lock(&self.issuers).as_ref().is_some_and(|issuers| !issuers.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GRACE_S, Reach, add, all, revoke};
    use super::*;
    use thalweg_mover::failure::Reason;

    const NOW: u64 = 1_800_000_000;

    fn record(name: &str, last: u8) -> Record {
        Record::of(name, Fingerprint([last; 32]), NOW)
    }

    fn state() -> (tempfile::TempDir, Arc<Tickets>) {
        let state = tempfile::tempdir().unwrap();
        let tickets = Tickets::new(state.path(), Fingerprint([0; 32]));
        (state, tickets)
    }

    #[test]
    fn a_daemon_heeds_what_is_made_and_taken_back_while_it_runs() {
        let (state, tickets) = state();
        let take = |last: u8| tickets.take(&Fingerprint([last; 32]), NOW);
        assert_eq!(take(0).unwrap().name, OWNER);
        assert!(!tickets.knows(&Fingerprint([1; 32])) && take(1).is_err());
        add(state.path(), &record("a", 1)).unwrap();
        assert!(tickets.knows(&Fingerprint([1; 32])));
        assert_eq!(take(1).unwrap().name, "a");
        assert!(tickets.ends(&Fingerprint([1; 32]), NOW).is_none());
        revoke(state.path(), "a", NOW).unwrap();
        let why = tickets.ends(&Fingerprint([1; 32]), NOW).unwrap();
        assert!(why.cause.contains("was revoked"), "{why}");
        assert!(tickets.knows(&Fingerprint([1; 32])), "its holder is to hear why");
        assert_eq!(take(1).unwrap_err().kind, FailureKind::Permission);
        assert_eq!(add(state.path(), &record("a", 2)).unwrap_err().kind, FailureKind::Conflict);
        assert_eq!(revoke(state.path(), "b", NOW).unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(revoke(state.path(), "../a", NOW).unwrap_err().kind, FailureKind::NotFound);
        fs::remove_file(path_of(&tickets.directory, "a")).unwrap();
        assert!(tickets.ends(&Fingerprint([1; 32]), NOW).is_some());
    }

    #[test]
    fn one_file_that_is_no_ticket_and_two_of_one_certificate_let_nobody_in_and_keep_nobody_out() {
        let (state, tickets) = state();
        add(state.path(), &record("good", 1)).unwrap();
        add(state.path(), &record("one", 2)).unwrap();
        add(state.path(), &record("two", 2)).unwrap();
        fs::write(path_of(&tickets.directory, "odd"), "{").unwrap();
        fs::create_dir(path_of(&tickets.directory, "directory")).unwrap();
        let knows = |last: u8| tickets.knows(&Fingerprint([last; 32]));
        assert!(knows(1) && !knows(2) && !knows(3));
        let (records, troubles) = all(state.path()).unwrap();
        assert_eq!((records.len(), troubles.len()), (3, 2), "{troubles:?}");
    }

    /// Else each stranger would have all of it looked at.
    #[test]
    fn a_directory_that_settled_is_not_read_again_though_a_file_in_it_cannot_be() {
        let (state, tickets) = state();
        add(state.path(), &record("a", 1)).unwrap();
        // It leads to itself.
        std::os::unix::fs::symlink("odd.json", path_of(&tickets.directory, "odd")).unwrap();
        let is_settled = || lock(&tickets.known).stamp.is_some();
        let until = Instant::now() + Duration::from_secs(60);
        while !is_settled() {
            assert!(Instant::now() < until, "it never is");
            std::thread::sleep(Duration::from_millis(50));
            tickets.look();
        }
        assert!(lock(&tickets.known).lacked_at.is_some(), "one of them cannot be looked at");
        // What is read anew is found here again, and what is not is not.
        lock(&tickets.known).files.clear();
        lock(&tickets.known).lacked_at = Some(until + TRY_AGAIN);
        assert!(!tickets.knows(&Fingerprint([2; 32])) && is_settled());
        assert!(lock(&tickets.known).files.is_empty(), "it was read again");
        // But for now and then: it may be well by then.
        lock(&tickets.known).lacked_at = Instant::now().checked_sub(TRY_AGAIN);
        tickets.look();
        assert!(lock(&tickets.known).files.contains_key("a"));
    }

    #[test]
    fn on_a_disk_that_hangs_who_is_known_comes_in_and_who_is_not_does_not_wait_for_it() {
        let (state, tickets) = state();
        add(state.path(), &record("a", 1)).unwrap();
        assert!(tickets.knows(&Fingerprint([1; 32])));
        let hangs = tickets.begin_look().unwrap();
        assert!(tickets.knows(&Fingerprint([1; 32])) && !tickets.knows(&Fingerprint([2; 32])));
        assert!(tickets.ends(&Fingerprint([1; 32]), NOW).is_none());
        drop(hangs);
        add(state.path(), &record("b", 2)).unwrap();
        assert!(tickets.knows(&Fingerprint([2; 32])));
    }

    /// As on a disk that failed.
    #[test]
    fn while_tickets_cannot_be_looked_at_nobody_comes_in_and_nothing_ends() {
        let (state, tickets) = state();
        let alice = Fingerprint([1; 32]);
        add(state.path(), &record("a", 1)).unwrap();
        assert!(tickets.knows(&alice));
        let away = state.path().join("away");
        fs::rename(&tickets.directory, &away).unwrap();
        fs::write(&tickets.directory, "no directory").unwrap();
        tickets.look();
        assert!(tickets.ends(&alice, NOW).is_none() && tickets.refuses(&alice, NOW).is_none());
        let refused = tickets.take(&alice, NOW).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Permission);
        assert!(refused.cause.contains("cannot look at its tickets"), "{refused}");
        assert!(!tickets.knows(&Fingerprint([2; 32])));
        fs::remove_file(&tickets.directory).unwrap();
        fs::rename(&away, &tickets.directory).unwrap();
        assert!(tickets.take(&alice, NOW).is_ok());
    }

    #[test]
    fn a_ticket_ends_when_it_says_also_while_its_file_cannot_be_looked_at() {
        let (state, tickets) = state();
        let alice = Fingerprint([1; 32]);
        add(state.path(), &Record { expires_at: Some(NOW), ..record("a", 1) }).unwrap();
        assert!(tickets.knows(&alice));
        fs::rename(&tickets.directory, state.path().join("away")).unwrap();
        fs::write(&tickets.directory, "no directory").unwrap();
        assert!(tickets.ends(&alice, NOW + GRACE_S - 1).is_none());
        let why = tickets.ends(&alice, NOW + GRACE_S).unwrap();
        assert!(why.cause.contains("`a` expired on 2027-01-15"), "{why}");
    }

    #[test]
    fn who_came_with_a_token_has_its_rights_until_it_ends_and_longer_with_another() {
        let (state, tickets) = state();
        let alice = Fingerprint([1; 32]);
        let until = |expires_at: u64| {
            let issuer = Some("https://iam.example.org/".to_owned());
            Record { expires_at: Some(expires_at), issuer, ..record("alice@iam", 1) }
        };
        assert!(!tickets.knows(&alice));
        let guest = tickets.welcome(until(NOW), NOW - 1);
        assert!(tickets.knows(&alice) && tickets.take(&alice, NOW - 1).is_err(), "it is no ticket");
        assert!(guest.record().check(NOW - 1).is_ok());
        let refused = guest.record().check(NOW).unwrap_err();
        assert_eq!((refused.kind, refused.reason), (FailureKind::Permission, Reason::TokenNotTaken));
        assert!(refused.cause.contains("https://iam.example.org/"), "{refused}");
        assert!(guest.record().ends(NOW + GRACE_S - 1).is_none());
        assert!(guest.record().ends(NOW + GRACE_S).is_some());
        // Her next tokens, after rights of hers were taken back, do not keep what had these.
        tickets.welcome(Record { reach: Reach::Only(Vec::new()), ..until(NOW + 9000) }, NOW);
        assert!(guest.record().check(NOW).is_err() && guest.record().ends(NOW + GRACE_S).is_some());
        tickets.welcome(until(NOW + 600), NOW);
        assert!(guest.record().check(NOW).is_ok());
        assert!(all(state.path()).unwrap().0.is_empty(), "nothing is kept of it");
        // Without issuers nobody is asked for a token.
        assert!(!tickets.takes_tokens() && !tickets.is_stranger(&Fingerprint([2; 32])));
        let token = Token::from_bytes(b"a.b.c").unwrap();
        assert!(tickets.introduce(Fingerprint([2; 32]), &token, NOW).is_err());
    }

    #[test]
    fn with_other_rules_a_token_ends_to_which_they_give_something_else_and_no_other_does() {
        let (_state, tickets) = state();
        let rules = |groups: &[&str]| {
            let rule = |group: &&str| {
                format!("[[issuer.iam.rule]]\nclaim = \"groups\"\nvalue = \"{group}\"\nexport = [\"data\"]\n")
            };
            let rules: String = groups.iter().map(rule).collect();
            let of = "[issuer.iam]\nissuer = \"https://iam.example.org/\"\naudience = \"data\"\n";
            Issuers::from_text(&format!("{of}{rules}"), |_| Err(String::new())).unwrap()
        };
        assert_eq!(tickets.take_tokens_of(None, NOW), None);
        assert_eq!(tickets.take_tokens_of(Some(rules(&["a", "b"])), NOW), Some(0));
        assert!(tickets.takes_tokens());
        let given = |name: &str, group: &str, last: u8| {
            let claims = serde_json::json!({
                "iss": "https://iam.example.org/", "aud": "data", "sub": name, "groups": [group]
            });
            let issuers = tickets.issuers().unwrap();
            issuers.given_as_by(&claims, Fingerprint([last; 32]), NOW + 600)
        };
        let come = |given| tickets.guests.welcome(given, NOW, || true).unwrap().unwrap();
        let (alice, bob) = (come(given("alice", "a", 1)), come(given("bob", "b", 2)));
        assert_eq!(tickets.take_tokens_of(Some(rules(&["a", "b"])), NOW), None, "they are the same");
        assert_eq!(tickets.take_tokens_of(Some(rules(&["b"])), NOW), Some(1));
        let refused = alice.record().check(NOW).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Permission);
        assert!(refused.cause.contains("`alice@iam` gives something else now, or nothing"), "{refused}");
        assert!(alice.record().ends(NOW).is_some(), "at once");
        assert!(bob.record().check(NOW).is_ok() && bob.record().ends(NOW).is_none());
        assert!(!tickets.knows(&Fingerprint([1; 32])) && tickets.knows(&Fingerprint([2; 32])));
        // What comes by rules that were replaced meanwhile is not let in by those.
        let late = given("carol", "b", 3);
        assert!(tickets.guests.welcome(late, NOW, || false).unwrap().is_none());
        assert!(!tickets.knows(&Fingerprint([3; 32])));
        // She is let in again where they give that again; what ended stays so.
        assert_eq!(tickets.take_tokens_of(Some(rules(&["a", "b"])), NOW), Some(0));
        let again = come(given("alice", "a", 1));
        assert!(again.record().check(NOW).is_ok() && alice.record().check(NOW).is_err());
        assert_eq!(tickets.take_tokens_of(None, NOW), Some(2));
        assert!(!tickets.takes_tokens() && bob.record().check(NOW).is_err());
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let (state, tickets) = state();
        add(state.path(), &record("a", 1)).unwrap();
        tickets.look();
        let kept = |name: &str| lock(&tickets.known).files[name].record.clone().unwrap();
        let before = kept("a");
        add(state.path(), &record("b", 2)).unwrap();
        tickets.look();
        assert!(Arc::ptr_eq(&before, &kept("a")) && kept("b").name == "b");
    }

    #[test]
    fn sessions_of_one_ticket_share_its_limit() {
        let (_state, tickets) = state();
        let limited = Record { bits_per_s_max: Some(8), ..record("a", 1) };
        let (one, two) = (tickets.share(&limited).unwrap(), tickets.share(&limited).unwrap());
        assert!(one.is_of_one_total_with(&two));
        assert_eq!(one.told().map(|told| told.bytes_per_s), Some(1));
        assert!(tickets.share(&record("b", 2)).is_none());
        // Two rules may give one holder two rates, neither of which becomes the other.
        let issuer = Some("https://iam.example.org/".to_owned());
        let of =
            |bits: u64| Record { bits_per_s_max: Some(bits), issuer: issuer.clone(), ..record("c@iam", 3) };
        let (slow, fast) = (tickets.share(&of(8)).unwrap(), tickets.share(&of(16)).unwrap());
        let rate = |share: &Share| share.told().map(|told| told.bytes_per_s);
        assert_eq!((rate(&slow), rate(&fast)), (Some(1), Some(2)));
        // What no session shares any more goes.
        drop((slow, fast));
        let _other = tickets.share(&Record { bits_per_s_max: Some(8), ..record("d", 4) }).unwrap();
        assert_eq!(lock(&tickets.totals).len(), 2);
        assert!(one.is_of_one_total_with(&tickets.share(&limited).unwrap()));
    }

    #[test]
    fn when_a_ticket_was_used_is_noted_beside_it() {
        let (state, tickets) = state();
        assert_eq!(used_at(state.path(), "a"), None);
        tickets.note_use("a", NOW);
        tickets.note_use("a", NOW + 59);
        assert_eq!(used_at(state.path(), "a"), Some(NOW));
        tickets.note_use("a", NOW + 60);
        assert_eq!(used_at(state.path(), "a"), Some(NOW + 60));
        // The clock was ahead.
        tickets.note_use("a", NOW);
        assert_eq!(used_at(state.path(), "a"), Some(NOW));
    }
}
