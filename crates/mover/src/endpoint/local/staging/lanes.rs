//! Where small files are staged: directories of a few files each, a stream at a time in one of them.
//!
//! Two threads that create in one directory are slower than one. And a file system reads a directory's block name by
//! name, for a file that is made there and for one that is renamed away: on ext4, 20,000 files made and renamed cost
//! 12.9 µs each from one directory and 10.4 µs from directories of [`LANE_FILES`] (6.18, one thread, the directories'
//! own cost among it). A directory that is empty again is used again; none is removed before the end.

use super::{Staging, lane_name, own_dir};
use crate::endpoint::local::held::Held;
use crate::endpoint::local::lock;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Dir, Links};

/// Files made in one directory before the next one: 16 and 128 cost the same within a few percent.
const LANE_FILES: u32 = 64;
/// Directories held open: those that streams are in, and those that are being emptied. Another one is opened again for
/// all of its files at once.
const OPEN_MAX: usize = 32;

/// Those of all staging directories: by its number alone a lane is found again.
pub(in crate::endpoint::local) struct Lanes {
    /// Of this attempt.
    mark: u64,
    inner: Mutex<Inner>,
    open: Held<Dir>,
}

#[derive(Default)]
struct Inner {
    /// The lane that each stream is in, in each staging directory.
    of_stream: HashMap<(usize, u32), u32>,
    /// By number.
    lanes: Vec<Lane>,
    /// Of each staging directory: empty, and no stream is in them.
    free: HashMap<usize, Vec<u32>>,
}

#[derive(Clone, Copy)]
struct Lane {
    /// The staging directory that it is in.
    staging: usize,
    /// Files in it.
    files: u32,
    /// Files that were made in it since it was empty.
    made: u32,
}

impl Lanes {
    /// `mark`: a random number.
    pub(in crate::endpoint::local) fn new(mark: u64) -> Lanes {
        Lanes { mark, inner: Mutex::default(), open: Held::with_max(OPEN_MAX) }
    }

    /// The directory for the next file of a stream, and its number. The file counts as in it until [`Lanes::gone`].
    pub(in crate::endpoint::local) fn next(
        &self,
        staging: &Staging,
        stream: u32,
    ) -> io::Result<(u32, Arc<Dir>)> {
        let number = lock(&self.inner).next(staging.number(), stream);
        let open = || own_dir(&staging.dir, lane_name(self.mark, number).as_bytes());
        match self.open.get_or(&number.to_le_bytes(), open) {
            Ok(dir) => Ok((number, dir)),
            Err(error) => {
                self.gone(number);
                Err(error)
            }
        }
    }

    /// The directory of this number, which has files in it.
    pub(in crate::endpoint::local) fn get(&self, staging: &Staging, number: u32) -> io::Result<Arc<Dir>> {
        let open = || staging.dir.open_beneath(lane_name(self.mark, number).as_bytes(), Links::Refuse);
        self.open.get_or(&number.to_le_bytes(), open)
    }

    /// A file is not in it any more.
    pub(in crate::endpoint::local) fn gone(&self, number: u32) {
        let mut inner = lock(&self.inner);
        let Some(lane) = inner.lanes.get_mut(number as usize) else { return };
        lane.files = lane.files.saturating_sub(1);
        if lane.files == 0 && lane.made == LANE_FILES {
            lane.made = 0;
            let staging = lane.staging;
            inner.free.entry(staging).or_default().push(number);
        }
    }

    /// The number of the staging directory that it is in; `None` if none was made of this number.
    pub(in crate::endpoint::local) fn staging_of(&self, number: u32) -> Option<usize> {
        lock(&self.inner).lanes.get(number as usize).map(|lane| lane.staging)
    }
}

impl Inner {
    fn next(&mut self, staging: usize, stream: u32) -> u32 {
        let full = |number: &u32| self.lanes[*number as usize].made == LANE_FILES;
        let number = match self.of_stream.get(&(staging, stream)).copied().filter(|number| !full(number)) {
            Some(number) => number,
            None => {
                let free = self.free.get_mut(&staging).and_then(Vec::pop);
                let number = free.unwrap_or(self.lanes.len() as u32);
                if number as usize == self.lanes.len() {
                    self.lanes.push(Lane { staging, files: 0, made: 0 });
                }
                self.of_stream.insert((staging, stream), number);
                number
            }
        };
        let lane = &mut self.lanes[number as usize];
        lane.files += 1;
        lane.made += 1;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_apart_and_what_is_empty_is_used_again() {
        let mut inner = Inner::default();
        for _ in 0..LANE_FILES {
            assert_eq!((inner.next(0, 7), inner.next(0, 9)), (0, 1));
        }
        let lanes = Lanes { mark: 7, inner: Mutex::new(inner), open: Held::with_max(OPEN_MAX) };
        assert_eq!(lock(&lanes.inner).next(0, 7), 2);
        (1..LANE_FILES).for_each(|_| lanes.gone(1));
        // One file is still in it.
        assert_eq!(lock(&lanes.inner).next(0, 9), 3);
        lanes.gone(1);
        // A stream is still in it, however empty it is.
        lanes.gone(2);
        (1..LANE_FILES).for_each(|_| assert_eq!(lock(&lanes.inner).next(0, 7), 2));
        // In another staging directory it is none of theirs.
        assert_eq!(lock(&lanes.inner).next(1, 7), 4);
        assert_eq!((lanes.staging_of(4), lanes.staging_of(2), lanes.staging_of(5)), (Some(1), Some(0), None));
        assert_eq!(lock(&lanes.inner).next(0, 7), 1);
    }
}
