//! Where a file's bytes lie on the medium (`FIEMAP`), for reading in the order of the medium.
//!
//! Good for order, not for copying: what is dirty in memory has no place yet, and a file may be rewritten a
//! moment later. Holes and data come from [`File::next_data`] and [`File::next_hole`].

use std::io;

use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl};

use crate::{File, uninterrupted};

/// One run of bytes that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub logical: u64,
    /// Where it begins on the file system's device (or its address space, with several devices), in bytes.
    /// Without meaning where `inline`, `encoded` or `unplaced`.
    pub physical: u64,
    /// Its length in the file, in bytes. May reach past the file's end.
    pub length: u64,
    /// Reserved, and reads as zeros.
    pub unwritten: bool,
    /// The bytes lie among metadata.
    pub inline: bool,
    /// Compressed or encrypted on the medium.
    pub encoded: bool,
    /// No place on the medium yet (delayed allocation), or none that is known.
    pub unplaced: bool,
    /// Other files or snapshots share it.
    pub shared: bool,
    /// The last one of the file.
    pub last: bool,
}

/// The first `max` extents of a file, in order of `logical`; fewer if there are no more. Flushes nothing.
///
/// `Err` of kind `Unsupported` where the file system has no such map. Reads in batches: memory is bounded by
/// `max`.
pub fn extents(file: &File, max: usize) -> io::Result<Vec<Extent>> {
    let mut found: Vec<Extent> = Vec::new();
    let mut start = 0;
    while found.len() < max {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: (max - found.len()).min(BATCH) as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        };
        match map(file, &mut request) {
            Ok(()) => {}
            Err(error) if unsupported(&error) => return Err(io::ErrorKind::Unsupported.into()),
            Err(error) => return Err(error),
        }
        let mapped = &request.extents[..(request.mapped as usize).min(BATCH)];
        found.extend(mapped.iter().map(RawExtent::convert));
        // Each round must bring us on, whatever the file system says.
        match found.last() {
            Some(end) if !mapped.is_empty() && !end.last => match end.logical.checked_add(end.length) {
                Some(next) if next > start => start = next,
                _ => break,
            },
            _ => break,
        }
    }
    found.truncate(max);
    Ok(found)
}

/// Extents for each system call: 7 KiB of stack.
const BATCH: usize = 128;

/// `_IOWR('f', 11, struct fiemap)`, where the struct counts without its extents.
const FS_IOC_FIEMAP: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<[u64; 4]>(b'f', 11);

/// `struct fiemap` of `linux/fiemap.h`.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const _: () = assert!(size_of::<RawExtent>() == 56);
const _: () = assert!(size_of::<Request>() == 32 + 56 * BATCH);

impl RawExtent {
    fn convert(&self) -> Extent {
        let has = |flag: u32| self.flags & flag != 0;
        Extent {
            logical: self.logical,
            physical: self.physical,
            length: self.length,
            unwritten: has(0x800),
            inline: has(0x200) || has(0x400),
            encoded: has(0x8) || has(0x80),
            unplaced: has(0x2) || has(0x4),
            shared: has(0x2000),
            last: has(0x1),
        }
    }
}

fn map(file: &File, request: &mut Request) -> io::Result<()> {
    uninterrupted(|| {
        // JUSTIFICATION: FIEMAP exists only as an ioctl, and no crate here wraps it.
        // SAFETY: the opcode is FIEMAP's, `Request` has its layout (asserted above), and `count` never says
        // more extents than the array behind it has, so the kernel writes within `request`.
        unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Request>::new(request)) }
    })
}

fn unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS))
}
