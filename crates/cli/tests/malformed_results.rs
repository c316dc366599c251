//! Files that are no results, or hostile ones, given to everything that reads results: an error of one line that names
//! the file, or a page and figures in which nothing of them is markup. Never a panic, a hang, or memory without bound.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Scratch, finish};

/// Bytes that a reader may have: a result file of the largest size is read line by line.
const MEMORY_KIB: u64 = 2 << 20;

/// Everything that reads a result, each with the words before and behind the file.
const READERS: [(&[&str], &[&str]); 7] = [
    (&["bench", "show"], &[]),
    (&["bench", "show", "--json"], &[]),
    (&["bench", "import"], &["--out", "imported.jsonl"]),
    (&["report"], &["--out", "page.html"]),
    (&["plot"], &["--out", "figures"]),
    (&["model", "fit"], &[]),
    (&["model", "tail"], &[]),
];

/// Runs a reader, with a limit of memory.
fn read(scratch: &Scratch, (before, after): (&[&str], &[&str]), file: &Path) -> Output {
    let thalweg = scratch.thalweg();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && exec \"$@\""), "sh"]).arg(thalweg.get_program());
    command.args(before).arg(file).args(after).current_dir(scratch.root());
    command.env("THALWEG_STATE", scratch.path("state")).env("XDG_CONFIG_HOME", scratch.path("config"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("start"))
}

/// Ended by itself, and what it says no terminal acts on.
#[track_caller]
fn is_orderly(output: &Output, words: &str) {
    let code = output.status.code();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(code.is_some_and(|code| code <= 6) && !stderr.contains("panicked"), "{words}: {code:?} {stderr}");
    for text in [&*stdout, &stderr] {
        let bad = text.chars().find(|&c| c.is_control() && c != '\n' && c != '\t');
        assert_eq!(bad, None, "{words}: {text:?}");
    }
}

/// What a result begins with.
fn about(suite: &str) -> Value {
    json!({"about": {
        "suite": suite, "question": "why?", "date": "2026-11-22T02:40:00Z", "program": "thalweg 0.1.0",
        "command": "thalweg bench latency",
        "machine": {"cpu": "", "cores": 2, "memory_bytes": 1, "kernel": "", "file_system": "", "load": 0.0},
        "path": {"kind": "loopback"}, "iterations": 1, "encryption": "", "verification": "",
        "scaling": {"budget_bytes": null, "files_max": null, "seed": 0, "changes": []},
    }})
}

