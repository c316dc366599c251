//! What metadata is given to and looked at on.

use crate::endpoint::local::sys_time;
use std::io;
use thalweg_sys::{File, Pinned, Stat};
use thalweg_wire::Time;

/// Something whose metadata can be set: an open file, a held FIFO or device, or a name in a directory that is ours
/// alone.
pub trait Target {
    fn look(&self) -> io::Result<Stat>;
    fn own(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>;
    fn permit(&self, mode: u32) -> io::Result<()>;
    /// Without `atime` that one stays as it is.
    fn stamp(&self, atime: Option<thalweg_sys::Time>, mtime: Time) -> io::Result<()>;
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;
    fn set_attribute(&self, name: &[u8], value: &[u8]) -> io::Result<()>;
    fn remove_attribute(&self, name: &[u8]) -> io::Result<()>;
}

/// What is held by a descriptor has the same methods, however it is held.
macro_rules! by_descriptor {
    ($($held:ty),+) => {
        $(
            impl Target for $held {
                fn look(&self) -> io::Result<Stat> {
                    self.stat()
                }
                fn own(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
                    self.set_owner(uid, gid)
                }
                fn permit(&self, mode: u32) -> io::Result<()> {
                    self.set_mode(mode)
                }
                fn stamp(&self, atime: Option<thalweg_sys::Time>, mtime: Time) -> io::Result<()> {
                    self.set_times(atime, Some(sys_time(mtime)))
                }
                fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
                    self.xattrs()
                }
                fn set_attribute(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
                    self.set_xattr(name, value)
                }
                fn remove_attribute(&self, name: &[u8]) -> io::Result<()> {
                    self.remove_xattr(name)
                }
            }
        )+
    };
}

by_descriptor!(File, Pinned);

/// A name in a directory: for links, FIFOs and devices, which are never opened.
pub struct Named<'a>(pub &'a thalweg_sys::Dir, pub &'a [u8]);

impl Target for Named<'_> {
    fn look(&self) -> io::Result<Stat> {
        self.0.stat(self.1)
    }
    fn own(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        self.0.set_owner(self.1, uid, gid)
    }
    fn permit(&self, mode: u32) -> io::Result<()> {
        self.0.set_mode(self.1, mode)
    }
    fn stamp(&self, atime: Option<thalweg_sys::Time>, mtime: Time) -> io::Result<()> {
        self.0.set_times(self.1, atime, Some(sys_time(mtime)))
    }
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.0.xattrs(self.1)
    }
    fn set_attribute(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.0.set_xattr(self.1, name, value)
    }
    fn remove_attribute(&self, name: &[u8]) -> io::Result<()> {
        self.0.remove_xattr(self.1, name)
    }
}
