//! Knobs of copies, streams and frames, as users turn them by hand: which values they take.

use super::units;
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_mover::plan;
use thalweg_wire::limits;
use thalweg_wire::message::{Direct, Disk, DiskSide, Order, PartOf};

/// Whether a chunk can have so many bytes.
///
/// # Errors
/// What is wanted instead, here and below.
pub fn chunk(bytes: u64) -> Result<u64, String> {
    match limits::is_chunk_size(bytes) {
        true => Ok(bytes),
        false => {
            let range = units::size_range(limits::CHUNK_BYTES_MIN, limits::CHUNK_BYTES_MAX);
            Err(format!("a chunk is a power of two {range}"))
        }
    }
}

/// Whether a request to a disk can.
///
/// # Errors
/// As above.
pub fn request(bytes: u64) -> Result<u32, String> {
    let (least, most) = (limits::SEGMENT_BYTES_MIN, limits::SEGMENT_BYTES_MAX);
    match bytes.is_power_of_two() && (least..=most).contains(&bytes) {
        true => Ok(bytes as u32),
        false => Err(format!("a request is a power of two {}", units::size_range(least, most))),
    }
}

/// Whether a stream can have so many bytes under way.
///
/// # Errors
/// As above.
pub fn window(bytes: u64) -> Result<u64, String> {
    within("a window has ", bytes, (limits::WINDOW_BYTES_MIN, limits::WINDOW_BYTES_MAX))
}

/// Whether a stream can keep so many bytes in memory until they are durable.
///
/// # Errors
/// As above.
pub fn buffer(bytes: u64) -> Result<u64, String> {
    within("a buffer has ", bytes, (limits::FLOW_WINDOW_BYTES_MIN, limits::FLOW_WINDOW_BYTES_MAX))
}

/// Whether frames can have so many bytes under way.
///
/// # Errors
/// As above.
pub fn lane(bytes: u64) -> Result<u64, String> {
    within("", bytes, (limits::LANE_BYTES_MIN, limits::LANE_BYTES_MAX))
}

fn within(what: &str, bytes: u64, (least, most): (u64, u64)) -> Result<u64, String> {
    match (least..=most).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{what}{}", units::size_range(least, most))),
    }
}

/// A part as users write it, `2/4`.
///
/// # Errors
/// As above.
pub fn parse_part(text: &str) -> Result<PartOf, String> {
    let read = |(number, count): (&str, &str)| PartOf::new(number.parse().ok()?, count.parse().ok()?);
    text.split_once('/')
        .and_then(read)
        .ok_or_else(|| format!("part K of N is K/N, with K from 1 to N and N at most {}", limits::PARTS_MAX))
}

/// Whether so many files can be in flight at once.
///
/// # Errors
/// As above.
pub fn concurrency(files: u64) -> Result<u32, String> {
    count(files, limits::CONCURRENCY_MAX)
}

/// Whether a stream can have so many chunks or packs in flight.
///
/// # Errors
/// As above.
pub fn depth(tasks: u64) -> Result<u32, String> {
    count(tasks, limits::DEPTH_MAX)
}

/// Whether a stream can have so many requests to a disk in flight.
///
/// # Errors
/// As above.
pub fn io_depth(requests: u64) -> Result<u16, String> {
    count(requests, limits::IO_DEPTH_MAX.into()).map(|requests| requests as u16)
}

fn count(count: u64, high: u32) -> Result<u32, String> {
    let within = u32::try_from(count).ok().filter(|count| (1..=high).contains(count));
    within.ok_or_else(|| format!("a number from 1 to {high}"))
}

/// Refuses requests that are larger than the chunks that they make.
///
/// # Errors
/// `Usage`.
pub fn check(asked: &plan::Asked) -> Result<(), Failure> {
    match (asked.request_bytes, asked.chunk_bytes) {
        (Some(request), Some(chunk)) if u64::from(request) > chunk => {
            let cause = format!("a request is at most a chunk: {request} and {chunk} bytes");
            Err(Failure::new(FailureKind::Usage, "choose the knobs", cause))
        }
        _ => Ok(()),
    }
}

/// A value for each side; `None`: nothing was said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides<T> {
    /// Of the source.
    pub source: Option<T>,
    /// Of the destination.
    pub destination: Option<T>,
}

/// How both sides use their disks. Nothing said of direct I/O: as it pays.
pub fn disk(
    direct: Option<Sides<Direct>>,
    order: Option<Sides<Order>>,
    depth: Option<u16>,
    no_io_uring: bool,
) -> Disk {
    let side = |direct: Option<Direct>, order| DiskSide { direct: direct.unwrap_or_default(), order };
    Disk {
        source: side(direct.and_then(|direct| direct.source), order.and_then(|order| order.source)),
        destination: side(
            direct.and_then(|direct| direct.destination),
            order.and_then(|order| order.destination),
        ),
        depth,
        no_io_uring,
    }
}

