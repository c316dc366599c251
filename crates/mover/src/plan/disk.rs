//! How disks are used, in words.

use super::{Chosen, Tuned, chosen};
use crate::order;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use thalweg_wire::message::{Direct, Disk, Order};

/// How disks are used: what is asked for, or what each side does by itself, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPlan {
    /// Requests in flight for each stream.
    pub io_depth: Chosen<u16>,
    /// What keeps several requests in flight, at this machine.
    #[serde(deserialize_with = "known")]
    pub engine: Chosen<&'static str>,
    /// Past the page cache, at the source and at the destination.
    #[serde(deserialize_with = "both_known")]
    pub direct: [Chosen<&'static str>; 2],
    /// Order of requests, at the source and at the destination.
    #[serde(deserialize_with = "both_known")]
    pub order: [Chosen<&'static str>; 2],
}

/// All words of such plans.
const WORDS: [&str; 10] =
    ["io_uring", "threads", "on", "off", "auto", "strict", "serial", "loose", "none", "layout"];

fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Chosen<&'static str>, D::Error> {
    known_of(Chosen::deserialize(from)?)
}

fn both_known<'de, D: Deserializer<'de>>(from: D) -> Result<[Chosen<&'static str>; 2], D::Error> {
    let [source, destination] = <[Chosen<String>; 2]>::deserialize(from)?;
    Ok([known_of(source)?, known_of(destination)?])
}

fn known_of<E: Error>(Chosen { value, why }: Chosen<String>) -> Result<Chosen<&'static str>, E> {
    let word = WORDS.into_iter().find(|word| *word == value);
    word.map(|value| Chosen { value, why }).ok_or_else(|| E::custom("no word of a plan"))
}

/// Disk requests in flight for each stream, if nobody says otherwise: fewer cost a disk that is the narrowest stage,
/// more gain nothing (docs/measurements.md, disks).
pub const IO_DEPTH: u16 = 4;
/// From this size on direct writing repays the loss of the page cache: files of 128 KiB took 0.6 of the time and 0.45
/// of the CPU, those of 1 MiB 0.4 and 0.3, where new pages are dear; where they are not, as much as before. Of files of
/// 100 KB it saves nothing, for the bytes behind the last block take a page all the same.
pub const DIRECT_BYTES: u64 = 128 << 10;
/// From this size on a file is read past the page cache where that has nothing of it. Smaller ones are likely to be
/// read again and have room there, and are over before requests in flight make up for the look at what is cached.
pub const DIRECT_READ_BYTES: u64 = 16 << 20;
/// Reading past the page cache pays in requests of this size and larger, whose memory is a huge page: at least 1.3
/// times as fast as through it, for a fifth of the CPU. Smaller ones may be half as fast (docs/measurements.md, disks).
pub const DIRECT_READ_REQUEST_BYTES: u64 = 1 << 20;

/// Plans for disks, asked in requests of so many bytes. `no_ring`: why this machine has no io_uring, if it has none.
pub fn disk_plan(
    asked: &Disk,
    tuned: Option<&Tuned>,
    request_bytes: u32,
    no_ring: Option<String>,
) -> DiskPlan {
    let direct = |asked, found: fn(&Tuned) -> Option<Direct>, auto: &str| {
        let found = tuned.and_then(|tuned| Some((found(tuned)?, tuned.why())));
        match (asked, found) {
            (Direct::On, _) => chosen("on", "as asked, where the file system takes it"),
            (Direct::Off, _) => chosen("off", "as asked"),
            (Direct::Auto, Some((Direct::On, why))) => chosen("on", why),
            (Direct::Auto, Some((Direct::Off, why))) => chosen("off", why),
            (Direct::Auto, _) => chosen("auto", auto),
        }
    };
    let ordered = |asked: Option<Order>, default: Order, why: &str| match asked {
        Some(asked) => chosen(order_name(asked), "as asked"),
        None => chosen(order_name(default), why),
    };
    let past_cache = format!("past the page cache from {} KiB, on ext4 and XFS", DIRECT_BYTES >> 10);
    DiskPlan {
        io_depth: match (asked.depth, tuned.and_then(|tuned| Some((tuned.io_depth?, tuned.why())))) {
            (Some(depth), _) => chosen(depth, "as asked"),
            (None, Some((depth, why))) => chosen(depth, why),
            (None, None) => chosen(IO_DEPTH, "enough to keep a disk busy"),
        },
        engine: match (asked.no_io_uring, no_ring) {
            (true, _) => chosen("threads", "as asked"),
            (false, None) => chosen("io_uring", "tried: this kernel lets us"),
            (false, Some(why)) => chosen("threads", format!("io_uring is not to be had: {why}")),
        },
        direct: [
            direct(asked.source.direct, |tuned| tuned.direct_source, &reading(request_bytes)),
            direct(asked.destination.direct, |tuned| tuned.direct_destination, &past_cache),
        ],
        order: [
            ordered(asked.source.order, order::SOURCE, "each request after the one before it was made"),
            ordered(asked.destination.order, order::DESTINATION, "data arrive mostly in order"),
        ],
    }
}

/// How a source is read if nobody says otherwise, and why.
fn reading(request_bytes: u32) -> String {
    let (least, from) = (DIRECT_READ_REQUEST_BYTES, DIRECT_READ_BYTES >> 20);
    match u64::from(request_bytes) < least {
        true => format!("through the page cache: requests below {} MiB are slower past it", least >> 20),
        false => format!(
            "what the page cache lacks is read past it, from {from} MiB on, on ext4 and XFS: measured faster"
        ),
    }
}

/// The word for an order.
pub fn order_name(order: Order) -> &'static str {
    match order {
        Order::Strict => "strict",
        Order::Serial => "serial",
        Order::Loose => "loose",
        Order::None => "none",
        Order::Layout => "layout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_says_by_the_size_of_requests_which_way_a_source_is_read() {
        let source = |request_bytes| {
            let [source, _] = disk_plan(&Disk::default(), None, request_bytes, None).direct;
            assert_eq!(source.value, "auto");
            source.why
        };
        assert!(source(1 << 20).starts_with("what the page cache lacks is read past it, from 16 MiB on"));
        assert!(source(512 << 10).starts_with("through the page cache: requests below 1 MiB"));
    }
}
