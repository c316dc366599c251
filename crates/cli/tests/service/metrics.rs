//! What a daemon tells Prometheus, and what packaging/prometheus makes of it.

use super::packaged;
use super::support::chance::{has, skipped};
use super::support::peer::secure;
use super::support::{Daemon, Scratch, finish, noise, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use thalweg_mover::link::Ticket;
use thalweg_service::metrics::table::{Kind, TABLE};
use thalweg_wire::digest::HASHED_HOLE_BYTES_MAX;

const LIMIT: Duration = Duration::from_secs(60);
const FILES: [&str; 3] = ["thalweg.rules.yml", "prometheus.yml", "dashboard.json"];

/// A daemon with an export to write and one to read, and where it is asked.
fn stand(metrics: &str) -> (Scratch, Daemon, SocketAddr) {
    let scratch = Scratch::new();
    for name in ["data", "shut"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("file"), noise(1, 300_000)).unwrap();
    let shut = format!("shut={}:ro", scratch.path("shut").display());
    let more = ["--metrics", metrics, "--log-format", "json", "--export", &shut];
    let daemon = scratch.daemon_with(&[("data", &scratch.path("data"))], &more);
    let address = told_at(&scratch);
    (scratch, daemon, address)
}

/// Where the daemon of this machine is asked, which logs as JSON.
pub(super) fn told_at(scratch: &Scratch) -> SocketAddr {
    let told = || {
        let log = scratch.server_log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == "metrics are told")?;
        line["address"].as_str()?.parse::<SocketAddr>().ok()
    };
    assert!(wait_until(LIMIT, || told().is_some()), "{}", scratch.server_log());
    SocketAddr::from(([127, 0, 0, 1], told().unwrap().port()))
}

