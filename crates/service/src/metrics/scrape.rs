//! The page that who asks gets: what was counted, and what is so at this moment. Its metrics stand in the order of the
//! table, each with its name also where there is nothing of it.

use super::http::Build;
use super::page::{Form, Page};
use super::table::{self, Metric};
use super::{Metrics, Moved, OTHER, Refused};
use crate::sessions::Host;
use crate::slots::Slots;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use thalweg_mover::basin;
use thalweg_mover::mutex::lock;
use thalweg_mover::stage::Stage;
use thalweg_sys::buffer;

impl Host {
    /// See the module.
    pub(super) fn metrics_page(&self, form: Form, build: Build) -> String {
        let exports = self.export_names();
        let nameless = exports.is_empty().then(|| OTHER.to_owned());
        self.metrics.expect(exports.into_iter().chain(nameless));
        let mut page = Page::new(form);
        self.put_whole(&mut page, build);
        self.metrics.put_transfers(&mut page);
        self.metrics.put_wire(&mut page);
        self.metrics.put_stages(&mut page);
        self.put_memory(&mut page);
        self.put_exports(&mut page);
        self.put_frames(&mut page);
        page.end()
    }

    fn put_whole(&self, page: &mut Page, build: Build) {
        let sessions = self.sessions_now().into_iter().chain(self.errand_sessions());
        let streams: usize = sessions.map(|session| session.streams().len()).sum();
        page.metric(&table::BUILD).put(&[build.version, build.commit], 1);
        page.metric(&table::START).put(&[], self.metrics.began.as_secs_f64());
        page.metric(&table::SESSIONS).put(&[], self.session_count());
        page.metric(&table::SESSIONS_LIMIT).put(&[], self.limits.sessions);
        page.metric(&table::STREAMS).put(&[], streams);
        page.metric(&table::STREAMS_LIMIT).put(&[], self.limits.streams);
        let mut refused = page.metric(&table::REFUSED);
        for why in Refused::ALL {
            let count = self.metrics.refused[why as usize].load(Ordering::Relaxed);
            refused.put(&[why.word()], count);
        }
    }

    fn put_memory(&self, page: &mut Page) {
        page.metric(&table::BUFFERS).put(&[], buffer::taken());
        let mut limit = page.metric(&table::BUFFERS_LIMIT);
        if let Some(bytes) = buffer::allowed() {
            limit.put(&[], bytes);
        }
        page.metric(&table::BUFFERS_REFUSED).put(&[], buffer::refused());
        let mut limit = page.metric(&table::LIMIT);
        if let Some(bytes_per_s) = self.limits.rate.bytes_per_s() {
            limit.put(&[], bytes_per_s);
        }
    }

    fn put_exports(&self, page: &mut Page) {
        let mut limits = page.metric(&table::EXPORT_LIMIT);
        for (name, bits_per_s) in self.exports().limits() {
            if let Some(bits_per_s) = bits_per_s {
                limits.put(&[&name], bits_per_s / 8);
            }
        }
        let room = lock(&self.metrics.seen.room);
        let known = || room.exports.iter().filter_map(|(name, room)| Some((name, room.as_ref()?)));
        let mut free = page.metric(&table::FREE);
        for (name, room) in known() {
            free.put(&[name], room.free_bytes);
        }
        let mut size = page.metric(&table::SIZE);
        for (name, room) in known() {
            size.put(&[name], room.size_bytes);
        }
        let mut spare = page.metric(&table::SPARE);
        for (name, bytes) in known().filter_map(|(name, room)| Some((name, room.spare_bytes?))) {
            spare.put(&[name], bytes);
        }
        let mut answers = page.metric(&table::ANSWERS);
        for (name, room) in &room.exports {
            answers.put(&[name], u8::from(room.is_some()));
        }
        let mut looked = page.metric(&table::LOOKED);
        if let Some(at) = room.at {
            looked.put(&[], at);
        }
    }

