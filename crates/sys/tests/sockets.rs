//! Sockets and pipes: options, TCP's account, whole messages through partial calls, waiting and waking.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use thalweg_sys::socket::{self, Interest, Wake};

fn tcp_pair(address: &str) -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(address)?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn tcps_account_adds_up_on_loopback() {
    // The kernel counts busy time in ticks, so there must be enough to be busy with.
    const BYTES: usize = 64 << 20;
    let (near, far) = tcp_pair("127.0.0.1:0").unwrap();
    let bytes = pattern(BYTES);
    let before = socket::tcp_info(&near).unwrap();
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; BYTES];
        assert_eq!(socket::receive_exact(&far, &mut read).unwrap(), BYTES);
        (read, far)
    });
    socket::send_all(&near, &bytes).unwrap();
    let (read, far) = reader.join().unwrap();
    assert_eq!(read, bytes);
    // The last acknowledgement may be on its way.
    let deadline = Instant::now() + Duration::from_secs(60);
    while socket::queued(&near).unwrap() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let info = socket::tcp_info(&near).unwrap();
    println!("{info:?}");
    assert_eq!(info.bytes_acked - before.bytes_acked, BYTES as u64);
    assert!(info.bytes_sent >= BYTES as u64 && info.bytes_retrans <= info.bytes_sent);
    assert!(info.rtt > Duration::ZERO && info.rtt < Duration::from_secs(10));
    assert!(info.rtt_min > Duration::ZERO && info.rtt_min <= info.rtt + info.rtt_var * 8);
    assert!(info.mss_bytes >= 500 && info.cwnd_packets >= 1 && info.reordering >= 1);
    assert!(info.delivery_rate_bytes_per_s > 0 && info.pacing_rate > 0);
    assert!(info.busy_time > Duration::ZERO && info.busy_time < Duration::from_secs(60));
    assert!(info.rwnd_limited <= info.busy_time && info.sndbuf_limited <= info.busy_time);
    assert!(info.send_window_bytes > 0);
    let info = socket::tcp_info(&far).unwrap();
    assert_eq!(info.bytes_received, BYTES as u64);
    assert!(info.receive_space_bytes > 0 && info.receive_window_bytes > 0);
}

#[test]
fn options_hold_on_tcp_over_both_internets() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (near, far) = match tcp_pair(address) {
            Ok(pair) => pair,
            Err(error) => {
                println!("skipped: no {address} here: {error}");
                continue;
            }
        };
        socket::set_no_delay(&near, true).unwrap();
        assert!(near.nodelay().unwrap());
        socket::set_no_delay(&near, false).unwrap();
        assert!(!near.nodelay().unwrap());

        let allowed = socket::allowed_congestion().unwrap();
        let available = socket::available_congestion().unwrap();
        assert_eq!(socket::congestion(&near).unwrap(), socket::default_congestion().unwrap());
        assert!(!allowed.is_empty() && allowed.iter().all(|name| available.contains(name)));
        for name in &allowed {
            socket::set_congestion(&near, name).unwrap();
            assert_eq!(socket::congestion(&near).unwrap(), *name);
        }
        assert!(socket::set_congestion(&near, "no-such-control").is_err());

        socket::set_not_sent_low_water(&near, 256 << 10).unwrap();
        socket::set_not_sent_low_water(&near, u32::MAX).unwrap();
        socket::set_window_clamp(&far, 512 << 10).unwrap();
        let before = socket::receive_buffer(&far).unwrap();
        match socket::hold_receive_buffer(&far) {
            // Linux 5.16 and newer have it.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOPROTOOPT.raw_os_error()) => {
                eprintln!("skipped: this kernel holds no buffer");
            }
            held => held.unwrap(),
        }
        assert_eq!(socket::receive_buffer(&far).unwrap(), before);
        // Known to the same kernels.
        assert_eq!(socket::release_buffers(&far).is_ok(), socket::hold_receive_buffer(&far).is_ok());
        socket::set_pacing_rate(&near, 1_000_000_000).unwrap();
        socket::set_pacing_rate(&near, u64::MAX).unwrap();

        socket::set_dscp(&near, 46).unwrap();
        let class = if address.starts_with('[') {
            rustix::net::sockopt::ipv6_tclass(&near).unwrap()
        } else {
            rustix::net::sockopt::ip_tos(&near).unwrap().into()
        };
        assert_eq!(class >> 2, 46);
        assert_eq!(socket::set_dscp(&near, 64).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// The loopback takes 65,536 bytes, so that no datagram of UDP is too large for it: the option and what it says are
/// what is shown. That the kernel refuses what is larger is shown where there are devices for it.
#[test]
fn a_datagram_that_may_not_be_cut_is_sent_over_both_internets() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (near, far) = match (UdpSocket::bind(address), UdpSocket::bind(address)) {
            (Ok(near), Ok(far)) => (near, far),
            (near, _) => {
                println!("skipped: no {address} here: {near:?}");
                continue;
            }
        };
        socket::set_never_fragmented(&near).unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        assert!(socket::path_mtu(&near).unwrap() > 1280);
        near.send(&[7; 1200]).unwrap();
        assert_eq!(far.recv(&mut [0; 2000]).unwrap(), 1200);
    }
    let (near, _far) = tcp_pair("127.0.0.1:0").unwrap();
    let stamps = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap();
    assert_eq!(socket::tcp_info(&near).unwrap().has_time_stamps, stamps.trim() != "0");
}

