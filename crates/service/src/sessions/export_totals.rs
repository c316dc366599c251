//! What all transfers of an export may move together.

use crate::export::Exports;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::share::{Share, Total};
use thalweg_mover::run::steer::Rate;
use thalweg_sys::machine;
use thalweg_wire::message::Place;

/// What transfers have a share of, by their exports. One that is no more keeps what it had, for what is under way.
#[derive(Default)]
pub(super) struct ExportTotals(Mutex<HashMap<String, ExportTotal>>);

/// What the transfers of an export have a share of.
struct ExportTotal {
    /// That of the export; a reload changes it.
    rate: Arc<Rate>,
    /// Shared by its transfers.
    total: Arc<Total>,
}

impl ExportTotals {
    /// Has each export move what it may by now, also what is under way there.
    pub fn limit(&self, exports: &Exports) {
        let mut totals = lock(&self.0);
        for (name, bits_per_s) in exports.limits() {
            let of_export = || {
                let rate = Arc::<Rate>::default();
                let total = Total::of_export(rate.clone(), machine::host_name(), name.clone());
                ExportTotal { rate, total }
            };
            totals.entry(name.clone()).or_insert_with(of_export).rate.set_bits(bits_per_s);
        }
    }

    /// A share for a transfer at these places, of what their export may move; of several exports, that which may move
    /// least. `None` where there is no export.
    pub fn share_at(&self, places: &[Place]) -> Option<Share> {
        let totals = lock(&self.0);
        let exports = places.iter().filter_map(|place| place.export.as_ref());
        let limits = exports.filter_map(|name| totals.get(name));
        let least = limits.min_by_key(|of| of.rate.bytes_per_s().unwrap_or(u64::MAX));
        least.map(|of| of.total.share())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Host, HostLimits};
    use super::*;
    use crate::export::{Export, Rights};
    use thalweg_mover::link::Identity;

    #[test]
    fn transfers_of_an_export_share_its_limit_which_a_reload_changes() {
        let scratch = tempfile::tempdir().expect("a directory");
        let opened = |limits: [Option<u64>; 2]| {
            let of = |(name, bits_per_s_max)| {
                let rights = Rights { bits_per_s_max, ..Rights::default() };
                Export { rights, ..Export::of(name, scratch.path().to_path_buf()) }
            };
            Exports::open(["data", "other"].into_iter().zip(limits).map(of).collect()).expect("directories")
        };
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, opened([Some(8), None]), None, HostLimits::default());
        let at = |exports: &[&str]| {
            let place = |export: &&str| Place { export: Some((*export).to_owned()), path: b"x".to_vec() };
            host.export_totals.share_at(&exports.iter().map(place).collect::<Vec<_>>())
        };
        let told = |exports: &[&str]| at(exports)?.told().map(|told| (told.bytes_per_s, told.export));
        let of = |bytes_per_s, name: &str| Some((bytes_per_s, Some(name.to_owned())));
        assert_eq!(told(&["data"]), of(1, "data"));
        assert_eq!((told(&["other"]), told(&["none"])), (None, None));
        assert_eq!(told(&["other", "data"]), of(1, "data"), "the lowest of several");
        // Two have one limit, and what was opened hears of the next.
        let (one, two) = (at(&["data"]).expect("a share"), at(&["data"]).expect("a share"));
        one.charge(1 << 40);
        assert!(two.wait(1, || false, || {}).is_some());
        let free = at(&["other"]).expect("a share");
        assert!(free.wait(1 << 40, || panic!("it waits"), || {}).is_none());
        host.replace_exports(opened([None, Some(16)]));
        assert!(one.told().is_none() && two.wait(1, || false, || {}).is_none());
        assert_eq!(free.told().map(|told| told.bytes_per_s), Some(2));
    }
}
