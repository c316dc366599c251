//! The consumer's end: holds every sequence against what was told.

use super::clock::{self, UNKNOWN};
use super::frame::{ConsumerReport, Delivery, Frame, Payload, ReceiverFigures, SetReport};
use super::lane::{Incoming, Window, cost_of};
use super::protocol;
use super::sets::OpenSets;
use super::tails::Tails;
use crate::failure::Result;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thalweg_wire::limits;
use thalweg_wire::message::{
    ClockOffset, FrameFrom, FrameHead, FramesMessage, HasOf, Item, LossReason, LostRange, ProducerId,
};

/// Sets that are over and remembered.
const CLOSED_MAX: usize = 64 << 10;
/// Producers that are over and remembered: fewer than a hub remembers, so that none begins anew that is still known
/// here.
const OVER_MAX: usize = 32 << 10;
/// Names of producers that went away without finishing: of more it is only known that there are some.
const GONE_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Consumer {
    window: Window,
    from: FrameFrom,
    is_group: bool,
    lane: Incoming<Payload>,
    instance: Option<u64>,
    /// The hub goes on where another process under our name ended.
    goes_on: bool,
    /// The next sequence of each producer to be delivered or named; in a group, what follows the latest that came.
    expect: BTreeMap<ProducerId, u64>,
    /// In a group: whose frames came, in the order in which they were met. Of one that was over before this member came
    /// it may still get what another left, and is never told that it is over.
    met: VecDeque<ProducerId>,
    queue: VecDeque<Queued>,
    /// What was delivered and is not settled, in order; `None`: what is delivered is taken.
    unsettled: Option<Unsettled>,
    sets: OpenSets,
    closed: BTreeSet<u64>,
    tails: Tails,
    figures: ReceiverFigures,
    lost: BTreeMap<LossReason, u64>,
    clock: Option<ClockOffset>,
    finished: u64,
    /// Of these nothing came since they finished: one that says so again, after an outage, counts once.
    silent: BTreeSet<ProducerId>,
    gone: BTreeSet<ProducerId>,
    /// Of these nothing came since they went away either, and they are no longer told by name.
    unnamed: BTreeSet<ProducerId>,
    /// Those that are over, in the order in which that was told; some gave frames since.
    over: VecDeque<ProducerId>,
    /// Some of them were forgotten: of who is not known, the hub alone can tell what is missing.
    has_forgotten: bool,
    ended: bool,
    says: VecDeque<FramesMessage>,
}

/// An item in order, and what it has to be delivered as.
#[derive(Debug)]
struct Queued {
    number: u64,
    cost: u64,
    instance: Option<u64>,
    deliveries: VecDeque<Delivery>,
    /// By how much the latency of the frame among them may be wrong.
    bound_ns: u64,
}

/// Items that were delivered, and are not taken before they are settled: number, cost, and the lane that brought each.
#[derive(Debug, Default)]
struct Unsettled {
    items: VecDeque<(u64, u64, Option<u64>)>,
    bytes: u64,
}

impl Unsettled {
    fn push(&mut self, number: u64, cost: u64, instance: Option<u64>) {
        self.bytes += cost;
        self.items.push_back((number, cost, instance));
    }
}

impl Consumer {
    /// One that nothing came to.
    pub fn new(window: Window, from: FrameFrom, is_group: bool) -> Consumer {
        Consumer {
            window,
            from,
            is_group,
            lane: Incoming::new(window, 0),
            instance: None,
            goes_on: false,
            expect: BTreeMap::new(),
            met: VecDeque::new(),
            queue: VecDeque::new(),
            unsettled: None,
            // The hub says that the lowest is over a little after the frame that was one set too many.
            sets: OpenSets::new(2 * limits::SETS_OPEN_MAX),
            closed: BTreeSet::new(),
            tails: Tails::default(),
            figures: ReceiverFigures::default(),
            lost: BTreeMap::new(),
            clock: None,
            finished: 0,
            silent: BTreeSet::new(),
            gone: BTreeSet::new(),
            unnamed: BTreeSet::new(),
            over: VecDeque::new(),
            has_forgotten: false,
            ended: false,
            says: VecDeque::new(),
        }
    }

