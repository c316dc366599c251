//! Which way a range of a source is read: through the page cache, or past it. Pure: whoever reads asks the system, and
//! tells it here.
//!
//! What is in the page cache is read from there, which is memory. What is not is read past it where that measured
//! faster (docs/measurements.md, disks): of large files, in large requests, on file systems that were measured. So it
//! pushes out nothing that others have in the cache, either.

use crate::plan::{DIRECT_READ_BYTES, DIRECT_READ_REQUEST_BYTES};
use thalweg_wire::message::Direct;

/// What the way is chosen by, as far as it is known before any of the file is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::endpoint::local) struct Grounds {
    /// What was asked for.
    pub(in crate::endpoint::local) asked: Direct,
    /// Bytes of the file.
    pub(in crate::endpoint::local) bytes: u64,
    /// Bytes of most of its requests; 0 where nobody told.
    pub(in crate::endpoint::local) request_bytes: u64,
}

/// How a region is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache, which has all of it, or of which nobody says what it has.
    Through,
    /// Past the page cache, which has nothing of it.
    Past,
    /// Each request by itself: the page cache has a part.
    Parts,
}

impl Grounds {
    /// Whether any of it may go past the page cache. `pays`: whether its file system is one where that was measured to
    /// be faster; asked only where it decides.
    pub(super) fn may_pass(&self, pays: impl FnOnce() -> bool) -> bool {
        match self.asked {
            Direct::On => true,
            Direct::Off => false,
            Direct::Auto => {
                self.bytes >= DIRECT_READ_BYTES && self.request_bytes >= DIRECT_READ_REQUEST_BYTES && pays()
            }
        }
    }

    /// How a region of so many bytes is read, of which so many are in the page cache; `None` where nobody says.
    pub(super) fn of_region(&self, cached: Option<u64>, bytes: u64) -> Way {
        match cached {
            // It was asked for.
            None if self.asked == Direct::On => Way::Past,
            None => Way::Through,
            Some(0) => Way::Past,
            Some(cached) if cached >= bytes => Way::Through,
            Some(_) => Way::Parts,
        }
    }

    /// Whether a single request goes past the page cache: unless that has half of it or more.
    pub(super) fn is_past(&self, cached: Option<u64>, bytes: u64) -> bool {
        match self.of_region(cached, bytes) {
            Way::Through => false,
            Way::Past => true,
            Way::Parts => cached.is_some_and(|cached| cached < bytes.div_ceil(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Grounds =
        Grounds { asked: Direct::Auto, bytes: DIRECT_READ_BYTES, request_bytes: DIRECT_READ_REQUEST_BYTES };

    #[test]
    fn by_itself_a_large_file_in_large_requests_may_go_past_the_page_cache_where_that_pays() {
        assert!(LARGE.may_pass(|| true));
        assert!(!LARGE.may_pass(|| false), "on another file system it was not measured");
        for other in [
            Grounds { bytes: DIRECT_READ_BYTES - 1, ..LARGE },
            Grounds { request_bytes: DIRECT_READ_REQUEST_BYTES / 2, ..LARGE },
            Grounds { request_bytes: 0, ..LARGE },
        ] {
            assert!(!other.may_pass(|| true), "{other:?}");
        }
    }

    #[test]
    fn what_is_asked_for_decides_whatever_the_file_and_the_file_system() {
        for (bytes, request_bytes) in [(1, 0), (DIRECT_READ_BYTES, DIRECT_READ_REQUEST_BYTES)] {
            for pays in [false, true] {
                let asked = |asked| Grounds { asked, bytes, request_bytes }.may_pass(|| pays);
                assert!(asked(Direct::On) && !asked(Direct::Off), "{bytes} {request_bytes} {pays}");
            }
        }
    }

    #[test]
    fn what_is_in_the_page_cache_is_read_from_there_and_the_rest_past_it() {
        let forced = Grounds { asked: Direct::On, ..LARGE };
        for grounds in [LARGE, forced] {
            let of_region = |cached| grounds.of_region(Some(cached), 1000);
            assert_eq!([of_region(0), of_region(1), of_region(999)], [Way::Past, Way::Parts, Way::Parts]);
            // Whole pages are counted, also that in which the file ends.
            assert_eq!([of_region(1000), of_region(4096)], [Way::Through; 2]);
            let is_past = |cached| grounds.is_past(Some(cached), 1001);
            assert_eq!([0, 500, 501, 1001, 4096].map(is_past), [true, true, false, false, false]);
        }
    }

    #[test]
    fn where_the_kernel_does_not_say_what_is_cached_only_who_asks_for_it_goes_past() {
        assert_eq!(LARGE.of_region(None, 1000), Way::Through);
        assert!(!LARGE.is_past(None, 1000));
        let forced = Grounds { asked: Direct::On, ..LARGE };
        assert_eq!(forced.of_region(None, 1000), Way::Past);
        assert!(forced.is_past(None, 1000));
    }
}
