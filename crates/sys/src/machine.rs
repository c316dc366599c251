//! Which machine this is, and what its CPUs are to this process.

use std::fs;

/// Where systemd and D-Bus keep what tells this installation from every other: 32 hexadecimal digits.
const MACHINE_ID: &str = "/etc/machine-id";

/// What tells this machine from others, the same after every boot: the machine's id, or where it has none its host
/// name. Not for others' eyes as it is (machine-id(5)): say a digest of it.
///
/// Machines that were cloned with their id are one here.
pub fn identity() -> Vec<u8> {
    identity_of(fs::read(MACHINE_ID).ok(), rustix::system::uname().nodename().to_bytes())
}

/// Its host name, for people: at most 64 characters of ASCII that show; what else is in it is a `?`.
pub fn host_name() -> String {
    shown(rustix::system::uname().nodename().to_bytes())
}

/// Whether the CPU has instructions for AES-GCM: AES and the carry-less product.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// CPUs this process can use at once: those online that its affinity allows, bounded by the quota of its
/// control group. At least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPUs that this process may run on: those online that its affinity allows, whatever quota its control group has. At
/// least 1.
pub fn cores_by_affinity() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(0, |cpus| cpus.count());
    // There are machines with more than fit in the set.
    usize::try_from(allowed).ok().filter(|cpus| *cpus > 0).unwrap_or_else(cores)
}

fn shown(host: &[u8]) -> String {
    host.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

fn identity_of(id: Option<Vec<u8>>, host: &[u8]) -> Vec<u8> {
    let id = id.map(|id| id.trim_ascii().to_vec());
    // While a machine boots for the first time a word stands there.
    let is_id = |id: &Vec<u8>| id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit);
    id.filter(is_id).unwrap_or_else(|| host.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_by_its_id_and_without_one_by_its_name() {
        let id = b"0123456789abcdef0123456789abcdef";
        assert_eq!(identity_of(Some([&id[..], b"\n"].concat()), b"host"), id);
        for none in [None, Some(b"".to_vec()), Some(b"uninitialized\n".to_vec())] {
            assert_eq!(identity_of(none, b"host"), b"host");
        }
        assert_eq!(identity(), identity());
        assert!(!identity().is_empty());
    }

    #[test]
    fn a_host_name_is_shown_inert() {
        assert_eq!(shown(b"dtn1.example.org"), "dtn1.example.org");
        assert_eq!(shown(b"d\x1b[0m \xff"), "d?[0m??");
        assert!(host_name().len() <= 64);
    }

    #[test]
    fn cpus_have_the_instructions_that_proc_tells_of() {
        assert!(cores() >= 1 && cores_by_affinity() >= cores());
        if cfg!(target_arch = "x86_64") {
            let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
            let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap();
            assert_eq!(has_aes(), flags.contains(" aes ") && flags.contains(" pclmulqdq "));
        }
    }
}
