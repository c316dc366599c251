//! What stands for a transfer in tests of what is around it.

use super::{Crossed, PeerNow, Transfer};
use crate::failure::{Failure, Result};
use crate::link::testing::LONG;
use crate::mutex::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_wire::message::{Terms, TransferMessage};

/// Does nothing, and keeps what it is told. By default it receives, waits for nobody and has said nothing.
pub(crate) struct Double {
    pub terms: Terms,
    pub sends: bool,
    /// Waits for its peer, whatever that says.
    pub blames: bool,
    pub last_word: Option<TransferMessage>,
    /// Called when it loses the link.
    pub on_link_lost: Box<dyn Fn() + Send + Sync>,
    /// Called when its session ends.
    pub on_session_ends: Box<dyn Fn() + Send + Sync>,
    /// What the peer said to it.
    pub heard: Mutex<Vec<TransferMessage>>,
    /// Streams that were lost.
    pub streams_lost: Mutex<Vec<u16>>,
    /// For how long a stream was held each time.
    pub held: Mutex<Vec<Duration>>,
}

impl Default for Double {
    fn default() -> Self {
        Double {
            terms: Terms::of(4 << 20, 1 << 20),
            sends: false,
            blames: false,
            last_word: None,
            on_link_lost: Box::new(|| {}),
            on_session_ends: Box::new(|| {}),
            heard: Mutex::default(),
            streams_lost: Mutex::default(),
            held: Mutex::default(),
        }
    }
}

impl Double {
    pub fn wait_to_hear(&self) {
        let until = Instant::now() + LONG;
        while lock(&self.heard).is_empty() {
            assert!(Instant::now() < until, "nobody answers");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Transfer for Double {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn sends(&self) -> bool {
        self.sends
    }

    fn crossed(&self) -> Crossed {
        Crossed::default()
    }

    fn blames(&self, _: &PeerNow) -> bool {
        self.blames
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        lock(&self.heard).push(message);
        Ok(())
    }

    fn link_up(&self) {}

    fn last_word(&self) -> Option<TransferMessage> {
        self.last_word.clone()
    }

    fn link_lost(&self) {
        (self.on_link_lost)();
    }

    fn session_ends(&self, _: u64, _: &Failure) {
        (self.on_session_ends)();
    }

    fn stream_lost(&self, stream: u16) {
        lock(&self.streams_lost).push(stream);
    }

    fn book_limit(&self, held: Duration) {
        lock(&self.held).push(held);
    }
}
