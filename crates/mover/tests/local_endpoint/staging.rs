//! Small files of all sizes, several in one call.

use super::*;
use std::process::Command;
use thalweg_mover::endpoint::local::DIRECT_BYTES;
use thalweg_mover::endpoint::together::TOGETHER_MAX;

/// Around blocks, around what goes past the page cache by itself, and around what goes into flight.
const SIZES: [usize; TOGETHER_MAX] = [
    0, 1, 4095, 4096, 4097, 100_001, 131_071, 131_072, 131_073, 200_000, 262_144, 262_145, 300_001, 524_288,
    1_048_575, 1_048_576,
];

fn disk(direct: Direct, depth: Option<u16>, no_io_uring: bool) -> Disk {
    Disk { destination: DiskSide { direct, order: None }, depth, no_io_uring, ..Disk::default() }
}

/// Puts them into `target` in one call, and compares what is there.
fn stage_all(source: &LocalSource, target: &Path, disk: Disk) {
    let destination = open(To { terms: Terms { disk, ..terms() }, ..to(target) }, &source.form()).unwrap();
    let (found, _) = scan(source);
    let files: Vec<&Entry> =
        found.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).collect();
    assert_eq!(files.len(), SIZES.len());
    for entry in &found.entries {
        assert!(matches!(destination.decide(entry), Decision::Fresh | Decision::Settled { .. }));
    }
    let contents: Vec<Vec<u8>> = files
        .iter()
        .map(|entry| {
            let mut content = vec![0; entry.evidence.size as usize];
            source.read_small(entry, &mut content).unwrap();
            content
        })
        .collect();
    let small: Vec<_> =
        files.iter().zip(&contents).map(|(entry, content)| Small { entry, content }).collect();
    let mut together = Together::new(&disk);
    let staged = destination.stage(0, &small, &mut together);
    assert_eq!(staged.len(), files.len());
    destination.sync(&[]).unwrap();
    for ((entry, content), staged) in files.iter().zip(&contents).zip(staged) {
        let digest = Digest(*blake3::hash(content).as_bytes());
        let staged = staged.unwrap();
        assert_eq!(destination.read_staged_back(&staged, entry.evidence.size).unwrap(), digest);
        let losses = destination.finish(entry, Ready::Staged(staged), digest).unwrap();
        assert!(losses.is_empty(), "{losses:?}");
    }
    destination.sync(&[]).unwrap();
    destination.close(true);
}

/// Bytes of a file that are in the page cache; `None` where there is no program that tells.
fn cached_bytes(path: &Path) -> Option<u64> {
    let told =
        Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    String::from_utf8(told.ok()?.stdout).ok()?.trim().parse().ok()
}

#[test]
fn small_files_of_any_size_come_whole_whatever_way_they_are_written() {
    let trees = trees();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + number + at / 4096) as u8).collect();
        fs::write(trees.source.join(format!("f{number:02}")), content).unwrap();
    }
    let source = contents(&trees.source);
    for direct in [Direct::Auto, Direct::On, Direct::Off] {
        for (depth, no_io_uring) in [(None, false), (None, true), (Some(1), false), (Some(3), false)] {
            let target = trees.target.join(format!("{direct:?}-{depth:?}-{no_io_uring}"));
            stage_all(&source, &target, disk(direct, depth, no_io_uring));
            let [wanted, found] = [&trees.source, &target].map(|root| {
                let mut picture = picture(root);
                // The root itself is no small file.
                picture.remove(Path::new(""));
                picture
            });
            assert_eq!(wanted, found, "{direct:?} {depth:?} {no_io_uring}");
        }
    }
}

#[test]
fn what_goes_past_the_page_cache_leaves_none_of_its_blocks_in_it() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(mount) = Mount::new("mkfs.ext4 -qF", "ext4") else {
        eprintln!("skipped: ext4 cannot be mounted here");
        return;
    };
    let trees = trees();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        fs::write(trees.source.join(format!("f{number:02}")), vec![number as u8 + 1; bytes]).unwrap();
    }
    let source = contents(&trees.source);
    let target = mount.path.join("by itself");
    stage_all(&source, &target, Disk::default());
    for (number, bytes) in SIZES.into_iter().enumerate().filter(|(_, bytes)| *bytes as u64 >= DIRECT_BYTES) {
        let Some(cached) = cached_bytes(&target.join(format!("f{number:02}"))) else {
            eprintln!("skipped: there is no fincore here");
            return;
        };
        // The bytes behind the last block take a page.
        assert!(cached <= (bytes % 4096).next_multiple_of(4096) as u64, "{bytes}: {cached}");
    }
}
