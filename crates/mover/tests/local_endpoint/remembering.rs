//! The catalogue.

use super::*;

fn remembered(trees: &Trees) -> To {
    To { state: Some(trees.state.clone()), ..to(&trees.target) }
}

#[test]
fn a_file_replaced_by_one_of_the_same_size_and_time_is_sent_again() {
    let trees = trees();
    let file = trees.source.join("f");
    fs::write(&file, "one").unwrap();
    fs::write(trees.source.join("large"), noise(3 * CHUNK as usize, 1)).unwrap();
    let first = copy(&contents(&trees.source), remembered(&trees));
    first.assert_whole();
    let second = copy(&contents(&trees.source), remembered(&trees));
    assert_eq!(second.fresh, 0);
    let Outcome::Unchanged { digest: Some(digest) } = second.outcomes[&b"f"[..]] else { panic!() };
    assert_eq!(digest.0, *blake3::hash(b"one").as_bytes());

    let mtime = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "two").unwrap();
    fs::File::open(&file).unwrap().set_modified(mtime).unwrap();
    let third = copy(&contents(&trees.source), remembered(&trees));
    assert_eq!(third.assert_whole().fresh, 1);
    assert_eq!(fs::read(trees.target.join("f")).unwrap(), b"two");
}

#[test]
fn a_destination_changed_behind_our_back_is_sent_again() {
    let trees = trees();
    fs::write(trees.source.join("f"), "one").unwrap();
    copy(&contents(&trees.source), remembered(&trees)).assert_whole();
    let target = trees.target.join("f");
    let mtime = fs::metadata(&target).unwrap().modified().unwrap();
    tick(&target);
    fs::write(&target, "bad").unwrap();
    fs::File::open(&target).unwrap().set_modified(mtime).unwrap();
    assert_eq!(copy(&contents(&trees.source), to(&trees.target)).fresh, 0, "size and time alone cannot tell");
    assert_eq!(copy(&contents(&trees.source), remembered(&trees)).fresh, 1);
    assert_eq!(fs::read(&target).unwrap(), b"one");
}

#[test]
fn with_metadata_put_right_it_is_remembered_still() {
    let trees = trees();
    fs::write(trees.source.join("f"), "one").unwrap();
    copy(&contents(&trees.source), remembered(&trees)).assert_whole();
    fs::set_permissions(trees.target.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    // Its ctime changed, so it is sent once more; after that it is known again.
    copy(&contents(&trees.source), remembered(&trees)).assert_whole();
    assert_eq!(copy(&contents(&trees.source), remembered(&trees)).fresh, 0);
}

/// A file here and there of the same size and time, of which the catalogue says that one of them changed since.
fn candidate(trees: &Trees) -> (LocalDestination, Entry) {
    fs::write(trees.source.join("f"), "one").unwrap();
    copy(&contents(&trees.source), remembered(trees)).assert_whole();
    fs::set_permissions(trees.source.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let (found, _) = scan(&contents(&trees.source));
    let destination = open(remembered(trees), &SourceForm::Many).unwrap();
    destination.decide(&found.entries[0], &|_, _| true);
    let entry = found.entry("f").clone();
    let decision = destination.decide(&entry, &|_, _| true);
    assert!(matches!(decision, Decision::Wanted { left: None, candidate: Some(3) }));
    (destination, entry)
}

#[test]
fn a_file_found_the_same_is_kept_gets_its_metadata_and_is_remembered() {
    let trees = trees();
    let (destination, entry) = candidate(&trees);
    let digest = Digest(*blake3::hash(b"one").as_bytes());
    let mut found = [0; 3];
    destination.existing(&entry).unwrap().read_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"one");
    let Decision::Settled { outcome, made: true } = destination.keep(&entry, digest) else { panic!() };
    assert_eq!(outcome, Outcome::Unchanged { digest: Some(digest) });
    destination.sync(&[]).unwrap();
    destination.settled(&entry, &outcome);
    destination.close(true);
    assert_eq!(fs::metadata(trees.target.join("f")).unwrap().mode() & 0o777, 0o640);
    let again = copy(&contents(&trees.source), remembered(&trees));
    assert_eq!(again.outcomes[&b"f"[..]], Outcome::Unchanged { digest: Some(digest) });
}

#[test]
fn a_file_that_changed_after_it_was_decided_is_neither_read_nor_kept() {
    for replace in [false, true] {
        let trees = trees();
        let (destination, entry) = candidate(&trees);
        let target = trees.target.join("f");
        if replace {
            fs::write(trees.target.join("other"), "one").unwrap();
            fs::rename(trees.target.join("other"), &target).unwrap();
        } else {
            fs::write(&target, "two").unwrap();
        }
        let failure = destination.existing(&entry).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Changed);
        let digest = Digest(*blake3::hash(b"one").as_bytes());
        assert!(matches!(destination.keep(&entry, digest), Decision::Fresh));
        assert_ne!(fs::metadata(&target).unwrap().mode() & 0o777, 0o640);
        destination.close(false);
    }
}

/// Has "f" compared by these terms, and found the same.
fn found_the_same(trees: &Trees, terms: Terms) -> Outcome {
    let (found, _) = scan(&contents(&trees.source));
    let destination = open(To { terms, ..remembered(trees) }, &SourceForm::Many).unwrap();
    destination.decide(&found.entries[0], &|_, _| true);
    let entry = found.entry("f");
    let decision = destination.decide(entry, &|_, _| true);
    assert!(matches!(decision, Decision::Wanted { left: None, candidate: Some(3) }));
    let digest = Digest(*blake3::hash(b"one").as_bytes());
    let Decision::Settled { outcome, .. } = destination.keep(entry, digest) else { panic!() };
    destination.sync(&[]).unwrap();
    destination.settled(entry, &outcome);
    destination.close(true);
    outcome
}

#[test]
fn without_times_what_is_found_the_same_is_remembered() {
    let trees = trees();
    let terms = || Terms { preserve: Preserve { times: false, ..Preserve::ALL }, ..terms() };
    fs::write(trees.source.join("f"), "one").unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(trees.source.join("f")).unwrap().set_modified(then).unwrap();
    copy(&contents(&trees.source), To { terms: terms(), ..remembered(&trees) }).assert_whole();
    assert!(fs::metadata(trees.target.join("f")).unwrap().modified().unwrap() > then);
    let outcome = found_the_same(&trees, terms());
    let again = copy(&contents(&trees.source), To { terms: terms(), ..remembered(&trees) });
    assert_eq!((again.fresh, &again.outcomes[&b"f"[..]]), (0, &outcome));
}

#[test]
fn what_was_compared_without_its_attributes_is_not_known_to_have_none() {
    let trees = trees();
    fs::write(trees.source.join("f"), "one").unwrap();
    fs::create_dir(&trees.target).unwrap();
    fs::write(trees.target.join("f"), "one").unwrap();
    let there = Dir::open(&trees.target).unwrap();
    if there.set_xattr(b"f", b"user.a", b"1").is_err() {
        eprintln!("skipped: no attributes here");
        return;
    }
    let preserve = Preserve { xattrs: false, ..Preserve::ALL };
    let check = thalweg_wire::message::Check::Digest;
    found_the_same(&trees, Terms { preserve, check, ..terms() });
    assert_eq!(there.xattrs(b"f").unwrap().len(), 1);
    copy(&contents(&trees.source), remembered(&trees)).assert_whole();
    assert!(there.xattrs(b"f").unwrap().is_empty());
}
