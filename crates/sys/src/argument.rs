//! Moments and owners in the form the kernel wants them, checked.

use std::io;

use rustix::fs::{Gid, Timespec, Timestamps, UTIME_OMIT, Uid};

use crate::{Time, invalid};

/// Times for `utimensat`; `None` leaves that time as it is.
///
/// Nanoseconds of a second or more are refused: the kernel gives two such values the meanings "now" and
/// "leave".
pub(crate) fn timestamps(atime: Option<Time>, mtime: Option<Time>) -> io::Result<Timestamps> {
    let spec = |time: Option<Time>| match time {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(Time { nanos: 1_000_000_000.., .. }) => Err(invalid("nanoseconds must be below 1 000 000 000")),
        Some(Time { seconds, nanos }) => Ok(Timespec { tv_sec: seconds, tv_nsec: nanos.into() }),
    };
    Ok(Timestamps { last_access: spec(atime)?, last_modification: spec(mtime)? })
}

/// Owner and group for `chown`; `None` leaves that one as it is.
///
/// `u32::MAX` is refused: to the kernel it means "leave", and it is nobody's number.
pub(crate) fn owners(uid: Option<u32>, gid: Option<u32>) -> io::Result<(Option<Uid>, Option<Gid>)> {
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(invalid("4294967295 is not a user or group number"));
    }
    Ok((uid.map(Uid::from_raw), gid.map(Gid::from_raw)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_second_meaning_are_refused() {
        for nanos in [1_000_000_000, (1 << 30) - 1, (1 << 30) - 2, u32::MAX] {
            let time = Some(Time { seconds: 0, nanos });
            assert_eq!(timestamps(time, None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(timestamps(None, time).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(timestamps(Some(Time { seconds: -5, nanos: 999_999_999 }), None).is_ok());
        assert_eq!(owners(Some(u32::MAX), None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(owners(None, Some(u32::MAX)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