fn sample(series: &str, wall_s: f64, rtt_s: f64) -> Value {
    json!({"sample": {
        "series": series, "parameters": {"rtt": {"value": rtt_s, "unit": "s"}}, "run": 1, "order": 1,
        "bytes": 1_000_000, "files": 1, "wall_s": wall_s,
    }})
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_is_no_result_is_refused_with_its_name_by_every_reader() {
    let scratch = Scratch::new();
    let good = text(&[about("latency"), sample("x", 1.0, 0.1)]);
    let cut = &good[..good.len() - 9];
    let twice = text(&[about("latency"), about("latency"), sample("x", 1.0, 0.1)]);
    let negative = text(&[about("latency"), sample("x", -1.0, 0.1)]);
    let headless = text(&[sample("x", 1.0, 0.1)]);
    let deep = "[".repeat(200_000);
    let with = |wall_s: &str| good.replace("\"wall_s\":1.0", &format!("\"wall_s\":{wall_s}"));
    let (nan, infinite) = (with("NaN"), with("1e999"));
    let in_words = good.replace("1000000", "\"a million\"");
    // What `model fit` asks for is sound.
    let impossible = |files: u32| {
        let mut line = sample("x", 1.0 + f64::from(files) / 1e4, 0.1);
        line["sample"]["files"] = json!(files);
        line["sample"]["parameters"]["concurrency"] = json!({"value": 8, "unit": "1"});
        line["sample"]["measured"] = json!({"rate": {"value": 1e300, "unit": "bit/s"}});
        line
    };
    let impossible = [8, 64, 512, 4096].map(impossible);
    let impossible = text(&[&[about("files")][..], &impossible].concat());
    let cases: [(&str, &[u8]); 13] = [
        ("empty", b""),
        ("cut", cut.as_bytes()),
        ("twice", twice.as_bytes()),
        ("negative", negative.as_bytes()),
        ("headless", headless.as_bytes()),
        ("nul", &[0; 10_000]),
        ("not-utf-8", b"\xff\xfe{\"about\":\x80}"),
        ("nan", nan.as_bytes()),
        ("infinite", infinite.as_bytes()),
        ("impossible", impossible.as_bytes()),
        ("words", in_words.as_bytes()),
        ("deep", deep.as_bytes()),
        ("\x1b[31mred\n", b"{}"),
    ];
    for (name, bytes) in cases {
        let file = scratch.path(name);
        std::fs::write(&file, bytes).unwrap();
        for reader in READERS {
            let words = format!("{name:?}, {reader:?}");
            let output = read(&scratch, reader, &file);
            is_orderly(&output, &words);
            // Two of them have uses for single lines.
            let may_be_read = reader.0[0] == "model" && ["headless", "twice"].contains(&name);
            assert!(may_be_read || output.status.code() != Some(0), "{words}: {output:?}");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_named = name.contains('\x1b') || told.contains(name);
            assert!(output.status.success() || (told.starts_with("error: ") && is_named), "{words}: {told}");
        }
    }
}

/// A gigabyte of nothing, as one line; it takes no room on the disk.
#[test]
fn a_line_without_an_end_takes_bounded_memory() {
    let scratch = Scratch::new();
    let file = scratch.path("endless");
    std::fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
    let real = scratch.path("behind-a-result");
    std::fs::write(&real, text(&[about("latency"), sample("x", 1.0, 0.1)])).unwrap();
    std::fs::File::options().write(true).open(&real).unwrap().set_len(1 << 30).unwrap();
    for reader in READERS {
        for file in [&file, &real] {
            let output = read(&scratch, reader, file);
            is_orderly(&output, &format!("{reader:?}"));
            assert!(!output.status.success(), "{reader:?}");
        }
    }
}

#[test]
fn markup_and_control_characters_in_a_result_stay_words() {
    let scratch = Scratch::new();
    let evil = "</title><script>alert(1)</script>\"'><img src=x onerror=y>\u{1b}[31m\u{0}\n../../../etc/x";
    let mut begin = about("latency");
    for key in ["question", "program", "command", "encryption", "verification", "date"] {
        begin["about"][key] = json!(evil);
    }
    begin["about"]["machine"]["cpu"] = json!(evil);
    begin["about"]["more"] = json!({evil: evil});
    begin["about"]["scaling"]["changes"] = json!([{"what": evil, "from": evil, "to": evil}]);
    let mut lines = vec![begin];
    for (series, rtt) in [(evil, 0.1), (evil, 0.2), ("quiet", 0.1)] {
        let mut line = sample(series, 1.0, rtt);
        line["sample"]["parameters"][evil] = json!(evil);
        line["sample"]["measured"] = json!({evil: {"value": 1.0, "unit": evil}});
        line["sample"]["distributions"] = json!({evil: {"unit": evil, "values": [1.0, 2.0]}});
        lines.push(line);
    }
    lines.push(json!({"left_out": {"what": evil, "why": evil}}));
    for suite in ["latency", "storage", "unknown", evil] {
        lines[0]["about"]["suite"] = json!(suite);
        let file = scratch.path("result.jsonl");
        std::fs::write(&file, text(&lines)).unwrap();
        for reader in READERS {
            let output = read(&scratch, reader, &file);
            is_orderly(&output, &format!("{suite:?}, {reader:?}"));
        }
        let page = std::fs::read_to_string(scratch.path("page.html")).expect("a page");
        let drawn = std::fs::read_dir(scratch.path("figures")).expect("figures");
        let drawn = drawn.map(|entry| entry.unwrap().path());
        let drawings: Vec<String> = drawn
            .filter(|path| path.extension().is_some_and(|extension| extension == "svg"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        assert!(!drawings.is_empty(), "{suite:?}");
        for text in drawings.iter().chain([&page]) {
            for sign in ["<script", "<img", "\u{1b}", "\u{0}"] {
                assert!(!text.contains(sign), "{suite:?}: {sign:?}");
            }
        }
        assert!(page.contains("&lt;script&gt;"), "it is shown as what it is");
        assert!(!scratch.root().parent().unwrap().join("etc").exists());
    }
}

/// Figures at the ends of what is read, all at once: axes have to find marks for them.
#[test]
fn figures_at_the_ends_of_the_scale_are_drawn() {
    let scratch = Scratch::new();
    for suite in ["latency", "sweep bulk", "order", "storage", "unknown"] {
        let mut lines = vec![about(suite)];
        for (wall_s, rtt_s) in [(1e-30, 1e-30), (1e30, 1e30), (1.0, -1e30), (3.0, 0.0), (3.0, -0.0)] {
            let mut line = sample("x", wall_s, rtt_s);
            line["sample"]["bytes"] = json!(u64::MAX);
            for name in ["file_size", "request_size", "threads", "depth"] {
                line["sample"]["parameters"][name] = json!({"value": rtt_s, "unit": "B"});
            }
            lines.push(line);
        }
        let file = scratch.path("result.jsonl");
        std::fs::write(&file, text(&lines)).unwrap();
        for reader in READERS {
            is_orderly(&read(&scratch, reader, &file), &format!("{suite:?}, {reader:?}"));
        }
        for format in ["svg", "png"] {
            let output = read(&scratch, (&["plot"], &["--out", "figures", "--format", format]), &file);
            is_orderly(&output, suite);
        }
    }
}

/// As many samples as there may be, no two alike; one more is refused.
#[test]
fn more_samples_than_a_result_may_have_are_refused() {
    use std::io::Write;
    let scratch = Scratch::new();
    let file = scratch.path("many.jsonl");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    writeln!(out, "{}", about("latency")).unwrap();
    let one = sample("x", 1.0, 0.1).to_string();
    (0..100_001).for_each(|_| writeln!(out, "{one}").unwrap());
    out.flush().unwrap();
    let output = read(&scratch, READERS[0], &file);
    is_orderly(&output, "many");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("line 100002"), "{told}");
}
