//! What somebody else did meanwhile stays, and is told.

use super::*;

#[test]
fn whom_somebody_else_has_allowed_since_stays_allowed() {
    let tree = dtn();
    let probes = Probes::default();
    let report = with_proven_default(tree.report(&probes, &[]));
    apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
    for (list, is_theirs) in [("reno bbr cubic htcp", true), ("reno cubic", true), ("cubic bbr reno", false)]
    {
        fs::write(tree.roots().sysctl(ALLOWED), list).expect("write");
        let record = fs::read(tree.state().join("doctor.json")).expect("the record");
        let done = undo(&tree.roots(), &tree.state()).expect("undo");
        assert_eq!(value(&done, ALLOWED).trouble.is_some(), is_theirs, "{list}: {done:?}");
        let left = if is_theirs { list } else { "reno bbr" };
        assert_eq!(tree.roots().sysctl_value(ALLOWED).as_deref(), Ok(left));
        fs::write(tree.state().join("doctor.json"), record).expect("write");
    }
}

/// It could not be put back: who made it wants the file elsewhere, or not at all.
#[test]
fn a_link_in_the_place_of_a_file_is_refused_before_anything_is_changed() {
    let tree = dtn();
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    fs::create_dir_all(own.parent().expect("a directory")).expect("make it");
    std::os::unix::fs::symlink("/dev/null", &own).expect("make a link");
    let probes = dtn_probes();
    let before = tree.files();
    let refused =
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect_err("refused");
    assert!(refused.to_string().contains("is there and no plain file"), "{refused}");
    assert_eq!(tree.files(), before);
    assert!(undo(&tree.roots(), &tree.state()).expect("undo").is_empty());
    assert_eq!(fs::read_link(&own).expect("still a link"), std::path::Path::new("/dev/null"));
}

#[test]
fn what_somebody_else_changed_since_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    tree.put("proc/sys/net/core/rmem_max", "77777777");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    let told = value(&done, "net.core.rmem_max");
    assert!(told.trouble.is_some() && told.now.contains("212992"), "{told:?}");
    let now = |path: &str| fs::read_to_string(tree.0.path().join(path)).expect("read").trim().to_owned();
    assert_eq!(now("proc/sys/net/core/rmem_max"), "77777777");
    assert_eq!(now("proc/sys/net/core/wmem_max"), "212992");
}

#[test]
fn what_somebody_changed_between_two_applies_is_left_and_told() {
    let tree = dtn();
    let before = tree.files();
    let probes = Probes::default();
    let change = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    change();
    let theirs = "4096 67108864 2147483647";
    tree.put("proc/sys/net/ipv4/tcp_rmem", theirs);
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    let done = change();
    let told = value(&done, "net.ipv4.tcp_rmem");
    assert!(told.trouble.is_none() && told.now.contains("somebody changed it since"), "{told:?}");
    let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
    assert!(text.contains("net.ipv4.tcp_rmem = 4096 131072 1073741824\n"), "{text}");
    assert!(text.contains("net.ipv4.tcp_mtu_probing = 1\n"), "{text}");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    let told = value(&done, "net.ipv4.tcp_rmem");
    assert!(told.trouble.is_some() && told.now.contains("4096 131072 6291456"), "{told:?}");
    assert_eq!(tree.roots().sysctl_value("net.ipv4.tcp_rmem").as_deref(), Ok(theirs));
    tree.put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456");
    assert_eq!(tree.files(), before);
}

/// What they set is less than wanted, or another value: it is not changed once more, which `undo` could not take back.
#[test]
fn what_somebody_set_below_what_is_wanted_between_two_applies_is_left_and_told() {
    let tree = dtn();
    tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
    let probes = Probes::default();
    let change = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    change();
    // Once with nothing else to change, once with something.
    let cases = [
        ("net.core.rmem_max", "16777216", "212992", "1"),
        ("net.ipv4.tcp_wmem", "4096 65536 16777216", "4096 16384 4194304", "0"),
    ];
    for (key, theirs, _, probing) in cases {
        let ours = tree.roots().sysctl_value(key).expect("a setting");
        fs::write(tree.roots().sysctl(key), theirs).expect("write");
        tree.put("proc/sys/net/ipv4/tcp_mtu_probing", probing);
        let done = change();
        let told = value(&done, key);
        let why = told.trouble.as_deref().unwrap_or_default();
        assert!(why.contains("somebody changed it since"), "{told:?}");
        assert_eq!(tree.roots().sysctl_value(key).as_deref(), Ok(theirs));
        assert_eq!(tree.roots().sysctl_value("net.ipv4.tcp_mtu_probing").as_deref(), Ok("1"));
        let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
        assert!(told.now.contains(&ours) && text.contains(&format!("{key} = {ours}\n")), "{told:?} {text}");
    }
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    for (key, theirs, before, _) in cases {
        let told = value(&done, key);
        assert!(told.trouble.is_some() && told.now.contains(before), "{told:?}");
        assert_eq!(tree.roots().sysctl_value(key).as_deref(), Ok(theirs));
    }
}

#[test]
fn a_file_that_somebody_edited_between_two_applies_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    let change = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    change();
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    tree.put("etc/sysctl.d/90-thalweg.conf", "# an administrator's");
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    for done in [change(), undo(&tree.roots(), &tree.state()).expect("undo")] {
        let told = value(&done, &own.display().to_string());
        assert!(told.trouble.as_ref().is_some_and(|why| why.contains("somebody changed it")), "{told:?}");
        assert_eq!(fs::read_to_string(&own).expect("the file"), "# an administrator's\n");
    }
}

/// The one that could not be put back stays recorded, and may be changed by somebody before the next try.
#[test]
fn what_somebody_changed_after_half_an_undo_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    let path = tree.roots().sysctl("net.core.wmem_max");
    fs::remove_file(&path).expect("take it away");
    fs::create_dir(&path).expect("what cannot be read as a file");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert_eq!(value(&done, "net.core.wmem_max").now, "not put back");
    fs::remove_dir(&path).expect("take it away");
    tree.put("proc/sys/net/core/wmem_max", "77777777");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.len() == 1 && value(&done, "net.core.wmem_max").trouble.is_some(), "{done:?}");
    assert_eq!(tree.roots().sysctl_value("net.core.wmem_max").as_deref(), Ok("77777777"));
}
