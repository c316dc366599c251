//! An item as segments on one stream, and back.
//!
//! Copies: the payload goes from where it is into the buffer that is sealed, and at the other end from the buffer in
//! which it was opened into memory of its own, which was that of an earlier one ([`memory`](crate::memory)). It is
//! digested there while it is in the cache.

use crate::failure::{Failure, FailureKind, Result};
use crate::frames::Payload;
use crate::frames::channel::What;
use crate::frames::lane::{entry_of, numbers_of};
use crate::link::FrameBuffer;
use crate::memory::{Bytes, Shelf};
use crate::mutex::lock;
use crate::run::sender::Did;
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Stage, Stopwatch};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{FrameHead, Item, TransferNumber};
use thalweg_wire::{Digest, EntryId};

/// What is on its way on each stream.
#[derive(Default)]
pub struct Outlets(Mutex<BTreeMap<u16, OnStream>>);

/// What goes on one stream.
#[derive(Default)]
struct OnStream {
    /// How often the stream was lost: what an older one left goes nowhere.
    serial: u64,
    going: Option<Going>,
}

/// An item that is being sent.
pub struct Going {
    epoch: u16,
    number: u64,
    head: Vec<u8>,
    payload: Payload,
    sent: usize,
}

impl Going {
    /// A frame.
    ///
    /// # Errors
    /// `Internal` for one that could not have been taken.
    pub fn frame(epoch: u16, number: u64, head: &FrameHead, payload: Payload) -> Result<Going> {
        let mut bytes = Vec::with_capacity(256 + head.metadata.len());
        Item::encode_frame(head, &mut bytes).map_err(|error| internal(&error.to_string()))?;
        Ok(Going { epoch, number, head: bytes, payload, sent: 0 })
    }

