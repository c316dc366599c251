//! Keys of what was analysed and is remembered by its key alone.

use std::collections::{HashSet, VecDeque};

/// Keys that are remembered: some megabytes, here and in the journal.
pub const DONE_KEYS_MAX: usize = 256 << 10;

/// The last so many keys, each once, oldest first.
#[derive(Debug, Clone)]
pub struct DoneKeys {
    max: usize,
    order: VecDeque<u128>,
    known: HashSet<u128>,
}

impl DoneKeys {
    /// Of at most so many.
    pub fn new(max: usize) -> DoneKeys {
        DoneKeys { max, order: VecDeque::new(), known: HashSet::new() }
    }

    /// Remembers a key of [`crate::item::key_of`]; what is none is left out.
    pub fn insert(&mut self, key: &str) {
        let Ok(key) = u128::from_str_radix(key, 16) else { return };
        if !self.known.insert(key) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether it is remembered.
    pub fn contains(&self, key: &str) -> bool {
        u128::from_str_radix(key, 16).is_ok_and(|key| self.known.contains(&key))
    }

    /// All of them, as they are written, in parts of at most so many.
    pub fn parts(&self, most: usize) -> Vec<Vec<String>> {
        let (front, back) = self.order.as_slices();
        let keys: Vec<String> = front.iter().chain(back).map(|key| format!("{key:032x}")).collect();
        keys.chunks(most.max(1)).map(<[String]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_remembered_each_once_and_written_as_they_were_read() {
        let key = |number: u32| format!("{number:032x}");
        let mut past = DoneKeys::new(3);
        for number in [1, 2, 2, 3, 4] {
            past.insert(&key(number));
        }
        past.insert("no key");
        assert_eq!([1, 2, 3, 4].map(|number| past.contains(&key(number))), [false, true, true, true]);
        assert!(!past.contains("no key"));
        assert_eq!(past.parts(2), [vec![key(2), key(3)], vec![key(4)]]);
        let mut again = DoneKeys::new(3);
        past.parts(2).iter().flatten().for_each(|key| again.insert(key));
        assert_eq!(again.parts(9), past.parts(9));
    }
}
