//! TLS 1.3 records sealed and opened by the kernel (kTLS): `Documentation/networking/tls.rst` of Linux.
//!
//! 1. [`attach`] has a connected TCP socket take keys; it stays plain until it has some.
//! 2. [`set_send_keys`] and [`set_receive_keys`], after the handshake, one for each direction.
//! 3. What is sent from then on is application data, 16 KiB a record; [`receive`] gives what was in records, and their
//!    type.
//!
//! The kernel counts nothing and changes no keys by itself: how many records a key may seal is the caller's business.

use std::ffi::c_int;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use zeroize::Zeroizing;

use super::{send_all, set_bytes, set_timeouts};
use crate::invalid;

/// Most bytes of plaintext in a record (RFC 8446, 5.1); the kernel makes each as large, but the last of a call.
pub const RECORD_BYTES: usize = 16 << 10;
/// Type of a record with application data (RFC 8446, 5.1).
pub const APPLICATION_DATA: u8 = 23;
/// Type of a record with an alert: level and description, a byte each.
pub const ALERT: u8 = 21;

/// Ciphers of TLS 1.3 that both the kernel and we have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305. Since Linux 5.11.
    ChaCha20Poly1305,
}

impl Cipher {
    /// Bytes of its key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
        }
    }
}

/// What one direction of a connection is sealed with.
pub struct Keys<'a> {
    /// The cipher.
    pub cipher: Cipher,
    /// Its key: [`Cipher::key_bytes`].
    pub key: &'a [u8],
    /// The initialization vector that each record's number is mixed into.
    pub iv: [u8; 12],
    /// Number of the next record.
    pub sequence: u64,
}

impl Keys<'_> {
    /// As `struct tls12_crypto_info_...` of `linux/tls.h`: version, cipher, rest of the vector, key, salt, number.
    fn encode(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        if self.key.len() != self.cipher.key_bytes() {
            return Err(invalid("the key has not the cipher's length"));
        }
        let (number, salt_bytes): (u16, usize) = match self.cipher {
            Cipher::Aes128Gcm => (51, 4),
            Cipher::Aes256Gcm => (52, 4),
            Cipher::ChaCha20Poly1305 => (54, 0),
        };
        let (salt, iv) = self.iv.split_at(salt_bytes);
        // Never grows, so that no copy of the key is left behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(INFO_BYTES_MAX));
        bytes.extend_from_slice(&TLS_1_3.to_ne_bytes());
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(iv);
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(salt);
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        Ok(bytes)
    }
}

const TLS_1_3: u16 = 0x0304;
/// AES-256-GCM and ChaCha20-Poly1305: 4 + 12 + 32 + 8.
const INFO_BYTES_MAX: usize = 56;
const TLS_TX: c_int = 1;
const TLS_RX: c_int = 2;
const TLS_GET_RECORD_TYPE: c_int = 2;

/// Has a connected TCP socket take keys (`TCP_ULP`). Until it has them it is as before.
///
/// `ENOENT` if the kernel has no kTLS (or its module `tls` cannot be loaded), `ENOTCONN` if the socket is not
/// connected.
pub fn attach(fd: impl AsFd) -> io::Result<()> {
    set_bytes(fd, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// From here on the kernel seals what is sent.
///
/// `InvalidInput` if the key is not as long as the cipher's; `ENOENT` if the kernel lacks the cipher, `EINVAL` if it
/// does not know it; `EBUSY` if there are keys already.
pub fn set_send_keys(fd: impl AsFd, keys: &Keys<'_>) -> io::Result<()> {
    set_bytes(fd, libc::SOL_TLS, TLS_TX, &keys.encode()?)
}

/// From here on the kernel opens what comes: nobody may have read beyond the record before [`Keys::sequence`]. Errors
/// as
/// [`set_send_keys`].
pub fn set_receive_keys(fd: impl AsFd, keys: &Keys<'_>) -> io::Result<()> {
    set_bytes(fd, libc::SOL_TLS, TLS_RX, &keys.encode()?)
}

/// Reads what was in records of one type; returns how many bytes and the type, 0 bytes at the end of the stream.
///
/// Waits until `buffer` is full, if `fills` (it may return less before a record of another type), else not at all
/// (`WouldBlock`). `EBADMSG` for a record that does not open, see [`is_altered`].
pub fn receive(fd: impl AsFd, buffer: &mut [u8], fills: bool) -> io::Result<(usize, u8)> {
    // A header and a byte, aligned as `cmsghdr`.
    let mut control = [0u64; 4];
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let flags = if fills { libc::MSG_WAITALL } else { libc::MSG_DONTWAIT };
    loop {
        // JUSTIFICATION: rustix knows no control messages of kTLS, and skips those it does not know.
        // SAFETY: all zeroes is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // JUSTIFICATION: as above. SAFETY: `piece` describes `buffer` and `msg_control` `control`, with their lengths;
        // both live through the call and nobody else has them.
        let received = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut message, flags) };
        if received < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // JUSTIFICATION: as above.
        // SAFETY: the kernel has filled in `message`; `CMSG_FIRSTHDR` gives a header inside of `control` or null.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let kind = match header {
            Some(header) if (header.cmsg_level, header.cmsg_type) == (libc::SOL_TLS, TLS_GET_RECORD_TYPE) => {
                // JUSTIFICATION: as above.
                // SAFETY: a message of this type has one byte of data, inside of `control`.
                unsafe { libc::CMSG_DATA(header).read() }
            }
            // The end of the stream has no type.
            _ => APPLICATION_DATA,
        };
        return Ok((received.unsigned_abs(), kind));
    }
}

