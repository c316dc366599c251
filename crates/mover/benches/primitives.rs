//! What each part of a transfer costs alone, on this machine, now: the terms of the limit L that `cargo xtask bench
//! limit` holds transfers against.
//!
//! `primitives FILE DIRECTORY [ROUNDS]`: FILE is a large file (warm it first), DIRECTORY is where a file of the same
//! size is written past the page cache, and removed. Prints one JSON object: for each part the CPU seconds of this
//! process for 10^9 bytes (`cpu_s_per_gb`) and the rate (`gb_per_s`); the median of ROUNDS (default 5), after one that
//! does not count. Each part is the best form of it that is known for transfers of this kind: one thread and one buffer
//! that stays in the second-level cache.
//!
//! - `read`: FILE from the page cache.
//! - `digest`: BLAKE3, of one MiB at a time.
//! - `seal`, `open`: AES-128-GCM in place.
//! - `tcp`: both ends of a loopback connection with at most 256 KiB under way; the cheapest of [`TCP_TURNS`]
//!   connections, one after the other, each counted from when its buffers have grown. `turns_cpu_s_per_gb` has all of
//!   them, in the order in which they ran.
//! - `write`: direct, preallocated, synced; four writers.
//!
//! `primitives small DIRECTORY FILES BYTES`: the bare local loop that small files are held against. Two threads make
//! FILES files of BYTES bytes below DIRECTORY, which must not exist: create, write, close, rename, in 16 directories,
//! and one sync of the file system at the end. Prints the seconds with (`wall_s`) and without the sync (`unsynced_s`),
//! and the CPU seconds (`cpu_s`). What it made stays: creating after a mass deletion is slow on ext4.

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;
use thalweg_sys::{Buffer, Dir, File, Replace, cpu_time, socket};

const PIECE_BYTES: usize = 1 << 20;
/// For the parts that need no file.
const HOT_BYTES: u64 = 4 << 30;
const ROUNDS: usize = 5;
const WRITERS: u64 = 4;
/// Connections that `tcp` takes the cheapest of. One costs either of two prices, 0.14 or 0.20 CPU-s/GB, and keeps it,
/// for a reason that is not known (docs/measurements.md, TCP alone). A limit is the best form that is known: of so many
/// connections some are cheap, while by one long one L was a tenth more in some rounds.
const TCP_TURNS: u64 = 16;
/// Of each connection, so that all of them together are as long as the other parts.
const TCP_BYTES: u64 = HOT_BYTES / TCP_TURNS;
/// Before that, uncounted: buffers and windows that the kernel sizes by itself have grown after some of their own size,
/// which is a few MiB.
const TCP_FIRST_BYTES: u64 = 64 << 20;
/// Of small files: two threads in one directory are slower than one.
const DIRECTORIES: u64 = 16;
const THREADS: u64 = 2;

struct Cost {
    cpu_s_per_gb: f64,
    gb_per_s: f64,
    /// Where it is the best of several turns: CPU of each, in their order.
    turns_cpu_s_per_gb: Vec<f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["small", directory, files, bytes] => {
            println!("{}", small(Path::new(directory), files.parse()?, bytes.parse()?)?);
            Ok(())
        }
        [file, directory] => parts(Path::new(file), Path::new(directory), ROUNDS),
        [file, directory, rounds] => parts(Path::new(file), Path::new(directory), rounds.parse()?),
        // `cargo bench` without arguments, or `cargo test --benches`: nothing to measure with.
        _ => {
            eprintln!("usage: primitives FILE DIRECTORY [ROUNDS] | primitives small DIRECTORY FILES BYTES");
            Ok(())
        }
    }
}

fn parts(file: &Path, directory: &Path, rounds: usize) -> Result<()> {
    ensure!(rounds > 0, "at least one round");
    let mut noise = Buffer::new(PIECE_BYTES + 64)?;
    for (at, byte) in noise.iter_mut().enumerate() {
        *byte = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
    }
    let parts = [
        ("read", median(rounds, || read(file))?),
        ("digest", median(rounds, || hot(|_| _ = black_box(blake3::hash(&noise[..PIECE_BYTES]))))?),
        ("seal", median(rounds, seal)?),
        ("open", median(rounds, open)?),
        ("tcp", median(rounds, tcp)?),
        ("write", median(rounds, || write(directory, std::fs::metadata(file)?.len()))?),
    ];
    let parts: serde_json::Map<String, serde_json::Value> = parts
        .into_iter()
        .map(|(name, cost)| {
            let mut told = serde_json::json!({"cpu_s_per_gb": cost.cpu_s_per_gb, "gb_per_s": cost.gb_per_s});
            if !cost.turns_cpu_s_per_gb.is_empty() {
                told["turns_cpu_s_per_gb"] = cost.turns_cpu_s_per_gb.into();
            }
            (name.to_owned(), told)
        })
        .collect();
    println!("{}", serde_json::Value::Object(parts));
    Ok(())
}

