//! Bytes at offsets, space and holes, direct I/O, extents, locks: on the file system the temporary directory is on.

use std::io::ErrorKind;
use std::path::Path;

use thalweg_sys::{Advice, Buffer, Dir, File, FileSystemKind, Kind, extents, socket};

const MIB: u64 = 1 << 20;

fn scratch() -> (tempfile::TempDir, Dir, File) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let file = dir.create_new(b"file", 0o600).unwrap();
    (scratch, dir, file)
}

/// Bytes that differ from block to block.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn bytes_are_read_where_they_were_written() {
    let (_scratch, dir, file) = scratch();
    let bytes = pattern(100_000);
    file.write_all_at(&bytes[50_000..], 50_000).unwrap();
    file.write_all_at(&bytes[..50_000], 0).unwrap();
    let mut read = vec![0; 200_000];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 100_000);
    assert_eq!(read[..100_000], bytes);
    assert_eq!(file.read_at(&mut read[..10], 99_995).unwrap(), 5);
    assert_eq!(file.read_at(&mut read, 100_000).unwrap(), 0);
    assert_eq!(file.read_at(&mut read, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert!(file.read_at(&mut read, u64::MAX).is_err());
    assert!(file.write_all_at(&bytes, u64::MAX - 5).is_err());

    assert!(dir.open_read(b"file").unwrap().write_all_at(b"x", 0).is_err());
    let other = dir.open_read_write(b"file").unwrap();
    other.truncate(10).unwrap();
    assert_eq!(file.stat().unwrap().size, 10);
    assert_eq!(file.stat().unwrap(), dir.stat(b"file").unwrap());
}

#[test]
fn an_append_goes_to_the_end_wherever_the_position_is() {
    let (_scratch, dir, file) = scratch();
    file.append(b"one").unwrap();
    file.next_hole(0).unwrap();
    let again = dir.open_read_write(b"file").unwrap();
    again.append(b"two").unwrap();
    file.append(b"three").unwrap();
    file.append(b"").unwrap();
    assert_eq!(file.read_to_end(100).unwrap(), b"onetwothree");
}

#[test]
fn a_whole_file_is_read_only_within_the_bound() {
    let (_scratch, _dir, file) = scratch();
    for length in [0usize, 1, 65_535, 65_536, 65_537, 200_000] {
        file.truncate(0).unwrap();
        let bytes = pattern(length);
        file.append(&bytes).unwrap();
        assert_eq!(file.read_to_end(length).unwrap(), bytes);
        if length > 0 {
            assert_eq!(file.read_to_end(length - 1).unwrap_err().kind(), ErrorKind::FileTooLarge);
        }
    }
    let process = Dir::open(Path::new("/proc/self")).unwrap();
    let status = process.open_read(b"status").unwrap().read_to_end(1 << 20).unwrap();
    assert!(status.starts_with(b"Name:"));
}

#[test]
fn holes_are_found_and_made() {
    let (_scratch, dir, file) = scratch();
    file.truncate(4 * MIB).unwrap();
    assert_eq!(file.next_hole(4 * MIB).unwrap(), 4 * MIB);
    assert_eq!(file.next_hole(9 * MIB).unwrap(), 9 * MIB);
    assert_eq!(file.next_data(4 * MIB).unwrap(), None);
    assert_eq!(file.next_data(9 * MIB).unwrap(), None);
    if file.next_data(0).unwrap().is_some() {
        println!("skipped: this file system ({}) knows no holes", dir.file_system().unwrap().kind);
        return;
    }
    file.write_all_at(&pattern(MIB as usize), MIB).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.next_data(0).unwrap(), Some(MIB));
    assert_eq!(file.next_data(MIB + 5).unwrap(), Some(MIB + 5));
    assert_eq!(file.next_hole(MIB).unwrap(), 2 * MIB);
    assert_eq!(file.next_hole(0).unwrap(), 0);
    assert_eq!(file.next_data(2 * MIB).unwrap(), None);

    match file.punch_hole(MIB, MIB) {
        Ok(()) => {
            assert_eq!(file.next_data(0).unwrap(), None);
            assert_eq!(file.stat().unwrap().size, 4 * MIB);
            let mut read = vec![1; 10];
            file.read_at(&mut read, MIB).unwrap();
            assert_eq!(read, [0; 10]);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            println!("skipped: no holes can be punched here: {error}");
        }
    }
}