/// Reads when to go past the page cache: `auto`, `on`, `off` for both sides, or `source=on`, `destination=off`, with a
/// comma between them.
///
/// # Errors
/// As above.
pub fn parse_direct(text: &str) -> Result<Sides<Direct>, String> {
    parse_sides(text, |word| match word {
        "auto" => Ok(Direct::Auto),
        "on" => Ok(Direct::On),
        "off" => Ok(Direct::Off),
        _ => Err(format!("`{word}`: auto, on or off")),
    })
}

/// Reads an order of requests: `strict`, `serial`, `loose`, `none`, `layout`, for sides as [`parse_direct`] does. At
/// the destination there are `serial`, `loose` and `none`.
///
/// # Errors
/// As above.
pub fn parse_order(text: &str) -> Result<Sides<Order>, String> {
    let sides = parse_sides(text, |word| match word {
        "strict" => Ok(Order::Strict),
        "serial" => Ok(Order::Serial),
        "loose" => Ok(Order::Loose),
        "none" => Ok(Order::None),
        "layout" => Ok(Order::Layout),
        _ => Err(format!("`{word}`: strict, serial, loose, none or layout")),
    })?;
    // A destination writes what comes: which chunk next is the source's choice.
    let is_of_source = |order| matches!(order, Some(Order::Strict | Order::Layout));
    match (text.contains('='), is_of_source(sides.destination)) {
        (true, true) => Err("strict and layout are orders of the source".into()),
        (false, true) => Ok(Sides { destination: None, ..sides }),
        _ => Ok(sides),
    }
}

/// `VALUE` for both sides, or `source=VALUE`, `destination=VALUE`, with a comma between them.
fn parse_sides<T: Copy>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Sides<T>, String> {
    let mut sides = Sides { source: None, destination: None };
    for part in text.split(',') {
        let (place, value) = match part.split_once('=') {
            Some(("source", value)) => (&mut sides.source, value),
            Some(("destination", value)) => (&mut sides.destination, value),
            Some((other, _)) => return Err(format!("`{other}` is no side: source or destination")),
            None if part.len() == text.len() => {
                let value = Some(parse(part)?);
                return Ok(Sides { source: value, destination: value });
            }
            None => return Err(format!("`{part}`: of which side? source={part} or destination={part}")),
        };
        if place.replace(parse(value)?).is_some() {
            return Err("a side is named twice".into());
        }
    }
    Ok(sides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_turned_within_its_range_only() {
        assert_eq!((chunk(64 << 10), chunk(64 << 20)), (Ok(64 << 10), Ok(64 << 20)));
        assert_eq!((request(64 << 10), window(1 << 30)), (Ok(64 << 10), Ok(1 << 30)));
        assert_eq!((concurrency(4096), depth(1), io_depth(64)), (Ok(4096), Ok(1), Ok(64)));
        for odd in [0, 1, (64 << 10) + 1, 128 << 20, 1 << 32, u64::MAX] {
            assert!(chunk(odd).is_err() && request(odd).is_err(), "{odd}");
        }
        assert!(window(4095).is_err() && window((1 << 30) + 1).is_err());
        assert!(buffer(64 << 10).is_ok() && buffer((256 << 20) + 1).is_err());
        assert_eq!(lane(1), Err("from 64KiB to 256MiB".to_owned()));
        for odd in [0, 4097, 1 << 32] {
            assert!(concurrency(odd).is_err() && depth(odd).is_err() && io_depth(odd).is_err(), "{odd}");
        }
        let asked = |request, chunk| plan::Asked {
            request_bytes: Some(request),
            chunk_bytes: Some(chunk),
            ..plan::Asked::default()
        };
        let refused = check(&asked(1 << 20, 512 << 10)).unwrap_err();
        let cause = "a request is at most a chunk: 1048576 and 524288 bytes";
        assert_eq!((refused.kind, refused.cause.as_str()), (FailureKind::Usage, cause));
        check(&asked(1 << 20, 1 << 20)).unwrap();
    }

    #[test]
    fn a_side_that_is_not_named_is_as_it_would_be() {
        let disk = |direct, order| {
            disk(Some(parse_direct(direct).unwrap()), Some(parse_order(order).unwrap()), None, false)
        };
        let usual = DiskSide::default();
        let read = disk("source=on", "layout");
        assert_eq!((read.source.direct, read.destination.direct), (Direct::On, Direct::Auto));
        // A destination has no such order.
        assert_eq!((read.source.order, read.destination), (Some(Order::Layout), usual));
        let write = disk("destination=off,source=auto", "destination=serial");
        assert_eq!((write.source, write.destination.direct), (usual, Direct::Off));
        assert_eq!(write.destination.order, Some(Order::Serial));
        for odd in ["", "both", "near=on", "on,off", "source=on,source=on"] {
            assert!(parse_direct(odd).is_err(), "{odd}");
        }
        assert!(parse_order("destination=layout").is_err());
    }
}
