//! `cca`: congestion controls, set for each socket, at steps of loss (000 section III-B.1, Figs 4 to 6).

use super::{
    GBIT, MIB, OVER_A_PATH, Planned, Suite, Takes, VERIFIED, Values, count, encrypted, of_copy,
    rtts_left_out, scaled, seconds, size,
};
use crate::bench::network::{self, PathWish, Testbed, segment_bytes};
use crate::bench::record::{PathKind, Sample, Scaled};
use crate::bench::{Bench, Prepared, Wishes};
use crate::doctor::measure::kernel_tls;
use crate::plot::unit::number;
use crate::testbed::spec::TUNED;
use std::time::Duration;
use thalweg_mover::failure::Result;
use thalweg_mover::model::loss::{CongestionControl, rate_bits_per_s};
use thalweg_sys::socket;

pub const SUITE: Suite = Suite {
    name: "cca",
    asks: "what does loss leave, by congestion control? (000 section III-B.1, Figs 4 to 6)",
    runs: 3,
    budget_bytes: 640 * MIB,
    takes: Takes { rtt: Values::Many, loss: Values::Many, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

/// Of a bad line and of good ones; the third is what 000 (section III-B.1) found on a private line.
const STEPS: [f64; 5] = [0.0, 1e-5, 4.6e-5, 1e-4, 1e-3];

/// Those of them that are measured unless others are asked for: at 1e-5 each copy would take some GB.
const LOSSES: [f64; 4] = [0.0, 4.6e-5, 1e-4, 1e-3];

/// Packets of data that are to be lost in each copy, on the average: of fewer, what a control makes of losses is
/// chance.
const LOST_MIN: f64 = 20.0;

/// Of each copy at least, so that slow start is not most of it; the round that does not count needs no more.
const BYTES_MIN: u64 = 64 * MIB;

const RTT: Duration = Duration::from_millis(20);

/// Of the production line of 000 Figs 4 to 6.
const PAPER_RTT_MS: u64 = 74;

/// What protects the stream. 000 has TLS in user space and in the kernel, on a line without loss; here both are
/// measured at the least loss alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Sealed,
    Tls,
    KernelTls,
}

impl Form {
    /// Series and value of a parameter.
    fn name(self) -> &'static str {
        match self {
            Form::Sealed => "sealed frames",
            Form::Tls => "TLS",
            Form::KernelTls => "kernel TLS",
        }
    }

    /// Options of `cp`.
    fn words(self) -> &'static [&'static str] {
        match self {
            Form::Sealed => &[],
            Form::Tls => &["--cipher", "tls", "--ktls", "off"],
            Form::KernelTls => &["--cipher", "tls", "--ktls", "on"],
        }
    }
}

struct Case {
    control: usize,
    rtt: Duration,
    loss: f64,
    form: Form,
}

impl Case {
    fn control(&self) -> CongestionControl {
        CongestionControl::ALL[self.control]
    }

    /// The sample with the case's name and parameters; the distance where there are several.
    fn told_in(&self, sample: Sample, has_distances: bool) -> Sample {
        let name = self.control().name();
        let series = match self.form {
            Form::Sealed => name.to_owned(),
            form => format!("{name}, {}", form.name()),
        };
        let sample = Sample { series, ..sample }
            .with("control", name.into())
            .with("protection", self.form.name().into())
            .with("loss", count(self.loss));
        if has_distances { sample.with("rtt", seconds(self.rtt.as_secs_f64())) } else { sample }
    }
}

/// What is left out where the kernel has none.
const KERNEL_TLS: &str = "kernel TLS (000 Fig 4)";

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let (rtts, losses) = (rtts(wishes), losses(wishes));
    let all: Vec<usize> = (0..CongestionControl::ALL.len()).collect();
    let of = |case: &Case| {
        let mut left_out_as = vec![case.control().name().to_owned()];
        if case.form == Form::KernelTls {
            left_out_as.push(KERNEL_TLS.to_owned());
        }
        Planned::of(case.told_in(Sample::default(), rtts.len() > 1), left_out_as)
    };
    cases(&all, &rtts, &losses, true).iter().map(of).collect()
}