/// By CPU.
fn median(rounds: usize, mut part: impl FnMut() -> Result<Cost>) -> Result<Cost> {
    part()?;
    let mut costs = (0..rounds).map(|_| part()).collect::<Result<Vec<_>>>()?;
    costs.sort_by(|a, b| a.cpu_s_per_gb.total_cmp(&b.cpu_s_per_gb));
    Ok(costs.swap_remove(rounds / 2))
}

fn measure(bytes: u64, part: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let (cpu, started) = (cpu_time::process_cpu(), Instant::now());
    part()?;
    let cpu_s = (cpu_time::process_cpu() - cpu).as_secs_f64();
    let gb = bytes as f64 / 1e9;
    let gb_per_s = gb / started.elapsed().as_secs_f64();
    Ok(Cost { cpu_s_per_gb: cpu_s / gb, gb_per_s, turns_cpu_s_per_gb: Vec::new() })
}

fn hot(mut piece: impl FnMut(u64)) -> Result<Cost> {
    measure(HOT_BYTES, || {
        (0..HOT_BYTES / PIECE_BYTES as u64).for_each(&mut piece);
        Ok(())
    })
}

fn open_file(path: &Path) -> Result<File> {
    let name = path.file_name().context("a file name")?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Dir::open(parent)?.open_read(name.as_encoded_bytes())?)
}

fn read(path: &Path) -> Result<Cost> {
    let file = open_file(path)?;
    let bytes = file.stat()?.size;
    let mut buffer = Buffer::new(PIECE_BYTES)?;
    measure(bytes, || {
        let mut offset = 0;
        while offset < bytes {
            let read = file.read_at(&mut buffer, offset)?;
            ensure!(read > 0, "the file shrank");
            offset += read as u64;
        }
        Ok(())
    })
}

fn key() -> Result<LessSafeKey> {
    let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| anyhow::anyhow!("no key"))?;
    Ok(LessSafeKey::new(key))
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn seal() -> Result<Cost> {
    let key = key()?;
    let mut buffer = Buffer::new(PIECE_BYTES)?;
    hot(|number| {
        let _ = black_box(key.seal_in_place_separate_tag(nonce(number), Aad::empty(), &mut buffer));
    })
}

/// What is opened must be what was sealed, so a copy of it is opened each time; the copy is not counted.
fn open() -> Result<Cost> {
    let key = key()?;
    let mut sealed = vec![0; PIECE_BYTES];
    key.seal_in_place_append_tag(nonce(0), Aad::empty(), &mut sealed)
        .map_err(|_| anyhow::anyhow!("no seal"))?;
    let mut buffer = Buffer::new(sealed.len())?;
    let copies = hot(|_| buffer.copy_from_slice(black_box(&sealed)))?;
    let both = hot(|_| {
        buffer.copy_from_slice(black_box(&sealed));
        let _ = black_box(key.open_in_place(nonce(0), Aad::empty(), &mut buffer).map(|opened| opened.len()));
    })?;
    Ok(Cost {
        cpu_s_per_gb: both.cpu_s_per_gb - copies.cpu_s_per_gb,
        gb_per_s: 1.0 / (1.0 / both.gb_per_s - 1.0 / copies.gb_per_s),
        turns_cpu_s_per_gb: Vec::new(),
    })
}

fn tcp() -> Result<Cost> {
    let turns = (0..TCP_TURNS).map(|_| tcp_turn()).collect::<Result<Vec<_>>>()?;
    let turns_cpu_s_per_gb = turns.iter().map(|turn| turn.cpu_s_per_gb).collect();
    let best = turns.into_iter().min_by(|a, b| a.cpu_s_per_gb.total_cmp(&b.cpu_s_per_gb));
    Ok(Cost { turns_cpu_s_per_gb, ..best.context("no turn")? })
}

