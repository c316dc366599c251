//! Slots of a server: who has which, and until when.
//!
//! A slot is taken by question, on the control link, and is a lease: it ends when its client leaves it, or [`LEASE`] after
//! the client was last heard of it. So one that was killed, or cut off, frees its place; one whose link comes back in time
//! has it still, in another session too, if it has the same certificate.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_mover::admission::calendar::{Calendar, Promise};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_wire::limits;
use thalweg_wire::message::{LeaseId, Reply, Slot, SlotAsk, SlotTable, SlotTaken, SlotWish};

/// A slot is kept for so long after its client was last heard of it. Clients say it thrice in that time.
pub const LEASE: Duration = Duration::from_secs(15);
/// Slots that one client (one certificate) may have: nobody keeps all others out by number.
const SLOTS_PER_CLIENT: usize = limits::SLOTS_MAX / 4;

/// See the module.
pub struct Slots {
    began: Instant,
    book: Mutex<Book>,
}

struct Book {
    calendar: Calendar,
    leases: HashMap<LeaseId, Lease>,
}

struct Lease {
    client: Fingerprint,
    until: Instant,
    number: u64,
    promise: Promise,
}

impl Slots {
    /// Of a way that carries so many bits a second.
    pub fn new(bits_per_s: u64) -> Slots {
        let book = Book { calendar: Calendar::new(bits_per_s / 8), leases: HashMap::new() };
        Slots { began: Instant::now(), book: Mutex::new(book) }
    }

