//! Files with chunks to read, in a queue for each device: in one queue for all, the files of one device would keep
//! every stream there while others are idle.
//!
//! A device is what has a number of its own (`st_dev`): a file system, whatever it is made of; of btrfs each subvolume.
//! Which addresses of a btrfs, or of LVM, lie on which of several disks only root may ask: the copy tells of these.
//! With as many streams as devices that have files, or more, a stream has a device. With fewer a stream has several,
//! served in turn. A stream whose devices have nothing to do goes on with the others', in turn too. Orders that do not
//! go by the place on the medium have one queue.

use super::Asker;
use std::collections::{BTreeMap, VecDeque};
use thalweg_wire::EntryId;
use thalweg_wire::message::Order;

/// See the module. As many queues as devices of the files in them, at most.
#[derive(Debug)]
pub struct Devices {
    are_apart: bool,
    by_number: BTreeMap<u64, Files>,
    /// Times that any was served.
    served: u64,
}

#[derive(Debug, Default)]
struct Files {
    queue: VecDeque<EntryId>,
    /// Which of these times was its last; 0 before the first.
    served: u64,
}

impl Devices {
    /// For one order; empty.
    pub fn of(order: Order) -> Devices {
        Devices { are_apart: order == Order::Layout, by_number: BTreeMap::new(), served: 0 }
    }

    /// Adds a file of this device behind the others.
    pub fn push(&mut self, device: u64, id: EntryId) {
        let device = if self.are_apart { device } else { 0 };
        self.by_number.entry(device).or_default().queue.push_back(id);
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.by_number.values().all(|files| files.queue.is_empty())
    }

    /// Forgets all files.
    pub fn clear(&mut self) {
        self.by_number.clear();
    }

    /// Devices that have files, in the order in which `asker` is to look there.
    pub fn in_turn(&mut self, asker: Asker) -> Vec<u64> {
        self.by_number.retain(|_, files| !files.queue.is_empty());
        let (devices, streams) = (self.by_number.len() as u64, asker.of.max(1));
        let is_own = |place: u64| match streams >= devices {
            true => asker.rank % devices == place,
            false => place % streams == asker.rank % streams,
        };
        let mut tried: Vec<(bool, u64, u64)> = (0..)
            .zip(&self.by_number)
            .map(|(place, (number, files))| (!is_own(place), files.served, *number))
            .collect();
        tried.sort_unstable();
        tried.into_iter().map(|(_, _, number)| number).collect()
    }

    /// Files of one of them, the next one first; `None` where it has none.
    pub fn files(&mut self, device: u64) -> Option<&mut VecDeque<EntryId>> {
        self.by_number.get_mut(&device).map(|files| &mut files.queue)
    }

    /// A chunk of a file of this device is handed out.
    pub fn serve(&mut self, device: u64) {
        self.served += 1;
        if let Some(files) = self.by_number.get_mut(&device) {
            files.served = self.served;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two files on each of some devices, found in the order of a scan: one device after the other.
    fn scanned(order: Order, numbers: &[u64]) -> Devices {
        let mut devices = Devices::of(order);
        for (number, id) in numbers.iter().flat_map(|number| [*number; 2]).zip(1..) {
            devices.push(number, EntryId(id));
        }
        devices
    }

    /// Hands the next file to one of so many streams, and says of which device it was.
    fn take(devices: &mut Devices, rank: u64, of: u64) -> Option<(u64, EntryId)> {
        let device = devices.in_turn(Asker { rank, of }).first().copied()?;
        devices.serve(device);
        Some((device, devices.files(device)?.pop_front()?))
    }

    #[test]
    fn one_stream_serves_devices_in_turn() {
        let mut devices = scanned(Order::Layout, &[70, 7, 71]);
        let taken: Vec<u64> = std::iter::from_fn(|| Some(take(&mut devices, 0, 1)?.0)).collect();
        assert_eq!(taken, [7, 70, 71, 7, 70, 71]);
        assert!(devices.is_empty() && devices.in_turn(Asker { rank: 0, of: 1 }).is_empty());
    }

    #[test]
    fn of_a_device_files_come_in_the_order_in_which_they_were_found() {
        let mut devices = scanned(Order::Layout, &[7, 70]);
        let taken: Vec<EntryId> = (0..2).filter_map(|_| Some(take(&mut devices, 1, 2)?.1)).collect();
        assert_eq!(taken, [3, 4].map(EntryId));
    }

    #[test]
    fn a_stream_has_a_device_where_there_are_enough_and_then_helps_the_others_in_turn() {
        let mut devices = scanned(Order::Layout, &[7, 70, 71]);
        let mut of = |rank| take(&mut devices, rank, 4).map(|(device, _)| device);
        // The fourth one shares the first device.
        assert_eq!([0, 1, 2, 3].map(&mut of), [7, 70, 71, 7].map(Some));
        // There are two devices left, one for two streams each.
        assert_eq!([0, 1].map(&mut of), [70, 71].map(Some));
        assert_eq!(of(2), None);
    }

    #[test]
    fn of_fewer_streams_than_devices_each_has_several() {
        let mut devices = Devices::of(Order::Layout);
        let files = |number: u64| (0..9).map(move |at| (number, EntryId(10 * number + at)));
        (1..=5).flat_map(files).for_each(|(number, id)| devices.push(number, id));
        let mut of = |rank| take(&mut devices, rank, 2).map(|(device, _)| device);
        assert_eq!([0, 0, 0, 0].map(&mut of), [1, 3, 5, 1].map(Some));
        assert_eq!([1, 1, 1].map(&mut of), [2, 4, 2].map(Some));
    }

    #[test]
    fn orders_that_go_by_no_place_have_one_queue() {
        for order in [Order::Strict, Order::Serial, Order::Loose, Order::None] {
            let mut devices = scanned(order, &[70, 7]);
            let taken = (0..4).filter_map(|rank| Some(take(&mut devices, rank, 4)?.1.0));
            assert_eq!(taken.collect::<Vec<u64>>(), [1, 2, 3, 4], "{order:?}");
        }
    }

    #[test]
    fn what_comes_back_to_a_device_that_was_through_is_handed_out_again() {
        let mut devices = scanned(Order::Layout, &[7]);
        while take(&mut devices, 0, 1).is_some() {}
        devices.push(7, EntryId(2));
        assert_eq!(take(&mut devices, 0, 1), Some((7, EntryId(2))));
        devices.push(7, EntryId(2));
        devices.clear();
        assert_eq!(take(&mut devices, 0, 1), None);
    }
}
