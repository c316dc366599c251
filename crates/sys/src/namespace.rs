//! Network and mount namespaces (namespaces(7)), held by descriptor.
//!
//! A network namespace lives as long as a process is in it or a descriptor of it is open. Nothing here gives one
//! a name in the file system, so the end of its holder is the end of it, whatever the holder died of.

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// A network namespace that exists at least as long as this value.
#[derive(Debug)]
pub struct NetworkNamespace(OwnedFd);

impl NetworkNamespace {
    /// A new one: empty but for a loopback device that is down.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_SYS_ADMIN`; `StorageFull` at the limit of the user namespace
    /// (`user.max_net_namespaces`).
    pub fn new() -> io::Result<Self> {
        // A thread of its own is moved, so that the caller stays where it is.
        in_thread(|| {
            unshare(UnshareFlags::NEWNET)?;
            Self::open(Path::new("/proc/thread-self/ns/net"))
        })
    }

    /// The one behind a link such as `/proc/PID/ns/net` or `/proc/PID/fd/N`.
    ///
    /// # Errors
    /// `NotFound`, or `PermissionDenied` where the process may not be traced by the caller.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Moves the calling thread into it, with what it starts from now on. Other threads stay where they are.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_SYS_ADMIN` there; `InvalidInput` if this is no network namespace.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Does some work inside, in a thread of its own, and waits for it.
    ///
    /// # Errors
    /// As [`Self::enter`], and those of the work.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// The descriptor's number in this process: others find the namespace at `/proc/PID/fd/N`.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// A number that no other network namespace has, had or will have until the machine starts again
    /// (`SO_NETNS_COOKIE`, Linux 5.14).
    ///
    /// # Errors
    /// As [`Self::enter`]; where the kernel is older.
    pub fn cookie(&self) -> io::Result<u64> {
        self.inside(crate::socket::namespace_cookie)
    }

    /// The inode: no other network namespace has it as long as this one exists.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_ino)
    }
}

/// Gives the calling process mounts of its own; what is mounted outside from now on still shows up inside, and
/// nothing that is mounted inside shows up outside.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_ADMIN`; `InvalidInput` if the process has other threads that share its
/// working directory in a way the kernel cannot part.
pub fn private_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Shows one file in the place of another. Both must exist.
///
/// # Errors
/// `NotFound`, `PermissionDenied`.
pub fn show_in_place(shown: &Path, place: &Path) -> io::Result<()> {
    Ok(mount_bind(shown, place)?)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // JUSTIFICATION: no safe call makes namespaces; rustix marks it unsafe for the one flag not used here.
    // SAFETY: the descriptor table stays shared: only NEWNET and NEWNS are ever passed.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("namespace".into())
            .spawn_scoped(scope, work)?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_another_one_and_only_the_thread_inside_is_in_it() {
        if crate::user::effective_uid() != 0 {
            println!("skipped: network namespaces need root");
            return;
        }
        let here = NetworkNamespace::open(Path::new("/proc/thread-self/ns/net")).unwrap().inode().unwrap();
        let space = NetworkNamespace::new().unwrap();
        let there =
            space.inside(|| NetworkNamespace::open(Path::new("/proc/thread-self/ns/net"))?.inode()).unwrap();
        assert_eq!(there, space.inode().unwrap());
        assert_ne!(there, here);
        match space.cookie() {
            Ok(cookie) => {
                let again = NetworkNamespace::open(Path::new(&format!("/proc/self/fd/{}", space.number())));
                assert_eq!(again.unwrap().cookie().unwrap(), cookie);
                assert_ne!(NetworkNamespace::new().unwrap().cookie().unwrap(), cookie);
            }
            Err(error) => println!("skipped: cookies of namespaces need Linux 5.14: {error}"),
        }
        let still = NetworkNamespace::open(Path::new("/proc/thread-self/ns/net")).unwrap().inode().unwrap();
        assert_eq!(still, here);
    }
}
