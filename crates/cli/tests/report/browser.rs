//! A real browser: Debian's Chromium without a screen, told what to do by WebDriver (W3C Recommendation, 2018) and,
//! where that has no words for it, by the DevTools protocol through it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const DRIVER: &str = "/usr/bin/chromedriver";

/// For one command: a browser that starts on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(180);

/// One browser at a time: each takes a machine for itself.
static ALONE: Mutex<()> = Mutex::new(());

/// Of one answer: a log of the network, a picture of a long page.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub name: &'static str,
    /// Pixels.
    pub width: u32,
    pub is_dark: bool,
    pub is_print: bool,
}

/// A session with a browser; both end with the value.
pub struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    _alone: MutexGuard<'static, ()>,
}

impl Browser {
    /// None where there is no driver.
    pub fn start(home: &std::path::Path) -> Option<Browser> {
        if !std::path::Path::new(DRIVER).exists() {
            eprintln!("skipped: no {DRIVER} (Debian's chromium-driver)");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut driver = Command::new(DRIVER)
            .arg("--port=0")
            .env("HOME", home)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the driver");
        let port = port(&mut driver);
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        let agent = ureq::Agent::new_with_config(config.build());
        let session = format!("http://127.0.0.1:{port}/session");
        let mut browser = Browser { driver, agent, session, _alone: alone };
        let arguments = [
            "--headless=new",
            // There is nobody else's page to be kept away from, and root may not have a sandbox.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
        ];
        let data = format!("--user-data-dir={}", home.join("browser").display());
        let arguments: Vec<&str> = arguments.into_iter().chain([data.as_str()]).collect();
        let wishes = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "perfLoggingPrefs": {"enableNetwork": true}},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let made = browser.post("", &wishes);
        let id = made["sessionId"].as_str().expect("a session").to_owned();
        browser.session = format!("{}/{id}", browser.session);
        Some(browser)
    }

    /// Says a command to the driver; what it answers.
    fn post(&self, command: &str, words: &Value) -> Value {
        let sent = self.agent.post(format!("{}{command}", self.session)).send_json(words);
        let mut answer = sent.unwrap_or_else(|error| panic!("{command}: {error}"));
        let mut value: Value =
            answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_json().expect("JSON");
        assert!(answer.status().is_success(), "{command}: {}", value["value"]);
        value["value"].take()
    }

    fn tell(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Opens a page in a view.
    pub fn open(&self, url: &str, view: View) {
        let (width, height) = (view.width, 900);
        let mobile = view.width < 600;
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}),
        );
        let scheme = if view.is_dark { "dark" } else { "light" };
        let media = if view.is_print { "print" } else { "screen" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tell("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
        self.post("/url", &json!({"url": url}));
        // Its own fonts are read beside the page; the driver waits for the promise.
        self.ask("return document.fonts.ready.then(() => true)");
    }

    /// Runs a script in the page; what it returns.
    pub fn ask(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Lines of a log since the last time: `browser` (the console) or `performance` (the network among it).
    pub fn log(&self, kind: &str) -> Vec<Value> {
        self.post("/se/log", &json!({"type": kind})).as_array().cloned().unwrap_or_default()
    }

    /// What a page asked for since the last time.
    pub fn requests(&self, page: &str) -> Vec<String> {
        let told = self.log("performance").into_iter().filter_map(|line| {
            let message: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &message["message"];
            let of = message["params"]["documentURL"].as_str();
            let is_request = message["method"] == "Network.requestWillBeSent" && of == Some(page);
            is_request.then(|| message["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
        });
        told.collect()
    }

    /// The whole page as a PNG, in base64.
    pub fn picture(&self) -> String {
        let size = self.tell("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let picture =
            self.tell("Page.captureScreenshot", json!({"captureBeyondViewport": true, "clip": clip}));
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// Pages of the print, as PDF in base64. Not by WebDriver: whatever it is told, its driver waits ten seconds for
    /// one, and a busy machine takes longer.
    pub fn print(&self) -> String {
        self.tell("Page.printToPDF", json!({}))["data"].as_str().expect("a print").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// `ChromeDriver was started successfully on port 12345.`
fn port(driver: &mut Child) -> u16 {
    let out = BufReader::new(driver.stdout.take().expect("its stdout"));
    let mut lines = out.lines().map_while(Result::ok);
    let port =
        lines.find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
    port.expect("the driver says its port")
}