/// Over each distance, of each control that is there: sealed frames at each loss, and the other forms that there are at
/// the least.
fn cases(controls: &[usize], rtts: &[Duration], losses: &[f64], has_kernel_tls: bool) -> Vec<Case> {
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let tls = [Form::Tls, Form::KernelTls];
    let forms = tls.into_iter().filter(|form| has_kernel_tls || *form != Form::KernelTls);
    let mut cases = Vec::new();
    for &rtt in rtts {
        for &control in controls {
            cases.extend(losses.iter().map(|&loss| Case { control, rtt, loss, form: Form::Sealed }));
            cases.extend(forms.clone().map(|form| Case { control, rtt, loss: least, form }));
        }
    }
    cases
}

/// Of which [`LOST_MIN`] packets are lost on the average; nothing without a loss.
fn needed_bytes(loss: f64) -> f64 {
    if loss > 0.0 { LOST_MIN / loss * segment_bytes(network::MTU_BYTES) } else { 0.0 }
}

/// So much that enough of its packets are lost, as far as the budget goes.
fn bytes_at(loss: f64, budget_bytes: u64) -> u64 {
    (needed_bytes(loss).ceil() as u64).max(BYTES_MIN).min(budget_bytes)
}

/// Of each copy, whatever it loses: what the least of these losses needs. Of copies of several sizes the larger ones
/// have a smaller part of slow start, handshakes and sync, and a rate over losses would be one over sizes.
fn bytes_of_all(losses: &[f64], budget_bytes: u64) -> u64 {
    let largest = losses.iter().map(|loss| bytes_at(*loss, budget_bytes)).max();
    largest.unwrap_or_else(|| bytes_at(0.0, budget_bytes))
}

/// Which losses there are.
fn stepped(wishes: &Wishes) -> Scaled {
    let steps: Vec<String> = losses(wishes).iter().map(|loss| number(*loss)).collect();
    scaled("loss", "0, 1e-5, 1e-4, 1e-3; 4.6e-5 on a private line (000 section III-B.1)", steps.join(", "))
}

/// What of the paper is not measured, and why not.
fn left_out(wishes: &Wishes) -> Vec<(String, String)> {
    let (rtts, losses) = (rtts(wishes), losses(wishes));
    let mut left_out = Vec::new();
    for loss in STEPS.into_iter().filter(|loss| !losses.contains(loss)) {
        let gigabytes = needed_bytes(loss) / 1e9;
        let why = match wishes.losses.is_empty() {
            true => format!(
                "each copy needs {gigabytes:.1} GB to lose {LOST_MIN} packets: `--loss {} --budget {}GB`",
                number(loss),
                gigabytes.ceil()
            ),
            false => "--loss asks for others".to_owned(),
        };
        left_out.push((format!("a loss of {}", number(loss)), why));
    }
    if let Some(missing) = rtts_left_out(&[PAPER_RTT_MS], &rtts) {
        let why = match wishes.rtts.is_empty() {
            true => {
                let times = PAPER_RTT_MS as f64 / (RTT.as_secs_f64() * 1e3);
                format!(
                    "copies that lose packets take up to {times:.1} times as long there: `--rtt {missing}`"
                )
            }
            false => "--rtt asks for others".to_owned(),
        };
        left_out.push((format!("a round trip time of {missing} (000 Figs 4 to 6)"), why));
    }
    left_out
}

/// How large each copy is, and why.
fn sized(wishes: &Wishes) -> Scaled {
    let budget_bytes = SUITE.budget_bytes(wishes);
    let megabytes = bytes_of_all(&losses(wishes), budget_bytes) as f64 / 1e6;
    scaled("a copy", "1 TiB (000 section III-B.2)", {
        let most = size(budget_bytes);
        format!(
            "{megabytes:.0} MB, the same at each loss: so much that at the least of them {LOST_MIN} packets are lost on \
             the average, at most {most}"
        )
    })
}

fn losses(wishes: &Wishes) -> Vec<f64> {
    if wishes.losses.is_empty() { LOSSES.to_vec() } else { wishes.losses.clone() }
}

