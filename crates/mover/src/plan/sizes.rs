//! The pieces that content travels in: chunks of files, segments of chunks, frames with segments.

use super::{Asked, CHUNK_BYTES, Chosen, NEAR_SEGMENT_BYTES, SEGMENT_BYTES, Tuned, chosen, show_rate};
use crate::memory;
use thalweg_wire::limits;

/// A chunk is what a cut or a kill costs each stream, and what is not recorded before it is whole. It travels in one
/// stream: at the end the others wait for the last one, which takes longest where the path is slow. So where the rate
/// is known, a chunk takes about a tenth of a second of a stream's share, or, where that is less than
/// [`SMALL_CHUNK_BYTES`], as much of these as a second carries. `known_rate`: bits a second that the transfer will not
/// pass, and how that is known.
pub(super) fn chunk(
    asked: &Asked,
    tuned: Option<&Tuned>,
    known_rate: Option<&(u64, String)>,
    streams: u16,
    is_far: bool,
) -> Chosen<u64> {
    let request = asked.request_bytes.map_or(0, u64::from);
    let tuned = tuned.and_then(|tuned| Some((tuned.chunk_bytes?, tuned.why())));
    if let Some(bytes) = asked.chunk_bytes {
        return chosen(bytes, "as asked");
    }
    if let Some((bytes, why)) = tuned.filter(|(bytes, _)| request <= *bytes) {
        return chosen(bytes, why);
    }
    let streams = u64::from(streams.max(1));
    let by_path = match known_rate {
        Some((rate, how)) => chunk_for_share(rate / 8 / streams).map(|(bytes, time)| {
            chosen(bytes, format!("about {time} of each stream's {}: {how}", show_rate(rate / streams)))
        }),
        None if is_far => Some(chosen(FAR_CHUNK_BYTES, "streams of a far path end together")),
        None => None,
    };
    let chunk = by_path.unwrap_or_else(|| chosen(CHUNK_BYTES, "repairs stay small, bookkeeping rare"));
    if request > chunk.value { chosen(request, "one request") } else { chunk }
}

/// Of a chunk while nobody knows what a far path carries, in bytes. Over 1 Gbit/s at 20 ms with a loss of 10⁻⁴, 256 MiB
/// in eight streams took 0.97 of the time that they took in chunks of 4 MiB (docs/measurements.md, chunks).
const FAR_CHUNK_BYTES: u64 = 1 << 20;
/// Smaller chunks are for streams that take longer than a second for one of these, in bytes.
const SMALL_CHUNK_BYTES: u64 = 256 << 10;

/// Bytes of a chunk for a stream with so many bytes a second, and the time that it takes; `None` if it needs no less
/// than
/// [`CHUNK_BYTES`].
fn chunk_for_share(bytes_per_s: u64) -> Option<(u64, &'static str)> {
    let (bytes, time) = match (bytes_per_s / 10, bytes_per_s.min(SMALL_CHUNK_BYTES)) {
        (tenth, least) if tenth >= least => (tenth, "a tenth of a second"),
        (_, SMALL_CHUNK_BYTES) => (SMALL_CHUNK_BYTES, "less than a second"),
        (_, second) => (second, "a second"),
    };
    let bytes = (1 << bytes.max(1).ilog2()).max(limits::CHUNK_BYTES_MIN);
    (bytes < CHUNK_BYTES).then_some((bytes, time))
}

/// A frame has so many bytes beside its payload, at most.
pub(super) const FRAME_MORE_BYTES: u64 = 64 << 10;

/// Memory of a frame for this segment; one that fills half of a huge page or more takes whole ones.
pub(crate) const fn frame_bytes(segment_bytes: u64) -> u64 {
    let huge_page_bytes = memory::HUGE_PAGE_BYTES as u64;
    let bytes = segment_bytes + FRAME_MORE_BYTES;
    if bytes >= huge_page_bytes / 2 { bytes.next_multiple_of(huge_page_bytes) } else { bytes }
}

/// Bytes for the frames of all streams; the other half of the memory is for what is read ahead and written behind.
pub(super) fn for_frames(asked: &Asked) -> Option<u64> {
    asked.memory_bytes.map(|bytes| bytes / 2)
}

