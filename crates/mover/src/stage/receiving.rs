//! The receiving side of a transfer, as its stages see it. They do not know who decides.

use crate::endpoint::{Conclusion, Destination, PartialFile, Ready, Staged};
use crate::failure::{Failure, Result};
use crate::stage::Accounts;
use crate::stage::turn::Gate;
use crate::transfer::Copy;
use crate::transfer::receiver::{Finished, RoundResult};
use std::sync::Arc;
use thalweg_sys::Pool;
use thalweg_wire::digest::Rule;
use thalweg_wire::message::Terms;
use thalweg_wire::{Digest, Entry, EntryId};

/// A partial file that is being written.
#[derive(Clone)]
pub struct OpenPartial {
    /// Its entry.
    pub entry: Arc<Entry>,
    /// Its file.
    pub partial: Arc<dyn PartialFile>,
    /// How its pieces are digested.
    pub rule: Rule,
}

/// A small file that was verified and staged.
pub struct StagedFile {
    /// Its entry.
    pub entry: Arc<Entry>,
    /// What was verified.
    pub digest: Digest,
    /// Where it waits for its name.
    pub staged: Staged,
}

/// What a receiving transfer is to its stages.
pub trait Receiving: Send + Sync {
    /// What both sides agreed on.
    fn terms(&self) -> &Terms;
    /// Where time is booked.
    fn accounts(&self) -> &Accounts;
    /// Where it writes.
    fn destination(&self) -> &dyn Destination;
    /// It failed or is closed: nobody waits for anything of it, and what is written may be the next attempt's.
    fn is_given_up(&self) -> bool;

    /// The partial of an entry whose chunks are wanted, begun if need be. `None` if they are not.
    ///
    /// # Errors
    /// `Protocol` for an entry that was never offered.
    fn open_partial(&self, id: EntryId) -> Result<Option<OpenPartial>>;
    /// Which of these small files are wanted.
    ///
    /// # Errors
    /// `Protocol` if one was never offered.
    fn small_wanted(&self, ids: &[EntryId]) -> Result<Vec<Option<Arc<Entry>>>>;
    /// Small files were verified and staged.
    fn files_staged(&self, files: Vec<StagedFile>);
    /// Turns of its streams' writes, for an order that has them.
    fn gate(&self) -> Option<&Gate>;
    /// Memory for frames of this transfer whose writes are in flight: a bound for all streams together.
    fn buffers(&self) -> &Pool;
    /// Whether the stream `writer` may write the next segment of this chunk. Waits for another stream that is
    /// writing the same chunk at this moment, after `before_wait`, which must tell what this stream has written. If so,
    /// [`Receiving::segment_written`] must follow when none of its writes of this chunk is under way, or, after the
    /// last segment of a good chunk, [`Receiving::chunk_written`], or [`Receiving::copy_given_up`].
    fn claim_chunk(
        &self,
        writer: u64,
        id: EntryId,
        chunk: u64,
        begins: Option<Copy>,
        before_wait: &mut dyn FnMut(),
    ) -> bool;
    /// All writes that were claimed have ended.
    fn segment_written(&self, writer: u64, id: EntryId, chunk: u64);
    /// As [`Receiving::segment_written`], and no more segments of this copy follow.
    fn copy_given_up(&self, writer: u64, id: EntryId, chunk: u64);
    /// A chunk was verified and written.
    fn chunk_written(&self, id: EntryId, chunk: u64, digest: Digest);
    /// A chunk or small file (chunk 0) came damaged.
    fn damaged(&self, id: EntryId, chunk: u64);
    /// The destination lost what had come of a chunk before it was whole.
    fn lost(&self, id: EntryId, chunk: u64);
    /// Whether this chunk is to be compared with the file that stands there: its entry if so.
    ///
    /// # Errors
    /// `Protocol` for what was never offered or cannot be compared.
    fn compare_wanted(&self, id: EntryId, chunk: u64) -> Result<Option<Arc<Entry>>>;
    /// It has the same content there.
    fn chunk_same(&self, id: EntryId, chunk: u64, digest: Digest);
    /// It has not.
    fn chunk_differs(&self, id: EntryId, chunk: u64);
    /// Whether this chunk is still to be copied from the file that stands there.
    fn is_copy_wanted(&self, id: EntryId, chunk: u64) -> bool;
    /// A chunk was copied from the file that stands there, if true.
    fn copied(&self, id: EntryId, chunk: u64, is_there: bool);
    /// Whether it still matters for an entry if the file that stands there has its holes.
    fn is_undecided(&self, id: EntryId) -> bool;
    /// Whether the file that stands there has the hole that was asked about.
    fn holes_compared(&self, id: EntryId, is_hole: bool);
    /// A stream ended, and its last write returned.
    fn writer_gone(&self, writer: u64);
    /// Writing failed.
    fn write_failed(&self, id: EntryId, failure: Failure);

    /// Begins the partial of an entry that is to get its name and of which nothing came: all of it is a hole, as
    /// `digest` says.
    ///
    /// # Errors
    /// As [`Destination::begin`].
    fn begin_if_hole(&self, id: EntryId, digest: Digest) -> Result<()>;

    /// The partial of an entry, if there is one.
    fn partial(&self, id: EntryId) -> Option<OpenPartial>;
    /// The staged file of an entry, if there is one.
    fn staged(&self, id: EntryId) -> Option<(Arc<Entry>, Staged)>;
    /// The entry whose content is held.
    fn entry(&self, id: EntryId) -> Option<Arc<Entry>>;
    /// Whether what is staged for an entry had better get its name with the next round.
    fn is_worth_waiting(&self, id: EntryId) -> bool;
    /// Takes what is held for an entry.
    fn take_content(&self, id: EntryId) -> Option<Ready>;
    /// A step of a round is done.
    fn round_done(&self, result: RoundResult);
    /// Entries got their names, or did not.
    fn finished(&self, results: Finished);
    /// So many settled entries were noted in the catalogue.
    fn noted(&self, entries: usize);
    /// The end is worked at, and gets on; whether anybody still wants it.
    fn concludes(&self) -> bool;
    /// The end is done.
    fn concluded(&self, conclusion: Conclusion);
}