#[test]
fn buffers_are_twice_what_was_asked_for_up_to_the_limit() {
    let limits = socket::buffer_limits().unwrap();
    println!("{limits:?}");
    assert!(limits.tcp_rmem.is_sorted() && limits.tcp_wmem.is_sorted());
    let (near, _far) = tcp_pair("127.0.0.1:0").unwrap();
    let ask = 64 << 10;
    socket::set_send_buffer(&near, ask).unwrap();
    assert_eq!(socket::send_buffer(&near).unwrap(), 2 * ask);
    socket::set_receive_buffer(&near, ask).unwrap();
    assert_eq!(socket::receive_buffer(&near).unwrap(), 2 * ask);
    socket::set_send_buffer(&near, 1 << 30).unwrap();
    assert_eq!(socket::send_buffer(&near).unwrap() as u64, 2 * limits.wmem_max.min(1 << 30));
    if let Err(error) = socket::set_receive_buffer_force(&near, ask) {
        println!("skipped: forcing buffers is not permitted here: {error}");
    }
}

#[test]
fn what_is_no_tcp_socket_refuses_without_harm() {
    let (pipe, _end) = pipe();
    let (unix, _peer) = UnixStream::pair().unwrap();
    for fd in [pipe.as_fd(), unix.as_fd()] {
        assert!(socket::set_no_delay(fd, true).is_err());
        assert!(socket::tcp_info(fd).is_err());
        assert!(socket::set_congestion(fd, "reno").is_err());
        assert!(socket::set_not_sent_low_water(fd, 1).is_err());
        assert!(socket::set_dscp(fd, 1).is_err());
        assert!(socket::queued_unsent(fd).is_err());
    }
    assert!(socket::set_timeouts(&pipe, None, None).is_err());
    assert!(socket::shutdown(&pipe).is_err());
}

#[test]
fn a_reader_that_is_behind_leaves_a_queue() {
    let (near, far) = tcp_pair("127.0.0.1:0").unwrap();
    near.set_nonblocking(true).unwrap();
    let piece = pattern(1 << 20);
    let mut sent = 0u64;
    let refused = loop {
        match (&near).write(&piece) {
            Ok(bytes) => sent += bytes as u64,
            Err(error) => break error,
        }
        assert!(sent < 4 << 30);
    };
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    let (all, unsent) = (socket::queued(&near).unwrap(), socket::queued_unsent(&near).unwrap());
    println!("{sent} bytes taken, {all} queued, {unsent} of them unsent");
    assert!(unsent > 0 && unsent <= all && all <= sent);
    drop(far);
}

