//! Digesting, sealing, opening alone: one segment of noise, in the cache of a core.

use super::{Measure, Tally, for_threads};
use crate::endpoint::synthetic::fill_with_noise;
use crate::failure::Result;
use crate::link::sealed::{Opener, SECRET_BYTES, Sealer};
use crate::mutex::lock;
use std::time::Instant;
use thalweg_sys::Buffer;
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Measured, Part};
use thalweg_wire::{digest, limits};

pub(super) fn compute(asked: &Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let tally = Tally::default();
    let plain = asked.terms.segment_bytes as usize;
    let segments = for_threads(asked.threads, |_| Buffer::new(plain + TAG_BYTES))?;
    tally.run(segments.len() as u16, asked.time, is_over, |number| {
        let Some(mut segment) = lock(&segments[usize::from(number)]).take() else { return Ok(()) };
        fill_with_noise(&mut segment[..plain], 0);
        let cipher = if asked.cipher == Cipher::Tls { Cipher::Aes128Gcm } else { asked.cipher };
        let secret = [7; SECRET_BYTES];
        let mut sealer = Sealer::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let mut opener = Opener::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let outer = [0; OUTER_BYTES];
        // Once at least, though a busy machine may give this thread a core only when the time is over.
        loop {
            let mut began = Instant::now();
            if asked.part == Part::Digest {
                std::hint::black_box(digest::of_piece(0, &segment[..plain], plain as u64));
            } else {
                let tag = sealer.seal(&outer, &mut segment[..plain])?;
                if asked.part == Part::Open {
                    segment[plain..].copy_from_slice(&tag);
                    began = Instant::now();
                    std::hint::black_box(opener.open(&outer, &mut segment)?);
                }
            }
            tally.book(plain as u64, began.elapsed());
            if tally.is_over() {
                return Ok(());
            }
        }
    })
}
