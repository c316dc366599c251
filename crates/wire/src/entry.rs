//! One file, directory, link or other object of a transfer.

use crate::message::list;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// Number of an entry in its transfer: the order in which the source scan found it, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryId(pub u64);

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 1,000,000,000.
    pub nanos: u32,
}

/// What shows, without reading it, that a file is still the one that was seen before. Size and mtime alone
/// are not enough: mtime can be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Evidence {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of content, by the source's clock.
    pub mtime: Time,
    /// Time of the last change of anything; no program can set it.
    pub ctime: Time,
    /// Device number of the source's file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl Evidence {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid` naming the field.
    pub fn check(&self) -> Result<(), DecodeError> {
        if self.size > limits::FILE_BYTES_MAX {
            let limit = limits::FILE_BYTES_MAX;
            return Err(DecodeError::TooLarge { what: "file size", value: self.size, limit });
        }
        if self.mtime.nanos >= 1_000_000_000 || self.ctime.nanos >= 1_000_000_000 {
            return Err(DecodeError::Invalid { what: "nanoseconds" });
        }
        Ok(())
    }

    /// Without the device number, which may be another one after the source's next boot: for what outlasts that.
    #[must_use]
    pub fn lasting(&self) -> Evidence {
        Evidence { device: 0, ..*self }
    }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file of `evidence.size` bytes.
    File {
        /// The source keeps fewer blocks than bytes: zero runs become holes at the destination.
        sparse: bool,
        /// Holes are marked, not hashed: see [`crate::digest`].
        marked: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link; the target is not interpreted.
    Symlink {
        /// Where it points, as stored.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// Another name of a file that was offered before.
    HardLink {
        /// The first name of the same inode in this transfer.
        first: RelativePath,
        /// Number of the entry with that name.
        of: EntryId,
    },
    /// A named pipe.
    Fifo,
    /// A device node.
    Device {
        /// Block device if true, else character device.
        block: bool,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

impl Kind {
    /// In one word, as it stands in JSON and in receipts, and is shown.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::File { .. } => "file",
            Kind::Directory => "directory",
            Kind::Symlink { .. } => "symlink",
            Kind::HardLink { .. } => "hardlink",
            Kind::Fifo => "fifo",
            Kind::Device { .. } => "device",
        }
    }
}

/// An extended attribute: full name (with namespace) and value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xattr {
    /// Name with its namespace, for instance `user.comment`.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Value, uninterpreted.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// One entry as the source scan found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number in the transfer.
    pub id: EntryId,
    /// Where it belongs below the destination root.
    pub path: RelativePath,
    /// What it is.
    pub kind: Kind,
    /// Permission bits with set-id and sticky (07777).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Size, times, inode: see [`Evidence`].
    pub evidence: Evidence,
    /// Extended attributes, POSIX ACLs (`system.posix_acl_*`) among them.
    #[serde(deserialize_with = "list::xattrs")]
    pub xattrs: Vec<Xattr>,
}

impl Entry {
    /// The inode of a directory that is there only because of names below it, as in a bucket: nobody says what its
    /// metadata are. It gets those of the entry where it is made, and one that is there keeps its own.
    pub const IMPLIED_INODE: u64 = u64::MAX;

    /// Whether this is such a directory.
    pub fn is_implied(&self) -> bool {
        matches!(self.kind, Kind::Directory) && self.evidence.inode == Entry::IMPLIED_INODE
    }

    /// Bytes of file content; 0 for everything that is not a regular file.
    pub fn content_bytes(&self) -> u64 {
        if matches!(self.kind, Kind::File { .. }) { self.evidence.size } else { 0 }
    }

    /// Approximate heap bytes, for the bound on entries in flight.
    pub fn heap_bytes(&self) -> usize {
        let kind = match &self.kind {
            Kind::Symlink { target } => target.len(),
            Kind::HardLink { first, .. } => first.as_bytes().len(),
            _ => 0,
        };
        let xattrs: usize = self.xattrs.iter().map(|x| x.name.len() + x.value.len() + 48).sum();
        self.path.as_bytes().len() + kind + xattrs
    }

    /// Checks what the types cannot: sizes, nanoseconds, attribute names and totals.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid` naming the field.
    pub fn check(&self) -> Result<(), DecodeError> {
        let too_large = |what, value: u64, limit: u64| Err(DecodeError::TooLarge { what, value, limit });
        self.evidence.check()?;
        if self.mode & !0o7777 != 0 {
            return Err(DecodeError::Invalid { what: "mode" });
        }
        match &self.kind {
            Kind::Symlink { target } => {
                if target.len() > limits::LINK_TARGET_BYTES_MAX {
                    return too_large(
                        "link target",
                        target.len() as u64,
                        limits::LINK_TARGET_BYTES_MAX as u64,
                    );
                }
                if target.is_empty() || target.contains(&0) {
                    return Err(DecodeError::Invalid { what: "link target" });
                }
            }
            Kind::HardLink { first, .. } if first.is_root() => {
                return Err(DecodeError::Invalid { what: "hard link" });
            }
            _ => {}
        }
        if self.path.is_root() && !matches!(self.kind, Kind::Directory) {
            return Err(DecodeError::Invalid { what: "kind of the root entry" });
        }
        if self.xattrs.len() > limits::XATTRS_MAX {
            return too_large("attributes", self.xattrs.len() as u64, limits::XATTRS_MAX as u64);
        }
        let mut bytes = 0;
        for xattr in &self.xattrs {
            if xattr.name.is_empty() || xattr.name.len() > 255 || xattr.name.contains(&0) {
                return Err(DecodeError::Invalid { what: "attribute name" });
            }
            bytes += xattr.name.len() + xattr.value.len();
        }
        if bytes > limits::XATTR_BYTES_MAX {
            return too_large("attribute bytes", bytes as u64, limits::XATTR_BYTES_MAX as u64);
        }
        Ok(())
    }
}
