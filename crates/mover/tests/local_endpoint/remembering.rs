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
