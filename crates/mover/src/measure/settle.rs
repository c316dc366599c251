//! How long a place takes to make durable what has arrived.

use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::staging::scratch::{Scratch, ScratchFile};
use crate::endpoint::synthetic::fill_with_noise;
use crate::failure::{self, Result};
use crate::plan::SEGMENT_BYTES;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg_sys::{Buffer, Dir};
use thalweg_wire::message::Direct;

/// How long it takes there to make durable what has arrived, at worst: a segment is written and synced, then a note of
/// it in a file beside it, as streams do before each mark. A few times, for about a second.
///
/// # Errors
/// `NotFound`, `Permission`, `Io` of the place; `Space` where there is no room.
pub fn settle(path: PathBuf, below: Option<Dir>) -> Result<Duration> {
    let of_io = |error: io::Error| failure::of_io("sync", &error);
    let scratch = Scratch::begin(&DestinationPlace { path, below }, SETTLE_BYTES, SETTLE_BYTES)?;
    let directory = scratch.tree()?;
    let plain = |number| ScratchFile::create(&directory, number, Direct::Off).map_err(of_io);
    let (content, notes) = (plain(0)?, plain(1)?);
    let mut buffer = Buffer::new(SEGMENT_BYTES as usize).map_err(of_io)?;
    fill_with_noise(&mut buffer, 1);
    let (since, mut worst) = (Instant::now(), Duration::ZERO);
    for round in 0..SETTLE_ROUNDS {
        let at = u64::from(round);
        content.write_all_at(&buffer, at * buffer.len() as u64).map_err(of_io)?;
        let began = Instant::now();
        content.sync_data().map_err(of_io)?;
        notes.write_all_at(&buffer[..NOTE_BYTES], at * NOTE_BYTES as u64).map_err(of_io)?;
        notes.sync_data().map_err(of_io)?;
        worst = worst.max(began.elapsed());
        if since.elapsed() > SETTLE_TIME {
            break;
        }
    }
    Ok(worst)
}

/// Rounds of [`settle`], at most, and after which time no other begins.
const SETTLE_ROUNDS: u32 = 16;
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// What [`settle`] writes, and about what a note of a few marks has.
const SETTLE_BYTES: u64 = SETTLE_ROUNDS as u64 * (SEGMENT_BYTES as u64 + NOTE_BYTES as u64);
const NOTE_BYTES: usize = 512;