#[test]
fn many_uneven_pieces_arrive_whole_through_small_buffers() {
    let sizes = [0, 1, 7, 4096, 0, 65_536, 100_003, 3, 0];
    let bytes: Vec<Vec<u8>> = (0..200).map(|n| pattern(sizes[n % sizes.len()] + n)).collect();
    let mut pieces: Vec<&[u8]> = vec![&[]];
    for piece in &bytes {
        pieces.extend([&piece[..], &[]]);
    }
    let whole: Vec<u8> = bytes.concat();

    let (unix, unix_far) = UnixStream::pair().unwrap();
    socket::set_send_buffer(&unix, 4096).unwrap();
    let (tcp, tcp_far) = tcp_pair("127.0.0.1:0").unwrap();
    let (pipe_far, pipe) = pipe();
    let pairs: [(OwnedFd, OwnedFd); 3] =
        [(unix.into(), unix_far.into()), (tcp.into(), tcp_far.into()), (pipe, pipe_far)];
    for (near, far) in pairs {
        let expected = whole.clone();
        let reader = std::thread::spawn(move || {
            // Twice: the pieces, and the same in one go; slowly at first, so that sends are partial.
            let mut read = vec![0; expected.len()];
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..2 {
                assert_eq!(socket::receive_exact(&far, &mut read).unwrap(), read.len());
                assert!(read == expected);
                read.fill(0);
            }
            assert_eq!(socket::receive_exact(&far, &mut read).unwrap(), 0);
            assert_eq!(socket::receive(&far, &mut read).unwrap(), 0);
        });
        socket::send_all_vectored(&near, &pieces).unwrap();
        socket::send_all_vectored(&near, &[]).unwrap();
        socket::send_all_vectored(&near, &[&[], &[]]).unwrap();
        socket::send_all(&near, &whole).unwrap();
        socket::send_all(&near, &[]).unwrap();
        drop(near);
        reader.join().unwrap();
    }
}

