//! The pieces that content travels in: chunks of files, segments of chunks, frames with segments.

use super::{Asked, CHUNK_BYTES, Chosen, SEGMENT_BYTES, Tuned, chosen, show_rate};
use thalweg_wire::limits;

/// A chunk is what a cut or a kill costs each stream, and what is not recorded before it is whole. So where the rate is
/// known it takes no more than about a second of a stream's share. `known_rate`: bits a second that the transfer will not
/// pass, and how that is known.
pub(super) fn chunk(
    asked: &Asked,
    tuned: Option<&Tuned>,
    known_rate: Option<&(u64, String)>,
    streams: u16,
) -> Chosen<u64> {
    let request = asked.request_bytes.map_or(0, u64::from);
    let tuned = tuned.and_then(|tuned| Some((tuned.chunk_bytes?, tuned.why())));
    if let Some(bytes) = asked.chunk_bytes {
        return chosen(bytes, "as asked");
    }
    if let Some((bytes, why)) = tuned.filter(|(bytes, _)| request <= *bytes) {
        return chosen(bytes, why);
    }
    let of_a_second = |rate: u64| {
        let bytes = rate / 8 / u64::from(streams.max(1));
        (1 << bytes.max(1).ilog2()).clamp(limits::CHUNK_BYTES_MIN, CHUNK_BYTES)
    };
    let by_rate = known_rate.map(|(rate, _)| of_a_second(*rate)).filter(|bytes| *bytes < CHUNK_BYTES);
    match (by_rate, known_rate) {
        _ if request > by_rate.unwrap_or(CHUNK_BYTES) => chosen(request, "one request"),
        (Some(bytes), Some((rate, how))) => {
            let share = show_rate(rate / u64::from(streams.max(1)));
            chosen(bytes, format!("about a second of each stream's {share}: {how}"))
        }
        _ => chosen(CHUNK_BYTES, "repairs stay small, bookkeeping rare"),
    }
}

/// A frame has so many bytes beside its payload, at most.
pub(super) const FRAME_MORE_BYTES: u64 = 64 << 10;

/// Memory of a frame for this segment; one that fills half of a huge page or more takes whole ones.
pub(crate) const fn frame_bytes(segment_bytes: u64) -> u64 {
    const HUGE_PAGE_BYTES: u64 = 2 << 20;
    let bytes = segment_bytes + FRAME_MORE_BYTES;
    if bytes >= HUGE_PAGE_BYTES / 2 { bytes.next_multiple_of(HUGE_PAGE_BYTES) } else { bytes }
}

/// Bytes for the frames of all streams; the other half of the memory is for what is read ahead and written behind.
pub(super) fn for_frames(asked: &Asked) -> Option<u64> {
    asked.memory_bytes.map(|bytes| bytes / 2)
}

/// A segment leaves as one piece: where there is a rate to keep, there are
/// [`SEGMENT_TIMES_PER_S`] at least.
pub(super) fn segment(asked: &Asked, tuned: Option<&Tuned>, chunk_bytes: u64) -> Chosen<u32> {
    if let Some(bytes) = asked.request_bytes {
        return chosen(bytes, "as asked");
    }
    let smallest = limits::SEGMENT_BYTES_MIN as u32;
    let tuned = tuned.and_then(|tuned| Some((tuned.request_bytes?, tuned.why())));
    let (segment, why) = match (tuned, asked.yields, asked.rate_bits_per_s) {
        (Some(found), ..) => found,
        (None, true, _) => (smallest, "small, to yield soon".to_owned()),
        (None, false, Some(rate)) if rate / 8 / SEGMENT_TIMES_PER_S < u64::from(SEGMENT_BYTES) => {
            let bytes = (rate / 8 / SEGMENT_TIMES_PER_S).max(1) as u32;
            let bytes = bytes.next_power_of_two().clamp(smallest, SEGMENT_BYTES);
            (bytes, "small, to keep the rate evenly".to_owned())
        }
        _ => (SEGMENT_BYTES, "fits the second-level cache; larger gains nothing".to_owned()),
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
    fn a_chunk_takes_no_more_than_a_second_where_the_rate_is_known() {
        let chunk_at = |rate: Option<u64>, streams| {
            let known = rate.map(|rate| (rate, "measured".to_owned()));
            chunk(&Asked::default(), None, known.as_ref(), streams)
        };
        assert_eq!(chunk_at(None, 8).value, CHUNK_BYTES);
        assert_eq!(chunk_at(Some(1_000_000_000), 8).value, CHUNK_BYTES);
        for (rate, streams, bytes) in [
            (100_000_000, 8, 1 << 20),
            (8_000_000, 1, 512 << 10),
            (1000, 32, limits::CHUNK_BYTES_MIN),
            (0, 0, limits::CHUNK_BYTES_MIN),
        ] {
            let chosen = chunk_at(Some(rate), streams);
            assert_eq!(chosen.value, bytes, "{rate} {streams}");
            assert!(chosen.why.contains("measured"), "{}", chosen.why);
        }
    }

    #[test]
    fn what_trials_found_for_a_request_fits_the_memory_too() {
        let tuned = Tuned { request_bytes: Some(4 << 20), ..Tuned::default() };
        let of = |memory_bytes| {
            let asked = Asked { memory_bytes, ..Asked::default() };
            segment(&asked, Some(&tuned), CHUNK_BYTES).value
        };
        assert_eq!(of(None), 4 << 20);
        let little = of(Some(8 << 20));
        assert!(frame_bytes(little.into()) <= 4 << 20, "{little}");
    }

    #[test]
    fn a_chunk_has_room_for_a_request_and_what_is_asked_is_kept() {
        let known = Some((8_000_000, String::new()));
        let with = |asked: &Asked, tuned: Option<&Tuned>| chunk(asked, tuned, known.as_ref(), 1).value;
        let request = Asked { request_bytes: Some(2 << 20), ..Asked::default() };
        assert_eq!(with(&request, None), 2 << 20);
        let tuned = |bytes| Tuned { chunk_bytes: Some(bytes), ..Tuned::default() };
        assert_eq!(with(&request, Some(&tuned(1 << 20))), 2 << 20);
        assert_eq!(with(&request, Some(&tuned(8 << 20))), 8 << 20);
        let asked = Asked { chunk_bytes: Some(64 << 10), ..request };
        assert_eq!(with(&asked, Some(&tuned(8 << 20))), 64 << 10);
    }
}
