//! What routes did best with: the start for the next transfer.
//!
//! Small, and of no great worth: a file that cannot be read counts as empty, one of another version too. Bounded in
//! routes; what was not used for a month is forgotten.

use crate::plan::Learned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of the format that is written and read.
pub const VERSION: u32 = 2;
/// Routes at most; the oldest goes first.
const ROUTES_MAX: usize = 256;
/// For how long a route is remembered.
const KEPT_FOR: Duration = Duration::from_secs(30 * 86400);
/// Largest file that is read.
pub const BYTES_MAX: usize = 256 << 10;

/// All routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    version: u32,
    routes: BTreeMap<String, Route>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    streams: u16,
    rate_bits_per_s: u64,
    rtt_us: u64,
    /// Seconds since 1970.
    learned_at: u64,
}

impl Default for Routes {
    fn default() -> Self {
        Routes { version: VERSION, routes: BTreeMap::new() }
    }
}

impl Routes {
    /// Reads what [`Routes::to_json`] wrote; nothing is known where that cannot be read.
    pub fn from_json(text: &[u8]) -> Routes {
        let read = (text.len() <= BYTES_MAX).then(|| serde_json::from_slice(text).ok()).flatten();
        read.filter(|routes: &Routes| routes.version == VERSION).unwrap_or_default()
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// What is known of a route now (seconds since 1970).
    pub fn of(&self, route: &str, now: u64) -> Option<Learned> {
        let known = self.routes.get(route).filter(|known| !is_old(known, now))?;
        let Route { streams, rate_bits_per_s, rtt_us, .. } = *known;
        let rtt = Duration::from_micros(rtt_us);
        (streams > 0 && rate_bits_per_s > 0).then_some(Learned { streams, rate_bits_per_s, rtt })
    }

    /// Forgets a route; whether it was known.
    pub fn forget(&mut self, route: &str) -> bool {
        self.routes.remove(route).is_some()
    }

    /// Remembers what a route did best with.
    pub fn learn(&mut self, route: &str, learned: Learned, now: u64) {
        let Learned { streams, rate_bits_per_s, rtt } = learned;
        let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        self.routes.insert(route.to_owned(), Route { streams, rate_bits_per_s, rtt_us, learned_at: now });
        self.routes.retain(|_, known| !is_old(known, now));
        while self.routes.len() > ROUTES_MAX {
            let oldest = self.routes.iter().min_by_key(|(_, known)| known.learned_at);
            let Some(oldest) = oldest.map(|(route, _)| route.clone()) else { return };
            self.routes.remove(&oldest);
        }
    }
}

fn is_old(route: &Route, now: u64) -> bool {
    now.saturating_sub(route.learned_at) > KEPT_FOR.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEARNED: Learned =
        Learned { streams: 12, rate_bits_per_s: 940_000_000, rtt: Duration::from_millis(20) };

    #[test]
    fn a_route_is_remembered_for_a_month_and_across_a_file() {
        let mut routes = Routes::default();
        routes.learn("a b push", LEARNED, 1000);
        let read = Routes::from_json(routes.to_json().as_bytes());
        assert_eq!(read.of("a b push", 1000 + KEPT_FOR.as_secs()), Some(LEARNED));
        assert_eq!(read.of("a b push", 1001 + KEPT_FOR.as_secs()), None);
        assert_eq!(read.of("a b pull", 1000), None);
    }

    #[test]
    fn routes_are_bounded_and_what_cannot_be_read_is_nothing() {
        let mut routes = Routes::default();
        for at in 0..ROUTES_MAX as u64 + 10 {
            routes.learn(&format!("route {at}"), LEARNED, 1000 + at);
        }
        assert_eq!(routes.routes.len(), ROUTES_MAX);
        assert_eq!(routes.of("route 9", 1000), None);
        assert!(routes.of("route 10", 1000).is_some());
        for text in ["", "{", "{\"version\": 1, \"routes\": {}}", "[]"] {
            assert_eq!(Routes::from_json(text.as_bytes()), Routes::default());
        }
        let zeros = "{\"version\":2,\"routes\":{\"x\":\
                     {\"streams\":0,\"rate_bits_per_s\":0,\"rtt_us\":0,\"learned_at\":1}}}";
        assert_eq!(Routes::from_json(zeros.as_bytes()).of("x", 1), None);
    }
}
