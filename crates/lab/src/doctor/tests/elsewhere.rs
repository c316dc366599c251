//! What was changed with another record, or in another network namespace.

use super::*;
use thalweg_mover::failure::FailureKind;

/// As after `sudo`, which has another home.
#[test]
fn who_has_no_record_of_an_apply_neither_undoes_it_nor_applies_on_top_of_it() {
    let tree = dtn();
    let probes = dtn_probes();
    let before = tree.files();
    let theirs = tree.0.path().join("state/another");
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    // With the file of sysctl.d, and with the profile alone.
    for is_there in [true, false] {
        let file = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
        let text = fs::read(&file).expect("it was written");
        if !is_there {
            fs::remove_file(&file).expect("take it away");
        }
        tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
        let applied = tree.files();
        let refused = [
            undo(&tree.roots(), &theirs).expect_err("no record to undo"),
            apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &theirs)
                .expect_err("ours is no before"),
        ];
        let named =
            if is_there { "etc/sysctl.d/90-thalweg.conf" } else { "etc/tuned/thalweg-dtn/tuned.conf" };
        for failure in refused {
            assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
            for words in [named, "state/another/doctor.json", "--state"] {
                assert!(failure.cause.contains(words), "{words}: {failure}");
            }
        }
        assert_eq!(tree.files(), applied);
        fs::write(&file, text).expect("put it back");
    }
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "1");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);
    assert!(undo(&tree.roots(), &theirs).expect("nothing to undo").is_empty());
}

/// It keeps the line that says who wrote it, and its record is gone.
#[test]
fn of_a_file_that_undo_left_to_who_changed_it_is_said_what_to_do_and_that_helps() {
    let tree = dtn();
    let probes = dtn_probes();
    let apply_again = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state());
    apply_again().expect("apply");
    let file = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    let text = fs::read_to_string(&file).expect("it was written");
    fs::write(&file, format!("{text}kernel.panic = 10\n")).expect("change it");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(value(&done, &file.display().to_string()).trouble.is_some(), "{done:?}");
    for refused in [
        apply_again().expect_err("a file of nobody's"),
        undo(&tree.roots(), &tree.state()).expect_err("no record to undo"),
    ] {
        for words in ["90-thalweg.conf", "changed it by hand", "remove the file"] {
            assert!(refused.cause.contains(words), "{words}: {refused}");
        }
    }
    fs::remove_file(&file).expect("as it is told");
    assert!(undo(&tree.roots(), &tree.state()).expect("nothing to undo").is_empty());
    apply_again().expect("apply");
    assert!(file.exists());
}

/// Has the machine's kernel show its settings as in this network namespace.
fn enter(tree: &Tree, name: &str, boot: &str) {
    let backlog = tree.roots().sysctl("net.core.netdev_max_backlog");
    if backlog.exists() {
        fs::remove_file(backlog).expect("take it away");
    }
    tree.put("proc/sys/kernel/random/boot_id", boot);
    let spaces = tree.0.path().join("proc/thread-self/ns");
    let _ = fs::remove_dir_all(&spaces);
    tree.put(&format!("proc/thread-self/ns/{name}"), "");
    std::os::unix::fs::symlink(name, spaces.join("net")).expect("make a link");
}

#[test]
fn in_a_network_namespace_no_file_is_written_and_what_was_set_there_is_undone_there_alone() {
    let tree = dtn();
    let probes = dtn_probes();
    enter(&tree, "net:[4026532008]", "one");
    let before = tree.files();
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    let file = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    assert!(value(&done, &file.display().to_string()).now.contains("outside of this network namespace"));
    assert!(!has_profile(&tree.roots(), &done));
    assert!(!tree.0.path().join("etc").exists());
    assert_eq!(finding(&tree.report(&probes, &[]), "net.ipv4.tcp_rmem").verdict, Verdict::Good);

    enter(&tree, "net:[4026532222]", "one");
    let elsewhere = undo(&tree.roots(), &tree.state()).expect_err("another namespace");
    assert_eq!(elsewhere.kind, FailureKind::Unsupported, "{elsewhere}");
    assert!(elsewhere.cause.contains("net:[4026532008]"), "{elsewhere}");
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    assert!(apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).is_err());
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "1");
    enter(&tree, "net:[4026532008]", "one");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);

    // Of an earlier run of the machine nothing is left to put back.
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    enter(&tree, "net:[4026532008]", "another");
    assert!(undo(&tree.roots(), &tree.state()).expect("nothing to undo").is_empty());
}

#[test]
fn what_the_host_applied_is_not_undone_in_a_namespace_and_a_setting_that_is_not_shown_stays_recorded() {
    let tree = dtn();
    let probes = dtn_probes();
    let before = tree.files();
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    let applied = tree.files();
    let backlog = tree.roots().sysctl("net.core.netdev_max_backlog");
    let ours = fs::read(&backlog).expect("a setting");
    fs::remove_file(&backlog).expect("take it away");
    let refused = undo(&tree.roots(), &tree.state()).expect_err("another namespace");
    assert_eq!(refused.kind, FailureKind::Unsupported, "{refused}");
    assert!(refused.cause.contains("the kernel's first network namespace"), "{refused}");
    fs::write(&backlog, ours).expect("put it back");
    assert_eq!(tree.files(), applied);

    let hidden = tree.roots().sysctl("net.core.rmem_max");
    let ours = fs::read(&hidden).expect("a setting");
    fs::remove_file(&hidden).expect("take it away");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    let told = value(&done, "net.core.rmem_max");
    assert!(told.now == "not put back" && told.trouble.is_some(), "{told:?}");
    fs::write(&hidden, ours).expect("put it back");
    let done = undo(&tree.roots(), &tree.state()).expect("undo the rest");
    assert_eq!(value(&done, "net.core.rmem_max").now, "= 212992");
    assert_eq!(tree.files(), before);
}
