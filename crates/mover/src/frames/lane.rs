//! Items in order over streams that overtake each other, with a bounded number of bytes under way.
//!
//! The sending end keeps each item until it is told that it was taken. The receiving end says where it stands, once for
//! each link, in an *epoch*; nothing is sent before, and what an older epoch sent is ignored. An item travels whole on
//! one stream; when that breaks, the item goes on another.

use super::protocol;
use crate::failure::{Failure, FailureKind, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thalweg_wire::EntryId;
use thalweg_wire::message::Item;

/// What an item takes besides its payload and metadata.
const ITEM_BYTES: u64 = 256;
/// An epoch stands in the upper bits of a segment's entry.
const EPOCH_SHIFT: u32 = 48;

/// What an item counts for in windows and memory.
pub fn cost(payload_bytes: u64, metadata_bytes: usize) -> u64 {
    payload_bytes + metadata_bytes as u64 + ITEM_BYTES
}

/// The same of an item.
pub(crate) fn cost_of(item: &Item) -> u64 {
    match item {
        Item::Frame(head) => cost(head.payload_bytes, head.metadata.len()),
        Item::GroupSet(set) => ITEM_BYTES + size_of_val(&set.missing[..]) as u64,
        _ => ITEM_BYTES,
    }
}

/// Epoch and number as the entry of a segment.
pub fn entry_of(epoch: u16, number: u64) -> EntryId {
    EntryId(u64::from(epoch) << EPOCH_SHIFT | number)
}

/// The reverse.
pub(crate) fn numbers_of(entry: EntryId) -> (u16, u64) {
    ((entry.0 >> EPOCH_SHIFT) as u16, entry.0 & ((1 << EPOCH_SHIFT) - 1))
}

/// How much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Bytes, as [`cost`] counts them; one larger item may be alone.
    pub bytes: u64,
    /// Items.
    pub items: u32,
}

/// The sending end.
#[derive(Debug)]
pub struct Outgoing<T> {
    window: Window,
    epoch: Option<u16>,
    items: VecDeque<Entry<T>>,
    /// Number of the first item that is kept.
    first: u64,
    unsent: BTreeSet<u64>,
    kept_bytes: u64,
    /// Of all items that were ever pushed.
    pushed_bytes: u64,
    again: u64,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    bytes: u64,
    /// Bytes of all that was pushed before.
    at: u64,
    /// The stream that it was sent on last.
    stream: Option<u16>,
    /// It went out, maybe on a stream that broke.
    was_sent: bool,
    damaged: u32,
}

impl<T> Outgoing<T> {
    /// Nothing to send; the first item will have number `first`.
    pub fn new(window: Window, first: u64) -> Self {
        Outgoing {
            window,
            epoch: None,
            items: VecDeque::new(),
            first,
            unsent: BTreeSet::new(),
            kept_bytes: 0,
            pushed_bytes: 0,
            again: 0,
        }
    }