    /// What a hub hands out.
    ///
    /// # Errors
    /// As [`Going::frame`].
    pub fn what(epoch: u16, number: u64, what: &What) -> Result<Going> {
        match what {
            What::Frame(held) => Going::frame(epoch, number, &held.head, held.payload.clone()),
            What::Note(item) => {
                let mut head = Vec::new();
                item.encode(&mut head).map_err(|error| internal(&error.to_string()))?;
                Ok(Going { epoch, number, head, payload: Payload::default(), sent: 0 })
            }
        }
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Fills `out`, as far as it goes. Returns how much.
    fn fill(&self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        if let Some(head) = self.head.get(self.sent..) {
            filled = head.len().min(out.len());
            out[..filled].copy_from_slice(&head[..filled]);
        }
        let from = (self.sent + filled).saturating_sub(self.head.len());
        let rest = &self.payload[from.min(self.payload.len())..];
        let more = rest.len().min(out.len() - filled);
        out[filled..filled + more].copy_from_slice(&rest[..more]);
        filled + more
    }
}

impl Outlets {
    /// Sends the next segment on a stream: of the item that goes on it, if it is still wanted, else of what `next` has.
    /// That asks once more, under its own lock, whether the stream is over, before it takes an item for it. `pass`
    /// hears the item's number, where in it the segment begins, and how many bytes it has, and returns when it may go,
    /// or false when the stream is gone before that. A wait for a share ends when `goes_on` says that the lane is over:
    /// then the segment does not go.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn work(
        &self,
        stream: u16,
        transfer: TransferNumber,
        epoch: Option<u16>,
        sink: (&mut FrameBuffer, &mut dyn Outlet, usize),
        accounts: &Accounts,
        (next, pass, goes_on): (
            impl FnOnce(&dyn Outlet) -> Result<Option<Going>>,
            impl FnOnce(&dyn Outlet, u64, usize, usize) -> bool,
            impl Fn() -> bool,
        ),
    ) -> io::Result<Did> {
        let (buffer, outlet, segment_bytes) = sink;
        let (serial, begun) = {
            let mut streams = self.lock();
            if outlet.is_over() {
                return Ok(Did::Nothing(None));
            }
            let on_stream = streams.entry(stream).or_default();
            (on_stream.serial, on_stream.going.take())
        };
        let going = match begun.filter(|going| Some(going.epoch) == epoch) {
            Some(going) => Some(going),
            None => next(&*outlet).map_err(io::Error::other)?,
        };
        let Some(mut going) = going else { return Ok(Did::Nothing(None)) };
        if !pass(&*outlet, going.number, going.sent, segment_bytes.min(going.bytes() - going.sent)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut watch = Stopwatch::start(accounts);
        let bytes = going.fill(&mut buffer.payload_mut()[..segment_bytes]);
        let inner = Inner {
            kind: FrameKind::Segment,
            encoding: Encoding::Raw,
            transfer,
            raw_bytes: bytes as u32,
            entry: entry_of(going.epoch, going.number),
            offset: going.sent as u64,
            digest: Digest::default(),
            is_again: false,
        };
        let mut waits_on = || {
            // As it goes: at a low limit a single wait takes long, and its stream may be lost.
            watch.lap_many(Stage::Limit, 0, 0);
            goes_on()
        };
        if outlet.wait_for_share(bytes as u64, &mut waits_on) {
            if outlet.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !goes_on() {
                return Ok(Did::Over);
            }
            watch.lap(Stage::Limit, bytes as u64);
        }
        outlet.put(buffer, bytes, &inner)?;
        match outlet.books_itself() {
            true => watch.skip(),
            false => watch.lap(Stage::Send, bytes as u64),
        }
        going.sent += bytes;
        if going.sent < going.bytes()
            && let Some(on_stream) = self.lock().get_mut(&stream)
            && on_stream.serial == serial
        {
            on_stream.going = Some(going);
        }
        Ok(Did::Work)
    }

    /// The stream is gone, with what was on its way on it.
    pub fn lost(&self, stream: u16) {
        let mut streams = self.lock();
        let on_stream = streams.entry(stream).or_default();
        (on_stream.serial, on_stream.going) = (on_stream.serial + 1, None);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, OnStream>> {
        lock(&self.0)
    }
}

/// What comes on each connection.
pub struct Inlets {
    arrivals: Mutex<Arrivals>,
    /// Where memory for payloads comes from, and goes when the last who holds one is done.
    shelf: Shelf,
}

/// What comes, and which of it counts: an item that begins again on another connection has the memory of one.
#[derive(Default)]
struct Arrivals {
    coming: BTreeMap<u64, Coming>,
    /// The item that began last on each connection, with its serial, unless it began again on another since.
    begun: BTreeMap<u64, (EntryId, u64)>,
    /// The last serial.
    serial: u64,
}

/// An item that is coming.
struct Coming {
    entry: EntryId,
    serial: u64,
    /// Bytes of its head.
    head: usize,
    /// Bytes of the record so far.
    came: u64,
    /// `None`: nobody waits for it.
    item: Option<Item>,
    payload: Bytes,
    hasher: blake3::Hasher,
}

/// An item that is whole.
pub struct Whole {
    /// The epoch that it was sent in.
    pub epoch: u16,
    /// Its number.
    pub number: u64,
    /// Which of its beginnings this is.
    serial: u64,
    /// What it is.
    pub item: Item,
    /// Its payload.
    pub payload: Payload,
    /// Whether the payload is what the digest says.
    pub is_sound: bool,
}

impl Inlets {
    /// With nothing yet.
    pub fn new(shelf: Shelf) -> Inlets {
        Inlets { arrivals: Mutex::default(), shelf }
    }

    /// Takes a segment. `begin` says whether an item whose head came is wanted. Returns an item that is whole with it.
    ///
    /// # Errors
    /// `Protocol` for segments that no correct sender sends, and what `begin` says.
    pub fn take(
        &self,
        connection: u64,
        inner: &Inner,
        bytes: &[u8],
        accounts: &Accounts,
        begin: impl FnOnce(u16, u64, &Item) -> Result<bool>,
    ) -> Result<Option<Whole>> {
        if inner.kind != FrameKind::Segment || inner.encoding != Encoding::Raw || bytes.is_empty() {
            return Err(protocol("a segment that no frame has"));
        }
        let mut watch = Stopwatch::start(accounts);
        let (epoch, number) = numbers_of(inner.entry);
        let known = self.lock().coming.remove(&connection);
        // What does not go on is gone before memory is had for another.
        let known = known.filter(|coming| coming.entry == inner.entry && coming.came == inner.offset);
        let mut coming = match known {
            Some(coming) => coming,
            None if inner.offset != 0 => {
                return Err(protocol("a segment that does not follow the one before"));
            }
            None => {
                let serial = self.lock().begin(connection, inner.entry);
                Coming::begin((inner.entry, serial), bytes, &self.shelf, |item| begin(epoch, number, item))?
            }
        };
        let payload = if inner.offset == 0 { &bytes[coming.head..] } else { bytes };
        coming.came += bytes.len() as u64;
        if coming.item.is_none() {
            self.lock().keep(connection, coming);
            return Ok(None);
        }
        let expected = coming.item.as_ref().map_or(0, Item::payload_bytes);
        if (coming.payload.len() + payload.len()) as u64 > expected {
            return Err(protocol("a frame is longer than its head says"));
        }
        coming.hasher.update(payload);
        coming.payload.extend(payload);
        watch.lap(Stage::Verify, payload.len() as u64);
        if (coming.payload.len() as u64) < expected {
            self.lock().keep(connection, coming);
            return Ok(None);
        }
        let Some(item) = coming.item else { return Ok(None) };
        let is_sound = match &item {
            Item::Frame(head) => coming.hasher.finalize().as_bytes() == &head.digest.0,
            _ => true,
        };
        let (serial, payload) = (coming.serial, Payload::new(coming.payload));
        Ok(Some(Whole { epoch, number, serial, item, payload, is_sound }))
    }

    /// Whether an item that came whole on this connection did not begin again on another since. Asked under the lock
    /// that items begin under: one that begins after the answer finds this one handed over.
    pub fn is_current(&self, connection: u64, whole: &Whole) -> bool {
        self.lock().is_current(connection, whole.serial)
    }

    /// Nothing more comes on this connection: what of an item came goes.
    pub fn over(&self, connection: u64) {
        let mut arrivals = self.lock();
        arrivals.begun.remove(&connection);
        arrivals.coming.remove(&connection);
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        lock(&self.arrivals)
    }
}

impl Arrivals {
    /// An item begins on a connection, and what came of it on others counts no more. Returns its serial.
    fn begin(&mut self, connection: u64, entry: EntryId) -> u64 {
        self.serial += 1;
        self.begun.retain(|_, (other, _)| *other != entry);
        self.coming.values_mut().filter(|other| other.entry == entry).for_each(Coming::give_up);
        self.begun.insert(connection, (entry, self.serial));
        self.serial
    }

    fn is_current(&self, connection: u64, serial: u64) -> bool {
        self.begun.get(&connection).is_some_and(|(_, last)| *last == serial)
    }

    /// Until more of it comes. It may have begun again elsewhere while a thread had it in hand.
    fn keep(&mut self, connection: u64, mut coming: Coming) {
        if !self.is_current(connection, coming.serial) {
            coming.give_up();
        }
        self.coming.insert(connection, coming);
    }
}

impl Coming {
    fn begin(
        (entry, serial): (EntryId, u64),
        bytes: &[u8],
        shelf: &Shelf,
        is_wanted: impl FnOnce(&Item) -> Result<bool>,
    ) -> Result<Coming> {
        let (item, head) = Item::decode(bytes).map_err(|error| protocol(&error.to_string()))?;
        let (payload, hasher) = (Bytes::default(), blake3::Hasher::new());
        let mut coming = Coming { entry, serial, head, came: 0, item: None, payload, hasher };
        if is_wanted(&item)? {
            let room = shelf.room(usize::try_from(item.payload_bytes()).unwrap_or(usize::MAX));
            coming.payload =
                room.map_err(|_| Failure::new(FailureKind::Space, "receive a frame", "no memory for it"))?;
            coming.item = Some(item);
        }
        Ok(coming)
    }

    /// Nobody waits for it any more: the rest of it is passed over.
    fn give_up(&mut self) {
        (self.item, self.payload) = (None, Bytes::default());
    }
}

fn protocol(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "receive a frame", cause)
}

fn internal(cause: &str) -> Failure {
    Failure::new(FailureKind::Internal, "send a frame", cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::ProducerId;

    const SEGMENT_BYTES: usize = 1000;

    /// Segments of a frame with this sequence.
    fn segments(sequence: u64) -> Vec<(Inner, Vec<u8>)> {
        let payload: Vec<u8> = (0..3 * SEGMENT_BYTES).map(|at| (at as u64 * sequence) as u8).collect();
        let digest = Digest(*blake3::hash(&payload).as_bytes());
        let producer = ProducerId::new("cam").unwrap();
        let head = FrameHead::bare(producer, sequence, payload.len() as u64, digest);
        let mut going = Going::frame(1, sequence, &head, Payload::from(payload)).unwrap();
        let mut all = Vec::new();
        while going.sent < going.bytes() {
            let mut bytes = vec![0; SEGMENT_BYTES];
            let filled = going.fill(&mut bytes);
            bytes.truncate(filled);
            let inner = Inner {
                kind: FrameKind::Segment,
                encoding: Encoding::Raw,
                transfer: TransferNumber(0),
                raw_bytes: filled as u32,
                entry: entry_of(1, sequence),
                offset: going.sent as u64,
                digest: Digest::default(),
                is_again: false,
            };
            going.sent += filled;
            all.push((inner, bytes));
        }
        all
    }

    /// The old one's last segments are taken while the new one brings its first.
    #[test]
    fn a_connection_in_the_place_of_another_mixes_nothing_with_what_the_other_brought() {
        let (inlets, accounts) = (Inlets::new(Shelf::new(1 << 20)), Accounts::default());
        let take = |connection, (inner, bytes): &(Inner, Vec<u8>)| {
            inlets.take(connection, inner, bytes, &accounts, |_, _, _| Ok(true))
        };
        let (old, new) = (segments(7), segments(8));
        assert!(old.len() > 3 && old.len() == new.len());
        let mut whole = Vec::new();
        for (old, new) in old.iter().zip(&new) {
            whole.extend(take(1, old).unwrap());
            whole.extend(take(2, new).unwrap());
        }
        let seen: Vec<_> = whole.iter().map(|whole| (whole.number, whole.is_sound)).collect();
        assert_eq!(seen, [(7, true), (8, true)]);
        assert!(take(1, &old[0]).unwrap().is_none());
        inlets.over(1);
        assert!(inlets.lock().coming.is_empty(), "half of an item takes no memory when nothing follows");
    }

    /// A stream that is dead may still be read when what it carried comes on another one.
    #[test]
    fn an_item_that_begins_again_on_another_connection_holds_memory_there_only() {
        let (inlets, accounts) = (Inlets::new(Shelf::new(1 << 20)), Accounts::default());
        let take = |connection, (inner, bytes): &(Inner, Vec<u8>)| {
            inlets.take(connection, inner, bytes, &accounts, |_, _, _| Ok(true)).unwrap()
        };
        let all = segments(7);
        all[..2].iter().for_each(|segment| assert!(take(1, segment).is_none()));
        assert!(take(2, &all[0]).is_none());
        let held = |connection| inlets.lock().coming.get(&connection).map(|coming| coming.payload.len());
        assert_eq!(held(1), Some(0), "what came there is had once more");
        assert!(held(2) > Some(0));
        // The first one goes on, and brings nothing.
        all[2..].iter().for_each(|segment| assert!(take(1, segment).is_none()));
        let came: Vec<Whole> = all[1..].iter().filter_map(|segment| take(2, segment)).collect();
        assert_eq!(came.iter().map(|whole| (whole.number, whole.is_sound)).collect::<Vec<_>>(), [(7, true)]);
        assert!(inlets.is_current(2, &came[0]));
        // One that is whole and not handed over when it begins again.
        take(3, &all[0]);
        assert!(!inlets.is_current(2, &came[0]));
    }

    /// A thread has the first one in hand while the second one begins.
    #[test]
    fn an_item_that_begins_again_while_a_segment_of_it_is_taken_holds_memory_once() {
        let (inlets, accounts) = (Inlets::new(Shelf::new(1 << 20)), Accounts::default());
        let all = segments(7);
        let (inner, bytes) = &all[0];
        let first = inlets.take(1, inner, bytes, &accounts, |_, _, _| {
            inlets.take(2, inner, bytes, &accounts, |_, _, _| Ok(true)).map(|whole| whole.is_none())
        });
        assert!(first.unwrap().is_none());
        let arrivals = inlets.lock();
        assert!(arrivals.coming[&1].item.is_none() && arrivals.coming[&1].payload.is_empty());
        assert!(arrivals.coming[&2].item.is_some());
    }

    /// A stream that is lost while a segment waits for its window.
    struct Lost;

    impl Outlet for Lost {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            panic!("nothing goes on it any more")
        }
    }

    #[test]
    fn a_segment_whose_stream_is_lost_while_it_waits_does_not_go() {
        let (outlets, accounts) = (Outlets::default(), Accounts::default());
        let mut buffer = FrameBuffer::new(SEGMENT_BYTES).unwrap();
        let going = Going { epoch: 1, number: 7, head: vec![1; 10], payload: Payload::default(), sent: 0 };
        let next = |_: &dyn Outlet| Ok(Some(going));
        let pass = |_: &dyn Outlet, number: u64, sent: usize, bytes: usize| {
            assert_eq!((number, sent, bytes), (7, 0, 10));
            false
        };
        let mut lost = Lost;
        let sink: (&mut FrameBuffer, &mut dyn Outlet, usize) = (&mut buffer, &mut lost, SEGMENT_BYTES);
        let did = outlets.work(0, TransferNumber(0), Some(1), sink, &accounts, (next, pass, || true));
        assert_eq!(did.map(drop).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    /// A stream that is held to a share for a moment, and lost meanwhile or not; how many segments went.
    #[derive(Default)]
    struct Held {
        is_lost: bool,
        is_over: bool,
        went: u32,
    }

    impl Outlet for Held {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            self.went += 1;
            Ok(())
        }

        fn is_over(&self) -> bool {
            self.is_over
        }

        fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
            assert_eq!(bytes, 10);
            std::thread::sleep(std::time::Duration::from_millis(1));
            goes_on();
            self.is_over = self.is_lost;
            true
        }
    }

    #[test]
    fn a_wait_for_a_share_is_booked_and_ends_with_the_stream_and_with_the_lane() {
        let sends = |held: &mut Held, goes_on: bool| {
            let (outlets, accounts) = (Outlets::default(), Accounts::default());
            let mut buffer = FrameBuffer::new(SEGMENT_BYTES).unwrap();
            let (head, payload) = (vec![1; 10], Payload::default());
            let going = Going { epoch: 1, number: 7, head, payload, sent: 0 };
            let next = |_: &dyn Outlet| Ok(Some(going));
            let asks = (next, |_: &dyn Outlet, _, _, _| true, || goes_on);
            let sink: (&mut FrameBuffer, &mut dyn Outlet, usize) = (&mut buffer, held, SEGMENT_BYTES);
            let did = outlets.work(0, TransferNumber(0), Some(1), sink, &accounts, asks);
            let rows = accounts.rows();
            let row = rows.iter().find(|row| row.stage == Stage::Limit as u8).expect("it waited");
            assert!(row.busy_nanos > 0);
            (did, row.bytes, row.items)
        };
        let mut held = Held::default();
        assert!(matches!(sends(&mut held, true), (Ok(Did::Work), 10, 1)));
        assert!(matches!(sends(&mut held, false), (Ok(Did::Over), 0, 0)));
        assert_eq!(held.went, 1);
        let mut lost = Held { is_lost: true, ..Held::default() };
        assert!(matches!(sends(&mut lost, true), (Err(_), 0, 0)));
        assert_eq!(lost.went, 0);
    }
}
