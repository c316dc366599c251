//! Whose question for a slot is being answered: one of each client at a time. Windows are looked for in up to a tenth
//! of a second of a processor, and who asks again and again shall not have more than one.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, PoisonError};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;

/// See the module.
#[derive(Default)]
pub(super) struct Asking {
    clients: Mutex<HashSet<Fingerprint>>,
    is_over: Condvar,
}

/// A question that is being answered, until this goes.
pub(super) struct Question<'a> {
    asking: &'a Asking,
    client: Fingerprint,
    /// Another of the same client was answered first.
    pub has_waited: bool,
}

impl Asking {
    /// Waits until no other question of this client is being answered.
    pub fn begin(&self, client: Fingerprint) -> Question<'_> {
        let mut clients = lock(&self.clients);
        let mut has_waited = false;
        while !clients.insert(client) {
            has_waited = true;
            clients = self.is_over.wait(clients).unwrap_or_else(PoisonError::into_inner);
        }
        Question { asking: self, client, has_waited }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        lock(&self.asking.clients).remove(&self.client);
        self.asking.is_over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_questions_of_one_client_are_answered_one_after_the_other_and_hold_up_nobody_else() {
        let (asking, under_way) = (Asking::default(), AtomicUsize::new(0));
        let (one, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let first = asking.begin(one);
        assert!(!first.has_waited && !asking.begin(other).has_waited);
        drop(first);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _question = asking.begin(one);
                        assert_eq!(under_way.fetch_add(1, Ordering::AcqRel), 0);
                        under_way.fetch_sub(1, Ordering::AcqRel);
                    }
                });
            }
        });
        assert!(lock(&asking.clients).is_empty());
    }
}