    /// From now on so much may be under way. What is kept beyond waits until what is before it was taken.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// What may be under way.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether one more item of this cost may be kept.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.items.is_empty()
            || (self.kept_bytes + bytes <= self.window.bytes && self.items.len() < self.window.items as usize)
    }

    /// Keeps an item, and returns its number. There must be room.
    pub fn push(&mut self, item: T, bytes: u64) -> u64 {
        let number = self.end();
        self.kept_bytes += bytes;
        let at = self.pushed_bytes;
        self.pushed_bytes += bytes;
        self.items.push_back(Entry { item, bytes, at, stream: None, was_sent: false, damaged: 0 });
        self.unsent.insert(number);
        number
    }

    /// The next item for a stream, once the other end stands: number and epoch. It counts as sent.
    pub fn next(&mut self, stream: u16) -> Option<(u64, u16)> {
        let epoch = self.epoch?;
        let number = *self.unsent.first()?;
        if !self.is_in_window(number) {
            return None;
        }
        self.unsent.remove(&number);
        if let Some(entry) = self.entry_mut(number) {
            entry.stream = Some(stream);
            entry.was_sent = true;
        }
        Some((number, epoch))
    }

    /// Whether an item and all before it that are kept may be under way together; the first may always.
    fn is_in_window(&self, number: u64) -> bool {
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let (Some(first), Some(last)) = (self.items.front(), self.items.get(place)) else { return false };
        let bytes = last.at + last.bytes - first.at;
        place == 0 || (bytes <= self.window.bytes && place < self.window.items as usize)
    }

    /// Takes back that it was sent: it could not be had yet.
    pub fn put_back(&mut self, number: u64) {
        if let Some(entry) = self.entry_mut(number) {
            entry.stream = None;
            self.unsent.insert(number);
        }
    }

    /// An item that is kept.
    pub fn item(&self, number: u64) -> Option<&T> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get(at).map(|entry| &entry.item)
    }

    /// The same, to be changed.
    pub fn item_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entry_mut(number).map(|entry| &mut entry.item)
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry<T>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get_mut(at)
    }

    /// What was sent on this stream and not taken may be lost.
    pub fn stream_lost(&mut self, stream: u16) {
        for (number, entry) in (self.first..).zip(&mut self.items) {
            if entry.stream == Some(stream) {
                entry.stream = None;
                self.unsent.insert(number);
                self.again += 1;
            }
        }
    }

    /// There is no link.
    pub fn unlink(&mut self) {
        self.epoch = None;
    }

    /// The other end stands: in this epoch, and wants everything from `next` on.
    ///
    /// # Errors
    /// `Protocol` for what we have no more, or never had.
    pub fn stand(&mut self, epoch: u16, next: u64) -> Result<()> {
        if next < self.first || next > self.end() {
            return Err(protocol("the other end stands where there is nothing"));
        }
        self.again += self.items.iter().filter(|entry| entry.stream.is_some()).count() as u64;
        self.items.iter_mut().for_each(|entry| entry.stream = None);
        self.unsent = (next..self.end()).collect();
        self.again = self.again.saturating_sub(next - self.first);
        self.epoch = Some(epoch);
        Ok(())
    }

    /// All below `next` was taken; they are handed back in order.
    ///
    /// # Errors
    /// `Protocol` for what was not sent.
    pub fn taken(&mut self, next: u64) -> Result<Vec<T>> {
        let count = usize::try_from(next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if next > self.end() || self.items.iter().take(count).any(|entry| !entry.was_sent) {
            return Err(protocol("items were taken that were not sent"));
        }
        // What went out on a stream that broke may have arrived all the same.
        self.unsent = self.unsent.split_off(&next);
        let mut gone = Vec::new();
        while self.first < next
            && let Some(entry) = self.items.pop_front()
        {
            self.first += 1;
            self.kept_bytes -= entry.bytes;
            gone.push(entry.item);
        }
        Ok(gone)
    }

    /// This item came damaged.
    ///
    /// # Errors
    /// `Damage` when it did so too often.
    pub fn damaged(&mut self, number: u64) -> Result<()> {
        let Some(entry) = self.entry_mut(number) else { return Ok(()) };
        entry.damaged += 1;
        entry.stream = None;
        if entry.damaged > super::DAMAGED_MAX {
            return Err(damage());
        }
        self.unsent.insert(number);
        self.again += 1;
        Ok(())
    }

    /// The other end begins anew with number 0: what was not taken is sent again.
    pub fn restart(&mut self) {
        self.epoch = None;
        self.first = 0;
        self.unsent = (0..self.items.len() as u64).collect();
        self.items.iter_mut().for_each(|entry| (entry.stream, entry.was_sent) = (None, false));
    }

    /// Takes everything out that was not taken, in order.
    pub fn drain(&mut self) -> Vec<T> {
        self.first = self.end();
        self.unsent.clear();
        self.kept_bytes = 0;
        self.items.drain(..).map(|entry| entry.item).collect()
    }

    /// The epoch that the other end stands in.
    pub fn epoch(&self) -> Option<u16> {
        self.epoch
    }

    /// Number of the first item that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next item to be pushed.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Bytes that are kept.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Items that are kept, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|entry| &entry.item)
    }

    /// Items sent again.
    pub fn again(&self) -> u64 {
        self.again
    }
}

/// The receiving end. `P` is what comes with an item.
#[derive(Debug)]
pub struct Incoming<P> {
    window: Window,
    /// The other end has no more than this under way.
    sends_bytes: u64,
    epoch: u16,
    /// The first that did not come in order.
    next: u64,
    ready: BTreeMap<u64, (Item, P)>,
    /// Of these the first bytes came: what they count for, and the set that a frame is of.
    begun: BTreeMap<u64, (u64, Option<u64>)>,
    /// What came and was not taken, begun ones included.
    held_bytes: u64,
    held_items: u32,
    taken: u64,
    told: u64,
    untold_bytes: u64,
    /// Items that came damaged since the last sound one.
    damaged: u32,
}

