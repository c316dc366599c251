//! Congestion control: what is there, what programs may choose, what they get without choosing.

use super::finding::{Finding, Subject, Verdict};
use super::machine::Machine;
use super::measure::Probes;
use super::network;
use super::roots::{Roots, read};
use super::wanted::{LOSS_TYPICAL, Reach};
use std::fmt;
use std::time::Duration;
use thalweg_mover::model::loss::{self, CongestionControl};

/// What a program gets that chooses none.
pub const DEFAULT: &str = "net.ipv4.tcp_congestion_control";

/// What a program may choose without `CAP_NET_ADMIN`. What is made the default is in it from then on.
pub const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";

/// Segments below which a share of loss means nothing: fewer, and one lost is more than [`LOSS_TYPICAL`].
pub const SEGMENTS_MIN: u64 = 22_000;

/// The round trip for which is said what a stream carries under loss, if none was measured: interstate, at its upper
/// end (000 Table IV).
const RTT: Duration = Duration::from_millis(50);

/// TCP's payload in a packet of 1500 bytes.
pub const SEGMENT_BYTES: f64 = 1448.0;

/// Everything about it.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let mut found = network::sysctls(roots, machine, Subject::Congestion);
    if let Some(default) = found.iter_mut().find(|finding| finding.name == DEFAULT) {
        let measured = probes.way.as_ref().and_then(|way| way.as_ref().ok()).map(|way| way.rtt);
        let available = roots.sysctl_value(AVAILABLE).unwrap_or_default();
        weigh(default, seen(roots, probes), &available, measured.unwrap_or(RTT));
        if machine.reach(Reach::Namespace).is_err() {
            default.remedy = None;
        }
    }
    let list = |key: &str, why: &str| match roots.sysctl_value(key) {
        Ok(list) => Finding::told(Subject::Congestion, key, list, why),
        Err(unseen) => Finding::unseen(Subject::Congestion, key, unseen),
    };
    found.push(list(AVAILABLE, "what the kernel has loaded"));
    found.push(list(
        ALLOWED,
        "what a program may choose for its sockets without CAP_NET_ADMIN; thalweg takes cubic on short paths if it is here",
    ));
    found
}

/// What the paths lose.
struct Loss {
    /// Share of packets.
    share: f64,
    /// Who says so.
    words: String,
}

/// As whoever asks knows it, else by what was sent again here.
fn seen(roots: &Roots, probes: &Probes) -> Result<Loss, String> {
    match probes.loss {
        Some(share) => {
            Ok(Loss { share, words: format!("the path loses {share:.1e} of its packets, as --loss says") })
        }
        None => resent(roots).map(|resent| Loss { share: resent.share(), words: resent.to_string() }),
    }
}

/// Share of packets that a path of trials is to lose: what was sent again here, where that is more than a good backbone
/// loses, up to what bbr bears; 0 where it is not, or cannot be seen.
pub fn loss_to_prove_with(roots: &Roots) -> f64 {
    let share = resent(roots).map_or(0.0, |resent| resent.share());
    if share > LOSS_TYPICAL { share.min(loss::BBR_LOSS_MAX) } else { 0.0 }
}

/// Which control is better depends on what the paths lose, so none is a fault: what was sent again here since boot says
/// which is worth a try.
fn weigh(finding: &mut Finding, loss: Result<Loss, String>, available: &str, rtt: Duration) {
    let Some(control) = finding.current.as_deref().and_then(CongestionControl::of_name) else {
        return no_advice(finding, "of reno, cubic and bbr alone the papers say which path each is for");
    };
    let loss = match loss {
        Ok(loss) => loss,
        Err(why) => {
            let why = format!("what the paths lose cannot be seen: {why}. {RULE}");
            return no_advice(finding, &why);
        }
    };
    let is_clean = loss.share <= LOSS_TYPICAL;
    let than = if is_clean { "no more" } else { "more" };
    let seen = format!("{}, {than} than a good backbone loses ({LOSS_TYPICAL:.1e})", loss.words);
    match (control, is_clean) {
        (CongestionControl::Cubic, true) => {
            finding.verdict = Verdict::Good;
            finding.why = format!("{seen}{}", carried(CongestionControl::Cubic, loss.share, rtt));
        }
        (_, true) => {
            let law = carried(CongestionControl::Cubic, loss.share, rtt);
            let why = format!("{seen}. {CUBIC_WHERE_CLEAN}{law}");
            advise(finding, CongestionControl::Cubic.name(), "000 Figs 5 and 6", &why);
        }
        (CongestionControl::Bbr, false) => {
            let most = loss::BBR_LOSS_MAX * 100.0;
            let why = format!(
                "{seen}, and up to {most} % does not bind bbr, which loses some of it by its own probing. Find the hop"
            );
            no_advice(finding, &why);
        }
        (_, false) => {
            let why = format!("{seen}{}. {BBR_WHERE_LOSSY}", carried(control, loss.share, rtt));
            let bbr = CongestionControl::Bbr.name();
            advise(finding, bbr, "000 section III-B; RFC 9438; `thalweg model loss`", &why);
            let is_there = available.split(' ').any(|one| one == bbr);
            if let Some(remedy) = finding.remedy.as_mut().filter(|_| !is_there) {
                remedy.apply = format!("modprobe tcp_bbr, then {}", remedy.apply);
            }
        }
    }
}

