//! Figures and reports, made by the real program from results of every suite, and looked at in a real browser: wide and
//! narrow, light and dark, on paper.

#[path = "../support/mod.rs"]
mod support;

mod browser;

mod results;

use browser::{Browser, View};
use serde_json::Value;
use std::path::{Path, PathBuf};
use support::Scratch;

const VIEWS: [View; 5] = [
    View { name: "wide-light", width: 1100, is_dark: false, is_print: false },
    View { name: "wide-dark", width: 1100, is_dark: true, is_print: false },
    View { name: "narrow-light", width: 360, is_dark: false, is_print: false },
    View { name: "narrow-dark", width: 360, is_dark: true, is_print: false },
    View { name: "paper", width: 720, is_dark: true, is_print: true },
];

/// What is wrong with the page, in words; nothing if all is in order.
const LOOK: &str = r#"
const wrong = [];
const root = document.documentElement;
if (root.scrollWidth > innerWidth) wrong.push(`the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
const seen = element => element.getClientRects().length > 0;
const figures = [...document.querySelectorAll('figure')];
for (const figure of figures) {
  const shown = [...figure.querySelectorAll('svg[role=img]')].filter(seen);
  if (shown.length !== 1) wrong.push(`${figure.id}: ${shown.length} drawings are shown`);
  for (const svg of shown) {
    const frame = svg.getBoundingClientRect();
    if (frame.width < 200 || frame.height < 80) wrong.push(`${figure.id}: ${frame.width} x ${frame.height}`);
    if (frame.left < 0 || frame.right > innerWidth + 0.5) wrong.push(`${figure.id} leaves the window`);
    const words = ['aria-labelledby', 'aria-describedby'].map(role => document.getElementById(svg.getAttribute(role)));
    if (words.some(word => !word || !svg.contains(word) || word.textContent.length < 5))
      wrong.push(`${figure.id} says nothing to who does not see it`);
    else if (words[1].textContent.startsWith(words[0].textContent))
      wrong.push(`${figure.id} is named twice`);
    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    if (texts.length < 5) wrong.push(`${figure.id} has ${texts.length} texts`);
    texts.forEach(([one, a], at) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        wrong.push(`${figure.id}: "${one}" is cut`);
      for (const [two, b] of texts.slice(at + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 0.5 && down > 2) wrong.push(`${figure.id}: "${one}" and "${two}" touch (${across}, ${down})`);
      }
    });
  }
}
const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
if (twice.length) wrong.push(`ids that are not alone: ${twice.slice(0, 3)}`);
for (const table of document.querySelectorAll('table'))
  if (!table.caption || [...table.querySelectorAll('th')].some(head => !head.scope)) wrong.push('a table without heads');
return {figures: figures.length, tables: document.querySelectorAll('table').length, wrong: wrong.slice(0, 12)};
"#;

/// Contrast of words and lines with the ground (WCAG 2.2), the least of all that are seen.
const CONTRAST: &str = r#"
const light = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = light(getComputedStyle(document.body).backgroundColor);
const contrast = colour => {
  const other = light(colour);
  return (Math.max(ground, other) + 0.05) / (Math.min(ground, other) + 0.05);
};
const of = (selector, property) => Math.min(...[...document.querySelectorAll(selector)]
  .filter(element => element.getClientRects().length > 0)
  .map(element => contrast(getComputedStyle(element)[property])));
return {ground, text: of('figure text:not(.on-shade)', 'fill'), prose: of('p, dd, dt, td, h1, h2, summary', 'color'),
  lines: of('figure path.line', 'stroke')};
"#;

fn report(scratch: &Scratch) -> (Vec<PathBuf>, PathBuf) {
    let all = results::all(scratch.root());
    let page = scratch.path("report.html");
    let mut words: Vec<String> = vec!["report".into(), "--out".into(), page.display().to_string()];
    words.extend(all.iter().map(|path| path.display().to_string()));
    let told = scratch.ok(&words);
    assert!(told.contains("figures from"), "{told}");
    (all, page)
}

/// Keeps a picture for people, if they say where: `THALWEG_PICTURES`.
fn keep(name: &str, browser: &Browser) {
    use std::io::Write;
    let Some(to) = std::env::var_os("THALWEG_PICTURES").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&to).unwrap();
    let mut child = std::process::Command::new("base64")
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(to.join(name)).unwrap())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(browser.picture().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// What there is on the page that is open, on which nothing may be wrong.
fn in_order(browser: &Browser, name: &str) -> Value {
    let look = browser.ask(LOOK);
    keep(&format!("{name}.png"), browser);
    let none: &[Value] = &[];
    assert_eq!(look["wrong"].as_array().map(Vec::as_slice), Some(none), "{name}: {look:#}");
    look
}

/// What was measured has wider spreads, more values and longer names than what simple laws give.
#[test]
fn a_report_of_what_was_measured_is_in_order_in_a_real_browser() {
    let scratch = Scratch::new();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let page = scratch.path("measured.html");
    let mut words = vec!["report".to_owned(), "--out".to_owned(), page.display().to_string()];
    let all = ["latency", "sweep-bulk", "congest"].map(|name| committed.join(name).with_extension("jsonl"));
    words.extend(all.iter().map(|path| path.display().to_string()));
    scratch.ok(&words);
    let text = std::fs::read_to_string(&page).unwrap();
    for path in &all {
        // The command that repeats it stands on the page.
        let first = std::fs::read_to_string(path).unwrap();
        let about: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
        let command = about["about"]["command"].as_str().unwrap();
        assert!(text.contains(command), "{command}");
    }
    let Some(browser) = Browser::start(scratch.root()) else { return };
    let url = format!("file://{}", page.display());
    for view in VIEWS {
        browser.open(&url, view);
        let look = in_order(&browser, &format!("measured-{}", view.name));
        assert!(look["figures"].as_u64() >= Some(6) && look["tables"].as_u64() >= Some(3), "{look}");
        assert_eq!(browser.log("browser"), Vec::<Value>::new(), "the console of {}", view.name);
    }
}

#[test]
fn a_report_is_in_order_in_a_real_browser_wide_and_narrow_light_and_dark_and_on_paper() {
    let scratch = Scratch::new();
    let (_, page) = report(&scratch);
    let Some(browser) = Browser::start(scratch.root()) else { return };
    let url = format!("file://{}", page.display());
    for view in VIEWS {
        browser.open(&url, view);
        let look = in_order(&browser, view.name);
        assert!(look["figures"].as_u64() >= Some(20) && look["tables"].as_u64() >= Some(24), "{look}");
        let contrast = browser.ask(CONTRAST);
        let at_least = |what: &str, least: f64| {
            assert!(contrast[what].as_f64() >= Some(least), "{}: {what}: {contrast}", view.name);
        };
        at_least("text", 4.5);
        at_least("prose", 4.5);
        at_least("lines", 2.9);
        let is_dark = contrast["ground"].as_f64() < Some(0.1);
        assert_eq!(is_dark, view.is_dark && !view.is_print, "{}: {contrast}", view.name);
        assert_eq!(browser.ask("return document.fonts.check('12px Arimo') && document.fonts.size"), 2);
        let requests = browser.requests(&url);
        let foreign = |url: &&String| !url.starts_with("file:") && !url.starts_with("data:");
        assert!(requests.contains(&url), "the browser's log is not what it seems: {requests:?}");
        assert_eq!(requests.iter().find(foreign), None, "{}", view.name);
        assert_eq!(browser.log("browser"), Vec::<Value>::new(), "the console of {}", view.name);
    }
    assert!(browser.print().len() > 10_000);
}

#[test]
fn a_report_takes_nothing_from_elsewhere_has_no_script_and_says_how_to_repeat_it() {
    let scratch = Scratch::new();
    let (_, page) = report(&scratch);
    let text = std::fs::read_to_string(&page).unwrap();
    for sign in ["<script", "javascript:", "@import", "src=\"", "onload", "<iframe", "<object"] {
        assert!(!text.contains(sign), "{sign}");
    }
    let links =
        text.match_indices("http").filter(|(at, _)| !text[*at..].starts_with("http://www.w3.org/2000/svg"));
    assert_eq!(links.count(), 0);
    assert!(text.contains("thalweg bench sweep bulk --budget 64MiB"));
    assert!(text.contains("&lt;not markup&gt;"));
    // What the papers say stands beside, with what they say wrongly.
    for words in [
        "Beside the paper: 000 Fig 2",
        "Beside the paper: 000 Figs 4 to 6",
        "its caption and its data are TLS",
        "10^15 bytes",
    ] {
        assert!(text.contains(words), "{words}");
    }
    let again = scratch.path("again.html");
    let all: Vec<String> =
        results::all(scratch.root()).iter().map(|path| path.display().to_string()).collect();
    let mut words = vec!["report".to_owned(), "-o".to_owned(), again.display().to_string()];
    words.extend(all);
    scratch.ok(&words);
    assert_eq!(std::fs::read(&again).unwrap(), text.as_bytes(), "the same results make the same page");
}

#[test]
fn every_suite_has_its_figure_and_its_data_beside_it() {
    let scratch = Scratch::new();
    for result in results::all(scratch.root()) {
        let result = result.display().to_string();
        let listed = scratch.ok(["plot", "--list", &result]);
        let names: Vec<&str> = listed.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
        assert!(!names.is_empty(), "{result} has no figure");
        let all = scratch.path("figures");
        scratch.ok(["plot", &result, "--out", &all.display().to_string()]);
        for name in names {
            let svg = std::fs::read_to_string(all.join(format!("{name}.svg"))).unwrap();
            assert!(svg.contains("<title") && !svg.contains("NaN") && !svg.contains("inf"), "{name}");
            assert!(
                std::fs::read_to_string(all.join(format!("{name}.csv"))).unwrap().lines().count() > 1,
                "{name}"
            );
        }
    }
    let listed = scratch.ok(["plot", "--list", &scratch.path("faults.jsonl").display().to_string()]);
    assert!(listed.contains("faults-concurrency: "), "001 Fig 7: {listed}");
    let listed = scratch.ok(["plot", "--list", &scratch.path("whole-files.jsonl").display().to_string()]);
    assert!(listed.contains("whole-files-beside-001-fig-9: "), "{listed}");
    let result = scratch.path("latency.jsonl").display().to_string();
    let foreign = scratch.path("iperf3.jsonl").display().to_string();
    let png = scratch.path("one.png");
    scratch.ok(["plot", &result, &foreign, "--out", &png.display().to_string(), "--width", "480"]);
    assert_eq!(&std::fs::read(&png).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
    let data = std::fs::read_to_string(scratch.path("one.csv")).unwrap();
    assert!(data.contains("iperf 3.12: 910 Mbit/s"), "a foreign figure stands in the same plot: {data}");
}

/// By its name, by a link to it, and by the name of the data beside a figure.
#[test]
fn a_page_or_a_figure_replaces_no_result_that_it_is_made_of() {
    let scratch = Scratch::new();
    let result = results::all(scratch.root()).remove(0);
    let bytes = std::fs::read(&result).unwrap();
    let at = |name: &str| scratch.path(name).display().to_string();
    for name in ["own.jsonl", "own.svg", "own.csv"] {
        std::fs::write(scratch.path(name), &bytes).unwrap();
    }
    std::os::unix::fs::symlink(scratch.path("own.jsonl"), scratch.path("link.html")).unwrap();
    for (command, read, out) in [
        ("report", "own.jsonl", "own.jsonl"),
        ("report", "own.jsonl", "link.html"),
        ("plot", "own.svg", "own.svg"),
        ("plot", "own.csv", "own.svg"),
        ("plot", "own.csv", "own.png"),
    ] {
        let run = scratch.run([command, &at(read), "--out", &at(out)]);
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(1), "{command} {read} {out}: {told}");
        assert!(told.contains("would replace") && told.contains("--out"), "{told}");
        assert!(std::fs::read(scratch.path(read)).unwrap() == bytes, "{command} {read} {out}");
    }
    assert!(!scratch.path("own.png").exists(), "something was written before it was refused");
}

/// Else it would be a directory, or a file that holds another form than its name says.
#[test]
fn a_name_that_says_another_form_than_what_is_written_is_refused_and_nothing_is_left() {
    let scratch = Scratch::new();
    let result = results::all(scratch.root()).remove(0).display().to_string();
    let at = |name: &str| scratch.path(name).display().to_string();
    let cases: [(&[&str], &str, &str); 10] = [
        (&["plot"], "fig.pdf", "figures are svg or png"),
        (&["plot"], "fig.JPEG", "figures are svg or png"),
        (&["plot"], "fig.csv", "figures are svg or png"),
        (&["plot"], "fig.html", "figures are svg or png"),
        (&["plot", "--format", "png"], "fig.svg", "--format says another form"),
        (&["plot", "--format", "svg"], "fig.PNG", "--format says another form"),
        (&["plot", "--scale", "2"], "fig.svg", "--scale is of a PNG"),
        (&["report"], "page.pdf", "a report is HTML"),
        (&["report"], "page.PNG", "a report is HTML"),
        (&["report"], "page.svg", "a report is HTML"),
    ];
    for (command, out, why) in cases {
        let path = at(out);
        let words = [command, &[result.as_str(), "--out", path.as_str()]].concat();
        let run = scratch.run(&words);
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(1), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
        assert!(!scratch.path(out).exists() && !scratch.path("fig.csv").exists(), "{words:?}");
    }
    // In letters of either case, and a directory that is there may be called as it likes.
    scratch.ok(["plot", &result, "--out", &at("fig.SVG"), "--format", "svg"]);
    assert!(std::fs::read_to_string(scratch.path("fig.SVG")).unwrap().starts_with("<svg"));
    std::fs::create_dir(scratch.path("of.pdf")).unwrap();
    scratch.ok(["plot", &result, "--out", &at("of.pdf")]);
    assert!(scratch.path("of.pdf/latency-rate.svg").is_file());
}

#[test]
fn what_is_no_result_is_named_with_its_line() {
    let scratch = Scratch::new();
    let bad = scratch.path("bad.jsonl");
    std::fs::write(&bad, "{\"sample\":1}\n").unwrap();
    let run = scratch.run(["report", &bad.display().to_string()]);
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{told}");
    assert!(told.contains("bad.jsonl`: it is no result file") && told.contains(": line 1"), "{told}");
    let run = scratch.run(["plot", "--list", &scratch.path("none").display().to_string()]);
    assert_eq!(run.status.code(), Some(3));
    let result = results::all(scratch.root()).remove(0).display().to_string();
    // Beside results it is passed over, wherever it stands.
    let page = scratch.path("page.html").display().to_string();
    let run = scratch.run(["report", &bad.display().to_string(), &result, "-o", &page]);
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(0), "{told}");
    assert!(told.starts_with("passed over: ") && told.contains("bad.jsonl"), "{told}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("<figure"));
    let run = scratch.run(["plot", &result, "--figure", "other", "-o", "x.svg"]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("--list names those"), "{run:?}");
    assert_eq!(run.status.code(), Some(1));
}