    fn put_frames(&self, page: &mut Page) {
        let frames = lock(&self.metrics.seen.frames);
        let channels = || frames.channels.values();
        let producers: usize = channels().map(|channel| channel.producers).sum();
        let consumers: usize = channels().map(|channel| channel.consumers.len()).sum();
        page.metric(&table::CHANNELS).put(&[], frames.channels.len());
        page.metric(&table::PRODUCERS).put(&[], producers);
        page.metric(&table::CONSUMERS).put(&[], consumers);
        let memory_bytes: u64 = channels().map(|channel| channel.memory_bytes).sum();
        page.metric(&table::FRAMES_MEMORY).put(&[], memory_bytes);
        page.metric(&table::FRAMES_MEMORY_LIMIT).put(&[], self.limits.channel_bytes_max);
        let spill_bytes: u64 = channels().map(|channel| channel.spill_bytes).sum();
        page.metric(&table::SPILLED).put(&[], spill_bytes);
        page.metric(&table::TAKEN).put(&[], frames.taken);
        let mut lost = page.metric(&table::LOST);
        for (reason, count) in &frames.lost {
            lost.put(&[reason], count);
        }
        let mut slots = page.metric(&table::SLOTS);
        if let Some(count) = self.slots.as_ref().map(Slots::count) {
            slots.put(&[], count);
        }
    }
}

