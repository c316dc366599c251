//! A real kernel, in a network namespace or a guest of its own.

use super::*;

/// Settings of TCP as nobody wants them.
const WRONG: [(&str, &str); 7] = [
    ("tcp_rmem", "8192 65536 2097152"),
    ("tcp_wmem", "4096 16384 4194304"),
    ("tcp_congestion_control", "reno"),
    ("tcp_mtu_probing", "0"),
    ("tcp_window_scaling", "0"),
    ("tcp_sack", "0"),
    ("tcp_moderate_rcvbuf", "0"),
];

/// What the kernel makes of what is written: in a network namespace of its own, whose settings are all that is changed.
#[test]
fn what_a_kernel_took_is_undone_exactly() {
    let skipped = |why: &str| println!("skipped: settings of a network namespace: {why}");
    if thalweg_sys::user::effective_uid() != 0 {
        return skipped("they need root");
    }
    let space = match NetworkNamespace::new() {
        Ok(space) => space,
        Err(error) => return skipped(&error.to_string()),
    };
    let looks = space.inside(|| {
        let machine = Machine::of(&Roots::below(Path::new("/")));
        if machine.is_first_namespace || !machine.is_privileged {
            return Ok(None);
        }
        apply_and_undo_here().map(Some)
    });
    let Some(looks) = looks.expect("work inside") else {
        return skipped("this one is shown as the kernel's first, or none may be changed");
    };
    // Modules that others load add to it.
    let [before, between, after] = looks.map(|mut settings| {
        settings.remove("tcp_allowed_congestion_control");
        settings
    });
    assert!(between["tcp_rmem"].starts_with("8192 65536 "), "{between:?}");
    for (name, value) in WRONG.iter().filter(|(name, _)| *name != "tcp_congestion_control") {
        assert_ne!(&between[*name], value, "{name}");
    }
    assert_eq!(after, before);
}

/// In a kernel that nobody else uses also what it has only once, and who may choose what.
#[test]
fn what_a_kernel_of_its_own_took_is_undone_exactly() {
    let is_guest = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"));
    if std::env::var_os("THALWEG_GUEST").is_none() || !is_guest {
        println!("skipped: settings of a kernel: `cargo xtask ktls` has one to change");
        return;
    }
    let [before, between, after] = apply_and_undo_here().expect("settings");
    assert_eq!(before["tcp_allowed_congestion_control"], "reno");
    assert_eq!(between["tcp_allowed_congestion_control"], "reno cubic");
    assert_eq!(between["tcp_congestion_control"], "cubic");
    assert_ne!(between["rmem_max"], before["rmem_max"]);
    assert_eq!(between["default_qdisc"], "fq_codel");
    assert_eq!(after, before);
}

/// Changes the settings that the calling thread is shown, as if cubic had been proved to help, and takes that back:
/// what they were before, between and after.
fn apply_and_undo_here() -> std::io::Result<[BTreeMap<String, String>; 3]> {
    // A line that needs more than the buffers have; how much of it they get is up to this machine's memory.
    let tree = Tree::with(&[
        ("sys/class/net/ens1f0/speed", "100000"),
        ("sys/class/net/ens1f0/device/numa_node", "0"),
    ]);
    std::os::unix::fs::symlink("/proc", tree.0.path().join("proc"))?;
    let roots = tree.roots();
    for (name, value) in WRONG {
        fs::write(roots.sysctl(&format!("net.ipv4.{name}")), value)?;
    }
    let allowed = "net.ipv4.tcp_allowed_congestion_control";
    if Machine::of(&roots).is_first_namespace {
        fs::write(roots.sysctl(allowed), "reno")?;
        fs::write(roots.sysctl("net.core.default_qdisc"), "pfifo_fast")?;
    }
    let probes = Probes::default();
    let mut report = examine(&roots, &probes, &[]);
    // In a namespace nothing else can be made the default.
    let is_allowed =
        roots.sysctl_value(allowed).is_ok_and(|list| list.split(' ').any(|name| name == "cubic"));
    if is_allowed || Machine::of(&roots).is_first_namespace {
        report = with_proven_default(report);
    }
    let before = settings_here();
    let applied = apply(&roots, &report, &probes, &tree.state()).expect("apply");
    let between = settings_here();
    let undone = undo(&roots, &tree.state()).expect("undo");
    assert!(applied.iter().chain(&undone).all(|done| done.trouble.is_none()), "{applied:?} {undone:?}");
    assert!(!tree.0.path().join("etc").exists());
    Ok([before, between, settings_here()])
}

/// Those of the calling thread's network namespace, with those of the kernel that it shows.
fn settings_here() -> BTreeMap<String, String> {
    let list = |directory: &str| fs::read_dir(directory).expect("settings").flatten();
    let tcp =
        list("/proc/sys/net/ipv4").filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"tcp_"));
    list("/proc/sys/net/core")
        .chain(tcp)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?)))
        .filter(|(name, _)| !name.contains("_available_"))
        .map(|(name, bytes)| (name, roots::spaced(&String::from_utf8_lossy(&bytes))))
        .collect()
}