const RULE: &str = "Where no more than one segment in 22000 is sent again (4.6e-5), the advice is cubic: 000 Table III, and less CPU; \
                    beyond it is bbr, since loss binds cubic";

const CUBIC_WHERE_CLEAN: &str = "On such paths bbr brought nothing over cubic, and reno less; bbr costs CPU on short ones (measured: \
                                 up to 46 %). thalweg chooses for each socket, other programs do not";

const BBR_WHERE_LOSSY: &str =
    "Find the hop first; `--cca bbr` chooses for one copy alone, and `thalweg bench cca` measures both";

/// What one stream carries by the law of its control, in words; nothing where nothing was lost.
fn carried(control: CongestionControl, share: f64, rtt: Duration) -> String {
    let name = control.name();
    let rate = loss::rate_bits_per_s(control, share, rtt.as_secs_f64(), SEGMENT_BYTES).ok().flatten();
    rate.map_or(String::new(), |rate| {
        let (mbit, ms) = (rate / 1e6, rtt.as_secs_f64() * 1e3);
        format!("; one stream with {name} carries {mbit:.0} Mbit/s over {ms:.1} ms at such a loss")
    })
}

fn no_advice(finding: &mut Finding, why: &str) {
    if finding.verdict != Verdict::Unseen {
        (finding.verdict, finding.wanted, finding.source, finding.remedy) = (Verdict::Told, None, None, None);
        finding.why = format!("which is better depends on the path; {why}");
    }
}

/// Not done by `--apply` alone: only after a trial (`--prove`) has shown that it helps.
fn advise(finding: &mut Finding, wanted: &str, source: &str, why: &str) {
    let current = finding.current.clone().unwrap_or_default();
    finding.why = why.to_owned();
    *finding = finding
        .clone()
        .depends(wanted, source)
        .remedied(format!("sysctl -w {DEFAULT}={wanted}"), format!("sysctl -w {DEFAULT}={current}"));
}

/// What this network namespace sent again since it began, on all paths.
#[derive(Debug, Clone, Copy)]
pub struct Resent {
    /// Segments of TCP, with those that never leave this machine and those that only acknowledge.
    pub sent: u64,
    /// Those of them that were sent before: no fewer than were lost.
    pub again: u64,
}

impl Resent {
    /// Those sent again, of all.
    pub fn share(&self) -> f64 {
        self.again as f64 / self.sent as f64
    }
}

impl fmt::Display for Resent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resent { sent, again } = self;
        write!(
            f,
            "{again} of {sent} segments ({:.1e}) were sent again since boot, on all paths; the kernel counts the loopback and \
             bare acknowledgements as well, so of the data on a path it may be more",
            self.share()
        )
    }
}

/// The same, if it is enough to say something.
///
/// # Errors
/// Why not, in words.
pub fn resent(roots: &Roots) -> Result<Resent, String> {
    let (sent, again) = segments(roots)?;
    if sent < SEGMENTS_MIN {
        return Err(format!("only {sent} TCP segments were sent here so far; {SEGMENTS_MIN} are needed"));
    }
    Ok(Resent { sent, again })
}

/// TCP segments sent and sent again by everybody in this network namespace since it began.
fn segments(roots: &Roots) -> Result<(u64, u64), String> {
    let path = roots.proc.join("net/snmp");
    let text = read(&path)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let columns = lines.next().zip(lines.next());
    let find = |name: &str| {
        let (names, values) = columns?;
        let at = names.split_whitespace().position(|column| column == name)?;
        values.split_whitespace().nth(at)?.parse::<u64>().ok()
    };
    find("OutSegs")
        .zip(find("RetransSegs"))
        .ok_or_else(|| format!("{} has no counters of TCP", path.display()))
}
