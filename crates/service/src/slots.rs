//! Slots of a server: who has which, and until when.
//!
//! A slot is taken by question, on the control link, and is a lease: it ends when its client leaves it, or [`LEASE`]
//! after the client was last heard of it. So one that was killed, or cut off, frees its place; one whose link comes
//! back in time has it still, in another session too, if it has the same certificate.
//!
//! While there are slots, what a session sends is taken as [`thalweg_mover::admission::turn`] says: the session that
//! last asked for a slot is its owner's, whatever transfers are in it. A session that is not taken from is held back by
//! TCP; its sockets are offered small windows, so that little is under way when a window opens.

mod asking;

use crate::sessions::Origin;
use asking::Asking;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_mover::admission::calendar::{Calendar, Promise, Refusal};
use thalweg_mover::admission::turn::{self, Lately, Share, Turn};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::PathHints;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::{self, Session};
use thalweg_wire::hello::SessionId;
use thalweg_wire::limits;
use thalweg_wire::message::{LeaseId, Reply, Slot, SlotAsk, SlotTable, SlotTaken};

/// A slot is kept for so long after its client was last heard of it. Clients say it thrice in that time.
pub const LEASE: Duration = Duration::from_secs(15);
/// Slots that one may have (one certificate, one address): nobody keeps all others out by number from there.
const SLOTS_PER_ORIGIN: usize = limits::SLOTS_MAX / 4;
/// How often a sender that is held back looks whether it is its turn, or over: a window may be given back meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A sender that was held back for so long may be let through a little: a sign of life, long before a link counts as
/// stalled.
const HELD_MAX: Duration = Duration::from_secs(1);
/// How often windows are looked for where others were taken meanwhile that are in their way.
const SEARCHES_MAX: usize = 8;
const TAKE_SLOT: &str = "take a slot";

/// Who asks.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// With this certificate, from this address.
    pub origin: Origin,
    /// In this session.
    pub session: &'a SessionId,
}

/// See the module.
pub struct Slots {
    began: Instant,
    /// Leases in the book: with none, nobody needs to look into it.
    taken: AtomicUsize,
    portion_bytes: usize,
    asking: Asking,
    book: Mutex<Book>,
}

struct Book {
    calendar: Calendar,
    leases: HashMap<LeaseId, Lease>,
    settle: Lately,
    spare: Share,
    /// What came without a slot while there were some.
    beside_bytes: u64,
    held: Duration,
    /// Sessions whose sockets are offered small windows.
    narrowed: HashSet<SessionId>,
}

struct Lease {
    origin: Origin,
    session: SessionId,
    until: Instant,
    number: u64,
    promise: Promise,
    share: Share,
    /// What came beyond what its windows carry.
    over_bytes: u64,
}

impl Slots {
    /// Of a way that carries so many bits a second, to a place that was seen to take so long to make durable what
    /// arrived.
    pub fn new(bits_per_s: u64, settle: Duration) -> Slots {
        let bytes_per_s = bits_per_s / 8;
        let mut lately = Lately::default();
        lately.note(settle, Duration::ZERO);
        let book = Book {
            calendar: Calendar::new(bytes_per_s),
            leases: HashMap::new(),
            settle: lately,
            spare: Share::spare(bytes_per_s, 0),
            beside_bytes: 0,
            held: Duration::ZERO,
            narrowed: HashSet::new(),
        };
        let portion_bytes = usize::try_from(turn::portion_bytes(bytes_per_s)).unwrap_or(usize::MAX);
        let (began, taken, asking) = (Instant::now(), AtomicUsize::new(0), Asking::default());
        Slots { began, taken, portion_bytes, asking, book: Mutex::new(book) }
    }

    /// What is said to who asks now; `None` where there is nothing to say.
    ///
    /// # Errors
    /// `Busy` with the reason if a slot cannot be promised; `NotFound` for a lease that has ended.
    pub fn answer(&self, asker: Asker<'_>, ask: SlotAsk, now: Instant) -> Result<Option<Reply>> {
        match ask {
            SlotAsk::Take { wish, instead } => {
                let admit = |calendar: &Calendar, at| calendar.admit(&wish, at);
                self.take(asker, instead, now, admit).map(|slot| Some(Reply::Slot(slot)))
            }
            SlotAsk::Keep(id) => self
                .in_book(now, |book, at| book.keep(asker, &id, now, at))
                .map(|slot| Some(Reply::Slot(slot))),
            SlotAsk::Leave(id) => {
                self.in_book(now, |book, _| book.leave(asker, &id));
                Ok(None)
            }
            SlotAsk::All => {
                let table = self.in_book(now, |book, at| book.table(asker.origin, now, at));
                Ok(Some(Reply::Slots(table)))
            }
        }
    }

