//! Names of staging directories, in which journals and marks are. Whoever looks for a mark has to know them, and
//! whoever must not move what is unfinished.

use thalweg_sys::{Dir, user};

/// Directory in the root of a destination (and in the top directory of every other file system below it) that
/// holds everything unfinished. An entry of this name is never moved.
pub const STAGING_NAME: &[u8] = b".thalweg-staging";

/// Whether this is a name of staging directories: [`STAGING_NAME`], or that with the number of a user behind it, whose
/// own it is where the common one is somebody else's.
pub fn is_staging(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(STAGING_NAME) else { return false };
    match rest.split_first() {
        None => true,
        Some((&b'-', number)) => !number.is_empty() && number.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

/// The names under which a staging directory may be that has to do with an entry of `dir`: the common one, and those
/// of us and of the entry's owner, who may be who writes it.
pub fn names(dir: &Dir, entry: &[u8]) -> Vec<Vec<u8>> {
    let own = own_name();
    let owners = dir.stat(entry).ok().map(|stat| name_of(stat.uid)).filter(|name| *name != own);
    [STAGING_NAME.to_vec(), own].into_iter().chain(owners).collect()
}

/// The name that our staging directories have where somebody else has the common one.
pub fn own_name() -> Vec<u8> {
    name_of(user::effective_uid())
}

/// The same of this user.
fn name_of(uid: u32) -> Vec<u8> {
    [STAGING_NAME, format!("-{uid}").as_bytes()].concat()
}
