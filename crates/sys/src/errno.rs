//! Numbers of the kernel's errors that `std::io::ErrorKind` does not tell apart, or not under a stable name.

/// There is no such entry.
pub const NO_ENTRY: i32 = libc::ENOENT;
/// The medium failed.
pub const IO: i32 = libc::EIO;
/// There is no such device, or it is gone.
pub const NO_DEVICE: i32 = libc::ENXIO;
/// A device that was there is gone, or cannot do this.
pub const DEVICE_GONE: i32 = libc::ENODEV;
/// What a server of files had open for us is not there any more.
pub const STALE: i32 = libc::ESTALE;
/// The medium of another machine failed.
pub const REMOTE_IO: i32 = libc::EREMOTEIO;
/// A file system found its own structure damaged.
pub const DAMAGED: i32 = libc::EUCLEAN;
/// A file system found something of its own that is not what its checksum says.
pub const BAD_CHECKSUM: i32 = libc::EBADMSG;
/// From one file system to another.
pub const CROSS_DEVICE: i32 = libc::EXDEV;
/// An argument makes no sense; also what a file system answers that does not know what is asked for.
pub const INVALID: i32 = libc::EINVAL;
/// The handle is not open for this; also of a directory that may not be read.
pub const BAD_HANDLE: i32 = libc::EBADF;
/// The system's table of open files is full.
pub const TABLE_FULL: i32 = libc::ENFILE;
/// The process has as many files open as it may.
pub const TOO_MANY_OPEN: i32 = libc::EMFILE;
/// The entry has as many names as it may.
pub const TOO_MANY_LINKS: i32 = libc::EMLINK;
/// The kernel has no such call.
pub const NO_SYSTEM_CALL: i32 = libc::ENOSYS;
/// There are no locks, or no more of them.
pub const NO_LOCKS: i32 = libc::ENOLCK;
/// Links lead on and on, or one is where none may be.
pub const LOOP: i32 = libc::ELOOP;
/// There is no such attribute.
pub const NO_DATA: i32 = libc::ENODATA;
/// The file system does not have what is asked for.
pub const NOT_SUPPORTED: i32 = libc::EOPNOTSUPP;
