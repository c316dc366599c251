//! The text that is told: the Prometheus text format 0.0.4, or OpenMetrics 1.0.0 for who asks for that.
//!
//! Whatever stands in a label or a help is one line: backslashes, quotes and ends of lines are escaped.

use super::table::{Kind, Metric};
use std::fmt::{Display, Write};

/// Which form the text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// See the module.
pub(super) struct Page {
    text: String,
    form: Form,
}

/// A metric of a page, to which its samples are added.
pub(super) struct Samples<'a> {
    page: &'a mut Page,
    metric: &'static Metric,
}

impl Page {
    pub fn new(form: Form) -> Page {
        Page { text: String::new(), form }
    }

    /// Begins the next metric. One without samples is told by its name alone.
    pub fn metric(&mut self, metric: &'static Metric) -> Samples<'_> {
        let (name, word) = (self.family(metric), metric.kind.word());
        let help = escaped(metric.help, self.form == Form::OpenMetrics);
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {word}");
        Samples { page: self, metric }
    }

    /// What a metric is called where it is said what it is: OpenMetrics leaves the end of counters to their samples.
    fn family(&self, metric: &'static Metric) -> &'static str {
        match self.form {
            Form::OpenMetrics if metric.kind == Kind::Counter => metric.name.trim_end_matches("_total"),
            _ => metric.name,
        }
    }

    /// All of it.
    pub fn end(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Samples<'_> {
    /// Adds one with these values of its labels.
    pub fn put(&mut self, labels: &[&str], number: impl Display) -> &mut Self {
        let metric = self.metric;
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let labels = metric.labels.iter().copied().zip(labels.iter().copied());
        self.line("", labels, number);
        self
    }

    /// Adds what was seen, of a metric without labels.
    pub fn histogram(&mut self, seen: &Histogram) {
        let mut below = 0;
        for (bound, count) in RTT_BOUNDS_S.iter().zip(seen.counts) {
            below += count;
            let bound = format!("{bound:?}");
            self.line("_bucket", [("le", bound.as_str())].into_iter(), below);
        }
        self.line("_bucket", [("le", "+Inf")].into_iter(), seen.count);
        self.line("_sum", std::iter::empty(), seen.sum_s);
        self.line("_count", std::iter::empty(), seen.count);
    }

    fn line<'b>(
        &mut self,
        end: &str,
        labels: impl Iterator<Item = (&'b str, &'b str)>,
        number: impl Display,
    ) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{end}", self.metric.name);
        let mut opens = '{';
        for (name, value) in labels {
            let _ = write!(text, "{opens}{name}=\"{}\"", escaped(value, true));
            opens = ',';
        }
        if opens == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {number}");
    }
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

/// Upper bounds of what is counted together, in seconds: from a rack to the other side of the earth.
const RTT_BOUNDS_S: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 1.0];

/// What was seen of something, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    /// By the bound that they are not above, each once.
    counts: [u64; RTT_BOUNDS_S.len()],
    count: u64,
    sum_s: f64,
}

impl Histogram {
    pub fn see(&mut self, seconds: f64) {
        if let Some(at) = RTT_BOUNDS_S.iter().position(|bound| seconds <= *bound) {
            self.counts[at] += 1;
        }
        self.count += 1;
        self.sum_s += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn whatever_a_label_has_is_one_line_and_closes_nothing() {
        let mut page = Page::new(Form::Prometheus);
        page.metric(&table::FREE).put(&["a\"} 1\nb\\"], 7_u64);
        let text = page.end();
        assert!(text.ends_with("\nthalweg_export_free_bytes{export=\"a\\\"} 1\\nb\\\\\"} 7\n"), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(escaped("\"\\\n", false), "\"\\\\\\n");
    }

    #[test]
    fn a_counter_is_called_in_each_form_as_that_wants_it() {
        let of = |form| {
            let mut page = Page::new(form);
            page.metric(&table::REFUSED).put(&["sessions"], 3_u64);
            page.end()
        };
        let help = table::REFUSED.help;
        let sample = "thalweg_refused_total{reason=\"sessions\"} 3\n";
        let head = |name: &str| format!("# HELP {name} {help}\n# TYPE {name} counter\n");
        assert_eq!(of(Form::Prometheus), head("thalweg_refused_total") + sample);
        assert_eq!(of(Form::OpenMetrics), head("thalweg_refused") + sample + "# EOF\n");
    }

    #[test]
    fn what_was_seen_is_counted_up_to_each_bound_and_in_all() {
        let mut seen = Histogram::default();
        [0.0, 0.0625, 0.25, 2.0].into_iter().for_each(|seconds| seen.see(seconds));
        let mut page = Page::new(Form::Prometheus);
        page.metric(&table::RTT).histogram(&seen);
        let text = page.end();
        let has = |line: &str| text.lines().any(|told| told == format!("thalweg_stream_rtt_seconds{line}"));
        for (bound, count) in [("0.0001", 1), ("0.03", 1), ("0.1", 2), ("0.4", 3), ("1.0", 3), ("+Inf", 4)] {
            assert!(has(&format!("_bucket{{le=\"{bound}\"}} {count}")), "{bound}: {text}");
        }
        assert!(has("_count 4") && has("_sum 2.3125"), "{text}");
    }
}
