//! A card by itself: its slot, and whether it stops others and lets itself be stopped.

use super::finding::{Finding, Subject};
use super::measure::Tried;
use super::roots::{number, read};
use std::path::Path;
use thalweg_sys::card::Pause;

/// What of a slot's rate is left for packets: headers take some 26 bytes of each 256 (PCI Express, largest payload of
/// most servers).
const PAYLOAD: f64 = 256.0 / 282.0;

/// From this speed on 128 of 130 bits carry bytes, before 8 of 10 (PCI Express 3.0).
const LONG_CODE_GT_PER_S: f64 = 8.0;

/// How many lanes of a slot a card uses, and how quick they are; none if it is in no slot.
pub fn slot(device: &str, directory: &Path, rate: Option<u64>) -> Option<Finding> {
    let lanes = |file: &str| number::<u32>(&directory.join("device").join(file)).filter(|lanes| *lanes > 0);
    // As `16.0 GT/s PCIe`; `Unknown` where nobody knows.
    let speed = |file: &str| -> Option<f64> {
        read(&directory.join("device").join(file)).ok()?.split_whitespace().next()?.parse().ok()
    };
    let (width, gt_per_s) = (lanes("current_link_width")?, speed("current_link_speed")?);
    let (width_max, gt_per_s_max) = (lanes("max_link_width")?, speed("max_link_speed")?);
    let code = if gt_per_s < LONG_CODE_GT_PER_S { 0.8 } else { 128.0 / 130.0 };
    let bits_per_s = gt_per_s * 1e9 * f64::from(width) * code * PAYLOAD;
    let is_full = width >= width_max && gt_per_s >= gt_per_s_max;
    let carries_line = rate.is_none_or(|rate| bits_per_s >= rate as f64);
    let than = if carries_line { "" } else { ", less than the line" };
    let found = Finding::told(
        Subject::Network,
        format!("{device} PCIe"),
        format!("{gt_per_s:.1} GT/s x{width}: some {:.0} Gbit/s{than}", bits_per_s / 1e9),
        "a slot with fewer lanes, or a bad contact, bounds what the card carries both for itself and for its other ports",
    );
    let (wanted, source) = (format!("{gt_per_s_max:.1} GT/s x{width_max}"), "sysfs-bus-pci of the kernel");
    let found = match (is_full, carries_line) {
        (true, true) => found.wanted(wanted, true, source),
        // The card can do no more.
        (true, false) => found,
        (false, true) => found.depends(wanted, source),
        (false, false) => found.wanted(wanted, false, source),
    };
    Some(found.remedied(
        "seat the card anew, or in a slot with as many lanes; `lspci -vv` tells what each end could do",
        "nothing to take back: no setting is changed",
    ))
}

/// What a card does about pause frames.
pub fn pause(device: &str, pause: &Tried<Pause>) -> Finding {
    let name = format!("{device} pause frames");
    let pause = match pause {
        Ok(pause) => pause,
        Err(why) => {
            return Finding::unseen(Subject::Network, name, format!("the driver does not say: {why}"));
        }
    };
    let word = |is_on| if is_on { "on" } else { "off" };
    let (receive, send) = (word(pause.receive), word(pause.send));
    let agreed = if pause.negotiated { ", negotiated" } else { "" };
    Finding::told(
        Subject::Network,
        name,
        format!("rx {receive} tx {send}{agreed}"),
        "with them a full ring or switch makes the sender wait rather than lose packets; they stop all that comes by that \
         cable, and the switch must do the same",
    )
    .depends_unless(pause.receive && pause.send, "rx on tx on", "ethtool(8)")
    .remedied(
        format!("ethtool -A {device} rx on tx on"),
        format!("ethtool -A {device} autoneg {} rx {receive} tx {send}", word(pause.negotiated)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_slot_that_carries_less_than_the_line_is_a_finding_and_one_that_is_not_full_may_be() {
        let scratch = tempfile::tempdir().unwrap();
        let device = scratch.path().join("device");
        std::fs::create_dir(&device).unwrap();
        let slot = |speed: &str, width: &str, max: (&str, &str), rate: u64| {
            let files = [
                ("current_link_speed", speed),
                ("current_link_width", width),
                ("max_link_speed", max.0),
                ("max_link_width", max.1),
            ];
            files.iter().for_each(|(file, text)| std::fs::write(device.join(file), text).unwrap());
            super::slot("eth0", scratch.path(), Some(rate))
        };
        let max = ("16.0 GT/s PCIe", "16");
        let found = slot("8.0 GT/s PCIe", "8", max, 100_000_000_000).unwrap();
        assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Change, Some("16.0 GT/s x16")));
        assert_eq!(found.current.as_deref(), Some("8.0 GT/s x8: some 57 Gbit/s, less than the line"));
        assert_eq!(slot("8.0 GT/s PCIe", "8", max, 25_000_000_000).unwrap().verdict, Verdict::Depends);
        assert_eq!(slot("16.0 GT/s PCIe", "16", max, 100_000_000_000).unwrap().verdict, Verdict::Good);
        let poor = slot("8.0 GT/s PCIe", "8", ("8.0 GT/s PCIe", "8"), 100_000_000_000).unwrap();
        assert!(poor.verdict == Verdict::Told && poor.remedy.is_none(), "{poor:?}");
        assert_eq!(slot("Unknown", "0", max, 1), None);
    }

    #[test]
    fn pause_frames_that_are_off_may_be_better_on_and_are_put_back_as_they_were() {
        let found = |receive, send| pause("eth0", &Ok(Pause { negotiated: true, receive, send }));
        assert_eq!(found(true, true).verdict, Verdict::Good);
        let off = found(true, false);
        assert_eq!(off.verdict, Verdict::Depends);
        assert_eq!(off.current.as_deref(), Some("rx on tx off, negotiated"));
        let undo = off.remedy.map(|remedy| remedy.undo);
        assert_eq!(undo.as_deref(), Some("ethtool -A eth0 autoneg on rx on tx off"));
        assert_eq!(pause("eth0", &Err("not supported".into())).verdict, Verdict::Unseen);
    }
}
