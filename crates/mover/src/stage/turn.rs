//! When a thread may make its request to a disk: [`Turns`], waited for.

use crate::failure::counted;
use crate::mutex::lock;
use crate::order::Turns;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg_wire::message::Order;

/// Longest wait for those before: then the request is made out of turn. An order is for speed, and a thread that hangs
/// in a disk must not stop all others. How many were is told at the end (docs/decisions/0025-orders.md).
const PATIENCE: Duration = Duration::from_secs(2);

/// Hands out turns to the threads of one side of a transfer.
pub struct Gate {
    turns: Mutex<Turns>,
    passed: Condvar,
}

/// The right to make one request when its turn has come. Dropped, it counts as ended.
pub struct Turn<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    /// For an order that has turns; `None` for the others.
    pub fn of(order: Order) -> Option<Gate> {
        Some(Gate { turns: Mutex::new(Turns::of(order)?), passed: Condvar::new() })
    }

    /// A turn behind all that were drawn before.
    pub fn draw(&self) -> Turn<'_> {
        Turn { gate: self, number: self.lock().draw() }
    }

    /// Requests so far that waited in vain for those before them, and were made out of turn.
    pub fn out_of_turn(&self) -> u64 {
        self.lock().out_of_turn()
    }

    /// What is told of these at the end, if there were any; `side` is the word for whose requests they are.
    pub fn told(&self, side: &str) -> Option<String> {
        let count = self.out_of_turn();
        let requests = counted(count, "request", "requests");
        let after_s = PATIENCE.as_secs();
        (count > 0).then(|| format!("order of the {side}: {requests} went out of turn after {after_s} s"))
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        lock(&self.turns)
    }
}

impl Turn<'_> {
    /// Waits until the request may be made, and lets the next one go as soon as its order says so. To be called right
    /// before it is made.
    pub fn issue(&self) {
        let turns = self.gate.lock();
        let waited =
            self.gate.passed.wait_timeout_while(turns, PATIENCE, |turns| !turns.may_issue(self.number));
        waited.unwrap_or_else(PoisonError::into_inner).0.issued(self.number);
        self.gate.passed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.lock().ended(self.number);
        self.gate.passed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_pass_one_by_one_and_one_that_panics_is_passed_over() {
        for order in [Order::Serial, Order::Loose] {
            let gate = Gate::of(order).unwrap();
            let (next, made) = (Mutex::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| {
                        while let Some((number, turn)) = {
                            let mut next = next.lock().unwrap();
                            let number = *next;
                            *next += 1;
                            (number < 300).then(|| (number, gate.draw()))
                        } {
                            if number % 50 == 7 {
                                let dies = std::panic::AssertUnwindSafe(|| {
                                    let _held = turn;
                                    std::panic::resume_unwind(Box::new("dies with its turn"));
                                });
                                assert!(std::panic::catch_unwind(dies).is_err());
                                continue;
                            }
                            turn.issue();
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(made.into_inner(), 294);
        }
        assert!(Gate::of(Order::None).is_none());
    }

    #[test]
    fn a_request_that_waited_in_vain_for_its_turn_is_made_and_told() {
        let gate = Gate::of(Order::Loose).unwrap();
        let (hangs, waits) = (gate.draw(), gate.draw());
        assert_eq!(gate.told("destination"), None);
        waits.issue();
        let told = "order of the destination: 1 request went out of turn after 2 s";
        assert_eq!(gate.told("destination").as_deref(), Some(told));
        // What comes after both have passed is in turn again.
        hangs.issue();
        gate.draw().issue();
        assert_eq!(gate.out_of_turn(), 1);
    }
}