#[test]
fn a_stream_that_ends_early_gives_what_it_had() {
    let (near, far) = UnixStream::pair().unwrap();
    let (pipe_far, pipe) = pipe();
    let pairs: [(OwnedFd, OwnedFd); 2] = [(near.into(), far.into()), (pipe, pipe_far)];
    for (near, far) in pairs {
        let writer = std::thread::spawn(move || {
            for piece in [&b"short"[..], b" ", b"pieces"] {
                socket::send_all(&near, piece).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut read = [0; 100];
        assert_eq!(socket::receive_exact(&far, &mut read).unwrap(), 12);
        assert_eq!(&read[..12], b"short pieces");
        assert_eq!(socket::receive_exact(&far, &mut []).unwrap(), 0);
        writer.join().unwrap();
    }
}

#[test]
fn a_reader_that_is_gone_is_an_error_and_no_signal() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    for error in [
        socket::send_all(&near, b"x").unwrap_err(),
        socket::send_all_vectored(&near, &[b"x", b"y"]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn a_time_limit_ends_a_wait_on_a_silent_peer() {
    let (near, far) = tcp_pair("127.0.0.1:0").unwrap();
    let limit = Duration::from_millis(80);
    socket::set_timeouts(&near, Some(limit), Some(limit)).unwrap();
    let begun = Instant::now();
    let error = socket::receive_exact(&near, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let error = socket::send_all(&near, &vec![0; 256 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(begun.elapsed() >= limit && begun.elapsed() < Duration::from_secs(60));
    assert_eq!(
        socket::set_timeouts(&near, Some(Duration::ZERO), None).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    socket::set_timeouts(&near, None, None).unwrap();
    assert_eq!(near.read_timeout().unwrap(), None);
    drop(far);
}

#[test]
fn a_shutdown_frees_a_waiting_thread() {
    let (near, mut far) = tcp_pair("127.0.0.1:0").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| socket::receive_exact(&near, &mut [0; 10]));
        std::thread::sleep(Duration::from_millis(30));
        socket::shutdown(&near).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    });
    let (near, far2) = tcp_pair("127.0.0.1:0").unwrap();
    socket::send_all(&near, b"last words").unwrap();
    socket::shutdown_write(&near).unwrap();
    let mut heard = Vec::new();
    (&far2).read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"last words");
    socket::send_all(&far2, b"answer").unwrap();
    let mut read = [0; 6];
    assert_eq!(socket::receive_exact(&near, &mut read).unwrap(), 6);
    assert_eq!(far.read(&mut read).unwrap(), 0);
}

#[test]
fn a_wait_ends_with_a_byte_a_wake_or_its_time() {
    let (near, far) = tcp_pair("127.0.0.1:0").unwrap();
    let wake = Wake::new().unwrap();
    let fds = [(near.as_fd(), Interest::READ), (wake.as_fd(), Interest::READ)];

    let begun = Instant::now();
    let found = socket::poll(&fds, Some(Duration::from_millis(50))).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(49));
    assert!(!found[0].any() && !found[1].any());

    assert!(!wake.drain().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            wake.wake().unwrap();
            wake.wake().unwrap();
        });
        let found = socket::poll(&fds, None).unwrap();
        assert!(found[1].readable && !found[0].any());
    });
    assert!(wake.drain().unwrap() && !wake.drain().unwrap());

    socket::send_all(&far, b"x").unwrap();
    let found = socket::poll(&fds, Some(Duration::MAX)).unwrap();
    assert!(found[0].readable && !found[0].hung_up && !found[1].any());
    let found = socket::poll(&[(near.as_fd(), Interest::BOTH)], None).unwrap();
    assert!(found[0].readable && found[0].writable);
    drop(far);
    let found = socket::poll(&[(near.as_fd(), Interest::READ)], None).unwrap();
    assert!(found[0].readable && found[0].hung_up);
    assert!(socket::poll(&[], Some(Duration::from_millis(1))).unwrap().is_empty());
    // Neither reading nor writing: only what always counts.
    let (near, _far) = tcp_pair("127.0.0.1:0").unwrap();
    let none = [(near.as_fd(), Interest::default())];
    assert!(!socket::poll(&none, Some(Duration::ZERO)).unwrap()[0].any());
}

#[test]
fn signals_interrupt_nothing() {
    use std::os::unix::thread::JoinHandleExt;
    extern "C" fn nothing(_signal: libc::c_int) {}
    // JUSTIFICATION: only a handler without SA_RESTART makes calls fail with EINTR, and std installs none. SAFETY: the
    // handler does nothing, so it is safe in any context; the zeroed fields are valid (empty mask, no flags).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let (far, near) = pipe();
    let (left, right) = UnixStream::pair().unwrap();
    let threads = [
        std::thread::spawn(move || {
            let mut read = [0; 4];
            assert_eq!(socket::receive_exact(&far, &mut read).unwrap(), 4);
        }),
        std::thread::spawn(move || {
            let found =
                socket::poll(&[(left.as_fd(), Interest::READ)], Some(Duration::from_secs(120))).unwrap();
            assert!(found[0].readable);
            assert_eq!(socket::receive_exact(&left, &mut [0; 4]).unwrap(), 4);
        }),
    ];
    for _ in 0..200 {
        std::thread::sleep(Duration::from_micros(500));
        for thread in &threads {
            // JUSTIFICATION: std cannot send a signal to a thread.
            // SAFETY: the thread was not joined, so its handle is valid; both wait for bytes that come only below.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        }
    }
    socket::send_all(&near, b"done").unwrap();
    socket::send_all(&right, b"done").unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
}
