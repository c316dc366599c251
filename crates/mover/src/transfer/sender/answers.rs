//! What the receiver says: what it wants, what arrived, what is damaged or differs, what is settled.

use super::{Action, Aside, Check, Item, Large, Sender, State, protocol};
use crate::failure::{Failure, FailureKind, Reason, Result, VERIFY};
use crate::transfer::runs::RunSet;
use crate::transfer::stays::{Fate, Stays};
use thalweg_wire::digest::{self, PIECES_MAX, Tree};
use thalweg_wire::message::{AckLevel, Outcome, Run, TransferMessage as Say, Want};
use thalweg_wire::{Digest, EntryId, Kind, limits};

/// Outcomes after which the receiver hears that they were heard.
const HEARD_AT_ONCE: u64 = 1024;

/// How often chunks of a file may be wanted for each time that it is offered. A receiver that compares says
/// twice what it wants, and once more if the file that stood there is another by then.
const WANTED_MAX: u32 = 8;

/// Runs and digests that are heard before gaps are counted again: of as many entries as may be in flight.
const COUNT_GAPS_AFTER: usize = 64 << 10;

/// Gaps that come of a chunk that was read: in what is to be read, is there, is verified, durable, and has
/// come.
const GAPS_A_CHUNK: usize = 5;

/// How often each chunk of a file may differ, or be left by a stream that dies: as often as links and streams are lost.
const DIFFERENCES_MAX: u64 = 64;

