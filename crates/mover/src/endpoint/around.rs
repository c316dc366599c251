//! Sources that stand around another, and change some of what it says.

/// What such a source, in its `impl Source`, hands on to the one that is its `source`, as it is.
macro_rules! handed_on {
    () => {
        fn lost(&self) -> Option<$crate::failure::Failure> {
            self.source.lost()
        }

        fn device(&self) -> Option<u64> {
            self.source.device()
        }

        fn expect_requests(&self, bytes: u64) {
            self.source.expect_requests(bytes);
        }

        fn held_bytes(&self) -> usize {
            self.source.held_bytes()
        }

        fn direct_is_missed(&self) -> bool {
            self.source.direct_is_missed()
        }

        fn disks(&self, entry: &thalweg_wire::Entry) -> Option<Vec<String>> {
            self.source.disks(entry)
        }

        fn remove(
            &self,
            path: &thalweg_wire::RelativePath,
            seen: &thalweg_wire::Evidence,
            is_end: bool,
        ) -> $crate::failure::Result<$crate::endpoint::Removal> {
            self.source.remove(path, seen, is_end)
        }
    };
}

pub(super) use handed_on;