#[test]
fn reserved_space_changes_no_length() {
    let (_scratch, _dir, file) = scratch();
    file.preallocate(0, 0).unwrap();
    file.punch_hole(7, 0).unwrap();
    match file.preallocate(0, 4 * MIB) {
        Ok(()) => {
            let stat = file.stat().unwrap();
            assert_eq!(stat.size, 0);
            assert!(stat.blocks_512 * 512 >= 4 * MIB, "{stat:?}");
            assert_eq!(file.read_to_end(10).unwrap(), b"");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            println!("skipped: no space can be reserved here: {error}");
        }
    }
    let process = Dir::open(Path::new("/proc/self")).unwrap();
    let error = process.open_read_write(b"comm").unwrap().preallocate(0, 10).unwrap_err();
    println!("/proc: {error}");
}

#[test]
fn direct_io_writes_a_body_and_reads_its_unaligned_tail() {
    let (_scratch, dir, file) = scratch();
    println!("{}: {:?}", dir.file_system().unwrap().kind, file.direct_alignment().unwrap());
    let (body, tail) = (4 * MIB as usize, 1234);
    let bytes = pattern(body + tail);
    let mut buffer = Buffer::new(body).unwrap();
    buffer.copy_from_slice(&bytes[..body]);

    file.preallocate(0, bytes.len() as u64).ok();
    if let Err(error) = file.set_direct(true) {
        println!("skipped: direct I/O is refused here: {error}");
        return;
    }
    if let Err(error) = file.write_all_at(&buffer, 0) {
        println!("skipped: direct I/O is refused here, by the write: {error}");
        return;
    }
    let buffered = dir.open_read_write(b"file").unwrap();
    buffered.write_all_at(&bytes[body..], body as u64).unwrap();
    buffered.sync_data().unwrap();
    assert_eq!(file.stat().unwrap().size, bytes.len() as u64);

    // A buffer that reaches past the end: the kernel comes up short at an unaligned place.
    let mut read = Buffer::new(body + 8192).unwrap();
    assert_eq!(file.read_at(&mut read, 0).unwrap(), bytes.len());
    assert_eq!(read[..bytes.len()], bytes);
    assert_eq!(file.read_at(&mut read[..8192], body as u64).unwrap(), tail);
    assert_eq!(read[..tail], bytes[body..]);

    if let Some(alignment) = file.direct_alignment().unwrap() {
        assert!(alignment.memory.is_power_of_two() && alignment.offset.is_power_of_two());
        assert!(alignment.memory <= 4096 && alignment.offset <= 4096, "{alignment:?}");
    }
    file.set_direct(false).unwrap();
    assert_eq!(file.read_at(&mut read[1..4], 1).unwrap(), 3);
    assert_eq!(read[1..4], bytes[1..4]);
}

#[test]
fn an_uncached_write_is_done_or_said_to_be_unsupported() {
    let (_scratch, _dir, file) = scratch();
    let bytes = pattern(3 * MIB as usize + 17);
    match file.write_uncached_at(&bytes, 5) {
        Ok(()) => {
            let mut read = vec![0; bytes.len()];
            assert_eq!(file.read_at(&mut read, 5).unwrap(), bytes.len());
            assert_eq!(read, bytes);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert_eq!(file.stat().unwrap().size, 0);
            println!("skipped: uncached writes are not supported here: {error}");
        }
    }
}