impl Sender {
    pub(super) fn hear_want(&mut self, id: EntryId, want: Want) -> Result<()> {
        let small_bytes = self.limits.small_bytes;
        // Withdrawn meanwhile: the answer crossed the withdrawal.
        let Some(item) = self.known(id)? else { return Ok(()) };
        if matches!(item.entry.kind, Kind::HardLink { .. }) && want == Want::Whole {
            if matches!(item.state, State::Waiting) {
                return Err(protocol("an entry wanted twice"));
            }
            // It cannot be linked there. A stream looks what it is by itself, and offers that.
            item.state = State::Waiting;
            self.tasks.checks.push_back(id);
            return Ok(());
        }
        let (Kind::File { sparse, .. }, size) = (&item.entry.kind, item.entry.evidence.size) else {
            item.state = State::Waiting;
            return if want == Want::Nothing {
                Ok(())
            } else {
                Err(protocol("content wanted of what has none"))
            };
        };
        let sparse = *sparse;
        if matches!(item.state, State::Small | State::Arrived | State::Waiting) {
            return Err(protocol("an entry wanted twice"));
        }
        match want {
            Want::Nothing => match &mut item.state {
                // Complete there; the seal that it was completed with stands.
                State::Large(large) => large.check = Check::Sealed,
                state => *state = State::Waiting,
            },
            // A large one until now, if another receiver wanted it compared.
            Want::Whole if !sparse && size <= small_bytes => {
                let before = std::mem::replace(&mut item.state, State::Small);
                if let State::Large(large) = before {
                    item.arrived |= !large.came.is_empty();
                    self.tasks.started -= usize::from(large.holds_slot);
                    self.drop_chunks(id);
                }
                self.queue_small(id);
            }
            Want::Whole => {
                let runs = [Run { first: 0, count: digest::chunk_count(size, self.terms.chunk_bytes) }];
                self.begin_large(id, &runs)?;
            }
            Want::Missing(runs) => self.begin_large(id, &runs)?,
            Want::Compare(runs) => {
                self.begin_large(id, &runs)?;
                if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) {
                    runs.iter().for_each(|run| large.compare.insert(run.first, run.first + run.count));
                }
            }
        }
        Ok(())
    }

    fn begin_large(&mut self, id: EntryId, wanted: &[Run]) -> Result<()> {
        let (chunk_bytes, keeps_pieces) = (self.terms.chunk_bytes, self.keeps_pieces);
        let Some(item) = self.items.get_mut(&id) else { return Ok(()) };
        item.wanted += 1;
        let wanted_before = item.wanted - 1;
        if wanted_before >= WANTED_MAX {
            return Err(protocol("an entry wanted without end"));
        }
        let large = large_of(item, chunk_bytes, keeps_pieces);
        // Who wants something of it holds no seal.
        if matches!(large.check, Check::Sealed | Check::Unsealing) {
            large.check = Check::NotYet;
        }
        for run in wanted {
            if run.first.checked_add(run.count).is_none_or(|end| end > large.tree.chunks()) {
                return Err(protocol("a chunk wanted beyond the end of its file"));
            }
            large.queue.insert(run.first, run.first + run.count);
            large.compare.remove(run.first, run.first + run.count);
            large.verified.remove(run.first, run.first + run.count);
        }
        // What the receiver has and we have no digest of (the link broke before the stream could tell us) is
        // read again; that it is sent again too costs at most a chunk per stream. Once: from then on it is
        // queued, or read.
        if wanted_before == 0 {
            large.tree.missing().into_iter().for_each(|(first, end)| large.queue.insert(first, end));
        }
        if large.queue.is_empty() {
            self.ask_check(id);
        } else {
            self.list(id);
        }
        Ok(())
    }

    /// Memory and time that what the receiver says of chunks takes grow with the gaps in it. They are counted
    /// now and then.
    ///
    /// An honest receiver tells of what earlier attempts left no more than [`limits::GAPS_TOLD_MAX`], and asks for the
    /// rest again: chunks that came at random, of files of terabytes. No larger bound is safe: how long a sparse file
    /// is says nothing of what it takes to have it, and so nothing of what a receiver may be believed to have of it.
    pub(super) fn check_gaps(&mut self, say: &Say) -> Result<()> {
        self.bounded.runs_heard += match say {
            Say::Want(wants) => wants.iter().map(|(_, want)| want.runs().len()).sum::<usize>(),
            Say::Have { digests, .. } => digests.len(),
            Say::Ack(_, runs) | Say::Repair(runs) | Say::Differs(runs) => runs.len(),
            _ => 0,
        };
        if self.bounded.runs_heard <= self.limits.gaps.min(COUNT_GAPS_AFTER) {
            return Ok(());
        }
        self.bounded.runs_heard = 0;
        let aside = self.asides.values().filter_map(|aside| aside.item.as_ref());
        let items = self.items.values().chain(self.replaced.values()).chain(aside);
        let gaps: usize = items.map(|item| item.gaps()).sum();
        self.bounded.gaps_counted = gaps;
        let ours = self.tasks.chunks_read.saturating_mul(GAPS_A_CHUNK);
        match gaps <= self.limits.gaps.saturating_add(ours) {
            true => Ok(()),
            false => Err(protocol("more gaps in what it says of chunks than a sender bears")),
        }
    }

    pub(super) fn hear_have(&mut self, id: EntryId, first: u64, digests: &[Digest]) -> Result<()> {
        let (chunk_bytes, keeps_pieces) = (self.terms.chunk_bytes, self.keeps_pieces);
        let Some(item) = self.known(id)? else { return Ok(()) };
        if !matches!(item.state, State::Offered | State::Large(_))
            || !matches!(item.entry.kind, Kind::File { .. })
        {
            return Err(protocol("digests of an entry that was not offered"));
        }
        let size = item.entry.evidence.size;
        let large = large_of(item, chunk_bytes, keeps_pieces);
        if first.checked_add(digests.len() as u64).is_none_or(|end| end > large.tree.chunks()) {
            return Err(protocol("a digest beyond the end of its file"));
        }
        let mut bytes = 0;
        for (chunk, digest) in (first..).zip(digests) {
            if large.tree.insert(chunk, *digest) {
                large.has_theirs = true;
                bytes += digest::chunk_length(chunk, size, chunk_bytes);
            }
        }
        let run = Run { first, count: digests.len() as u64 };
        let verified = large.note_came(run, size, chunk_bytes);
        self.progress.bytes_verified += verified;
        self.progress.bytes_resumed += bytes;
        self.progress.bytes_durable += bytes;
        Ok(())
    }

    pub(super) fn hear_ack(&mut self, level: AckLevel, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        let size = item.entry.evidence.size;
        let end = run.first + run.count;
        if end > digest::chunk_count(size, chunk_bytes) {
            return Err(protocol("an acknowledgement beyond the end of its file"));
        }
        match (&mut item.state, level) {
            (State::Large(large), AckLevel::Durable) => {
                // Once each: who says the same again makes no progress by it.
                let before = large.durable.len();
                large.durable.insert(run.first, end);
                let new = large.durable.len() - before;
                let short =
                    if end == large.tree.chunks() { large.tree.chunks() * chunk_bytes - size } else { 0 };
                // Where the link broke, that it was verified was not heard.
                let verified = large.note_came(run, size, chunk_bytes);
                self.progress.bytes_durable += (new * chunk_bytes).saturating_sub(short);
                self.progress.bytes_verified += verified;
            }
            (State::Large(large), AckLevel::Verified) => {
                large.verified.insert(run.first, end);
                if run.count == 1 && large.tree.contains(run.first) {
                    large.queue.remove(run.first, end);
                }
                let same = large.bytes_compared(run, size, chunk_bytes);
                let verified = large.note_came(run, size, chunk_bytes);
                self.progress.bytes_verified += verified;
                self.progress.bytes_same += same;
                self.note_usual(id, run);
                self.drop_handed(id, run);
                self.ask_check(id);
            }
            (state @ State::Small, AckLevel::Verified) => {
                *state = State::Arrived;
                // One that the receiver lost comes again.
                let is_new = !std::mem::replace(&mut item.arrived, true);
                self.progress.bytes_verified += if is_new { size } else { 0 };
                self.drop_small(id);
            }
            (_, AckLevel::Verified | AckLevel::Durable) => {}
        }
        Ok(())
    }

    pub(super) fn hear_repair(&mut self, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let repairs_max = self.limits.repairs;
        let small_bytes = self.limits.small_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        item.repairs = item.repairs.saturating_add(1);
        item.asked = item.asked.wrapping_add(1);
        let chunks = digest::chunk_count(item.entry.evidence.size, chunk_bytes);
        if run.first.checked_add(run.count).is_none_or(|end| end > chunks) {
            return Err(protocol("a repair beyond the end of its file"));
        }
        if item.repairs > repairs_max {
            let cause =
                format!("still damaged after {repairs_max} repairs: suspect memory, network card or disk");
            let failure = Failure::new(FailureKind::Damage, VERIFY, cause).in_range(
                run.first * chunk_bytes,
                ((run.first + run.count) * chunk_bytes).min(item.entry.evidence.size),
            );
            self.give_up(id, failure.because(Reason::Damaged));
            return Ok(());
        }
        let is_small_file = matches!(item.entry.kind, Kind::File { sparse: false, .. })
            && item.entry.evidence.size <= small_bytes;
        match &mut item.state {
            State::Small => {}
            // It had arrived, over this link or the one before, and was found damaged later.
            state @ (State::Arrived | State::Waiting) if is_small_file => *state = State::Small,
            State::Large(_) => {
                self.progress.repairs += run.count;
                self.send_whole(id, run);
                return Ok(());
            }
            _ => return Err(protocol("a repair of what was not sent")),
        }
        self.progress.repairs += run.count;
        self.drop_handed(id, run);
        self.note_damaged(id, run);
        // What came damaged is not under way any more.
        self.drop_small(id);
        self.queue_small(id);
        Ok(())
    }

    pub(super) fn hear_differs(&mut self, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        if !matches!(item.state, State::Large(_)) {
            return Err(protocol("a difference in what does not travel in chunks"));
        }
        let chunks = digest::chunk_count(item.entry.evidence.size, chunk_bytes);
        if run.first + run.count > chunks {
            return Err(protocol("a difference beyond the end of its file"));
        }
        // Once for each chunk and link, usually.
        item.differences = item.differences.saturating_add(run.count);
        item.asked = item.asked.wrapping_add(1);
        if item.differences > chunks.saturating_mul(DIFFERENCES_MAX) {
            return Err(protocol("differences without end"));
        }
        self.send_whole(id, run);
        Ok(())
    }

    /// These chunks must go out, as a whole, whatever was said of them before.
    fn send_whole(&mut self, id: EntryId, run: Run) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        let end = run.first + run.count;
        large.compare.remove(run.first, end);
        large.verified.remove(run.first, end);
        large.queue.insert(run.first, end);
        if large.check != Check::Unsealing {
            large.check = Check::NotYet;
        }
        self.drop_handed(id, run);
        self.note_damaged(id, run);
        self.list(id);
    }

    pub(super) fn hear_settled(&mut self, id: EntryId, outcome: Outcome) {
        if let Some(Aside { outcome: failed, item: Some(item), .. }) = self.asides.remove(&id) {
            let outcome = match outcome {
                Outcome::Failed(_) => failed,
                outcome => self.checked_outcome(&item, outcome),
            };
            self.settle_item(item, outcome);
        } else if let Some(item) = self.replaced.remove(&id) {
            if let Some(older) = item.replaces {
                self.gone(older);
            }
            let outcome = self.checked_outcome(&item, outcome);
            self.actions.push_back(Action::SettledBefore(item.entry, outcome));
        } else if let Some(item) = self.remove(id) {
            let outcome = self.checked_outcome(&item, outcome);
            self.settle_item(item, outcome);
        }
        if id.0 < self.next_id {
            self.heard.all.insert(id.0, id.0 + 1);
            self.heard.unreported.insert(id.0, id.0 + 1);
        }
        if self.heard.unreported.len() >= HEARD_AT_ONCE {
            let unreported = std::mem::take(&mut self.heard.unreported);
            self.say_heard(&unreported);
        }
    }

    pub(super) fn say_heard(&mut self, entries: &RunSet) {
        for runs in entries.said().chunks(limits::MESSAGE_ITEMS_MAX) {
            self.say(Say::Heard(runs.to_vec()));
        }
    }

    /// A receiver's word that a file is done counts only if it wrote what was read here. Of a file that was not read it
    /// may be true: the content was there already, and only metadata could not be kept.
    fn checked_outcome(&mut self, item: &Item, outcome: Outcome) -> Outcome {
        let (Outcome::Done { digest: theirs, .. } | Outcome::Unchanged { digest: theirs }) = &outcome else {
            return outcome;
        };
        let ours = read_of(item);
        let has_theirs = matches!(&item.state, State::Large(large) if large.has_theirs);
        let is_unread = (ours.is_none() || has_theirs) && theirs.is_some() && item.entry.content_bytes() > 0;
        let cause = match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours == *theirs => {
                self.progress.entries_unread += u64::from(is_unread);
                return outcome;
            }
            (Some(ours), Some(theirs)) => {
                format!("{ours} was read at the source, {theirs} stands at the destination")
            }
            // Nothing was written.
            (Some(_), None) if self.terms.dry_run || matches!(outcome, Outcome::Unchanged { .. }) => {
                return outcome;
            }
            (Some(_), None) => "the receiver does not say what it has written".to_owned(),
            (None, _) => {
                self.progress.entries_unread += u64::from(is_unread);
                return outcome;
            }
        };
        let failure = Failure::new(FailureKind::Damage, VERIFY, cause).at(&item.entry.path);
        Outcome::Failed(failure.because(Reason::Damaged))
    }

    /// Whether nothing is lost if the source's goes; `None` if nobody asks that of it. What was only looked at stays,
    /// however alike it is: that the content is the same was not seen. So does what could not be kept in full.
    fn may_go(&self, item: &Item, outcome: &Outcome) -> Option<Fate> {
        let is_there = match outcome {
            Outcome::Failed(_) => return None,
            Outcome::Skipped(_) => Err(Stays::LeftAlone),
            Outcome::Done { losses, .. } if !losses.is_empty() => Err(Stays::NotInFull),
            Outcome::Done { .. } | Outcome::Unchanged { .. } => Ok(()),
        };
        match &item.entry.kind {
            Kind::File { .. } => Some(is_there.and_then(|()| match outcome {
                // Nothing is read then.
                Outcome::Done { .. } if self.terms.dry_run => Ok(()),
                Outcome::Done { digest: Some(theirs), .. } | Outcome::Unchanged { digest: Some(theirs) }
                    if read_of(item) == Some(*theirs) =>
                {
                    Ok(())
                }
                _ => Err(Stays::NotCompared),
            })),
            // All of a link is compared whenever it is looked at.
            Kind::Symlink { .. } | Kind::HardLink { .. } => Some(is_there),
            Kind::Directory | Kind::Fifo | Kind::Device { .. } => None,
        }
    }

    /// The receiver speaks of what was offered instead: of this number it had nothing to say.
    fn gone(&mut self, id: EntryId) {
        let mut next = Some(id);
        while let Some(id) = next
            && let Some(item) = self.replaced.remove(&id)
        {
            self.actions.push_back(Action::Gone(id));
            next = item.replaces;
        }
    }

    fn settle_item(&mut self, item: Item, outcome: Outcome) {
        if let Some(old) = item.replaces {
            self.gone(old);
        }
        let bytes = item.entry.content_bytes();
        self.progress.entries_settled += 1;
        self.progress.entries_failed += u64::from(matches!(outcome, Outcome::Failed(_)));
        self.progress.entries_damaged += u64::from(outcome.is_damage());
        let is_left = matches!(outcome, Outcome::Failed(_) | Outcome::Skipped(_));
        let (came, has_come) = match &item.state {
            State::Large(large) => (large.bytes_that_came(bytes, self.terms.chunk_bytes), false),
            State::Small | State::Arrived => (if item.arrived { bytes } else { 0 }, true),
            // Over the link before: by that it was acknowledged, or nothing more is wanted of what was read for it.
            State::Offered | State::Waiting if item.arrived => (bytes, true),
            State::Offered | State::Waiting => (0, item.read.is_some() && !is_left),
        };
        let rest = bytes.saturating_sub(came);
        if has_come {
            self.progress.bytes_verified += rest;
            self.progress.bytes_durable += bytes;
        } else {
            self.progress.bytes_unmoved += rest;
        }
        // To join to what is in its line.
        if let (Outcome::Done { digest: Some(_), .. }, State::Large(large)) = (&outcome, &item.state)
            && let Some(pieces) = large.tree.pieces(self.terms.chunk_bytes)
        {
            self.actions.push_back(Action::Pieces(item.entry.clone(), pieces));
        }
        let may_go = if self.tells_redundant { self.may_go(&item, &outcome) } else { None };
        self.actions.push_back(Action::Settled(item.entry.clone(), outcome));
        if let Some(may_go) = may_go {
            self.actions.push_back(Action::MayGo(item.entry, may_go));
        }
    }

    /// The item, `None` if it was settled or withdrawn, an error if it never was.
    fn known(&mut self, id: EntryId) -> Result<Option<&mut Item>> {
        if id.0 >= self.next_id {
            return Err(protocol("an entry that was never offered"));
        }
        if let Some(old) = self.items.get_mut(&id).and_then(|item| item.replaces.take()) {
            self.gone(old);
        }
        Ok(self.items.get_mut(&id))
    }
}