    /// From now on what is delivered is taken only when it is settled.
    pub fn hold(&mut self) {
        self.unsettled.get_or_insert_default();
    }

    /// Whether so much waits to be settled that the hub would soon have to wait for that.
    pub fn wants_settling(&self) -> bool {
        let Some(unsettled) = &self.unsettled else { return false };
        let items = (self.window.items / 4).max(1) as usize;
        unsettled.bytes >= self.lane.sends_bytes() / 4 || unsettled.items.len() >= items
    }

    /// Whether anything waits to be settled.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled.as_ref().is_some_and(|unsettled| !unsettled.items.is_empty())
    }

    /// What was delivered so far is put away: it is taken.
    pub fn settle(&mut self) {
        for (number, cost, instance) in self.unsettled.as_mut().map(std::mem::take).unwrap_or_default().items
        {
            self.take(number, cost, instance);
        }
        self.skip_empty();
    }

    /// What it has of each producer, for a hub that may not know it; of more than may be told, of those that are not
    /// over, and were over last.
    pub fn has(&self) -> Vec<HasOf> {
        let of = |producer: &ProducerId| {
            let (next, is_over) = (*self.expect.get(producer)?, self.is_over(producer));
            Some(HasOf { producer: producer.clone(), next, is_over })
        };
        if self.expect.len() <= limits::PRODUCERS_MAX {
            return self.expect.keys().filter_map(of).collect();
        }
        let is_over = |producer: &&ProducerId| self.is_over(producer);
        let going = self.expect.keys().filter(|producer| !is_over(producer));
        let mut told = BTreeSet::new();
        let over = self.over.iter().rev().filter(is_over).filter(|producer| told.insert(*producer));
        going.chain(over).filter_map(of).take(limits::PRODUCERS_MAX).collect()
    }

    /// Whether nothing came of a producer since it was told to be over.
    fn is_over(&self, producer: &ProducerId) -> bool {
        [&self.silent, &self.gone, &self.unnamed].iter().any(|over| over.contains(producer))
    }

    /// A producer is over: the one that was so first of too many is forgotten.
    fn remember(&mut self, producer: ProducerId) {
        self.over.push_back(producer);
        while self.over.len() > OVER_MAX
            && let Some(first) = self.over.pop_front()
        {
            if self.is_over(&first) {
                self.expect.remove(&first);
                self.silent.remove(&first);
                self.unnamed.remove(&first);
                self.has_forgotten = true;
            }
        }
    }

    /// Frames came of a producer that is new to a member of a group: the one that was met first of too many is
    /// forgotten.
    fn meet(&mut self, producer: ProducerId) {
        self.met.push_back(producer);
        if self.met.len() > limits::PRODUCERS_MAX
            && let Some(first) = self.met.pop_front()
            && !self.is_over(&first)
        {
            self.expect.remove(&first);
        }
    }

    /// Number of its lane, for a hub that may know it.
    pub fn instance(&self) -> Option<u64> {
        self.instance
    }

    /// The hub goes on behind what another process under our name took.
    pub fn goes_on(&mut self) {
        self.goes_on = true;
    }

    /// The process that it goes on behind took these of a set: they are not missing.
    pub fn had(&mut self, set: u64, taken: &[(u32, u32)]) {
        if self.is_group || self.closed.contains(&set) {
            return;
        }
        let Some(open) = self.sets.make_room(set) else { return };
        for index in taken.iter().flat_map(|&(first, end)| first..end) {
            open.bits.insert(index);
        }
    }

    /// The hub knows it, under this number.
    pub fn subscribed(&mut self, instance: u64) {
        if self.instance.replace(instance) != Some(instance) {
            self.lane = Incoming::resumed(self.window, 0, self.lane.epoch());
        }
        // A smaller window would be told.
        self.lane.set_sends(self.window.bytes);
        self.link_up();
    }

    /// The hub has less than our window for us.
    pub fn window_is(&mut self, bytes: u64) {
        self.lane.set_sends(bytes);
    }

    /// A link stands.
    pub fn link_up(&mut self) {
        let (epoch, next) = self.lane.stand();
        self.says.push_back(FramesMessage::Stand { epoch, next });
        // What was told of it last may not have been heard.
        self.says.push_back(FramesMessage::Taken { next: self.lane.taken() });
    }

    /// The first bytes of an item came: whether the rest is wanted.
    ///
    /// # Errors
    /// `Protocol`.
    pub fn begin(&mut self, epoch: u16, number: u64, item: &Item) -> Result<bool> {
        if let Item::Frame(head) = item
            && head.stamp.is_none()
        {
            return Err(protocol("a hub stamps its frames"));
        }
        self.lane.begin(epoch, number, item)
    }

    /// An item that was begun is damaged.
    ///
    /// # Errors
    /// `Damage` when nothing sound comes any more.
    pub fn damaged(&mut self, epoch: u16, number: u64) -> Result<()> {
        if self.lane.damaged(epoch, number)? {
            self.figures.damaged += 1;
            self.says.push_back(FramesMessage::Again { number });
        }
        Ok(())
    }

    /// An item that was begun is whole and sound; `now_ns` is since 1970 by our clock.
    ///
    /// # Errors
    /// `Protocol` for what no correct hub hands out.
    pub fn arrived(
        &mut self,
        epoch: u16,
        number: u64,
        item: Item,
        payload: Payload,
        now_ns: u64,
    ) -> Result<()> {
        self.lane.arrived(epoch, number, item, payload);
        while let Some((number, item, payload)) = self.lane.pop() {
            let cost = cost_of(&item);
            let mut queued =
                Queued { number, cost, instance: self.instance, deliveries: VecDeque::new(), bound_ns: 0 };
            if !self.ended {
                self.deliver(item, payload, now_ns, &mut queued)?;
            }
            self.queue.push_back(queued);
        }
        self.skip_empty();
        Ok(())
    }

    fn deliver(&mut self, item: Item, payload: Payload, now_ns: u64, queued: &mut Queued) -> Result<()> {
        let out = &mut queued.deliveries;
        match item {
            Item::Frame(head) => self.frame(*head, payload, now_ns, queued),
            Item::Lost(lost) => self.lose(lost, out),
            Item::SetOver(over) if !self.is_group => {
                let bits = self.sets.close(over.set).map(|open| open.bits).unwrap_or_default();
                let missing = bits.missing(over.frames);
                self.set_over(SetReport::new(over.set, over.frames, over.taken, missing), out);
            }
            Item::GroupSet(set) if self.is_group => self.set_over(SetReport::of_group(set), out),
            Item::SetOver(_) | Item::GroupSet(_) | Item::SetBegun { .. } | Item::ConsumerAt(_) => {}
            Item::ProducerOver { producer, frames, is_gone } => {
                // Of one that it got nothing of it says all the same that it is over.
                let expected = self.expected(&producer, frames);
                self.expect.entry(producer.clone()).or_insert(expected);
                if is_gone {
                    let has_room = self.gone.len() < GONE_MAX || self.gone.contains(&producer);
                    let over = if has_room { &mut self.gone } else { &mut self.unnamed };
                    over.insert(producer.clone());
                } else {
                    self.gone.remove(&producer);
                    self.unnamed.remove(&producer);
                    self.finished += u64::from(self.silent.insert(producer.clone()));
                }
                self.remember(producer);
            }
            Item::End => {
                self.ended = true;
                out.push_back(Delivery::End(Box::new(self.report())));
            }
        }
        Ok(())
    }

    /// A set is over; said twice, it is told once.
    fn set_over(&mut self, report: SetReport, out: &mut VecDeque<Delivery>) {
        if !self.closed.insert(report.set) {
            return;
        }
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_first();
        }
        out.push_back(Delivery::Set(report));
    }

    fn frame(&mut self, head: FrameHead, payload: Payload, now_ns: u64, queued: &mut Queued) {
        let (sequence, producer) = (head.sequence, head.producer.clone());
        if !self.is_group {
            let expected = self.expected(&producer, sequence);
            if sequence < expected {
                self.figures.again += 1;
                return;
            }
            name_lost(&producer, expected, sequence, LossReason::HubRestart, &mut queued.deliveries);
        }
        let is_new = self.expect.insert(producer.clone(), sequence + 1).is_none();
        if is_new && self.is_group {
            self.meet(producer.clone());
        }
        for over in [&mut self.gone, &mut self.unnamed, &mut self.silent] {
            over.remove(&producer);
        }
        if let Some((set, index)) = head.set
            && !self.is_group
            && !self.closed.contains(&set)
            && let Some(open) = self.sets.make_room(set)
        {
            open.bits.insert(index);
        }
        let made = (head.time_ns, head.stamp.map_or(UNKNOWN, |stamp| stamp.clock));
        let came = (now_ns, self.clock.unwrap_or(UNKNOWN));
        let latency = clock::between(made, came);
        queued.bound_ns = latency.map_or(0, |(_, bound_ns)| bound_ns);
        let frame = Frame::new(head, payload, latency.map(|(time_ns, _)| time_ns));
        queued.deliveries.push_back(Delivery::Frame(frame));
    }

    /// Figures are of what was handed out: what came and nobody took is another's, or comes again.
    fn count(&mut self, delivery: &Delivery, bound_ns: u64) {
        match delivery {
            Delivery::Frame(frame) => {
                let bytes = frame.payload.len() as u64;
                if let Some(time_ns) = frame.latency_ns {
                    self.tails.add(time_ns, bound_ns);
                }
                self.tails.came(bytes);
                let figures = &mut self.figures;
                figures.frames += 1;
                figures.bytes += bytes;
                figures.with_deadline += u64::from(frame.deadline_ns.is_some());
                figures.late += u64::from(frame.is_late() == Some(true));
                let is_unknown = frame.deadline_ns.is_some() && frame.is_late().is_none();
                figures.deadline_unknown += u64::from(is_unknown);
            }
            Delivery::Lost(lost) => *self.lost.entry(lost.reason).or_default() += lost.count(),
            Delivery::Set(report) if report.is_complete() => self.figures.sets.0 += 1,
            Delivery::Set(_) => self.figures.sets.1 += 1,
            Delivery::End(_) => {}
        }
    }

    /// The next sequence to be delivered or named; of a producer that was not met, by where we began.
    fn expected(&self, producer: &ProducerId, comes: u64) -> u64 {
        self.expect.get(producer).copied().unwrap_or(match self.from {
            _ if self.goes_on || self.has_forgotten => comes,
            FrameFrom::Start => 0,
            FrameFrom::Sequence(first) => first,
            FrameFrom::Now => comes,
        })
    }

    fn lose(&mut self, lost: LostRange, out: &mut VecDeque<Delivery>) {
        if self.is_group {
            return name_lost(&lost.producer, lost.first, lost.end, lost.reason, out);
        }
        let expected = self.expected(&lost.producer, lost.first);
        let first = lost.first.max(expected);
        if first < lost.end {
            name_lost(&lost.producer, expected, first, LossReason::HubRestart, out);
            name_lost(&lost.producer, first, lost.end, lost.reason, out);
            self.expect.insert(lost.producer, lost.end);
        }
    }

    /// What comes next, if something is there. It counts as taken, unless that is [held](Consumer::hold).
    pub fn take_next(&mut self) -> Option<Delivery> {
        self.skip_empty();
        let queued = self.queue.front_mut()?;
        let mut delivery = queued.deliveries.pop_front()?;
        let (number, cost, instance) = (queued.number, queued.cost, queued.instance);
        let bound_ns = queued.bound_ns;
        if let Some(unsettled) = &mut self.unsettled
            && queued.deliveries.is_empty()
        {
            unsettled.push(number, cost, instance);
            self.queue.pop_front();
        }
        self.skip_empty();
        self.count(&delivery, bound_ns);
        if let Delivery::End(report) = &mut delivery {
            // The one that it came with is some frames old.
            **report = self.report();
        }
        Some(delivery)
    }

    /// Items of which nothing is left to be delivered are taken.
    fn skip_empty(&mut self) {
        while self.queue.front().is_some_and(|queued| queued.deliveries.is_empty())
            && let Some(Queued { number, cost, instance, .. }) = self.queue.pop_front()
        {
            match &mut self.unsettled {
                // In their order, behind what is not settled.
                Some(unsettled) if !unsettled.items.is_empty() => unsettled.push(number, cost, instance),
                _ => self.take(number, cost, instance),
            }
        }
        self.tell(self.ended);
    }

    fn take(&mut self, number: u64, cost: u64, instance: Option<u64>) {
        // What another lane brought was taken with that.
        if instance == self.instance {
            self.lane.take(number, cost);
        }
    }

    fn tell(&mut self, whatever: bool) {
        if let Some(next) = self.lane.tell(whatever) {
            self.says.push_back(FramesMessage::Taken { next });
        }
    }

    /// From time to time: tells what was not told yet.
    pub fn tick(&mut self) {
        self.tell(true);
    }

    /// What to say next.
    pub fn take_message(&mut self) -> Option<FramesMessage> {
        self.says.pop_front()
    }

    /// There is no link: what was to be said is of no use.
    pub fn unlink(&mut self) {
        self.says.clear();
    }

    /// What the link could carry: a score is reckoned with it.
    pub fn set_link(&mut self, bits_per_s: Option<u64>) {
        self.tails.set_link(bits_per_s);
    }

    /// Our clock against the hub's.
    pub fn set_clock(&mut self, clock: ClockOffset) {
        self.clock = Some(clock);
    }

    /// Whether the hub goes on behind what another process under its name took.
    pub fn has_gone_on(&self) -> bool {
        self.goes_on
    }

    /// Whether the end came.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether something is there to be taken.
    pub fn has_next(&self) -> bool {
        self.queue.iter().any(|queued| !queued.deliveries.is_empty())
    }

    /// Bytes that came and were not taken.
    pub fn held_bytes(&self) -> u64 {
        self.lane.held_bytes()
    }

    /// Figures so far.
    pub fn figures(&self) -> ReceiverFigures {
        ReceiverFigures {
            lost: self.lost.iter().map(|(reason, count)| (*reason, *count)).collect(),
            latency: self.tails.latency(),
            unmeasured: self.tails.unmeasured(),
            clock: self.clock,
            ..self.figures.clone()
        }
    }

    /// What it got so far.
    pub fn report(&self) -> ConsumerReport {
        ConsumerReport {
            figures: self.figures(),
            producers_finished: self.finished,
            producers_gone: self.gone.iter().map(|producer| producer.as_str().to_owned()).collect(),
        }
    }
}