#[test]
fn writeback_and_advice_change_no_bytes() {
    let (_scratch, _dir, file) = scratch();
    let bytes = pattern(2 * MIB as usize);
    file.write_all_at(&bytes, 0).unwrap();
    file.start_writeback(0, MIB).unwrap();
    file.start_writeback(0, 0).unwrap();
    assert_eq!(file.start_writeback(u64::MAX, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    file.sync_all().unwrap();
    for advice in [Advice::Sequential, Advice::WillNeed, Advice::DontNeed] {
        file.advise(advice, 0, MIB).unwrap();
        file.advise(advice, 0, 0).unwrap();
    }
    assert_eq!(file.read_to_end(bytes.len()).unwrap(), bytes);
}

#[test]
fn one_open_file_holds_the_lock() {
    let (_scratch, dir, file) = scratch();
    assert!(file.lock_exclusive().unwrap());
    assert!(file.lock_exclusive().unwrap(), "a lock of one's own is no obstacle");
    let other = dir.open_read_write(b"file").unwrap();
    assert!(!other.lock_exclusive().unwrap());
    let clone = file.try_clone().unwrap();
    drop(file);
    assert!(!other.lock_exclusive().unwrap(), "the clone still holds it");
    drop(clone);
    assert!(other.lock_exclusive().unwrap());
    let clone = other.try_clone().unwrap();
    other.unlock().unwrap();
    let next = dir.open_read_write(b"file").unwrap();
    assert!(next.lock_exclusive().unwrap(), "the clone holds what was let go");
    drop(clone);
}

#[test]
fn the_lock_of_a_directory_is_one_s_own_for_as_long_as_it_is_held() {
    let (scratch, dir, _) = scratch();
    let held = dir.lock(b"lock").unwrap().expect("free");
    assert!(dir.lock(b"lock").unwrap().is_none());
    assert!(dir.lock(b"other").unwrap().is_some());
    drop(held);
    assert!(dir.lock(b"lock").unwrap().is_some(), "the file is there, and nobody has it");
    std::os::unix::fs::symlink("elsewhere", scratch.path().join("link")).unwrap();
    assert!(dir.lock(b"link").is_err() && !scratch.path().join("elsewhere").exists());
}

#[test]
fn extents_cover_the_data_in_order() {
    let (_scratch, dir, file) = scratch();
    // Every other block, so that none can be joined with the next; more than one batch of them.
    let (pieces, block) = (300u64, 64u64 << 10);
    for piece in 0..pieces {
        file.write_all_at(&pattern(block as usize), piece * 2 * block).unwrap();
    }
    file.sync_all().unwrap();
    let found = match extents(&file, usize::MAX) {
        Ok(found) => found,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            println!("skipped: {} has no map of extents", dir.file_system().unwrap().kind);
            return;
        }
    };
    assert!(found.windows(2).all(|pair| pair[0].logical + pair[0].length <= pair[1].logical));
    for piece in 0..pieces {
        let (start, end) = (piece * 2 * block, piece * 2 * block + block);
        let covered: u64 = found
            .iter()
            .filter(|extent| !extent.unwritten)
            .map(|e| (e.logical + e.length).min(end).saturating_sub(e.logical.max(start)))
            .sum();
        assert_eq!(covered, block, "piece {piece}");
    }
    assert!(found.last().unwrap().last && found.iter().filter(|e| e.last).count() == 1);
    assert!(found.len() > 128, "{} extents make no second batch", found.len());
    assert_eq!(extents(&file, 200).unwrap(), found[..200]);
    assert_eq!(extents(&file, 1).unwrap(), found[..1]);
    assert_eq!(extents(&file, 0).unwrap(), []);
    let empty = dir.create_new(b"empty", 0o600).unwrap();
    assert_eq!(extents(&empty, 10).unwrap(), []);
}

#[test]
fn a_file_system_without_a_map_says_so() {
    let process = Dir::open(Path::new("/proc/self")).unwrap();
    let status = process.open_read(b"status").unwrap();
    assert_eq!(status.stat().unwrap().kind, Kind::File);
    assert_eq!(extents(&status, 10).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn who_has_a_file_open_for_writing_is_seen() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let writer = dir.create_new(b"log", 0o644).unwrap();
    let reader = dir.open_read(b"log").unwrap();
    assert!(reader.has_writers().unwrap());
    drop(writer);
    assert!(!reader.has_writers().unwrap());
    // Nothing is left of the question: others may write at once.
    std::fs::write(scratch.path().join("log"), "more").unwrap();
    assert!(!reader.has_writers().unwrap());
}

#[test]
fn what_is_written_back_shows_the_next_store_through_a_mapping() {
    use std::os::fd::AsFd;
    const BYTES: usize = 64 << 10;
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    if matches!(dir.file_system().unwrap().kind, FileSystemKind::Tmpfs | FileSystemKind::Overlay) {
        return;
    }
    let writer = dir.create_new(b"map", 0o644).unwrap();
    writer.truncate(BYTES as u64).unwrap();
    let reader = dir.open_read(b"map").unwrap();
    let flags = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let shared = rustix::mm::MapFlags::SHARED;
    // JUSTIFICATION: only stores through a mapping change a file without a call.
    // SAFETY: a new mapping at an address that the kernel chooses, of a file that is open and as long as it.
    let start = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), BYTES, flags, shared, writer.as_fd(), 0).unwrap().cast::<u8>()
    };
    // JUSTIFICATION: as above.
    // SAFETY: the mapping is writable and longer than a byte, and lives to the end of the test.
    let store = |byte: u8| unsafe { start.write_volatile(byte) };
    drop(writer);
    assert!(reader.has_writers().unwrap(), "a mapping counts as one");
    store(1);
    let ctime = || {
        // A tick of the clock, so that two changes differ.
        std::thread::sleep(std::time::Duration::from_millis(20));
        reader.stat().unwrap().ctime
    };
    let first = ctime();
    reader.write_back().unwrap();
    store(2);
    assert_ne!(ctime(), first);
    // JUSTIFICATION: as above.
    // SAFETY: nothing refers to the mapping any more.
    unsafe { rustix::mm::munmap(start.cast(), BYTES).unwrap() };
}

