//! An array of disks in numbers: seek time, rate, stripes. Pure: it knows no time but what it is told.
//!
//! Each device serves one request after the other, in the order in which they come. A request costs a seek unless it
//! begins where the last one on that device ended, and then its bytes at the device's rate. That is as much of a disk
//! as 004 (Figs 3 and 4) and 002 (Table II) need to be seen: which requests come in which order, from how many threads.
//! Not here: caches, rotation, tracks, a controller that sorts.

use crate::endpoint::content::mixed;
use crate::order::Placed;
use std::time::Duration;

/// What an array is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Time to move a head.
    pub seek: Duration,
    /// Bytes that one device moves in a second.
    pub bytes_per_s: u64,
    /// Devices, 1 to [`ArraySpec::DEVICES_MAX`].
    pub devices: u32,
    /// Bytes that lie together on one device.
    pub stripe_bytes: u64,
    /// Stripes lie anywhere, as `seed` has it, instead of one after the other: a file in pieces.
    pub is_scattered: bool,
    /// What it says of its layout is the device of each stripe only, and not the place on it.
    pub hides_places: bool,
    /// Bytes of the one file that lies there.
    pub bytes: u64,
    /// What its content, and the places of scattered stripes, come from.
    pub seed: u64,
}

impl Default for ArraySpec {
    /// One disk of an array of 004 (section III-A: 64 KiB stripes, 7200 turns a minute), with a file of 1 GiB.
    fn default() -> Self {
        ArraySpec {
            seek: Duration::from_millis(8),
            bytes_per_s: 60_000_000,
            devices: 1,
            stripe_bytes: 64 << 10,
            is_scattered: false,
            hides_places: false,
            bytes: 1 << 30,
            seed: 0,
        }
    }
}

impl ArraySpec {
    /// Most devices of one array.
    pub const DEVICES_MAX: u32 = 1024;
    /// Most stripes of one array: their places are kept, 8 bytes each.
    pub const STRIPES_MAX: u64 = 1 << 20;

    /// Whether all numbers are within their bounds; else which is not.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if !(1..=Self::DEVICES_MAX).contains(&self.devices) => Err("devices: 1 to 1024"),
            _ if self.bytes_per_s == 0 => Err("rate: at least 1 byte a second"),
            _ if self.stripe_bytes == 0 => Err("stripe: at least 1 byte"),
            _ if self.seek > Duration::from_secs(60) => Err("seek: at most 60s"),
            _ if self.is_scattered && self.bytes.div_ceil(self.stripe_bytes) > Self::STRIPES_MAX => {
                Err("scattered: at most 1048576 stripes; use larger ones")
            }
            _ => Ok(()),
        }
    }
}

/// An array at work.
#[derive(Debug)]
pub struct Array {
    spec: ArraySpec,
    /// Where stripes lie, if they are scattered.
    places: Vec<u64>,
    heads: Vec<Head>,
}

#[derive(Debug, Clone, Default)]
struct Head {
    /// Byte of the device behind the last request.
    at: u64,
    /// When it is through with what it was told.
    free: Duration,
}

impl Array {
    /// All heads at the beginning.
    ///
    /// # Errors
    /// As [`ArraySpec::check`].
    pub fn new(spec: ArraySpec) -> Result<Array, &'static str> {
        spec.check()?;
        let stripes = if spec.is_scattered { spec.bytes.div_ceil(spec.stripe_bytes) } else { 0 };
        let mut places: Vec<u64> = (0..stripes).collect();
        for last in (1..places.len()).rev() {
            places.swap(last, (mixed(spec.seed, last as u64) % (last as u64 + 1)) as usize);
        }
        let heads = vec![Head::default(); spec.devices as usize];
        Ok(Array { spec, places, heads })
    }

    /// A request of `bytes` at `offset` comes at `now`; returns when it has ended.
    pub fn request(&mut self, now: Duration, offset: u64, bytes: u64) -> Duration {
        let mut end = now;
        let mut at = offset;
        while at < offset.saturating_add(bytes) {
            let piece = (self.spec.stripe_bytes - at % self.spec.stripe_bytes).min(offset + bytes - at);
            let (device, address) = self.place(at);
            let head = &mut self.heads[device as usize];
            let seek = if head.at == address { Duration::ZERO } else { self.spec.seek };
            let moved = Duration::from_secs_f64(piece as f64 / self.spec.bytes_per_s as f64);
            head.free = head.free.max(now) + seek + moved;
            head.at = address + piece;
            end = end.max(head.free);
            at += piece;
        }
        end
    }

    /// Where each stripe of the file lies; with places that are hidden as if each device held them in the file's order.
    pub fn layout(&self) -> impl Iterator<Item = Placed> + '_ {
        (0..self.spec.bytes.div_ceil(self.spec.stripe_bytes)).map(|stripe| {
            let logical = stripe * self.spec.stripe_bytes;
            let (device, place) = self.place(logical);
            let physical = if self.spec.hides_places { logical } else { place };
            let length = self.spec.stripe_bytes.min(self.spec.bytes - logical);
            Placed { logical, length, device, physical }
        })
    }

    /// Device and byte on it.
    fn place(&self, offset: u64) -> (u32, u64) {
        let (stripe, within) = (offset / self.spec.stripe_bytes, offset % self.spec.stripe_bytes);
        let stripe = self.places.get(stripe as usize).copied().unwrap_or(stripe);
        let devices = u64::from(self.spec.devices);
        ((stripe % devices) as u32, stripe / devices * self.spec.stripe_bytes + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_costs_a_seek_unless_it_goes_on_where_the_last_one_ended() {
        let spec = ArraySpec {
            seek: SECOND,
            bytes_per_s: 10,
            stripe_bytes: 10,
            devices: 2,
            bytes: 1000,
            ..ArraySpec::default()
        };
        let mut array = Array::new(spec).unwrap();
        // Both devices work at once.
        assert_eq!(array.request(Duration::ZERO, 0, 20), SECOND);
        assert_eq!(array.request(SECOND, 20, 20), 2 * SECOND);
        assert_eq!(array.request(2 * SECOND, 0, 10), 4 * SECOND);
        // The second waits for the first.
        assert_eq!(array.request(2 * SECOND, 10, 10), 4 * SECOND);
        assert_eq!(array.request(2 * SECOND, 20, 10), 5 * SECOND);
    }

    #[test]
    fn scattered_stripes_lie_all_over_and_none_on_another() {
        let spec = ArraySpec { is_scattered: true, devices: 4, bytes: 100 << 16, ..ArraySpec::default() };
        let array = Array::new(spec).unwrap();
        let mut places: Vec<(u32, u64)> =
            array.layout().map(|place| (place.device, place.physical)).collect();
        assert!(!places.is_sorted());
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 100);
        assert!(Array::new(ArraySpec { devices: 0, ..ArraySpec::default() }).is_err());
    }
}
