//! The places that pulls read, each with a directory that is held open as long as the transfer: without descriptors
//! nobody else is let in.

use crate::counts::{Counted, Counts};
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::limits;

/// Places that clients at one address have open, at most: what four transfers may name, each with a descriptor or two.
const PLACES_PER_ADDRESS_MAX: usize = 4 * limits::PLACES_MAX;

/// How many there are, by where their clients are (`None`: no internet socket).
#[derive(Default)]
pub(super) struct OpenPlaces(Arc<Counts<Option<IpAddr>>>);

impl OpenPlaces {
    /// So many more from there, until what it returns goes.
    ///
    /// # Errors
    /// `Busy` if these would be too many.
    pub fn open(&self, source: Option<IpAddr>, places: usize) -> Result<Counted<Option<IpAddr>>> {
        let by_source = self.0.lock();
        let theirs = by_source.get(&source).copied().unwrap_or(0);
        if theirs + places > PLACES_PER_ADDRESS_MAX {
            let cause = format!(
                "{theirs} places are open for clients at this address, and {places} more would be above the limit \
                 of {PLACES_PER_ADDRESS_MAX}: wait until other transfers have ended, or name the directory that \
                 they are in"
            );
            return Err(Failure::new(FailureKind::Busy, "open", cause));
        }
        Ok(self.0.take(by_source, source, places))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cut_off;
    use super::super::{Host, HostLimits};
    use super::*;
    use crate::export::{Export, Exports};
    use thalweg_mover::link::Identity;
    use thalweg_wire::message::{Place, Pull, Terms};

    #[test]
    fn one_address_has_no_more_places_open_than_four_transfers_may_name() {
        let all = OpenPlaces::default();
        let from = |last: u8, places| all.open(Some(IpAddr::from([192, 0, 2, last])), places);
        let mut held: Vec<_> = (0..4).map(|_| from(1, limits::PLACES_MAX).unwrap()).collect();
        assert_eq!(from(1, 1).err().map(|failure| failure.kind), Some(FailureKind::Busy));
        assert!(from(2, limits::PLACES_MAX).is_ok());
        held.pop();
        assert!(from(1, limits::PLACES_MAX + 1).is_err() && from(1, limits::PLACES_MAX).is_ok());
        drop(held);
        assert!(all.0.lock().is_empty());
    }

    #[test]
    fn what_a_pull_reads_counts_as_long_as_the_pull_is_there() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            std::fs::write(scratch.path().join(name), "content").unwrap();
        }
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let identity = Identity::generate("server").unwrap();
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let place = |name: &str| Place { export: Some("data".to_owned()), path: name.as_bytes().to_vec() };
        let pull = Pull::of(vec![place("one"), place("two")]);
        let counted = || host.places.0.lock().values().sum::<usize>();
        let (source, _) = host.pulled_source(&session, &pull, &Terms::of(1 << 20, 1 << 16)).unwrap();
        assert_eq!(counted(), 2);
        drop(source);
        assert_eq!(counted(), 0);
        // One of many that are not all there leaves nothing behind.
        let pull = Pull::of(vec![place("one"), place("absent")]);
        assert!(host.pulled_source(&session, &pull, &Terms::of(1 << 20, 1 << 16)).is_err());
        assert_eq!(counted(), 0);
        session.close(None);
    }
}