fn name_lost(producer: &ProducerId, first: u64, end: u64, reason: LossReason, out: &mut VecDeque<Delivery>) {
    if first < end {
        out.push_back(Delivery::Lost(LostRange { producer: producer.clone(), first, end, reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::lane::{Outgoing, cost};
    use thalweg_wire::Digest;
    use thalweg_wire::message::{HubStamp, SetOver};

    #[test]
    fn what_the_process_before_it_took_of_a_set_is_not_missing() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, false);
        consumer.subscribed(1);
        consumer.goes_on();
        consumer.had(7, &[(0, 30)]);
        consumer.had(7, &[(30, 80)]);
        consumer.had(8, &[(0, 1), (2, 3)]);
        let mut reports = Vec::new();
        for (number, (set, frames)) in (0..).zip([(7, 80), (8, 3)]) {
            let item = Item::SetOver(SetOver { set, frames, taken: frames });
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
            let Some(Delivery::Set(report)) = consumer.take_next() else { panic!("a report") };
            reports.push((report.is_complete(), report.delivered, report.missing));
        }
        assert_eq!(reports, [(true, 80, vec![]), (false, 2, vec![(1, 2)])]);
    }

    #[test]
    fn producers_that_come_and_go_are_forgotten_after_a_bound_and_the_latest_are_told_of() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, false);
        consumer.subscribed(1);
        let mut number = 0;
        let mut arrives = |consumer: &mut Consumer, item: Item| {
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
            number += 1;
            std::iter::from_fn(|| consumer.take_next()).collect::<Vec<_>>()
        };
        let id = |number: usize| ProducerId::new(&format!("p{number}")).unwrap();
        let lost = |producer: &ProducerId, first, end| {
            Item::Lost(LostRange { producer: producer.clone(), first, end, reason: LossReason::Forgotten })
        };
        let all = OVER_MAX + 5;
        for producer in (0..all).map(id) {
            assert_eq!(arrives(&mut consumer, lost(&producer, 0, 7)).len(), 1);
            arrives(&mut consumer, Item::ProducerOver { producer, frames: 7, is_gone: false });
        }
        assert_eq!(consumer.report().producers_finished, all as u64);
        assert!(consumer.expect.len() <= OVER_MAX && consumer.silent.len() <= OVER_MAX);
        let has = consumer.has();
        assert_eq!(has.len(), limits::PRODUCERS_MAX);
        let last = HasOf { producer: id(all - 1), next: 7, is_over: true };
        assert_eq!(has[0], last, "those that were over last");
        // One that is known goes on, one that was forgotten is what the hub says it is.
        for (producer, first, named) in [(id(all - 1), 9, vec![(7, 9), (9, 10)]), (id(0), 9, vec![(9, 10)])] {
            let deliveries = arrives(&mut consumer, lost(&producer, first, first + 1));
            let ranges = deliveries.iter().map(|delivery| match delivery {
                Delivery::Lost(lost) => (lost.first, lost.end),
                other => panic!("{other:?}"),
            });
            assert_eq!(ranges.collect::<Vec<_>>(), named);
        }
    }

    #[test]
    fn a_consumer_says_of_which_producers_it_was_told_that_they_are_over_also_in_a_group() {
        for is_group in [false, true] {
            let window = Window { bytes: 1 << 20, items: 16 };
            let mut consumer = Consumer::new(window, FrameFrom::Start, is_group);
            consumer.subscribed(1);
            let id = |name: &str| ProducerId::new(name).unwrap();
            let clock = ClockOffset { offset_ns: 0, bound_ns: 0 };
            let bare = FrameHead::bare(id("cam"), 0, 0, Digest::default());
            let frame = FrameHead { stamp: Some(HubStamp { taken_ns: 0, clock }), ..bare };
            let over = |name, is_gone| Item::ProducerOver { producer: id(name), frames: 0, is_gone };
            let items = [Item::Frame(Box::new(frame)), over("dog", false), over("owl", true)];
            for (number, item) in (0..).zip(items) {
                assert!(consumer.begin(1, number, &item).unwrap());
                consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
            }
            let has = |name, next, is_over| HasOf { producer: id(name), next, is_over };
            assert_eq!(consumer.has(), [has("cam", 1, false), has("dog", 0, true), has("owl", 0, true)]);
        }
    }

    #[test]
    fn a_member_of_a_group_remembers_so_many_producers_that_it_met_and_the_latest() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, true);
        consumer.subscribed(1);
        let id = |number: usize| ProducerId::new(&format!("p{number:05}")).unwrap();
        let clock = ClockOffset { offset_ns: 0, bound_ns: 0 };
        let all = limits::PRODUCERS_MAX + 5;
        for number in 0..all {
            let bare = FrameHead::bare(id(number), 3, 0, Digest::default());
            let frame = FrameHead { stamp: Some(HubStamp { taken_ns: 0, clock }), ..bare };
            let item = Item::Frame(Box::new(frame));
            assert!(consumer.begin(1, number as u64, &item).unwrap());
            consumer.arrived(1, number as u64, item, Payload::default(), 0).unwrap();
            while consumer.take_next().is_some() {}
        }
        let has = consumer.has();
        assert_eq!((has.len(), consumer.met.len()), (limits::PRODUCERS_MAX, limits::PRODUCERS_MAX));
        assert_eq!(has[0], HasOf { producer: id(5), next: 4, is_over: false });
    }

    #[test]
    fn of_producers_that_went_away_too_many_to_be_named_are_forgotten_after_a_bound_too() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, false);
        consumer.subscribed(1);
        let id = |number: usize| ProducerId::new(&format!("p{number}")).unwrap();
        let all = GONE_MAX + OVER_MAX + 5;
        for number in 0..all {
            let producer = id(number);
            let lost =
                LostRange { producer: producer.clone(), first: 0, end: 7, reason: LossReason::Forgotten };
            let over = Item::ProducerOver { producer, frames: 7, is_gone: true };
            for (number, item) in (2 * number as u64..).zip([Item::Lost(lost), over]) {
                assert!(consumer.begin(1, number, &item).unwrap());
                consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
                while consumer.take_next().is_some() {}
            }
        }
        assert_eq!(consumer.report().producers_gone.len(), GONE_MAX);
        assert!(consumer.expect.len() <= OVER_MAX && consumer.unnamed.len() <= OVER_MAX);
        let has = consumer.has();
        let last = HasOf { producer: id(all - 1), next: 7, is_over: true };
        assert_eq!((has.len(), &has[0]), (limits::PRODUCERS_MAX, &last), "those that were over last");
    }

    #[test]
    fn a_hub_with_a_smaller_window_hears_what_was_taken_before_it_stands_still() {
        let (items, payload_bytes) = (1 << 10, 4 << 10);
        let mut consumer = Consumer::new(Window { bytes: 64 << 20, items }, FrameFrom::Start, false);
        let mut hub = Outgoing::new(Window { bytes: 64 << 10, items }, 0);
        consumer.subscribed(1);
        consumer.window_is(64 << 10);
        let (mut sequences, mut crossed, mut told) = (0.., 0, 0);
        // Without a tick.
        while crossed < 1000 {
            while let Some(message) = consumer.take_message() {
                match message {
                    FramesMessage::Stand { epoch, next } => hub.stand(epoch, next).unwrap(),
                    FramesMessage::Taken { next } => told += hub.taken(next).unwrap().len().min(1),
                    other => panic!("{other:?}"),
                }
            }
            while hub.has_room(cost(payload_bytes, 0)) {
                hub.push(frame(sequences.next().unwrap(), payload_bytes), cost(payload_bytes, 0));
            }
            let Some((number, epoch)) = hub.next(0) else { panic!("it stands still after {crossed} frames") };
            let item = hub.item(number).unwrap().clone();
            assert!(consumer.begin(epoch, number, &item).unwrap());
            consumer.arrived(epoch, number, item, Payload::default(), 0).unwrap();
            assert!(matches!(consumer.take_next(), Some(Delivery::Frame(_))));
            crossed += 1;
        }
        // Two frames are more than an eighth of the window; the last two are told of after the loop.
        assert_eq!(told, 499);
    }

    fn frame(sequence: u64, payload_bytes: u64) -> Item {
        let exact = ClockOffset { offset_ns: 0, bound_ns: 0 };
        let producer = ProducerId::new("cam").unwrap();
        let bare = FrameHead::bare(producer, sequence, payload_bytes, Digest::default());
        Item::Frame(Box::new(FrameHead { stamp: Some(HubStamp { taken_ns: 0, clock: exact }), ..bare }))
    }

    #[test]
    fn a_frame_without_a_measured_clock_is_told_as_that_and_has_not_kept_its_deadline() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, false);
        consumer.subscribed(1);
        let exact = ClockOffset { offset_ns: 0, bound_ns: 0 };
        let arrives = |consumer: &mut Consumer, number, clock, deadline_ns| {
            let stamp = Some(HubStamp { taken_ns: 1_500, clock });
            let bare = FrameHead::bare(ProducerId::new("cam").unwrap(), number, 0, Digest::default());
            let item = Item::Frame(Box::new(FrameHead { time_ns: 1_000, deadline_ns, stamp, ..bare }));
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::default(), 2_000).unwrap();
            let Some(Delivery::Frame(frame)) = consumer.take_next() else { panic!("a frame") };
            (frame.latency_ns, frame.is_late())
        };
        // Neither clock, then only the producer's, is measured.
        assert_eq!(arrives(&mut consumer, 0, UNKNOWN, Some(1)), (None, None));
        assert_eq!(arrives(&mut consumer, 1, exact, Some(u64::MAX)), (None, None));
        assert_eq!(consumer.figures().latency, None);
        consumer.set_clock(exact);
        assert_eq!(arrives(&mut consumer, 2, UNKNOWN, None), (None, None));
        assert_eq!(arrives(&mut consumer, 3, exact, Some(999)), (Some(1_000), Some(true)));
        assert_eq!(arrives(&mut consumer, 4, exact, Some(1_000)), (Some(1_000), Some(false)));
        let figures = consumer.figures();
        assert_eq!((figures.with_deadline, figures.late, figures.deadline_unknown), (4, 1, 2));
        assert_eq!((figures.frames, figures.unmeasured, figures.latency.unwrap().count), (5, 3, 2));
    }

    /// A consumer that has as many as it wants leaves while more has come.
    #[test]
    fn what_came_and_was_not_handed_out_is_in_no_figure() {
        let mut consumer = Consumer::new(Window { bytes: 1 << 20, items: 16 }, FrameFrom::Start, false);
        consumer.subscribed(1);
        let exact = ClockOffset { offset_ns: 0, bound_ns: 3 };
        consumer.set_clock(exact);
        let head = |sequence| {
            let stamp = Some(HubStamp { taken_ns: 0, clock: exact });
            let bare = FrameHead::bare(ProducerId::new("cam").unwrap(), sequence, 100, Digest::default());
            FrameHead { time_ns: 1_000, deadline_ns: Some(1), stamp, ..bare }
        };
        // Before the last one three are named.
        for (number, sequence) in [(0, 0), (1, 1), (2, 5)] {
            let item = Item::Frame(Box::new(head(sequence)));
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::from(vec![0; 100]), 2_000).unwrap();
        }
        let figures = |consumer: &Consumer| {
            let figures = consumer.figures();
            let measured = figures.latency.map_or(0, |latency| latency.count);
            (figures.frames, figures.bytes, figures.late, measured, figures.lost_frames())
        };
        assert_eq!(figures(&consumer), (0, 0, 0, 0, 0));
        for taken in [(1, 100, 1, 1, 0), (2, 200, 2, 2, 0), (2, 200, 2, 2, 3), (3, 300, 3, 3, 3)] {
            assert!(consumer.take_next().is_some());
            assert_eq!(figures(&consumer), taken);
        }
        assert_eq!(consumer.figures().latency.map(|latency| latency.bound_ns), Some(6));
    }

    #[test]
    fn a_producer_that_says_again_that_it_finished_counts_once() {
        let window = Window { bytes: 1 << 20, items: 16 };
        let mut consumer = Consumer::new(window, FrameFrom::Start, false);
        consumer.subscribed(1);
        let producer = ProducerId::new("cam").unwrap();
        let over = Item::ProducerOver { producer, frames: 0, is_gone: false };
        for (number, item) in [(0, over.clone()), (1, over), (2, Item::End)] {
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
        }
        let Some(Delivery::End(report)) = consumer.take_next() else { panic!("it has ended") };
        assert_eq!(report.producers_finished, 1);
    }

    #[test]
    fn what_is_held_is_taken_only_when_it_is_settled_and_in_its_order() {
        let window = Window { bytes: 1 << 20, items: 8 };
        let mut consumer = Consumer::new(window, FrameFrom::Start, false);
        consumer.subscribed(1);
        consumer.hold();
        let producer = ProducerId::new("cam").unwrap();
        let lost = |first| {
            let producer = producer.clone();
            Item::Lost(LostRange { producer, first, end: first + 1, reason: LossReason::Dropped })
        };
        let told = |consumer: &mut Consumer| {
            consumer.tick();
            let taken = |message| match message {
                FramesMessage::Taken { next } => Some(next),
                _ => None,
            };
            std::iter::from_fn(|| consumer.take_message()).filter_map(taken).last()
        };
        assert_eq!(told(&mut consumer), Some(0), "where it stands");
        // The second brings nothing that was not there: it waits behind the first.
        for (number, item) in [(0, lost(0)), (1, lost(0)), (2, lost(1))] {
            assert!(consumer.begin(1, number, &item).unwrap());
            consumer.arrived(1, number, item, Payload::default(), 0).unwrap();
        }
        assert!(!consumer.is_unsettled() && !consumer.wants_settling());
        assert!(matches!(consumer.take_next(), Some(Delivery::Lost(_))));
        assert_eq!(told(&mut consumer), None, "it is in hand");
        assert!(consumer.is_unsettled() && consumer.wants_settling(), "a quarter of the window");
        consumer.settle();
        assert_eq!(told(&mut consumer), Some(2));
        assert!(matches!(consumer.take_next(), Some(Delivery::Lost(_))));
        consumer.settle();
        assert_eq!(told(&mut consumer), Some(3));
        assert!(!consumer.is_unsettled());
        // What an older lane brought was taken with that.
        let item = lost(2);
        assert!(consumer.begin(1, 3, &item).unwrap());
        consumer.arrived(1, 3, item, Payload::default(), 0).unwrap();
        assert!(consumer.take_next().is_some());
        consumer.subscribed(2);
        consumer.settle();
        assert_eq!(told(&mut consumer), Some(0));
    }
}