impl<P> Incoming<P> {
    /// Nothing came yet; the first item shall be `next`.
    pub fn new(window: Window, next: u64) -> Self {
        Incoming {
            window,
            sends_bytes: window.bytes,
            epoch: 0,
            next,
            ready: BTreeMap::new(),
            begun: BTreeMap::new(),
            held_bytes: 0,
            held_items: 0,
            taken: next,
            told: next,
            untold_bytes: 0,
            damaged: 0,
        }
    }

    /// As new, but its epochs go on behind `epoch`.
    pub fn resumed(window: Window, next: u64, epoch: u16) -> Self {
        Incoming { epoch, ..Incoming::new(window, next) }
    }

    /// Stands anew, on a new link: epoch and the number to go on with. What overtook others is wanted again.
    pub fn stand(&mut self) -> (u16, u64) {
        // Of one that is so old nothing is under way any more.
        self.epoch = self.epoch.wrapping_add(1);
        let out_of_order: u64 = self.ready.range(self.next..).map(|(_, (item, _))| cost_of(item)).sum();
        let begun: u64 = self.begun.values().map(|(bytes, _)| bytes).sum();
        self.held_bytes -= out_of_order + begun;
        self.held_items -= (self.ready.len() + self.begun.len()) as u32;
        self.ready.clear();
        self.begun.clear();
        (self.epoch, self.next)
    }

    /// The other end has a smaller window: by that it is told what was taken, or it would wait for the word with
    /// nothing under way.
    pub fn set_sends(&mut self, bytes: u64) {
        self.sends_bytes = bytes.min(self.window.bytes);
    }

    /// What the other end has under way at most.
    pub fn sends_bytes(&self) -> u64 {
        self.sends_bytes
    }

    /// The first bytes of an item came: whether the rest is wanted.
    ///
    /// # Errors
    /// `Protocol` for more than the window.
    pub fn begin(&mut self, epoch: u16, number: u64, item: &Item) -> Result<bool> {
        if epoch != self.epoch || number < self.next || self.ready.contains_key(&number) {
            return Ok(false);
        }
        if let Some((bytes, _)) = self.begun.remove(&number) {
            self.held_bytes -= bytes;
            self.held_items -= 1;
        }
        let bytes = cost_of(item);
        let fits = self.held_bytes + bytes <= self.window.bytes && self.held_items < self.window.items;
        if number >= self.next + u64::from(self.window.items) || !(self.held_items == 0 || fits) {
            return Err(protocol("more is under way than the window"));
        }
        self.begun.insert(number, (bytes, set_of(item)));
        self.held_bytes += bytes;
        self.held_items += 1;
        Ok(true)
    }

    /// An item that was begun is whole and sound. Another than began last with its number is not waited for: room is
    /// kept for that one alone.
    pub fn arrived(&mut self, epoch: u16, number: u64, item: Item, payload: P) {
        let begun = (cost_of(&item), set_of(&item));
        if epoch == self.epoch && self.begun.get(&number) == Some(&begun) {
            self.begun.remove(&number);
            self.damaged = 0;
            self.ready.insert(number, (item, payload));
        }
    }

    /// An item that was begun is damaged. False: nobody waits for it.
    ///
    /// # Errors
    /// `Damage` when nothing sound comes any more.
    pub fn damaged(&mut self, epoch: u16, number: u64) -> Result<bool> {
        if epoch != self.epoch {
            return Ok(false);
        }
        let Some((bytes, _)) = self.begun.remove(&number) else { return Ok(false) };
        self.held_bytes -= bytes;
        self.held_items -= 1;
        self.damaged += 1;
        if self.damaged > super::DAMAGED_MAX {
            return Err(damage());
        }
        Ok(true)
    }

    /// The next item in order, if it is there.
    pub fn peek(&self) -> Option<&Item> {
        self.ready.get(&self.next).map(|(item, _)| item)
    }

    /// Takes it out. It counts as held until it is [`Incoming::take`]n.
    pub fn pop(&mut self) -> Option<(u64, Item, P)> {
        let (item, payload) = self.ready.remove(&self.next)?;
        self.next += 1;
        Some((self.next - 1, item, payload))
    }