    /// Does something in the book, in which nothing is that has ended by `now`.
    fn in_book<T>(&self, now: Instant, act: impl FnOnce(&mut Book, u64) -> T) -> T {
        let at = self.at(now);
        let mut book = self.lock();
        book.expire(now);
        let done = act(&mut book, at);
        self.taken.store(book.leases.len(), Ordering::Release);
        done
    }

    /// A slot by what `admit` finds. It looks in a copy: each portion of each stream needs the book meanwhile.
    fn take(
        &self,
        asker: Asker<'_>,
        instead: Option<LeaseId>,
        now: Instant,
        admit: impl Fn(&Calendar, u64) -> std::result::Result<Promise, Refusal>,
    ) -> Result<Slot> {
        let question = self.asking.begin(asker.origin.client);
        let now = if question.has_waited { Instant::now() } else { now };
        for _ in 0..SEARCHES_MAX {
            let (beside, at) = self.in_book(now, |book, at| (book.beside(asker, instead), at));
            let promise = admit(&beside?, at).map_err(|refusal| busy(refusal.to_string()))?;
            if let Some(slot) = self.in_book(now, |book, at| book.hold(asker, promise, instead, now, at))? {
                return Ok(slot);
            }
        }
        Err(busy("others take slots all the while: ask again".to_owned()))
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// What arrived was durable after so long.
    pub fn note_settled(&self, took: Duration, now: Instant) {
        self.lock().settle.note(took, now.saturating_duration_since(self.began));
    }

    /// Bytes after which it is to be asked again whose turn it is.
    pub fn portion_bytes(&self) -> usize {
        match self.taken.load(Ordering::Acquire) {
            0 => usize::MAX,
            _ => self.portion_bytes,
        }
    }

    /// Called before more is taken of a session, of which `took` bytes came since the last time: waits until it is its
    /// turn. Returns at once where nobody has a slot, and when `is_over`.
    pub fn wait_for_turn(&self, session: &SessionId, took: u64, is_over: impl Fn() -> bool) {
        if self.taken.load(Ordering::Acquire) == 0 {
            return;
        }
        let since = Instant::now();
        let mut took = Some(took);
        loop {
            let now = Instant::now();
            let wait = {
                let mut book = self.lock();
                book.expire(now);
                self.taken.store(book.leases.len(), Ordering::Release);
                let at = self.at(now);
                let came = took.take();
                let held = now.saturating_duration_since(since);
                let mut wait = book.wait(session, came.unwrap_or(0), at);
                let portion = self.portion_bytes as u64;
                if wait.is_some() && held >= HELD_MAX && book.spare.take_if_any(portion, at) {
                    wait = None;
                }
                match wait {
                    Some(micros) => Duration::from_micros(micros),
                    None => {
                        book.held += held;
                        return;
                    }
                }
            };
            if is_over() {
                return;
            }
            std::thread::sleep(wait.min(LOOK_AGAIN));
        }
    }

    /// Has those without a slot offered small windows while there are slots, and what their paths ask for when there
    /// are none any more. Called a few times a second: streams come and go.
    pub fn narrow(&self, sessions: &[Arc<Session>]) {
        if self.taken.load(Ordering::Acquire) == 0 && self.lock().narrowed.is_empty() {
            return;
        }
        let mut book = self.lock();
        book.expire(Instant::now());
        self.taken.store(book.leases.len(), Ordering::Release);
        let owners: HashSet<SessionId> = book.leases.values().map(|lease| lease.session).collect();
        let is_beside = |session: &Session| !owners.is_empty() && !owners.contains(&session.id);
        let streams: usize =
            sessions.iter().filter(|one| is_beside(one)).map(|one| one.streams().len()).sum();
        let bytes = turn::beside_window_bytes(book.calendar.bytes_per_s(), streams);
        let before = std::mem::take(&mut book.narrowed);
        for session in sessions {
            match is_beside(session) {
                true => {
                    session.offer_windows(Some(bytes), &PathHints::default());
                    book.narrowed.insert(session.id);
                }
                false if before.contains(&session.id) => session.offer_windows(None, &session.wanted_path()),
                false => {}
            }
        }
    }

    fn at(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

impl Book {
    /// Bytes came of this session. For how many microseconds nothing more is to be taken of it, if it is not its turn.
    fn wait(&mut self, session: &SessionId, came: u64, at: u64) -> Option<u64> {
        let mut own: Vec<&mut Lease> =
            self.leases.values_mut().filter(|lease| lease.session == *session).collect();
        if own.iter_mut().any(|lease| lease.share.take_if_any(came, at)) {
            return None;
        }
        match own.first_mut() {
            Some(lease) => {
                lease.share.take(came, at);
                lease.over_bytes += came;
            }
            None => self.beside_bytes += came,
        }
        let mine: Vec<u64> = own.iter().map(|lease| lease.number).collect();
        match self.calendar.turn(at, |number| mine.contains(&number)) {
            Turn::Own | Turn::Free => None,
            Turn::Wait(micros) => Some(micros),
        }
    }

    fn keep(&mut self, asker: Asker<'_>, id: &LeaseId, now: Instant, at: u64) -> Result<Slot> {
        let is_theirs = |lease: &&mut Lease| lease.origin.client.matches(&asker.origin.client);
        let lease = self.leases.get_mut(id).filter(is_theirs).ok_or_else(ended)?;
        (lease.until, lease.session) = (now + LEASE, *asker.session);
        lease.origin = asker.origin;
        self.slot(id, at, now).ok_or_else(ended)
    }

    fn leave(&mut self, asker: Asker<'_>, id: &LeaseId) {
        if self.leases.get(id).is_some_and(|lease| lease.origin.client.matches(&asker.origin.client)) {
            self.end(id);
        }
    }

    /// The lease that its client gives up for another, if it is theirs.
    fn given_up(&self, asker: Asker<'_>, instead: Option<LeaseId>) -> Option<LeaseId> {
        let is_theirs = |lease: &Lease| lease.origin.client.matches(&asker.origin.client);
        instead.filter(|id| self.leases.get(id).is_some_and(is_theirs))
    }

    /// The windows that those of one more slot are to be apart from.
    ///
    /// # Errors
    /// `Busy` if who asks has as many as one may have.
    fn beside(&self, asker: Asker<'_>, instead: Option<LeaseId>) -> Result<Calendar> {
        let given_up = self.given_up(asker, instead).and_then(|id| self.leases.get(&id));
        // Who has several tickets takes no more.
        let is_there = |lease: &Lease| lease.origin.source == asker.origin.source;
        let theirs = self.leases.values().filter(|lease| is_there(lease)).count();
        // It may be of another address of theirs.
        if theirs - usize::from(given_up.is_some_and(is_there)) >= SLOTS_PER_ORIGIN {
            return Err(busy(format!("this client has {SLOTS_PER_ORIGIN} slots, as many as one may have")));
        }
        let mut calendar = self.calendar.clone();
        if let Some(lease) = given_up {
            calendar.release(lease.number);
        }
        Ok(calendar)
    }

    /// Takes the windows that were found, and gives up those of `instead`; `None` if others that were taken meanwhile
    /// are in their way.
    ///
    /// # Errors
    /// As [`Book::beside`]; if there are no random numbers.
    fn hold(
        &mut self,
        asker: Asker<'_>,
        promise: Promise,
        instead: Option<LeaseId>,
        now: Instant,
        at: u64,
    ) -> Result<Option<Slot>> {
        if !self.beside(asker, instead)?.has_room_for(&promise) {
            return Ok(None);
        }
        let mut id = LeaseId::default();
        aws_lc_rs::rand::fill(&mut id)
            .map_err(|_| Failure::new(FailureKind::Internal, TAKE_SLOT, "no random numbers"))?;
        if let Some(old) = self.given_up(asker, instead).and_then(|id| self.leases.remove(&id)) {
            self.calendar.release(old.number);
        }
        let number = self.calendar.hold(promise);
        let lease = Lease {
            origin: asker.origin,
            session: *asker.session,
            until: now + LEASE,
            number,
            promise,
            share: Share::of_slot(&promise.windows, self.calendar.bytes_per_s(), at),
            over_bytes: 0,
        };
        self.leases.insert(id, lease);
        let (session, address) = (session::name_of(asker.session), asker.origin.source);
        let (client, address) = (&asker.origin.client, address.map(tracing::field::display));
        tracing::info!(%session, %client, address, ?promise, "slot taken");
        self.slot(&id, at, now).map(Some).ok_or_else(ended)
    }

    fn slot(&mut self, id: &LeaseId, at: u64, now: Instant) -> Option<Slot> {
        let settle_micros = self.settle_micros(at);
        let lease = self.leases.get(id)?;
        let (promise, left) = (&lease.promise, lease.until.saturating_duration_since(now));
        Some(Slot {
            lease: *id,
            lease_millis: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            period_micros: promise.windows.period,
            length_micros: promise.windows.length,
            opens_micros: promise.windows.opens(at) - at,
            bytes: promise.bytes,
            bytes_per_s: self.calendar.bytes_per_s(),
            worst_micros: promise.worst,
            is_any_time: promise.is_any_time,
            settle_micros,
            over_bytes: lease.over_bytes,
        })
    }

    fn settle_micros(&mut self, at: u64) -> u64 {
        let settle = self.settle.worst(Duration::from_micros(at)).as_micros();
        u64::try_from(settle).unwrap_or(u64::MAX).min(limits::SLOT_DEADLINE_MICROS_MAX)
    }

    fn table(&mut self, origin: Origin, now: Instant, at: u64) -> SlotTable {
        let mut ids: Vec<(u64, LeaseId)> =
            self.leases.iter().map(|(id, lease)| (lease.number, *id)).collect();
        ids.sort_unstable();
        let taken = ids.into_iter().filter_map(|(_, id)| {
            let is_yours = self.leases.get(&id)?.origin == origin;
            // A client that knows the name of a lease could give up somebody else's in a second session of its own.
            Some(SlotTaken { slot: Slot { lease: LeaseId::default(), ..self.slot(&id, at, now)? }, is_yours })
        });
        let slots = taken.collect();
        SlotTable {
            bytes_per_s: self.calendar.bytes_per_s(),
            slots,
            settle_micros: self.settle_micros(at),
            beside_bytes: self.beside_bytes,
            held_micros: u64::try_from(self.held.as_micros()).unwrap_or(u64::MAX),
        }
    }

    fn expire(&mut self, now: Instant) {
        let over: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.until <= now).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| self.end(id));
    }

    fn end(&mut self, id: &LeaseId) {
        if let Some(lease) = self.leases.remove(id) {
            self.calendar.release(lease.number);
            let (session, over_bytes) = (session::name_of(&lease.session), lease.over_bytes);
            let (client, address) = (&lease.origin.client, lease.origin.source);
            let address = address.map(tracing::field::display);
            tracing::info!(%session, %client, address, over_bytes, "slot free again");
        }
    }
}

fn busy(why: String) -> Failure {
    Failure::new(FailureKind::Busy, TAKE_SLOT, why)
}

fn ended() -> Failure {
    Failure::new(FailureKind::NotFound, "keep a slot", "its lease has ended")
}

/// What is said where there are none.
pub(crate) fn none() -> Failure {
    let cause = "this server has no slots: it is to be started with --slots";
    Failure::new(FailureKind::Unsupported, TAKE_SLOT, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use thalweg_mover::link::Fingerprint;
    use thalweg_wire::message::{Rhythm, SlotWish};

    fn client(number: u8) -> Origin {
        let address = Ipv4Addr::new(192, 0, 2, number);
        Origin { client: Fingerprint([number; 32]), source: Some(IpAddr::V4(address)) }
    }

    fn wish() -> SlotWish {
        SlotWish {
            rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 50_000_000 },
            deadline_micros: 1_000_000,
            ready_ago_micros: 0,
            guard_micros: 0,
        }
    }

    fn slots(bits_per_s: u64) -> Slots {
        Slots::new(bits_per_s, Duration::ZERO)
    }

    /// Each client in a session of its own.
    fn ask(slots: &Slots, who: u8, ask: SlotAsk, now: Instant) -> Result<Option<Reply>> {
        slots.answer(Asker { origin: client(who), session: &[who; 16] }, ask, now)
    }

    fn take(slots: &Slots, who: u8, instead: Option<LeaseId>, now: Instant) -> Result<Slot> {
        match ask(slots, who, SlotAsk::Take { wish: wish(), instead }, now)? {
            Some(Reply::Slot(slot)) => Ok(slot),
            other => panic!("{other:?}"),
        }
    }

    fn taken(slots: &Slots, now: Instant) -> usize {
        match ask(slots, 9, SlotAsk::All, now) {
            Ok(Some(Reply::Slots(table))) => table.slots.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lease_ends_when_it_is_left_or_not_kept() {
        let now = Instant::now();
        let slots = slots(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        let second = take(&slots, 2, None, now).unwrap();
        assert_eq!(take(&slots, 3, None, now).unwrap_err().kind, FailureKind::Busy);
        assert!(ask(&slots, 1, SlotAsk::Leave(first.lease), now).unwrap().is_none());
        let third = take(&slots, 3, None, now).unwrap();
        assert_eq!(LEASE, Duration::from_secs(15));
        let later = now + LEASE - Duration::from_millis(1);
        assert!(ask(&slots, 2, SlotAsk::Keep(second.lease), later).is_ok());
        let last = now + LEASE;
        assert_eq!(taken(&slots, last), 1);
        let ended = ask(&slots, 3, SlotAsk::Keep(third.lease), last).unwrap_err();
        assert_eq!(ended.kind, FailureKind::NotFound);
    }

    #[test]
    fn nobody_keeps_or_leaves_what_is_somebody_elses() {
        let now = Instant::now();
        let slots = slots(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        assert!(ask(&slots, 2, SlotAsk::Keep(first.lease), now).is_err());
        assert!(ask(&slots, 2, SlotAsk::Leave(first.lease), now).is_ok());
        take(&slots, 2, Some(first.lease), now).unwrap();
        assert_eq!(taken(&slots, now), 2);
    }

    #[test]
    fn a_slot_is_changed_for_another_and_stays_if_there_is_none() {
        let now = Instant::now();
        let slots = slots(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        take(&slots, 2, None, now).unwrap();
        let moved = take(&slots, 1, Some(first.lease), now).unwrap();
        assert!(ask(&slots, 1, SlotAsk::Keep(first.lease), now).is_err());
        let larger =
            SlotWish { rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 60_000_000 }, ..wish() };
        let refused = ask(&slots, 1, SlotAsk::Take { wish: larger, instead: Some(moved.lease) }, now);
        assert_eq!(refused.unwrap_err().kind, FailureKind::Busy);
        assert!(ask(&slots, 1, SlotAsk::Keep(moved.lease), now).is_ok());
        assert_eq!(taken(&slots, now), 2);
    }

    #[test]
    fn who_has_no_slot_waits_in_windows_and_so_does_who_sends_more_than_his_are_for() {
        let now = Instant::now();
        let slots = slots(1_000_000_000);
        // 50 MB: 0.4 s of each second, one behind the other.
        take(&slots, 1, None, now).unwrap();
        take(&slots, 2, None, now).unwrap();
        let mut book = slots.lock();
        let opens = book.calendar.held().next().unwrap().1.windows.offset;
        let (one, stranger) = ([1; 16], [9; 16]);
        let (first, second, between) = (opens + 1000, opens + 500_000, opens + 900_000);
        assert_eq!(book.wait(&stranger, 0, first), Some(399_000));
        assert_eq!(book.wait(&stranger, 3, second), Some(300_000));
        assert_eq!(book.wait(&stranger, 4, between), None);
        // What it said, once on time and once late.
        assert_eq!(book.wait(&one, 50_000_000, opens + 400_000), None);
        assert_eq!(book.wait(&one, 50_000_000, second), None);
        while book.wait(&one, 10_000_000, second).is_none() {}
        assert_eq!(book.wait(&one, 1_000_000, second), Some(300_000));
        assert_eq!((book.wait(&one, 0, between), book.wait(&one, 0, opens + 1_000_001)), (None, None));
        let table = book.table(client(1), now, second);
        assert_eq!(table.beside_bytes, 7);
        assert!(table.slots[0].slot.over_bytes >= 11_000_000, "{table:?}");
        assert_eq!(table.slots[1].slot.over_bytes, 0);
    }

    /// Who asks for what is long looked for would hold up all that is sent in a slot.
    #[test]
    fn windows_are_looked_for_while_others_send_and_again_where_they_were_taken_meanwhile() {
        let now = Instant::now();
        let slots = slots(1_000_000_000);
        let asked = AtomicUsize::new(0);
        let admit = |calendar: &Calendar, at| {
            assert!(slots.book.try_lock().is_ok(), "nobody sends meanwhile");
            let promise = calendar.admit(&wish(), at);
            if asked.fetch_add(1, Ordering::AcqRel) == 0 {
                take(&slots, 2, None, now).unwrap();
            }
            promise
        };
        let asker = Asker { origin: client(1), session: &[1; 16] };
        let slot = slots.take(asker, None, now, admit).unwrap();
        assert_eq!((asked.load(Ordering::Acquire), slots.count()), (2, 2));
        let book = slots.lock();
        let windows: Vec<_> = book.calendar.held().map(|(_, promise)| promise.windows).collect();
        assert!(windows[0].is_apart(&windows[1]), "{slot:?}");
        drop(book);
        // Who takes what was found each time, for ever, is not waited for.
        let full = |_: &Calendar, at| Calendar::new(125_000_000).admit(&wish(), at);
        let refused =
            slots.take(Asker { origin: client(3), session: &[3; 16] }, None, now, full).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(refused.cause.contains("ask again"), "{refused}");
        assert_eq!(slots.count(), 2);
    }

    #[test]
    fn with_no_slot_taken_nobody_waits() {
        let slots = slots(1_000_000_000);
        let now = Instant::now();
        let held = take(&slots, 1, None, now).unwrap();
        ask(&slots, 1, SlotAsk::Leave(held.lease), now).unwrap();
        slots.wait_for_turn(&[9; 16], u64::MAX, || panic!("it waits"));
        assert_eq!(slots.lock().beside_bytes, 0);
    }

    #[test]
    fn a_promise_is_made_with_what_the_disk_took_lately() {
        let now = Instant::now();
        let slots = Slots::new(1_000_000_000, Duration::from_millis(7));
        let first = take(&slots, 1, None, now).unwrap();
        assert_eq!(first.settle_micros, 7000);
        slots.note_settled(Duration::from_millis(90), now);
        match ask(&slots, 1, SlotAsk::Keep(first.lease), now) {
            Ok(Some(Reply::Slot(slot))) => assert_eq!(slot.settle_micros, 90_000),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_client_at_one_address_does_not_take_all_by_number() {
        let now = Instant::now();
        let slots = slots(100_000_000_000_000);
        let small = SlotWish { rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 1 }, ..wish() };
        let take = |who| ask(&slots, who, SlotAsk::Take { wish: small, instead: None }, now);
        assert_eq!(SLOTS_PER_ORIGIN * 4, limits::SLOTS_MAX);
        (0..SLOTS_PER_ORIGIN).for_each(|_| drop(take(1).unwrap()));
        assert!(take(1).unwrap_err().cause.contains("as many as one may have"));
        assert!(take(2).is_ok());
        // Nor by another ticket.
        let other = Asker { origin: Origin { client: client(9).client, ..client(1) }, session: &[9; 16] };
        let more = slots.answer(other, SlotAsk::Take { wish: small, instead: None }, now);
        assert!(more.unwrap_err().cause.contains("as many as one may have"));
        // All who have copies of one ticket have the same certificate.
        let origin = Origin { source: client(3).source, ..client(1) };
        let elsewhere = |ask| slots.answer(Asker { origin, session: &[3; 16] }, ask, now);
        elsewhere(SlotAsk::Take { wish: small, instead: None }).unwrap();
        let Ok(Some(Reply::Slots(table))) = elsewhere(SlotAsk::All) else { panic!("no table") };
        assert_eq!(table.slots.iter().filter(|taken| taken.is_yours).count(), 1);
        assert_eq!(table.slots.len(), SLOTS_PER_ORIGIN + 2);
    }
}
