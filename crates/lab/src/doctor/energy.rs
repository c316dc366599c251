//! Whether the energy that this machine uses is counted, and may be read by whoever asks.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::roots::Roots;
use thalweg_sys::energy::{Access, Sources};

const NAME: &str = "energy";

/// Nothing else of a transfer needs it.
const WHY: &str = "`thalweg why` tells by it how much energy a transfer's machines used, and kWh per TB";

/// Whether it can be told.
pub fn finding(roots: &Roots, machine: &Machine) -> Finding {
    judged(roots, machine, Sources::below(&roots.sys).access())
}

fn judged(roots: &Roots, machine: &Machine, access: Access) -> Finding {
    let files = roots.sys.join("class/powercap/*/energy_uj");
    let files = files.display();
    let found = match access {
        Access::Absent => {
            let why = match machine.hypervisor() {
                Some(_) => "a guest does not see what its host uses".to_owned(),
                None => format!("nothing counts it ({files})"),
            };
            return Finding::unseen(Subject::Limits, NAME, why);
        }
        Access::Broken(file, error) => {
            let why = format!("cannot read {}: {error}", file.display());
            return Finding::unseen(Subject::Limits, NAME, why);
        }
        Access::Denied(file) => {
            let why = format!(
                "{WHY}; the kernel keeps it from all but root: what others compute can be made out by it"
            );
            Finding::told(Subject::Limits, NAME, format!("{} may not be read", file.display()), why)
                .depends(
                    "readable by a group of those who run thalweg",
                    "CVE-2020-8694; Documentation/power/powercap/powercap.rst of the kernel",
                )
                .remedied(
                    format!("chgrp GROUP {files} && chmod g+r {files}, after each start"),
                    format!("chmod 0400 {files}"),
                )
        }
        Access::Readable(packages, is_platform) => {
            let platform = if is_platform { ", and the whole platform" } else { "" };
            let packages = match packages {
                1 => "1 CPU package".to_owned(),
                packages => format!("{packages} CPU packages"),
            };
            Finding::told(Subject::Limits, NAME, format!("counted of {packages}{platform}"), WHY)
        }
    };
    found.scoped(if machine.container.is_some() { "the host" } else { "this machine" })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use std::fs;
    use std::path::Path;

    fn zone(root: &Path, zone: &str, name: &str) {
        let zone = root.join("sys/class/powercap").join(zone);
        fs::create_dir_all(&zone).expect("make directories");
        for (file, text) in [("name", name), ("max_energy_range_uj", "1000"), ("energy_uj", "7")] {
            fs::write(zone.join(file), format!("{text}\n")).expect("write a file");
        }
    }

    fn found(root: &Path) -> Finding {
        let roots = Roots::below(root);
        finding(&roots, &Machine::of(&roots))
    }

    #[test]
    fn energy_that_is_counted_is_told_with_what_it_is_of_and_else_what_is_missing() {
        let tree = tempfile::tempdir().expect("a scratch directory");
        let root = tree.path();
        let absent = found(root);
        assert_eq!((absent.verdict, absent.current), (Verdict::Unseen, None));
        assert!(absent.why.starts_with("nothing counts it (") && absent.why.contains("energy_uj"));
        zone(root, "intel-rapl:0", "package-0");
        let one = found(root);
        assert_eq!((one.verdict, one.current.as_deref()), (Verdict::Told, Some("counted of 1 CPU package")));
        zone(root, "intel-rapl:1", "package-1");
        zone(root, "intel-rapl:2", "psys");
        let all = found(root).current;
        assert_eq!(all.as_deref(), Some("counted of 2 CPU packages, and the whole platform"));
        let file = root.join("sys/class/powercap/intel-rapl:1/energy_uj");
        fs::remove_file(&file).expect("remove a file");
        fs::create_dir(&file).expect("make a directory");
        let broken = found(root);
        assert_eq!(broken.verdict, Verdict::Unseen);
        assert!(broken.why.contains("intel-rapl:1/energy_uj: "), "{}", broken.why);
    }

    #[test]
    fn energy_that_only_root_may_read_is_no_fault_and_how_others_may_is_said() {
        let tree = tempfile::tempdir().expect("a scratch directory");
        let roots = Roots::below(tree.path());
        let access = Access::Denied("energy_uj".into());
        let denied = judged(&roots, &Machine::of(&roots), access);
        assert_eq!(denied.verdict, Verdict::Depends);
        assert!(denied.current.is_some_and(|said| said == "energy_uj may not be read"));
        let remedy = denied.remedy.expect("how to let others");
        assert!(remedy.apply.starts_with("chgrp GROUP ") && remedy.undo.starts_with("chmod 0400 "));
    }
}
