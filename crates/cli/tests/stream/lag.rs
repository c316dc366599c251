//! How late a byte is readable at the destination. Told, never asserted: timings are no tests.

use crate::support::chance::{quick_or_torture, say};
use crate::support::{Scratch, finish, wait_until};
use crate::{LIMIT, piped};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Bytes of a message: its number, then anything.
const MESSAGE_BYTES: usize = 1000;

#[test]
fn the_lag_from_written_to_readable_is_told() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    let messages = quick_or_torture(500, 10_000);
    let mut child = piped(&scratch, &daemon.place("data", "x"), &[]);
    let mut pipe = child.stdin.take().unwrap();
    // The first one opens everything.
    pipe.write_all(&[0; MESSAGE_BYTES]).unwrap();
    assert!(wait_until(LIMIT, || std::fs::metadata(to.join("x")).is_ok_and(|meta| meta.len() > 0)));
    let mut file = std::fs::File::open(to.join("x")).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut seen, mut buffer, mut got) = (Vec::new(), vec![0; 1 << 20], 0);
        let until = Instant::now() + LIMIT;
        while seen.len() <= messages && Instant::now() < until {
            got += file.read(&mut buffer).unwrap();
            seen.resize(got / MESSAGE_BYTES, Instant::now());
            std::thread::sleep(Duration::from_micros(100));
        }
        seen
    });
    let mut written = vec![Instant::now()];
    for _ in 0..messages {
        written.push(Instant::now());
        pipe.write_all(&[1; MESSAGE_BYTES]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(pipe);
    assert!(finish(child).status.success());
    let seen = reader.join().unwrap();
    assert_eq!(seen.len(), written.len());
    let mut lags: Vec<Duration> =
        written.iter().zip(&seen).skip(1).map(|(written, seen)| *seen - *written).collect();
    lags.sort();
    let at = |percent: usize| lags[(lags.len() - 1) * percent / 100];
    say(&format!("lag of {messages} messages: P50 {:?}, P99 {:?}, maximum {:?}", at(50), at(99), at(100)));
}