fn rtts(wishes: &Wishes) -> Vec<Duration> {
    if wishes.rtts.is_empty() { vec![RTT] } else { wishes.rtts.clone() }
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, RTT, GBIT)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let (path, rtts) = (path(wishes), rtts(wishes));
    let each_ms: Vec<String> = rtts.iter().map(|rtt| (rtt.as_secs_f64() * 1e3).to_string()).collect();
    Ok(Prepared {
        path: PathKind::Testbed {
            rtt_s: if rtts.len() == 1 { Some(path.rtt.as_secs_f64()) } else { None },
            rate_bits_per_s: Some(path.rate_bits_per_s),
            loss: None,
            mtu_bytes: network::MTU_BYTES,
        },
        encryption: format!("{}; TLS 1.3 where a series says so", encrypted()),
        verification: VERIFIED.to_owned(),
        changes: vec![
            scaled("path", "100 Gbit/s, 74 ms (000 Figs 4 to 6)", {
                format!("{} Gbit/s, {} ms", path.rate_bits_per_s as f64 / 1e9, each_ms.join(", "))
            }),
            stepped(wishes),
            scaled(
                "streams",
                "as zx plans them",
                "one, so that the law of one stream can stand beside it".to_owned(),
            ),
            sized(wishes),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    for (what, why) in left_out(bench.wishes) {
        bench.leave_out(&what, &why)?;
    }
    let (rtts, losses) = (rtts(bench.wishes), losses(bench.wishes));
    let path = PathWish { loss: 0.0, ..path(bench.wishes) };
    let testbed = Testbed::up(&bench.workspace, "cca", &path, TUNED)?;
    let there = socket::available_congestion().unwrap_or_default();
    let mut controls = Vec::new();
    for (control, name) in CongestionControl::ALL.map(CongestionControl::name).into_iter().enumerate() {
        if !there.iter().any(|known| known == name) {
            bench.leave_out(name, &format!("this kernel has {} only", there.join(", ")))?;
            continue;
        }
        controls.push(control);
    }
    let ktls = kernel_tls();
    let cases = cases(&controls, &rtts, &losses, ktls.is_ok());
    if let Err(why) = ktls {
        bench.leave_out(
            KERNEL_TLS,
            &format!("this kernel has none: {why}; records are sealed in user space"),
        )?;
    }
    let daemon = bench.workspace.daemon(Some(&testbed.right))?;
    let budget_bytes = bench.budget_bytes();
    let each_bytes = bytes_of_all(&losses, budget_bytes);
    bench.take_turns(cases, |bench, run, case| {
        // The round that does not count need not lose anything.
        let data_bytes = match run {
            0 => bytes_at(0.0, budget_bytes),
            _ => each_bytes,
        };
        let control = case.control();
        let name = control.name();
        let path = PathWish { rtt: case.rtt, loss: case.loss, ..path };
        testbed.set(&path)?;
        bench.workspace.settle()?;
        let source = format!("data:size={data_bytes},seed={}", bench.wishes.seed());
        let mut words = super::words(&["cp", "--no-tune", "--streams", "1", "--cca", name]);
        words.extend(super::words(case.form.words()));
        words.extend([source, daemon.url("copy")]);
        let sample = super::over(&testbed, || {
            let copied = bench.workspace.copy(Some(&testbed.left), Some(&daemon), &words)?;
            Ok(of_copy("", &copied, data_bytes, 1))
        })?;
        bench.workspace.remove(&daemon.path("copy"))?;
        let rate = sample.rate_bits_per_s();
        let mut sample = sample.measured("rate", rate, "bit/s");
        // Without loss, and of bbr, no law says anything but that the line is the most.
        let (rtt_s, segment) = (path.rtt.as_secs_f64(), segment_bytes(path.mtu_bytes));
        let law =
            (case.loss > 0.0).then(|| rate_bits_per_s(control, case.loss, rtt_s, segment).ok().flatten());
        if let Some(law) = law.flatten() {
            let line = path.payload_bits_per_s() * (1.0 - case.loss);
            sample = sample.predicted("rate", law.min(line), "bit/s");
        }
        let expected = case.loss * data_bytes as f64 / segment;
        let sample = sample.measured("packets_lost_expected", expected, "1");
        Ok(Some(case.told_in(sample, rtts.len() > 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_of_one_size_whatever_they_lose_and_slow_start_is_no_larger_a_part_of_any() {
        let budget_bytes = SUITE.budget_bytes;
        let each = bytes_of_all(&LOSSES, budget_bytes);
        for loss in LOSSES.into_iter().filter(|loss| *loss > 0.0) {
            let lost = loss * each as f64 / segment_bytes(network::MTU_BYTES);
            assert!(lost >= LOST_MIN, "{loss}: {lost} of {each} bytes");
        }
        for (losses, bytes) in [(&[0.0][..], BYTES_MIN), (&[], BYTES_MIN), (&[0.0, 1e-6], budget_bytes)] {
            assert_eq!(bytes_of_all(losses, budget_bytes), bytes, "{losses:?}");
        }
        assert_eq!(bytes_of_all(&LOSSES, MIB), MIB, "as asked");
        let told = sized(&Wishes::default()).to;
        assert!(told.starts_with("630 MB, the same at each loss: "), "{told}");
    }

    #[test]
    fn tls_is_measured_beside_sealed_frames_where_nothing_is_lost() {
        let count = |has_kernel_tls, form: Form| {
            let cases = cases(&[0, 2], &[RTT], &LOSSES, has_kernel_tls);
            let of = |case: &&Case| case.form == form && (form == Form::Sealed || case.loss == 0.0);
            assert!(cases.iter().all(|case| case.control != 1), "reno and bbr only");
            cases.iter().filter(of).count()
        };
        let forms = [Form::Sealed, Form::Tls, Form::KernelTls];
        assert_eq!(forms.map(|form| count(true, form)), [2 * LOSSES.len(), 2, 2]);
        assert_eq!(forms.map(|form| count(false, form)), [2 * LOSSES.len(), 2, 0]);
    }

    #[test]
    fn a_result_says_which_losses_it_has_and_why_not_a_smaller_one() {
        assert_eq!(stepped(&Wishes::default()).to, "0, 4.6e-5, 1e-4, 1e-3");
        let left_out = left_out(&Wishes::default());
        let told: Vec<String> = left_out.into_iter().map(|(what, why)| format!("{what}: {why}")).collect();
        assert_eq!(
            told,
            [
                "a loss of 1e-5: each copy needs 2.9 GB to lose 20 packets: `--loss 1e-5 --budget 3GB`",
                "a round trip time of 74ms (000 Figs 4 to 6): copies that lose packets take up to 3.7 times as long \
                 there: `--rtt 74ms`",
            ]
        );
    }

    #[test]
    fn all_that_the_paper_has_can_be_asked_for_and_what_was_not_is_told() {
        let ms = Duration::from_millis;
        let all = Wishes { losses: STEPS.to_vec(), rtts: vec![ms(20), ms(74)], ..Wishes::default() };
        assert!(left_out(&all).is_empty());
        assert_eq!(
            (SUITE.check(&all).is_ok(), stepped(&all).to.as_str()),
            (true, "0, 1e-5, 4.6e-5, 1e-4, 1e-3")
        );
        let one = Wishes { losses: vec![1e-5], rtts: vec![ms(5)], ..Wishes::default() };
        let told: Vec<String> = left_out(&one).into_iter().map(|(what, _)| what).collect();
        assert_eq!(told.len(), STEPS.len(), "{told:?}");
        let cases = cases(&[1], &rtts(&all), &losses(&all), false);
        assert_eq!(cases.len(), 2 * (STEPS.len() + 1));
        let near = cases.iter().filter(|case| case.rtt == ms(20)).count();
        assert_eq!(near, STEPS.len() + 1, "sealed frames at each loss, and TLS");
    }

    #[test]
    fn a_copy_is_as_large_as_its_loss_needs_and_no_larger_than_was_asked_for() {
        assert_eq!(bytes_at(0.0, SUITE.budget_bytes), BYTES_MIN);
        assert_eq!(bytes_at(1e-6, SUITE.budget_bytes), SUITE.budget_bytes, "bounded");
        assert_eq!(bytes_at(1e-3, MIB), MIB, "as asked");
    }
}