    /// An item of this cost, and all before it, are taken: they come in order.
    pub fn take(&mut self, number: u64, bytes: u64) {
        self.taken = number + 1;
        self.held_bytes -= bytes;
        self.held_items -= 1;
        self.untold_bytes += bytes;
    }

    /// What to tell of that: when enough was taken, or whatever there is.
    pub fn tell(&mut self, whatever: bool) -> Option<u64> {
        let untold = self.taken - self.told;
        let is_due = untold >= u64::from(self.window.items / 4).clamp(1, UNTOLD_ITEMS_MAX)
            || self.untold_bytes >= self.sends_bytes / 8;
        if untold == 0 || !(is_due || whatever) {
            return None;
        }
        (self.told, self.untold_bytes) = (self.taken, 0);
        Some(self.taken)
    }

    /// The first number that is not taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The epoch it stands in.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The first number that did not come in order.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Items that are there in order, and were not popped, at most.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Whether a frame of this set came, or begins to, and was not popped.
    pub fn has_of_set(&self, set: u64) -> bool {
        let mut ready = self.ready.values().map(|(item, _)| set_of(item));
        ready.any(|of| of == Some(set)) || self.begun.values().any(|&(_, of)| of == Some(set))
    }

    /// Bytes that came and were not taken.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

fn set_of(item: &Item) -> Option<u64> {
    match item {
        Item::Frame(head) => head.set.map(|(set, _)| set),
        _ => None,
    }
}

fn damage() -> Failure {
    Failure::new(FailureKind::Damage, "move frames", "frames come damaged again and again")
}

/// Items that are taken before it is told, at most: with small frames, one message for so many.
const UNTOLD_ITEMS_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::Digest;
    use thalweg_wire::message::{FrameHead, ProducerId};

    fn lane() -> (Outgoing<u32>, Incoming<()>) {
        let window = Window { bytes: 2000, items: 4 };
        (Outgoing::new(window, 0), Incoming::new(window, 0))
    }

    fn stand(outgoing: &mut Outgoing<u32>, incoming: &mut Incoming<()>) {
        let (epoch, next) = incoming.stand();
        outgoing.stand(epoch, next).unwrap();
    }

    fn carry(incoming: &mut Incoming<()>, number: u64, epoch: u16) {
        if incoming.begin(epoch, number, &Item::End).unwrap() {
            incoming.arrived(epoch, number, Item::End, ());
        }
    }

    #[test]
    fn items_come_in_order_whatever_overtakes_and_none_twice() {
        let (mut outgoing, mut incoming) = lane();
        assert_eq!(outgoing.next(0), None, "nobody stands there");
        for item in 0..3 {
            outgoing.push(item, ITEM_BYTES);
        }
        stand(&mut outgoing, &mut incoming);
        let sent: Vec<_> = (0..3).map(|stream| outgoing.next(stream).unwrap()).collect();
        for &(number, epoch) in sent.iter().rev() {
            carry(&mut incoming, number, epoch);
        }
        carry(&mut incoming, 1, 1);
        let came: Vec<u64> = std::iter::from_fn(|| incoming.pop().map(|(number, ..)| number)).collect();
        assert_eq!(came, [0, 1, 2]);
        came.iter().for_each(|&number| incoming.take(number, ITEM_BYTES));
        assert_eq!(outgoing.taken(incoming.tell(true).unwrap()).unwrap(), [0, 1, 2]);
        assert_eq!((outgoing.kept_bytes(), incoming.held_bytes()), (0, 0));
    }

    #[test]
    fn after_65535_links_epochs_begin_again() {
        let mut incoming: Incoming<()> = Incoming::resumed(Window { bytes: 100, items: 4 }, 7, u16::MAX);
        assert_eq!(incoming.stand(), (0, 7));
        assert_eq!(incoming.stand(), (1, 7));
    }

