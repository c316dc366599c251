//! What routes did best with, kept in the state directory: `routes.json`.

use crate::profiles::ByHand;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan::Learned;
use thalweg_mover::run::copy::{From, To};
use thalweg_mover::tune::routes::{BYTES_MAX, Routes};
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::clock::unix_seconds;

/// The route of a copy: which far mover, and which way. `None` on this machine.
pub fn of(from: &From, to: &To) -> Option<String> {
    match (from, to) {
        (From::Far(far, _), _) => Some(format!("{} to here", far.name())),
        (_, To::Far(far, _)) => Some(format!("here to {}", far.name())),
        _ => None,
    }
}

/// What is known of a route.
pub fn known(state: &Path, route: &str) -> Option<Learned> {
    read(state).of(route, unix_seconds())
}

/// Remembers it, unless it was learned with what was turned `by_hand`: the next copy is of another kind. What cannot be
/// written is not worth a word: the next copy starts as this one did.
pub fn learn(state: &Path, route: &str, by_hand: &ByHand, learned: Learned) {
    if !by_hand.leaves_path() {
        return;
    }
    let _writing = lock(&WRITING);
    let mut routes = read(state);
    routes.learn(route, learned, unix_seconds());
    write(state, &routes);
}

/// Forgets it.
pub fn forget(state: &Path, route: &str) {
    let _writing = lock(&WRITING);
    let mut routes = read(state);
    if routes.forget(route) {
        write(state, &routes);
    }
}

fn write(state: &Path, routes: &Routes) {
    let text = routes.to_json();
    let written = atomic_file::write(&state.join(NAME), text.as_bytes(), 0o600, Durability::Unsynced);
    if let Err(error) = written {
        tracing::info!(%error, "what the route taught is not kept");
    }
}

const NAME: &str = "routes.json";
/// Of this process one at a time, so that none forgets what another learned. Of two processes the later one counts.
static WRITING: Mutex<()> = Mutex::new(());

fn read(state: &Path) -> Routes {
    let mut bytes = Vec::new();
    let read = atomic_file::open(&state.join(NAME))
        .and_then(|file| file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => Routes::from_json(&bytes),
        Err(_) => Routes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use thalweg_mover::run::copy::Wishes;
    use thalweg_wire::hello::Cipher;
    use thalweg_wire::message::VerifyLevel;

    #[test]
    fn what_was_learned_is_known_the_next_time() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(known(state.path(), "here to there"), None);
        let learned = Learned { streams: 6, rate_bits_per_s: 940_000_000, rtt: Duration::from_millis(20) };
        learn(state.path(), "here to there", &ByHand::default(), learned);
        assert_eq!(known(state.path(), "here to there"), Some(learned));
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
        forget(state.path(), "here to there");
        assert_eq!(known(state.path(), "here to there"), None);
    }

    /// Eight streams with a window of 64 KiB carry little; so does a slow card.
    #[test]
    fn what_was_turned_by_hand_and_bears_on_the_path_teaches_a_route_nothing() {
        let state = tempfile::tempdir().unwrap();
        let learned = Learned { streams: 8, rate_bits_per_s: 168_000_000, rtt: Duration::from_millis(20) };
        let teaches = |turn: fn(&mut Wishes)| {
            let mut wishes = Wishes::default();
            turn(&mut wishes);
            forget(state.path(), "here to there");
            learn(state.path(), "here to there", &ByHand::of(&wishes), learned);
            known(state.path(), "here to there").is_some()
        };
        let bear_on_it: [fn(&mut Wishes); 8] = [
            |wishes| wishes.movement.asked.window_bytes = Some(64 << 10),
            |wishes| wishes.movement.asked.streams = Some(1),
            |wishes| wishes.movement.asked.depth = Some(1),
            |wishes| wishes.movement.asked.yields = true,
            |wishes| wishes.movement.asked.compress = true,
            |wishes| wishes.movement.link.congestion = Some("reno".into()),
            |wishes| wishes.movement.has_bind = true,
            |wishes| wishes.movement.has_via = true,
        ];
        for turn in bear_on_it {
            assert!(!teaches(turn));
        }
        // Who has set one of these in a configuration sets it for the next copy too.
        let leave_it: [fn(&mut Wishes); 7] = [
            |_| {},
            |wishes| wishes.movement.asked.chunk_bytes = Some(256 << 10),
            |wishes| wishes.movement.asked.memory_bytes = Some(1 << 30),
            |wishes| wishes.movement.link.cipher = Cipher::ChaCha20Poly1305,
            |wishes| wishes.movement.link.cipher = Cipher::Tls,
            |wishes| wishes.movement.link.dscp = Some(10),
            |wishes| wishes.fidelity.verify = VerifyLevel::Paranoid,
        ];
        for (number, turn) in leave_it.into_iter().enumerate() {
            assert!(teaches(turn), "{number}");
        }
    }
}
