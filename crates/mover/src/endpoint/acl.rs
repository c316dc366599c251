//! POSIX ACLs, as far as a mode depends on them.
//!
//! With an ACL the group bits of a mode are not what the owning group may but the most that the ACL gives to anybody
//! except the owner and the others. What gets the mode and not the ACL would give all of that to the group.

use thalweg_sys::File;
use thalweg_wire::entry::Xattr;

pub(super) const GROUP: u32 = 0o070;
/// The attribute that is a file's ACL.
pub(super) const ACL: &[u8] = b"system.posix_acl_access";

/// Whether an attribute is an ACL of the kernel's own kind, of a file or for what is made in a directory.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// The mode of what these attributes are of, for what does not get their ACL; without one it is the same.
pub(super) fn mode_without_acl(mode: u32, xattrs: &[Xattr]) -> u32 {
    let acl = xattrs.iter().find(|xattr| xattr.name == ACL);
    acl.map_or(mode, |acl| mode_without(mode, &acl.value))
}

/// The mode of what has this ACL, for what does not get it.
pub(super) fn mode_without(mode: u32, acl: &[u8]) -> u32 {
    mode & (!GROUP | owning_group(acl))
}

/// The mode of an open file that has `mode`, for what does not get its ACL. Where nobody can read whether it
/// has one the group gets nothing.
pub(super) fn mode_beside(mode: u32, file: &File) -> u32 {
    match file.xattr(ACL) {
        Ok(acl) => acl.map_or(mode, |acl| mode_without(mode, &acl)),
        Err(_) => mode & !GROUP,
    }
}

/// The group bits of a mode that an ACL gives to the owning group itself; none if it cannot be read.
fn owning_group(acl: &[u8]) -> u32 {
    /// Before the entries: a version.
    const HEAD_BYTES: usize = 4;
    /// Tag and permissions of 16 bits each, and a number.
    const ENTRY_BYTES: usize = 8;
    const GROUP_OBJ: u16 = 0x04;
    let entries = acl.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    let mut entries = entries
        .map(|entry| (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]])));
    entries
        .find(|&(tag, _)| tag == GROUP_OBJ)
        .map_or(0, |(_, permissions)| (u32::from(permissions) << 3) & GROUP)
}