/// The digest of what was read of a file, with what an earlier attempt had read of the same; `None` if that
/// is not all of it.
fn read_of(item: &Item) -> Option<Digest> {
    match &item.state {
        State::Large(large) => large.tree.root(),
        _ => item.read,
    }
}

fn large_of(item: &mut Item, chunk_bytes: u64, keeps_pieces: bool) -> &mut Large {
    if !matches!(item.state, State::Large(_)) {
        let mut tree = Tree::new(item.entry.evidence.size, chunk_bytes);
        let mut came = RunSet::new();
        if item.arrived {
            came.insert(0, tree.chunks());
        }
        if keeps_pieces && !matches!(item.entry.kind, Kind::File { marked: true, .. }) {
            tree.keep_pieces(PIECES_MAX);
        }
        item.state = State::Large(Box::new(Large {
            queue: RunSet::new(),
            compare: RunSet::new(),
            verified: RunSet::new(),
            durable: RunSet::new(),
            came,
            tree,
            has_theirs: false,
            holds_slot: false,
            is_listed: false,
            being_read: Vec::new(),
            begun: RunSet::new(),
            check: Check::NotYet,
        }));
    }
    match &mut item.state {
        State::Large(large) => large,
        _ => unreachable!("set just above"),
    }
}

impl Item {
    /// It is offered again under another number: of what is known of its chunks only the digest of all of them may be
    /// needed, which the receiver may state.
    pub(super) fn let_go_of_chunks(&mut self, chunk_bytes: u64) {
        let size = self.entry.evidence.size;
        let State::Large(large) = &mut self.state else { return };
        let Large { queue, compare, verified, durable, came, begun, tree, .. } = &mut **large;
        [queue, compare, verified, durable, came, begun].into_iter().for_each(|set| *set = RunSet::new());
        if !tree.is_complete() {
            *tree = Tree::new(size, chunk_bytes);
        }
    }