#[test]
fn who_else_has_a_file_open_is_seen_whatever_for() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let ours = dir.create_new(b"log", 0o644).unwrap();
    assert!(!ours.has_others().unwrap());
    let reader = dir.open_read(b"log").unwrap();
    assert!(ours.has_others().unwrap());
    drop(reader);
    assert!(!ours.has_others().unwrap());
    let writer = dir.open_read_write(b"log").unwrap();
    assert!(ours.has_others().unwrap());
    drop(writer);
    // Nothing is left of the question: we write, and others open it, at once.
    ours.write_all_at(b"more", 0).unwrap();
    assert_eq!(std::fs::read(scratch.path().join("log")).unwrap(), b"more");
    assert!(!ours.has_others().unwrap());
}

#[test]
fn a_pipe_is_made_wider_and_never_narrower() {
    let (reader, writer) = std::io::pipe().unwrap();
    let before = socket::widen_pipe(&reader, 0).unwrap();
    assert!(before > 0);
    let wide = socket::widen_pipe(&reader, 4 * before).unwrap();
    assert!(wide >= before);
    assert_eq!(socket::widen_pipe(&writer, before / 2).unwrap(), wide);
    let file = std::fs::File::open("/proc/self/status").unwrap();
    assert!(socket::widen_pipe(&file, 1 << 20).is_err());
}

#[test]
fn a_fifo_is_opened_without_waiting_for_its_writer_and_nothing_else_is_taken_for_one() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    dir.make_fifo(b"fifo", 0o600).unwrap();
    drop(dir.create_new(b"file", 0o600).unwrap());
    assert!(dir.open_fifo(b"fifo").is_ok());
    assert!(dir.open_fifo(b"file").is_err());
}