    /// What is said to `client`, who asks now; `None` where there is nothing to say.
    ///
    /// # Errors
    /// `Busy` with the reason if a slot cannot be promised; `NotFound` for a lease that has ended.
    pub fn answer(&self, client: &Fingerprint, ask: SlotAsk, now: Instant) -> Result<Option<Reply>> {
        let mut book = self.lock();
        book.expire(now);
        let at = u64::try_from(now.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX);
        match ask {
            SlotAsk::Take { wish, instead } => {
                book.take(client, &wish, instead, now, at).map(|slot| Some(Reply::Slot(slot)))
            }
            SlotAsk::Keep(id) => {
                let lease = book.leases.get_mut(&id).filter(|lease| lease.client.matches(client));
                let lease = lease.ok_or_else(ended)?;
                lease.until = now + LEASE;
                let promise = lease.promise;
                Ok(Some(Reply::Slot(book.slot(id, &promise, LEASE, at))))
            }
            SlotAsk::Leave(id) => {
                if book.leases.get(&id).is_some_and(|lease| lease.client.matches(client)) {
                    book.end(&id);
                }
                Ok(None)
            }
            SlotAsk::All => Ok(Some(Reply::Slots(book.table(client, now, at)))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Book {
    fn take(
        &mut self,
        client: &Fingerprint,
        wish: &SlotWish,
        instead: Option<LeaseId>,
        now: Instant,
        at: u64,
    ) -> Result<Slot> {
        let given_up = instead.and_then(|id| {
            let lease = self.leases.get(&id).filter(|lease| lease.client.matches(client))?;
            let (number, promise) = (lease.number, lease.promise);
            self.calendar.release(number);
            Some((id, number, promise))
        });
        let theirs = self.leases.values().filter(|lease| lease.client.matches(client)).count();
        let admitted = match theirs - usize::from(given_up.is_some()) < SLOTS_PER_CLIENT {
            true => self.calendar.admit(wish, at).map_err(|refusal| refusal.to_string()),
            false => Err(format!("this client has {SLOTS_PER_CLIENT} slots, as many as one may have")),
        };
        let mut id = LeaseId::default();
        let random = aws_lc_rs::rand::fill(&mut id)
            .map_err(|_| Failure::new(FailureKind::Internal, "take a slot", "no random numbers"));
        let admitted = admitted
            .map_err(|why| Failure::new(FailureKind::Busy, "take a slot", why))
            .and_then(|promise| random.map(|()| promise));
        match (admitted, given_up) {
            (Ok(promise), given_up) => {
                if let Some((old, ..)) = given_up {
                    self.leases.remove(&old);
                }
                let number = self.calendar.hold(promise);
                let lease = Lease { client: *client, until: now + LEASE, number, promise };
                self.leases.insert(id, lease);
                tracing::info!(client = %client, ?promise, "slot taken");
                Ok(self.slot(id, &promise, LEASE, at))
            }
            (Err(failure), given_up) => {
                if let Some((_, number, promise)) = given_up {
                    self.calendar.restore(number, promise);
                }
                Err(failure)
            }
        }
    }

    fn slot(&self, lease: LeaseId, promise: &Promise, left: Duration, at: u64) -> Slot {
        Slot {
            lease,
            lease_millis: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            period_micros: promise.windows.period,
            length_micros: promise.windows.length,
            opens_micros: promise.windows.opens(at) - at,
            bytes: promise.bytes,
            bytes_per_s: self.calendar.bytes_per_s(),
            worst_micros: promise.worst,
            is_any_time: promise.is_any_time,
        }
    }

    fn table(&self, client: &Fingerprint, now: Instant, at: u64) -> SlotTable {
        let mut leases: Vec<&Lease> = self.leases.values().collect();
        leases.sort_unstable_by_key(|lease| lease.number);
        let taken = leases.into_iter().map(|lease| SlotTaken {
            // Who knows the name of a lease could give up somebody else's in a second session of his.
            slot: self.slot(
                LeaseId::default(),
                &lease.promise,
                lease.until.saturating_duration_since(now),
                at,
            ),
            is_yours: lease.client.matches(client),
        });
        SlotTable { bytes_per_s: self.calendar.bytes_per_s(), slots: taken.collect() }
    }

    fn expire(&mut self, now: Instant) {
        let over: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.until <= now).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| self.end(id));
    }

    fn end(&mut self, id: &LeaseId) {
        if let Some(lease) = self.leases.remove(id) {
            self.calendar.release(lease.number);
            tracing::info!(client = %lease.client, "slot free again");
        }
    }
}

fn ended() -> Failure {
    Failure::new(FailureKind::NotFound, "keep a slot", "its lease has ended")
}

/// What is said where there are none.
pub(crate) fn none() -> Failure {
    let cause = "this server has no slots: it is to be started with --slots";
    Failure::new(FailureKind::Unsupported, "take a slot", cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::Rhythm;

    fn client(number: u8) -> Fingerprint {
        Fingerprint([number; 32])
    }

    fn wish() -> SlotWish {
        SlotWish {
            rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 50_000_000 },
            deadline_micros: 1_000_000,
            ready_ago_micros: 0,
            guard_micros: 0,
        }
    }

    fn take(slots: &Slots, who: u8, instead: Option<LeaseId>, now: Instant) -> Result<Slot> {
        match slots.answer(&client(who), SlotAsk::Take { wish: wish(), instead }, now)? {
            Some(Reply::Slot(slot)) => Ok(slot),
            other => panic!("{other:?}"),
        }
    }

    fn taken(slots: &Slots, now: Instant) -> usize {
        match slots.answer(&client(9), SlotAsk::All, now) {
            Ok(Some(Reply::Slots(table))) => table.slots.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lease_ends_when_it_is_left_or_not_kept() {
        let now = Instant::now();
        let slots = Slots::new(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        let second = take(&slots, 2, None, now).unwrap();
        assert_eq!(take(&slots, 3, None, now).unwrap_err().kind, FailureKind::Busy);
        assert!(slots.answer(&client(1), SlotAsk::Leave(first.lease), now).unwrap().is_none());
        let third = take(&slots, 3, None, now).unwrap();
        let later = now + LEASE - Duration::from_millis(1);
        assert!(slots.answer(&client(2), SlotAsk::Keep(second.lease), later).is_ok());
        let last = now + LEASE;
        assert_eq!(taken(&slots, last), 1);
        let ended = slots.answer(&client(3), SlotAsk::Keep(third.lease), last).unwrap_err();
        assert_eq!(ended.kind, FailureKind::NotFound);
    }

    #[test]
    fn nobody_keeps_or_leaves_what_is_somebody_elses() {
        let now = Instant::now();
        let slots = Slots::new(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        assert!(slots.answer(&client(2), SlotAsk::Keep(first.lease), now).is_err());
        assert!(slots.answer(&client(2), SlotAsk::Leave(first.lease), now).is_ok());
        take(&slots, 2, Some(first.lease), now).unwrap();
        assert_eq!(taken(&slots, now), 2);
    }

    #[test]
    fn a_slot_is_changed_for_another_and_stays_if_there_is_none() {
        let now = Instant::now();
        let slots = Slots::new(1_000_000_000);
        let first = take(&slots, 1, None, now).unwrap();
        take(&slots, 2, None, now).unwrap();
        let moved = take(&slots, 1, Some(first.lease), now).unwrap();
        assert!(slots.answer(&client(1), SlotAsk::Keep(first.lease), now).is_err());
        let larger =
            SlotWish { rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 60_000_000 }, ..wish() };
        let refused =
            slots.answer(&client(1), SlotAsk::Take { wish: larger, instead: Some(moved.lease) }, now);
        assert_eq!(refused.unwrap_err().kind, FailureKind::Busy);
        assert!(slots.answer(&client(1), SlotAsk::Keep(moved.lease), now).is_ok());
        assert_eq!(taken(&slots, now), 2);
    }

    #[test]
    fn one_client_does_not_take_all_by_number() {
        let now = Instant::now();
        let slots = Slots::new(100_000_000_000_000);
        let small = SlotWish { rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 1 }, ..wish() };
        let take = |who| slots.answer(&client(who), SlotAsk::Take { wish: small, instead: None }, now);
        (0..SLOTS_PER_CLIENT).for_each(|_| drop(take(1).unwrap()));
        assert!(take(1).unwrap_err().cause.contains("as many as one may have"));
        assert!(take(2).is_ok());
    }
}