/// Says this on a connection of its own; what comes back.
fn say(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str, more: &str) -> String {
    say(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\n{more}\r\n"))
}

/// The page as it is now.
pub(super) fn page(address: SocketAddr) -> String {
    let answer = get(address, "/metrics", "");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    page.to_owned()
}

/// A sample of a page, by its name and labels.
pub(super) fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn copy(scratch: &Scratch, from: &str, to: &str) -> Option<i32> {
    copy_with(scratch, &[], from, to)
}

fn copy_with(scratch: &Scratch, options: &[&str], from: &str, to: &str) -> Option<i32> {
    let mut command = scratch.thalweg();
    command.args(["cp", "-q", "--ticket"]).arg(scratch.path("ticket")).args(options).args([from, to]);
    finish(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).status.code()
}

#[test]
fn what_was_moved_both_ways_and_what_failed_is_told_when_its_transfers_and_sessions_are_over() {
    let (scratch, daemon, address) = stand("127.0.0.1:0");
    let path = |name: &str| scratch.path(name).display().to_string();
    assert_eq!(copy(&scratch, &path("file"), &daemon.place("data", "file")), Some(0));
    assert_eq!(copy(&scratch, &daemon.place("data", "file"), &path("back")), Some(0));
    assert_eq!(copy(&scratch, &path("file"), &daemon.place("shut", "file")), Some(3));
    assert_eq!(copy(&scratch, &path("file"), &daemon.place("nowhere", "file")), Some(3));
    let wanted = [
        ("thalweg_transfers_begun_total{kind=\"files\",direction=\"push\"}", 3.0),
        ("thalweg_transfers_ended_total{kind=\"files\",direction=\"push\",outcome=\"done\"}", 1.0),
        ("thalweg_transfers_ended_total{kind=\"files\",direction=\"push\",outcome=\"permission\"}", 1.0),
        ("thalweg_transfers_ended_total{kind=\"files\",direction=\"push\",outcome=\"notfound\"}", 1.0),
        ("thalweg_transfers_ended_total{kind=\"files\",direction=\"pull\",outcome=\"done\"}", 1.0),
        ("thalweg_transfers_running{kind=\"files\",direction=\"push\"}", 0.0),
        ("thalweg_transfer_bytes_total{export=\"data\",kind=\"files\",direction=\"push\"}", 300_000.0),
        ("thalweg_transfer_bytes_total{export=\"data\",kind=\"files\",direction=\"pull\"}", 300_000.0),
        ("thalweg_transfer_entries_total{export=\"data\",kind=\"files\",direction=\"push\"}", 1.0),
        ("thalweg_chunks_repaired_total{export=\"data\",kind=\"files\",direction=\"push\"}", 0.0),
        // What a client names and the daemon has not is no name of a label.
        ("thalweg_transfer_bytes_total{export=\"other\",kind=\"files\",direction=\"push\"}", 0.0),
        ("thalweg_ticket_bytes_total{ticket=\"owner\",direction=\"push\"}", 300_000.0),
        ("thalweg_sessions", 0.0),
        ("thalweg_sessions_limit", 256.0),
    ];
    // However short its streams were.
    let more = [
        ("thalweg_wire_received_bytes_total", 300_000.0),
        ("thalweg_wire_sent_bytes_total", 300_000.0),
        ("thalweg_export_free_bytes{export=\"data\"}", 0.0),
    ];
    let is_told = || {
        let page = page(address);
        let has_more = |(name, least): &(&str, f64)| sample(&page, name).is_some_and(|has| has > *least);
        wanted.iter().all(|(name, number)| sample(&page, name) == Some(*number)) && more.iter().all(has_more)
    };
    assert!(wait_until(LIMIT, is_told), "{}", page(address));
    let page = page(address);
    for side in ["sender", "receiver"] {
        let begins = format!("thalweg_stage_busy_seconds_total{{side=\"{side}\",");
        assert!(page.lines().any(|line| line.starts_with(&begins)), "{side}: {page}");
    }
    assert!(!page.contains("nowhere"), "{page}");
}

#[test]
fn what_was_only_compared_is_not_counted_as_moved_and_what_differs_is() {
    const MIB: usize = 1 << 20;
    let (scratch, daemon, address) = stand("127.0.0.1:0");
    std::fs::write(scratch.path("large"), noise(2, 3 * MIB)).unwrap();
    let path = |name: &str| scratch.path(name).display().to_string();
    let (there, back) = (daemon.place("data", "large"), path("back"));
    let both = || {
        let options = ["--check", "digest", "--chunk", "1MiB"];
        assert_eq!(copy_with(&scratch, &options, &path("large"), &there), Some(0));
        assert_eq!(copy_with(&scratch, &options, &there, &back), Some(0));
    };
    both();
    let copies = ["data/large", "back"];
    let change = |with: &dyn Fn(&std::fs::File)| {
        for name in copies {
            with(&std::fs::File::options().write(true).open(scratch.path(name)).unwrap());
        }
    };
    // Only a look at the content tells that nothing differs.
    change(&|file| file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap());
    both();
    // The last chunk does: until then all are the same.
    change(&|file| file.write_all_at(b"!!!!!!!!", 3 * MIB as u64 - 8).unwrap());
    both();
    let is_told = |direction: &str| {
        let page = page(address);
        let ended = format!("{{kind=\"files\",direction=\"{direction}\",outcome=\"done\"}}");
        let moved = format!("{{export=\"data\",kind=\"files\",direction=\"{direction}\"}}");
        let bytes = sample(&page, &format!("thalweg_transfer_bytes_total{moved}"));
        sample(&page, &format!("thalweg_transfers_ended_total{ended}")) == Some(3.0)
            && bytes == Some(4.0 * MIB as f64)
    };
    for direction in ["push", "pull"] {
        assert!(wait_until(LIMIT, || is_told(direction)), "{direction}: {}", page(address));
    }
}

#[test]
fn holes_of_a_file_that_was_only_compared_are_not_counted_as_moved() {
    const MIB: u64 = 1 << 20;
    let (scratch, daemon, address) = stand("127.0.0.1:0");
    // Larger than any whose holes are digested.
    let bytes = HASHED_HOLE_BYTES_MAX + 4 * MIB;
    let sparse = std::fs::File::create(scratch.path("sparse")).unwrap();
    sparse.set_len(bytes).unwrap();
    sparse.write_all_at(&noise(3, MIB as usize), 0).unwrap();
    let (from, there) = (scratch.path("sparse").display().to_string(), daemon.place("data", "sparse"));
    let options = ["--check", "digest", "--chunk", "1MiB"];
    assert_eq!(copy_with(&scratch, &options, &from, &there), Some(0));
    sparse.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    assert_eq!(copy_with(&scratch, &options, &from, &there), Some(0));
    let ended = "thalweg_transfers_ended_total{kind=\"files\",direction=\"push\",outcome=\"done\"}";
    let moved = "thalweg_transfer_bytes_total{export=\"data\",kind=\"files\",direction=\"push\"}";
    let is_told = || {
        let page = page(address);
        sample(&page, ended) == Some(2.0) && sample(&page, moved) == Some(bytes as f64)
    };
    assert!(wait_until(LIMIT, is_told), "{}", page(address));
}

#[test]
fn a_client_with_a_good_key_that_says_nothing_is_counted_as_turned_away() {
    let (scratch, daemon, address) = stand("127.0.0.1:0");
    let ticket = Ticket::read(&scratch.path("ticket")).unwrap();
    let refused = || sample(&page(address), "thalweg_refused_total{reason=\"handshake\"}");
    assert_eq!(refused(), Some(0.0));
    drop(secure(&ticket.identity().unwrap(), ticket.server, &daemon.address()));
    assert!(wait_until(LIMIT, || refused() == Some(1.0)), "{}", page(address));
}

#[test]
fn who_asks_for_anything_else_is_refused_and_who_is_slow_keeps_nobody_out_for_long() {
    let (_scratch, _daemon, address) = stand("127.0.0.1:0");
    let line = |answer: String| answer.lines().next().unwrap_or_default().to_owned();
    assert_eq!(line(get(address, "/healthz", "")), "HTTP/1.1 200 OK");
    assert_eq!(line(get(address, "/", "")), "HTTP/1.1 404 Not Found");
    assert_eq!(line(get(address, "/metrics/x", "")), "HTTP/1.1 404 Not Found");
    let post = say(address, "POST /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(line(post), "HTTP/1.1 405 Method Not Allowed");
    let long = format!("X: {}\r\n", "x".repeat(9 << 10));
    assert_eq!(line(get(address, "/metrics", &long)), "HTTP/1.1 431 Request Header Fields Too Large");
    let head = say(address, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let open = get(address, "/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(open.contains("\r\nContent-Type: application/openmetrics-text; ") && open.ends_with("# EOF\n"));
    // More than are served at once: each has a part of a request, and never the rest.
    let slow: Vec<TcpStream> = (0..9)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream
        })
        .collect();
    assert_eq!(line(get(address, "/healthz", "")), "HTTP/1.1 200 OK");
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(line(answer), "HTTP/1.1 408 Request Timeout");
    }
}

#[test]
fn an_address_that_others_reach_is_warned_of_and_one_that_is_taken_is_refused() {
    let (scratch, daemon, address) = stand("0.0.0.0:0");
    let is_warned = || scratch.server_log().contains("whoever reaches this address reads the metrics");
    assert!(wait_until(LIMIT, is_warned), "{}", scratch.server_log());
    assert!(page(address).contains("\nthalweg_build_info{"));
    drop(daemon);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let export = format!("data={}", scratch.path("data").display());
    let out = scratch.run(["serve", "--listen", "127.0.0.1:0", "--metrics", &at, "--export", &export]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("listen for metrics failed") && said.contains(&at), "{said}");
    assert!(!said.contains("--listen"), "{said}");
}

/// Real tools judge the page and the rules.
#[test]
fn promtool_finds_nothing_wrong_with_the_page_the_rules_and_the_example() {
    if !has("promtool") {
        return skipped("metrics", "needs promtool (package prometheus)");
    }
    let (scratch, daemon, address) = stand("127.0.0.1:0");
    let from = scratch.path("file").display().to_string();
    assert_eq!(copy(&scratch, &from, &daemon.place("data", "file")), Some(0));
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(page(address).as_bytes()).unwrap();
    let out = finish(check);
    let said = [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat();
    assert!(out.status.success() && said.trim().is_empty(), "{said}");
    for name in FILES {
        std::fs::write(scratch.path(name), packaged(&format!("packaging/prometheus/{name}"))).unwrap();
    }
    for (what, name) in [("rules", "thalweg.rules.yml"), ("config", "prometheus.yml")] {
        let mut check = Command::new("promtool");
        check.args(["check", what, name]).current_dir(scratch.root());
        let out = finish(check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(out.status.success(), "{name}: {out:?}");
    }
}

/// Of each alert: when it is silent, and when it tells.
const ALERTS: &str = include_str!("alerts.yml");

#[test]
fn each_alert_fires_the_first_time_that_there_is_what_it_is_for_and_not_before() {
    let rules = packaged("packaging/prometheus/thalweg.rules.yml");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let is_untried = |name: &&str| !ALERTS.contains(&format!("alertname: {name}\n"));
    let untried: Vec<&str> = alerts.filter(is_untried).collect();
    assert!(untried.is_empty(), "{untried:?}");
    if !has("promtool") {
        return skipped("metrics", "needs promtool (package prometheus)");
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("thalweg.rules.yml"), rules).unwrap();
    std::fs::write(scratch.path("alerts.yml"), ALERTS).unwrap();
    let mut test = Command::new("promtool");
    test.args(["test", "rules", "alerts.yml"]).current_dir(scratch.root());
    let out = finish(test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(out.status.success(), "{}", [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat());
}

/// Names of metrics in a text: words that begin as ours do.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_of_word(c)).filter(|word| word.starts_with("thalweg_")).collect()
}

#[test]
fn dashboard_alerts_and_guide_ask_for_metrics_that_there_are() {
    let is_known = |name: &str| {
        TABLE.iter().any(|metric| {
            let rest = name.strip_prefix(metric.name);
            let of_histogram = ["_bucket", "_sum", "_count"];
            let is_part = |rest: &str| metric.kind == Kind::Histogram && of_histogram.contains(&rest);
            rest.is_some_and(|rest| rest.is_empty() || is_part(rest))
        })
    };
    let files = FILES.map(|name| format!("packaging/prometheus/{name}"));
    let others = ["docs/guide/metrics.md", "crates/cli/tests/service/alerts.yml"];
    for file in files.iter().map(String::as_str).chain(others) {
        let text = packaged(file);
        let unknown: Vec<&str> = names(&text).into_iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let there = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus"));
    assert_eq!(there.unwrap().count(), FILES.len(), "each file is looked at");
    let dashboard: Value = serde_json::from_str(&packaged("packaging/prometheus/dashboard.json")).unwrap();
    assert!(dashboard["uid"].as_str().is_some_and(|uid| !uid.is_empty()) && dashboard["title"].is_string());
    let panels: Vec<&Value> = dashboard["panels"].as_array().unwrap().iter().collect();
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.starts_with("up{") || !names(expression).is_empty(), "{target}");
        }
    }
}
