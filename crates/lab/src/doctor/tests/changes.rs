//! What is applied, and taken back.

use super::*;

#[test]
fn what_was_applied_is_undone_exactly_also_when_applied_twice() {
    let tree = dtn();
    tree.put("etc/sysctl.d/90-thalweg.conf", "# ours from an earlier life\nnet.core.rmem_max = 1");
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o640)).expect("set a mode");
    let before = tree.files();
    let probes = dtn_probes();
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert!(value(&done, "net.core.rmem_max").now.contains("= 1850736640 (was 212992)"));
    let text = fs::read_to_string(&own).expect("the file of sysctl.d");
    assert!(text.contains("# 000 Table III\nnet.ipv4.tcp_rmem = 4096 131072 1073741824\n"), "{text}");
    let profile =
        fs::read_to_string(tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf")).expect("the profile");
    assert!(profile.contains("devices=ens1f0\nring=rx 8160 tx 2048"), "{profile}");
    let report = tree.report(&probes, &[]);
    assert_eq!(finding(&report, "net.ipv4.tcp_rmem").verdict, Verdict::Good);

    // With the profile active the rings are as wanted, and it has to go on setting them.
    let mut probes = probes;
    let card = probes.cards.get_mut("ens1f0").expect("a card");
    card.rings = Ok(Rings { receive: 8160, send: 2048, receive_max: 8160, send_max: 4096 });
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply again");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    let profile =
        fs::read_to_string(tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf")).expect("the profile");
    assert!(profile.contains("devices=ens1f0\nring=rx 8160 tx 2048"), "{profile}");
    let text = fs::read_to_string(&own).expect("the file of sysctl.d");
    assert!(text.contains("rmem_max") && text.contains("mtu_probing = 1"), "{text}");

    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);
    assert!(undo(&tree.roots(), &tree.state()).expect("undo again").is_empty());
}

/// Of the first the last number is more than 000 has, of the second the middle one.
#[test]
fn what_is_larger_than_wanted_is_never_lowered() {
    let tree = dtn();
    tree.put("proc/sys/net/ipv4/tcp_rmem", "4096 87380 2147483647");
    tree.put("proc/sys/net/ipv4/tcp_wmem", "4096 134217728 268435456");
    let before = tree.files();
    let probes = Probes::default();
    let mut report = tree.report(&probes, &[]);
    assert_eq!(finding(&report, "net.ipv4.tcp_rmem").verdict, Verdict::Good);
    let found = finding(&report, "net.ipv4.tcp_wmem");
    let wanted = "4096 134217728 1073741824";
    assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Change, Some(wanted)));
    let remedy = found.remedy.clone().expect("a remedy");
    assert_eq!(remedy.apply, format!("sysctl -w net.ipv4.tcp_wmem='{wanted}'"));
    // Somebody raises one between the look and the change.
    tree.put("proc/sys/net/ipv4/tcp_wmem", "4096 16384 2000000000");
    let done = apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    let now = |key: &str| tree.roots().sysctl_value(key).expect("a setting");
    assert_eq!(now("net.ipv4.tcp_rmem"), "4096 87380 2147483647");
    assert_eq!(now("net.ipv4.tcp_wmem"), "4096 16384 2000000000");
    report = tree.report(&probes, &[]);
    assert_eq!(finding(&report, "net.ipv4.tcp_wmem").verdict, Verdict::Good);
    undo(&tree.roots(), &tree.state()).expect("undo");
    tree.put("proc/sys/net/ipv4/tcp_wmem", "4096 134217728 268435456");
    assert_eq!(tree.files(), before);
}

#[test]
fn new_devices_get_what_paces_bbr_where_that_is_the_default() {
    for (control, queue, source) in
        [("bbr", "fq", "kernel: net/ipv4/tcp_bbr.c; tc-fq(8)"), ("cubic", "fq_codel", "000 Table III")]
    {
        let tree = dtn();
        tree.put("proc/sys/net/ipv4/tcp_congestion_control", control);
        tree.put("proc/sys/net/core/default_qdisc", "pfifo_fast");
        let probes = dtn_probes();
        let report = tree.report(&probes, &[]);
        let card = finding(&report, "ens1f0 queue").wanted.clone();
        assert_eq!(card, Some(format!("mq of {queue}")));
        assert_eq!(finding(&report, "net.core.default_qdisc").wanted.as_deref(), Some(queue));
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
        assert_eq!(tree.roots().sysctl_value("net.core.default_qdisc").as_deref(), Ok(queue));
        let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
        assert!(text.contains(&format!("# {source}\nnet.core.default_qdisc = {queue}\n")), "{text}");
    }
}

/// The kernel allows to everybody for good what was the default once (net/ipv4/tcp_cong.c).
#[test]
fn who_may_choose_which_congestion_control_is_as_it_was_after_another_default() {
    let tree = dtn();
    let list = tree.roots().sysctl("net.ipv4.tcp_allowed_congestion_control");
    let before = tree.files();
    let probes = Probes::default();
    let change = || {
        let report = with_proven_default(tree.report(&probes, &[]));
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply")
    };
    change();
    fs::write(&list, "reno bbr cubic\n").expect("what the kernel does then");
    // What is there after the second is taken for ours, as after the first on a real kernel.
    let done = change();
    assert_eq!(
        value(&done, "net.ipv4.tcp_allowed_congestion_control").now,
        "= reno bbr cubic (was reno bbr)"
    );
    let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
    assert!(text.contains("tcp_congestion_control = cubic") && !text.contains("tcp_allowed"), "{text}");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);
    // The default first: putting it back allows it.
    let place = |what: &str| done.iter().position(|done| done.what == what).expect("it was put back");
    assert!(place(DEFAULT) < place("net.ipv4.tcp_allowed_congestion_control"), "{done:?}");
}

