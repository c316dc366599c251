//! Whom this process acts as, and what it may do.

use rustix::thread::CapabilitySet;

/// The user this process acts as.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The group this process acts as.
pub fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The groups this process may give its files to: [`effective_gid`], and its supplementary ones where the kernel tells
/// them.
pub fn groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    std::iter::once(effective_gid()).chain(others.into_iter().map(|gid| gid.as_raw())).collect()
}

/// Whether the calling thread may give files away (`CAP_CHOWN`), in its own user namespace at least. A file
/// system may still refuse (NFS with root squashed); `false` where the kernel does not say.
pub fn has_capability_chown() -> bool {
    has_capability(CapabilitySet::CHOWN)
}

/// Whether the calling thread may make devices (`CAP_MKNOD`). Within a user namespace of its own the kernel refuses all
/// the same; `false` where it does not say.
pub fn has_capability_mknod() -> bool {
    has_capability(CapabilitySet::MKNOD)
}

fn has_capability(right: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_agree_with_proc() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        assert_eq!(has_capability_chown(), effective & 1 != 0);
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let others: Vec<u32> = line.split_whitespace().map(|gid| gid.parse().unwrap()).collect();
        assert_eq!(groups(), [vec![effective_gid()], others].concat());
    }
}