    #[test]
    fn a_new_epoch_repeats_what_is_missing_and_ignores_the_old_one() {
        let (mut outgoing, mut incoming) = lane();
        for item in 0..3 {
            outgoing.push(item, ITEM_BYTES);
        }
        stand(&mut outgoing, &mut incoming);
        let (first, old) = outgoing.next(0).unwrap();
        carry(&mut incoming, first, old);
        let (_, second) = (outgoing.next(0), outgoing.next(1).unwrap());
        carry(&mut incoming, second.0, old);
        incoming.pop().unwrap();
        stand(&mut outgoing, &mut incoming);
        carry(&mut incoming, 1, old);
        assert_eq!(incoming.pop(), None);
        assert_eq!(outgoing.next(0).unwrap().0, 1, "what overtook is sent again too");
        assert_eq!(outgoing.next(0).unwrap().0, 2);
    }

    #[test]
    fn a_stream_that_breaks_gives_back_what_it_carried() {
        let (mut outgoing, mut incoming) = lane();
        for item in 0..2 {
            outgoing.push(item, ITEM_BYTES);
        }
        stand(&mut outgoing, &mut incoming);
        outgoing.next(7);
        outgoing.next(8);
        outgoing.stream_lost(7);
        assert_eq!(outgoing.next(8).unwrap().0, 0);
        assert_eq!(outgoing.again(), 1);
    }

    #[test]
    fn more_than_the_window_is_a_breach_and_one_large_item_is_not() {
        let (mut outgoing, mut incoming) = lane();
        assert!(outgoing.has_room(1 << 40));
        outgoing.push(0, 1 << 40);
        assert!(!outgoing.has_room(1));
        incoming.stand();
        for number in 0..4 {
            assert!(incoming.begin(1, number, &Item::End).unwrap());
        }
        assert_eq!(incoming.begin(1, 4, &Item::End).unwrap_err().kind, FailureKind::Protocol);
    }

    #[test]
    fn an_item_that_begins_again_smaller_takes_and_gives_back_the_room_of_the_smaller_one() {
        let (_, mut incoming) = lane();
        let (epoch, _) = incoming.stand();
        let producer = ProducerId::new("cam").unwrap();
        let of = |bytes| Item::Frame(Box::new(FrameHead::bare(producer.clone(), 0, bytes, Digest([0; 32]))));
        let (large, small) = (of(1 << 30), of(3));
        assert!(incoming.begin(epoch, 0, &large).unwrap());
        assert!(incoming.begin(epoch, 0, &small).unwrap());
        incoming.arrived(epoch, 0, large, ());
        assert_eq!(incoming.pop(), None, "there is no room for that one");
        incoming.arrived(epoch, 0, small, ());
        let (number, item, ()) = incoming.pop().unwrap();
        incoming.take(number, cost_of(&item));
        assert_eq!((number, item.payload_bytes(), incoming.held_bytes()), (0, 3, 0));
    }

    #[test]
    fn a_window_that_became_smaller_holds_for_what_was_kept_before() {
        let (mut outgoing, _) = lane();
        for item in 0..4 {
            outgoing.push(item, 500);
        }
        // Another process, that asks for less.
        let window = Window { bytes: 1000, items: 4 };
        let mut incoming = Incoming::new(window, 0);
        outgoing.restart();
        outgoing.set_window(window);
        stand(&mut outgoing, &mut incoming);
        let mut sent = Vec::new();
        for taken in 1..=3 {
            sent.extend(std::iter::from_fn(|| outgoing.next(0).map(|(number, _)| number)));
            assert_eq!(sent, (0..=taken).collect::<Vec<_>>(), "two at a time");
            assert!(!outgoing.has_room(500));
            outgoing.taken(taken).unwrap();
        }
        assert!(outgoing.has_room(500));
    }

    #[test]
    fn what_was_not_sent_cannot_be_taken() {
        let (mut outgoing, mut incoming) = lane();
        outgoing.push(0, 1);
        assert!(outgoing.taken(1).is_err());
        assert!(outgoing.stand(1, 2).is_err());
        stand(&mut outgoing, &mut incoming);
        assert!(outgoing.taken(1).is_err());
        outgoing.next(0);
        assert_eq!(outgoing.taken(1).unwrap(), [0]);
        assert!(outgoing.stand(2, 0).is_err(), "it is gone");
    }

    #[test]
    fn an_item_that_is_damaged_again_and_again_ends_the_lane() {
        let (mut outgoing, mut incoming) = lane();
        outgoing.push(0, 1);
        stand(&mut outgoing, &mut incoming);
        let mut times = 0;
        while outgoing.damaged(0).is_ok() {
            times += 1;
        }
        assert_eq!(times, super::super::DAMAGED_MAX);
    }
}