/// A segment leaves as one piece: where there is a rate to keep, there are
/// [`SEGMENT_TIMES_PER_S`] at least.
pub(super) fn segment(asked: &Asked, tuned: Option<&Tuned>, chunk_bytes: u64, is_far: bool) -> Chosen<u32> {
    if let Some(bytes) = asked.request_bytes {
        return chosen(bytes, "as asked");
    }
    let smallest = limits::SEGMENT_BYTES_MIN as u32;
    // Where memory is bounded a frame shall not take a huge page.
    let is_small = is_far || asked.memory_bytes.is_some();
    let usual = if is_small { SEGMENT_BYTES } else { NEAR_SEGMENT_BYTES };
    let tuned = tuned.and_then(|tuned| Some((tuned.request_bytes?, tuned.why())));
    let (segment, why) = match (tuned, asked.yields, asked.rate_bits_per_s) {
        (Some(found), ..) => found,
        (None, true, _) => (smallest, "small, to yield soon".to_owned()),
        (None, false, Some(rate)) if rate / 8 / SEGMENT_TIMES_PER_S < u64::from(usual) => {
            let bytes = (rate / 8 / SEGMENT_TIMES_PER_S).max(1) as u32;
            let bytes = bytes.next_power_of_two().clamp(smallest, usual);
            (bytes, "small, to keep the rate evenly".to_owned())
        }
        _ if is_small => (usual, "small, for each stream has memory for some".to_owned()),
        _ => (usual, "disks write faster than with less; larger gains nothing".to_owned()),
    };
    let segment = u64::from(segment).min(chunk_bytes);
    let most = for_frames(asked).unwrap_or(u64::MAX);
    if frame_bytes(segment) <= most {
        return chosen(segment as u32, why);
    }
    let mut less = segment;
    while frame_bytes(less) > most && less > u64::from(smallest) {
        less /= 2;
    }
    chosen(less as u32, "as large as --memory has room for")
}

/// So many segments a second at least, where a rate was asked for.
const SEGMENT_TIMES_PER_S: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_a_part_of_a_second_where_the_rate_is_known() {
        let chunk_at = |rate: Option<u64>, streams| {
            let known = rate.map(|rate| (rate, "measured".to_owned()));
            chunk(&Asked::default(), None, known.as_ref(), streams, true)
        };
        for (rate, streams, bytes) in [
            (10_000_000_000, 8, CHUNK_BYTES),
            (1_000_000_000, 8, 1 << 20),
            (100_000_000, 8, 256 << 10),
            (8_000_000, 1, 256 << 10),
            (800_000, 1, 64 << 10),
            (1000, 32, limits::CHUNK_BYTES_MIN),
            (0, 0, limits::CHUNK_BYTES_MIN),
        ] {
            let chosen = chunk_at(Some(rate), streams);
            assert_eq!(chosen.value, bytes, "{rate} {streams}");
            assert_eq!(chosen.why.contains("measured"), bytes < CHUNK_BYTES, "{}", chosen.why);
        }
    }

    #[test]
    fn a_chunk_is_smaller_on_a_far_path_that_nobody_knows() {
        let chunk_of = |is_far| chunk(&Asked::default(), None, None, 8, is_far).value;
        assert_eq!((chunk_of(false), chunk_of(true)), (CHUNK_BYTES, FAR_CHUNK_BYTES));
    }

    #[test]
    fn what_trials_found_for_a_request_fits_the_memory_too() {
        let tuned = Tuned { request_bytes: Some(4 << 20), ..Tuned::default() };
        let of = |memory_bytes| {
            let asked = Asked { memory_bytes, ..Asked::default() };
            segment(&asked, Some(&tuned), CHUNK_BYTES, true).value
        };
        assert_eq!(of(None), 4 << 20);
        let little = of(Some(8 << 20));
        assert!(frame_bytes(little.into()) <= 4 << 20, "{little}");
    }

    #[test]
    fn a_chunk_has_room_for_a_request_and_what_is_asked_is_kept() {
        let known = Some((8_000_000, String::new()));
        let with = |asked: &Asked, tuned: Option<&Tuned>| chunk(asked, tuned, known.as_ref(), 1, true).value;
        let request = Asked { request_bytes: Some(2 << 20), ..Asked::default() };
        assert_eq!(with(&request, None), 2 << 20);
        let tuned = |bytes| Tuned { chunk_bytes: Some(bytes), ..Tuned::default() };
        assert_eq!(with(&request, Some(&tuned(1 << 20))), 2 << 20);
        assert_eq!(with(&request, Some(&tuned(8 << 20))), 8 << 20);
        let asked = Asked { chunk_bytes: Some(64 << 10), ..request };
        assert_eq!(with(&asked, Some(&tuned(8 << 20))), 64 << 10);
    }
}