/// One connection, with threads of its own.
fn tcp_turn() -> Result<Cost> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    for end in [&sender, &receiver] {
        // The system's own may be one that paces.
        ["cubic", "reno"].iter().any(|name| socket::set_congestion(end, name).is_ok());
        socket::set_no_delay(end, true)?;
        socket::set_not_sent_low_water(end, 256 << 10)?;
        socket::set_window_clamp(end, 512 << 10)?;
    }
    let pieces = |bytes: u64| 0..bytes / PIECE_BYTES as u64;
    let sending = std::thread::spawn(move || -> Result<()> {
        let buffer = Buffer::new(PIECE_BYTES)?;
        pieces(TCP_FIRST_BYTES + TCP_BYTES).try_for_each(|_| socket::send_all(&sender, &buffer))?;
        Ok(())
    });
    let mut buffer = Buffer::new(PIECE_BYTES)?;
    let mut receive = |bytes: u64| -> Result<()> {
        for _ in pieces(bytes) {
            ensure!(socket::receive_exact(&receiver, &mut buffer)? == PIECE_BYTES, "cut off");
        }
        Ok(())
    };
    let received = receive(TCP_FIRST_BYTES).and_then(|()| measure(TCP_BYTES, || receive(TCP_BYTES)));
    // Else a sender that nobody hears would be waited for.
    drop(receiver);
    sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    received
}

fn write(directory: &Path, bytes: u64) -> Result<Cost> {
    let directory = Dir::open(directory)?;
    let bytes = bytes / (WRITERS * PIECE_BYTES as u64) * WRITERS * PIECE_BYTES as u64;
    let name = format!("primitives-{}", std::process::id());
    let file = directory.create_new(name.as_bytes(), 0o600)?;
    let cost = file.preallocate(0, bytes).map_err(anyhow::Error::from).and_then(|()| {
        file.set_direct(true)?;
        measure(bytes, || {
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS)
                    .map(|writer| {
                        let file = &file;
                        scope.spawn(move || -> Result<()> {
                            let buffer = Buffer::new(PIECE_BYTES)?;
                            let own = (writer * PIECE_BYTES as u64..bytes)
                                .step_by((WRITERS as usize) * PIECE_BYTES);
                            own.into_iter().try_for_each(|offset| file.write_all_at(&buffer, offset))?;
                            Ok(())
                        })
                    })
                    .collect();
                writers
                    .into_iter()
                    .try_for_each(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?)
            })?;
            Ok(file.sync_data()?)
        })
    });
    directory.remove_file(name.as_bytes())?;
    cost
}

fn small(directory: &Path, files: u64, bytes: usize) -> Result<serde_json::Value> {
    std::fs::create_dir(directory)?;
    let root = Dir::open(directory)?;
    for number in 0..DIRECTORIES {
        root.make_dir(format!("d{number:02}").as_bytes(), 0o755)?;
    }
    let (cpu, started) = (cpu_time::process_cpu(), Instant::now());
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || make_small(directory, thread, files, bytes)))
            .collect();
        makers
            .into_iter()
            .try_for_each(|maker| maker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    let unsynced_s = started.elapsed().as_secs_f64();
    root.sync_file_system()?;
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), (cpu_time::process_cpu() - cpu).as_secs_f64());
    Ok(serde_json::json!({"wall_s": wall_s, "unsynced_s": unsynced_s, "cpu_s": cpu_s}))
}

/// The files of one thread, in directories that are its own.
fn make_small(directory: &Path, thread: u64, files: u64, bytes: usize) -> Result<()> {
    let content = vec![0x5a; bytes];
    let own = (thread..DIRECTORIES).step_by(THREADS as usize);
    let own = own
        .map(|number| Ok(Dir::open(&directory.join(format!("d{number:02}")))?))
        .collect::<Result<Vec<_>>>()?;
    for (turn, number) in (thread..files).step_by(THREADS as usize).enumerate() {
        let below = &own[turn % own.len()];
        let (hidden, name) = (format!(".f{number:06}"), format!("f{number:06}"));
        below.create_new(hidden.as_bytes(), 0o644)?.write_all_at(&content, 0)?;
        below.rename(hidden.as_bytes(), below, name.as_bytes(), Replace::Existing)?;
    }
    Ok(())
}