/// A metric of what was moved, and its number.
type OfMoved = (&'static Metric, fn(&Moved) -> u64);

impl Metrics {
    fn put_transfers(&self, page: &mut Page) {
        let mut running: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for count in self.under_way() {
            *running.entry((count.kind, count.direction.unwrap_or_default())).or_default() += 1;
        }
        let sums = lock(&self.sums);
        let all_begun = sums.begun();
        let mut begun = page.metric(&table::BEGUN);
        for ((kind, direction), count) in &all_begun {
            begun.put(&[kind, direction], count);
        }
        let mut ended = page.metric(&table::ENDED);
        for ((kind, direction, outcome), count) in &sums.ended() {
            ended.put(&[kind, direction, outcome], count);
        }
        let mut now = page.metric(&table::RUNNING);
        for (kind, direction) in all_begun.keys() {
            now.put(&[kind, direction], running.get(&(*kind, *direction)).copied().unwrap_or(0));
        }
        let all: [OfMoved; 6] = [
            (&table::BYTES, |moved| moved.bytes),
            (&table::ENTRIES, |moved| moved.entries),
            (&table::FAILED, |moved| moved.failed),
            (&table::DAMAGED, |moved| moved.damaged),
            (&table::RESUMED, |moved| moved.resumed_bytes),
            (&table::REPAIRED, |moved| moved.repaired),
        ];
        for (metric, number) in all {
            let mut samples = page.metric(metric);
            for ((export, kind, direction), moved) in &sums.moved {
                samples.put(&[export, kind, direction], number(moved));
            }
        }
        let mut tickets = page.metric(&table::TICKET_BYTES);
        for ((ticket, direction), bytes) in &sums.of_tickets {
            tickets.put(&[ticket, direction], bytes);
        }
        let mut requests = page.metric(&table::REQUESTS);
        for ((kind, outcome), count) in &sums.requests {
            requests.put(&[kind, outcome], count);
        }
        let mut bytes = page.metric(&table::REQUEST_BYTES);
        for (kind, count) in &sums.request_bytes {
            bytes.put(&[kind], count);
        }
    }

    fn put_wire(&self, page: &mut Page) {
        let wire = lock(&self.seen.wire);
        page.metric(&table::WIRE_SENT).put(&[], wire.sent_bytes);
        page.metric(&table::WIRE_RECEIVED).put(&[], wire.received_bytes);
        page.metric(&table::WIRE_AGAIN).put(&[], wire.again_bytes);
        page.metric(&table::RTT).histogram(&wire.rtt);
    }

    fn put_stages(&self, page: &mut Page) {
        let busy = lock(&self.sums).busy.clone();
        let mut samples = page.metric(&table::BUSY);
        for ((side, number), nanos) in busy {
            if let Some(stage) = Stage::ALL.into_iter().find(|stage| *stage as u8 == number) {
                samples.put(&[side, stage.name()], nanos as f64 / 1e9);
            }
        }
        let mut narrowest: BTreeMap<(String, &str), u64> = BTreeMap::new();
        for count in self.under_way() {
            let evidence = lock(&count.noted).evidence.clone();
            if let Some(verdict) = evidence.as_ref().and_then(basin::judge) {
                let narrow = verdict.narrowest;
                *narrowest.entry((narrow.stage, narrow.place.name())).or_default() += 1;
            }
        }
        let mut samples = page.metric(&table::NARROWEST);
        for ((stage, place), count) in &narrowest {
            samples.put(&[stage, place], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Export, Exports};
    use crate::log::Done;
    use crate::metrics::Labels;
    use crate::sessions::HostLimits;
    use thalweg_mover::link::Identity;

    const BUILD: Build = Build { version: "1", commit: "abc" };

    #[test]
    fn a_page_has_every_metric_of_the_table_once_and_in_its_order_whatever_there_is_of_it() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let page = host.metrics_page(Form::Prometheus, BUILD);
        let told: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let expected = table::TABLE.map(|metric| format!("{} {}", metric.name, metric.kind.word()));
        assert_eq!(told, expected);
        assert!(page.contains("\nthalweg_build_info{version=\"1\",commit=\"abc\"} 1\n"), "{page}");
        assert!(page.contains("\nthalweg_refused_total{reason=\"ticket-revoked\"} 0\n"), "{page}");
    }

    /// An alert on what grows hears of the first only if it was told as 0 before.
    #[test]
    fn what_alerts_go_by_is_told_before_there_is_any_of_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let export = Export::of("data", scratch.path().to_path_buf());
        let exports = Exports::open(vec![export]).expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let page = host.metrics_page(Form::Prometheus, BUILD);
        for sample in [
            "thalweg_transfers_ended_total{kind=\"files\",direction=\"push\",outcome=\"damage\"}",
            "thalweg_transfers_ended_total{kind=\"frames\",direction=\"pull\",outcome=\"replaced\"}",
            "thalweg_transfers_ended_total{kind=\"probe\",direction=\"push\",outcome=\"done\"}",
            "thalweg_transfer_entries_failed_total{export=\"data\",kind=\"files\",direction=\"pull\"}",
            "thalweg_transfer_entries_damaged_total{export=\"data\",kind=\"files\",direction=\"push\"}",
            "thalweg_chunks_repaired_total{export=\"data\",kind=\"stream\",direction=\"push\"}",
            "thalweg_frames_lost_total{reason=\"hub-restart\"}",
        ] {
            assert!(page.contains(&format!("\n{sample} 0\n")), "{sample}: {page}");
        }
    }

    #[test]
    fn an_export_whose_file_system_fails_is_told_as_that_and_one_to_read_has_nothing_to_spare() {
        let scratch = tempfile::tempdir().expect("a directory");
        let data = Export::of("data", scratch.path().to_path_buf());
        let mut shut = Export::of("shut", scratch.path().to_path_buf());
        shut.rights.read_only = true;
        let exports = Exports::open(vec![data, shut]).expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports, None, HostLimits::default());
        host.look_at_room();
        lock(&host.metrics.seen.room).exports.insert("gone".to_owned(), None);
        let page = host.metrics_page(Form::Prometheus, BUILD);
        let is_told = |what: &str, export: &str| {
            let begins = format!("thalweg_export_{what}{{export=\"{export}\"}} ");
            page.lines().any(|line| line.starts_with(&begins))
        };
        let all = [("data", true, true), ("shut", true, false), ("gone", false, false)];
        for (export, is_there, is_written) in all {
            let ok = format!("\nthalweg_export_ok{{export=\"{export}\"}} {}\n", u8::from(is_there));
            assert!(page.contains(&ok), "{export}: {page}");
            let told = ["free_bytes", "size_bytes", "spare_bytes"].map(|what| is_told(what, export));
            assert_eq!(told, [is_there, is_there, is_written], "{export}: {page}");
        }
    }

    #[test]
    fn what_was_moved_and_what_is_free_stand_under_the_name_of_the_export() {
        let scratch = tempfile::tempdir().expect("a directory");
        let export = Export::of("data", scratch.path().to_path_buf());
        let exports = Exports::open(vec![export]).expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let (export, ticket) = (Some("data".to_owned()), None);
        let labels = Labels { kind: "files", direction: Some("pull"), export, ticket };
        let count = host.metrics.begin(labels);
        count.note(&Done::by_then(0, 5), &Default::default(), None);
        let page = host.metrics_page(Form::OpenMetrics, BUILD);
        let of = "{export=\"data\",kind=\"files\",direction=\"pull\"}";
        assert!(page.contains(&format!("\nthalweg_transfer_bytes_total{of} 5\n")), "{page}");
        let running = "\nthalweg_transfers_running{kind=\"files\",direction=\"pull\"} 1\n";
        assert!(page.contains(running), "{page}");
        assert!(page.ends_with("\n# EOF\n"), "{page}");
        host.look_at_room();
        let page = host.metrics_page(Form::Prometheus, BUILD);
        assert!(page.contains("\nthalweg_export_free_bytes{export=\"data\"} "), "{page}");
    }
}