    /// Gaps in what is known of its chunks.
    fn gaps(&self) -> usize {
        let State::Large(large) = &self.state else { return 0 };
        let sets = [&large.queue, &large.compare, &large.verified, &large.durable, &large.came];
        large.tree.parts() + sets.map(RunSet::run_count).iter().sum::<usize>()
    }
}

impl Large {
    /// These chunks are there, of a file of `size` bytes. How many bytes more count as verified by that.
    fn note_came(&mut self, run: Run, size: u64, chunk_bytes: u64) -> u64 {
        let before = self.bytes_that_came(size, chunk_bytes);
        self.came.insert(run.first, run.first + run.count);
        self.bytes_that_came(size, chunk_bytes) - before
    }

    /// Content bytes of these chunks that will count as verified, and of which nothing but the digest was told.
    fn bytes_compared(&self, run: Run, size: u64, chunk_bytes: u64) -> u64 {
        if self.compare.is_empty() {
            return 0;
        }
        // Each chunk once, however often it is said: so this costs no more than there are gaps.
        let mut new = RunSet::new();
        new.insert(run.first, run.first + run.count);
        self.came.within(run.first, run.first + run.count).for_each(|(first, end)| new.remove(first, end));
        let compared = new.iter().flat_map(|(first, end)| self.compare.within(first, end));
        compared.map(|(first, end)| (end * chunk_bytes).min(size) - first * chunk_bytes).sum()
    }

    /// Content bytes that count as verified, of a file of `size` bytes.
    fn bytes_that_came(&self, size: u64, chunk_bytes: u64) -> u64 {
        // All chunks but the last of a file are of one length.
        let last = self.tree.chunks() - 1;
        let others = self.came.len() - u64::from(self.came.contains(last));
        let last_bytes = digest::chunk_length(last, size, chunk_bytes);
        others * chunk_bytes + if self.came.contains(last) { last_bytes } else { 0 }
    }
}
