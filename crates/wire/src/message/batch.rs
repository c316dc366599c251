//! Lists that go out in several messages: as many items in each as it has room for.

use crate::limits;

/// Bytes of the items of one message: what else is in it is far less than the other half.
const BATCH_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
const _: () = assert!(limits::PATH_BYTES_MAX < BATCH_BYTES_MAX);

/// How many of `items`, from the first on, go in one message: at most `most`, and at least one if there is any. What
/// one takes says `bytes_of`: as it lies in memory, itself included, which is never less than on the wire. One that
/// takes more than half of a message goes alone.
pub fn first_batch<'a, T: 'a>(
    items: impl IntoIterator<Item = &'a T>,
    most: usize,
    bytes_of: impl Fn(&T) -> usize,
) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for item in items.into_iter().take(most.max(1)) {
        bytes += bytes_of(item);
        if count > 0 && bytes > BATCH_BYTES_MAX {
            break;
        }
        count += 1;
    }
    count
}

/// All of `items`, in order, as many together as go in one message: see [`first_batch`]. Of none there is no batch.
pub fn batches<T>(items: &[T], most: usize, bytes_of: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut left = items;
    std::iter::from_fn(move || {
        let (batch, rest) = left.split_at(first_batch(left, most, &bytes_of));
        left = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: usize = BATCH_BYTES_MAX / 2;

    #[test]
    fn a_batch_has_what_fits_and_no_more_than_it_may_and_one_item_however_long_it_is() {
        let of = |items: &[usize], most| first_batch(items, most, |bytes| *bytes);
        assert_eq!(of(&[], 8), 0);
        assert_eq!(of(&[1; 100], 8), 8);
        assert_eq!(of(&[HALF, HALF, 1], 8), 2);
        assert_eq!(of(&[HALF, HALF + 1], 8), 1);
        assert_eq!(of(&[10 * HALF, 1], 8), 1);
        assert_eq!(of(&[1, 10 * HALF], 8), 1);
        assert_eq!(of(&[1, 1], 0), 1, "who takes batches until none is left comes to an end");
    }

    #[test]
    fn batches_are_all_of_a_list_in_its_order() {
        let items = [1, HALF, HALF, HALF, 10 * HALF, 2, 3, 4, 5];
        let told: Vec<&[usize]> = batches(&items, 3, |bytes| *bytes).collect();
        assert_eq!(told, [&items[..2], &items[2..4], &items[4..5], &items[5..8], &items[8..]]);
        assert_eq!(batches(&[], 3, |bytes: &usize| *bytes).count(), 0);
    }
}
