//! Which attributes are ours to keep, and whether they are there.

use crate::endpoint::acl::is_acl;
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::Preserve;

/// Whether these are the attributes wanted, as far as that is for us to say.
pub fn are_same(present: &[(Vec<u8>, Vec<u8>)], wanted: &[Xattr], preserve: &Preserve) -> bool {
    let is_ours = |name: &[u8]| !is_of_the_file_system(name) && is_meant(name, preserve);
    let present_count = present.iter().filter(|(name, _)| is_ours(name)).count();
    let mut ours = wanted.iter().filter(|xattr| is_ours(&xattr.name));
    present_count == ours.clone().count()
        && ours.all(|xattr| present.iter().any(|(name, value)| *name == xattr.name && *value == xattr.value))
}

/// Whether there is no attribute, as far as that is for us to say.
pub fn is_bare(present: &[(Vec<u8>, Vec<u8>)]) -> bool {
    are_same(present, &[], &Preserve::ALL)
}

/// Whether an attribute is to be kept where attributes are: an ACL says who may do what, as the mode does.
pub(super) fn is_meant(name: &[u8], preserve: &Preserve) -> bool {
    preserve.mode || !is_acl(name)
}

/// Whether the file system makes this attribute itself, of each file: the ACLs of NFSv4 and of SMB, by which its server
/// shows modes and owners, and what [stays where it is](stays_where_it_is). They cannot be taken off, or not alone.
pub(super) fn is_of_the_file_system(name: &[u8]) -> bool {
    [&b"system.nfs4_"[..], b"system.cifs_"].iter().any(|prefix| name.starts_with(prefix))
        || stays_where_it_is(name)
}

/// Whether an attribute has a meaning only where it is, so that it is neither sent nor set: the names by which XFS
/// lists each ACL to root a second time (who sets or removes one does that to the ACL), and what IRIX and managers of
/// storage keep beside them; the ACLs of AFS; what the kernel alone computes, of each inode (EVM). `/etc/xattr.conf`
/// has all of them skipped too. The hash or signature of IMA is not meant: it is of the content.
pub fn stays_where_it_is(name: &[u8]) -> bool {
    [&b"trusted.SGI_"[..], b"xfsroot.", b"afs."].iter().any(|prefix| name.starts_with(prefix))
        || name == b"security.evm"
}