/// Whether [`receive`] failed because a record does not open: somebody altered it, or the keys are not the sender's.
pub fn is_altered(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADMSG)
}

/// What a kernel lacks, with its error.
#[derive(Debug)]
pub enum Lacking {
    /// kTLS at all ([`attach`] failed), or a connection to try it on.
    Ktls(io::Error),
    /// The cipher, or it does not work.
    Cipher(io::Error),
}

/// Tries whether the kernel has kTLS with this cipher, on a connection to ourselves: a few bytes go both ways.
pub fn probe(cipher: Cipher) -> Result<(), Lacking> {
    let (one, other) = attached_pair().map_err(Lacking::Ktls)?;
    exchange(cipher, &one, &other).map_err(Lacking::Cipher)
}

fn attached_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let other = loop {
        let (stream, address) = listener.accept()?;
        // Somebody else may have found the port.
        if address == one.local_addr()? {
            break stream;
        }
    };
    for end in [&one, &other] {
        set_timeouts(end, Some(PROBE_TIMEOUT), Some(PROBE_TIMEOUT))?;
        attach(end)?;
    }
    Ok((one, other))
}

fn exchange(cipher: Cipher, one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    // Nobody else sees these bytes, and the key is used for nothing else.
    let keys = Keys { cipher, key: &[7; 32][..cipher.key_bytes()], iv: [9; 12], sequence: 0 };
    for end in [one, other] {
        set_send_keys(end, &keys)?;
        set_receive_keys(end, &keys)?;
    }
    for (from, to) in [(one, other), (other, one)] {
        let mut back = [0; PROBE.len()];
        send_all(from, PROBE)?;
        if receive(to, &mut back, true)? != (PROBE.len(), APPLICATION_DATA) || back != *PROBE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what was sent did not come back"));
        }
    }
    Ok(())
}

const PROBE: &[u8; 5] = b"probe";
/// Over loopback, for five bytes.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cipher: Cipher, key: &[u8]) -> Keys<'_> {
        Keys { cipher, key, iv: *b"saltvectorrr", sequence: 0x0102_0304_0506_0708 }
    }

    #[test]
    fn keys_are_laid_out_as_the_kernel_header_says() {
        let key: Vec<u8> = (100..132).collect();
        let number = [1, 2, 3, 4, 5, 6, 7, 8];
        for (cipher, code, layout) in [
            (Cipher::Aes128Gcm, 51u16, [b"vectorrr".as_slice(), &key[..16], b"salt", &number].concat()),
            (Cipher::Aes256Gcm, 52, [b"vectorrr".as_slice(), &key, b"salt", &number].concat()),
            (Cipher::ChaCha20Poly1305, 54, [b"saltvectorrr".as_slice(), &key, &number].concat()),
        ] {
            let bytes = keys(cipher, &key[..cipher.key_bytes()]).encode().unwrap();
            assert_eq!(bytes[..2], 0x0304u16.to_ne_bytes(), "{cipher:?}");
            assert_eq!(bytes[2..4], code.to_ne_bytes(), "{cipher:?}");
            assert_eq!(bytes[4..], layout, "{cipher:?}");
            assert!(bytes.capacity() >= bytes.len() && bytes.len() <= INFO_BYTES_MAX);
        }
        assert_eq!(keys(Cipher::Aes128Gcm, &key[..16]).encode().unwrap().len(), 40);
    }

    #[test]
    fn a_key_of_a_wrong_length_is_refused_before_the_kernel_sees_it() {
        let refused = keys(Cipher::Aes128Gcm, &[0; 32]).encode().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(keys(Cipher::Aes256Gcm, &[0; 16]).encode().is_err());
    }

    #[test]
    fn an_unconnected_socket_takes_no_keys() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(attach(&listener).is_err());
    }
}