/// It would write its settings again when it lets go of the profile, and rings and governor would stay.
#[test]
fn while_tuned_has_the_profile_active_undo_says_what_to_do_first_and_changes_nothing() {
    for (before, mode, first) in [
        ("virtual-guest\n", "manual", "`tuned-adm profile virtual-guest` first"),
        ("virtual-guest\n", "auto", "`tuned-adm auto_profile` first"),
        ("", "manual", "`tuned-adm off` first"),
    ] {
        let tree = dtn();
        tree.put("etc/tuned/active_profile", before.trim());
        tree.put("etc/tuned/profile_mode", mode);
        let untouched = tree.files();
        let probes = dtn_probes();
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
        tree.put("etc/tuned/active_profile", "thalweg-dtn");
        tree.put("etc/tuned/profile_mode", "manual");
        // Applied again, what was active at first stays recorded.
        tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply again");
        let applied = tree.files();
        let refused = undo(&tree.roots(), &tree.state()).expect_err("refused");
        assert!(refused.to_string().contains(first), "{refused}");
        assert_eq!(tree.files(), applied);
        tree.put("etc/tuned/active_profile", before.trim());
        tree.put("etc/tuned/profile_mode", mode);
        let done = undo(&tree.roots(), &tree.state()).expect("undo");
        assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
        assert_eq!(tree.files(), untouched);
    }
}

/// What stands there by a site's own profile is not taken away by ours.
#[test]
fn the_profile_stands_on_what_tuned_has_active_and_sets_the_governor_itself() {
    for (active, include) in [
        ("virtual-guest", "include=virtual-guest\n"),
        ("balanced site-nvme", "include=balanced,site-nvme\n"),
        ("thalweg-dtn", "include=throughput-performance\n"),
        ("", "include=throughput-performance\n"),
    ] {
        let tree = dtn();
        tree.put("etc/tuned/active_profile", active);
        let probes = dtn_probes();
        let change = || {
            apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
            fs::read_to_string(tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf")).expect("the profile")
        };
        let text = change();
        assert!(text.contains(include) && text.contains("\n[cpu]\ngovernor=performance\n"), "{text}");
        // With ours active, and the governor as it is to be.
        tree.put("etc/tuned/active_profile", "thalweg-dtn");
        tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
        tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
        let text = change();
        assert!(text.contains(include) && text.contains("\n[cpu]\ngovernor=performance\n"), "{text}");
    }
}

/// As a trial (`--prove`) leaves what it could not try: the governor too. Without a trial that has its profile.
#[test]
fn what_is_not_proved_is_in_no_file_and_the_governor_has_the_profile_without_a_proof_alone() {
    let tree = dtn();
    let probes = dtn_probes();
    let before = tree.files();
    let change = |is_proved: bool| {
        let mut report = tree.report(&probes, &[]);
        let is_tried = |found: &&mut Finding| {
            found.subject == Subject::Network || is_proved && found.name == cpu::GOVERNOR_NAME
        };
        for found in report.findings.iter_mut().filter(is_tried) {
            if found.verdict == Verdict::Change {
                found.verdict = Verdict::Unproved;
            }
            found.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
        }
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply")
    };
    assert!(change(true).is_empty() && !tree.0.path().join("etc").exists());
    let done = change(false);
    let profile = tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf");
    assert!(done.len() == 1 && done[0].trouble.is_none(), "{done:?}");
    assert!(has_profile(&tree.roots(), &done));
    let text = fs::read_to_string(&profile).expect("the profile");
    assert!(text.contains("include=throughput-performance") && !text.contains("ring"), "{text}");
    assert!(!tree.0.path().join("etc/sysctl.d").exists());
    undo(&tree.roots(), &tree.state()).expect("undo");
    assert_eq!(tree.files(), before);
    tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
    assert!(change(false).is_empty() && !tree.0.path().join("etc").exists());
}

/// By the rules of sysctl.d(5): the order of names, whichever directory; of one name the first directory alone.
#[test]
fn files_that_set_something_else_at_the_next_start_are_told() {
    let tree = dtn();
    for (path, text) in [
        ("usr/lib/sysctl.d/50-early.conf", "net.core.netdev_max_backlog = 1"),
        ("usr/lib/sysctl.d/95-masked.conf", "net.ipv4.tcp_rmem = 1 2 3"),
        ("etc/sysctl.d/95-masked.conf", "# nothing"),
        ("run/sysctl.d/95-first.conf", "net.core.rmem_max = 1\nnet.ipv4.tcp_wmem = 4096 16384 1073741824"),
        ("etc/sysctl.conf", "net/core/rmem_max = 212992"),
        ("usr/lib/sysctl.d/99-note.txt", "net.core.wmem_max = 1"),
    ] {
        tree.put(path, text);
    }
    let link = tree.0.path().join("etc/sysctl.d/99-sysctl.conf");
    std::os::unix::fs::symlink("../sysctl.conf", &link).expect("make a link");
    let probes = Probes::default();
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    let told: Vec<&Done> = done.iter().filter(|done| done.trouble.is_some()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].what, link.display().to_string());
    assert_eq!(told[0].now, "sets net.core.rmem_max = 212992 at the next start");
    assert!(told[0].trouble.as_ref().is_some_and(|why| why.contains("read after 90-thalweg.conf")));
}

#[test]
fn a_damaged_record_is_told_and_nothing_is_changed() {
    let tree = dtn();
    tree.put("state/doctor.json", "{");
    let before = tree.files();
    let probes = Probes::default();
    assert!(apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).is_err());
    assert!(undo(&tree.roots(), &tree.state()).is_err());
    assert_eq!(tree.files(), before);
}
