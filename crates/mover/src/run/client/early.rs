//! Sockets of streams that are connected while the server answers the session's hello: over a distance the first byte
//! goes a round trip sooner.
//!
//! Nothing is said on one before the session stands and wants its stream, so a server that does not take the session
//! has no handshake in vain.

use super::dial::Connect;
use crate::failure::Result;
use crate::mutex::lock;
use crate::run::thread;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// On paths with a shorter round trip nothing is gained that anybody would notice.
pub(super) const FAR: Duration = Duration::from_millis(5);
/// A socket is of use for so long: a server cuts who says nothing for 10 s.
const LASTS: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub(super) struct Early(Mutex<BTreeMap<u16, Arc<Begun>>>);

/// The socket of one stream.
struct Begun {
    at: Instant,
    state: Mutex<State>,
    changes: Condvar,
}

enum State {
    /// Being connected.
    Dialled,
    Connected(OwnedFd),
    /// It was not reached, its stream has it, or waits for it no longer.
    Over,
    /// No stream wants it.
    GivenUp,
}

impl Early {
    /// Begins to connect the first so many streams, each within the deadline. One for which there is no thread is
    /// dialled later, as ever.
    pub fn begin(&self, connect: &Arc<dyn Connect>, streams: u16, deadline: Duration) {
        for stream in 0..streams {
            let (state, changes) = (Mutex::new(State::Dialled), Condvar::new());
            let begun = Arc::new(Begun { at: Instant::now(), state, changes });
            let (connect, told) = (connect.clone(), begun.clone());
            let work = move || {
                if told.tell(connect.connect_stream(stream, deadline)).is_some() {
                    connect.stream_given_up(stream);
                }
            };
            // Who waits for one that panicked waits no longer.
            let lost = begun.clone();
            if thread::guarded("dial", move |_| drop(lost.take_out(State::Over)), work).is_ok() {
                lock(&self.0).insert(stream, begun);
            }
        }
    }

    /// The socket of this stream, if one was begun and is of use. It is waited for, until then.
    pub fn take(&self, stream: u16, until: Instant) -> Option<OwnedFd> {
        let begun = lock(&self.0).remove(&stream)?;
        begun.wait(until);
        // Its stream is dialled anew where it comes too late: the way of that is not to hear of this one.
        begun.take_out(State::Over).filter(|_| begun.at.elapsed() < LASTS)
    }

    /// Gives up those of streams from this one on.
    pub fn give_up_from(&self, connect: &dyn Connect, stream: u16) {
        let given_up = lock(&self.0).split_off(&stream);
        for (stream, begun) in given_up {
            if begun.take_out(State::GivenUp).is_some() {
                connect.stream_given_up(stream);
            }
        }
    }
}

impl Begun {
    /// Keeps what came of it; gives back a socket that was given up meanwhile.
    fn tell(&self, connected: Result<OwnedFd>) -> Option<OwnedFd> {
        let mut state = lock(&self.state);
        let was = std::mem::replace(&mut *state, State::Over);
        self.changes.notify_all();
        match (was, connected) {
            (State::Dialled, Ok(socket)) => {
                *state = State::Connected(socket);
                None
            }
            (State::GivenUp, connected) => connected.ok(),
            _ => None,
        }
    }

    fn wait(&self, until: Instant) {
        let is_dialled = |state: &mut State| matches!(state, State::Dialled);
        let at_most = until.saturating_duration_since(Instant::now());
        drop(self.changes.wait_timeout_while(lock(&self.state), at_most, is_dialled));
    }

    /// The socket, if there is one by now; none comes later, and `from_now` says why.
    fn take_out(&self, from_now: State) -> Option<OwnedFd> {
        let was = std::mem::replace(&mut *lock(&self.state), from_now);
        self.changes.notify_all();
        match was {
            State::Connected(socket) => Some(socket),
            State::Dialled | State::Over | State::GivenUp => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureKind};
    use crate::link::testing::{LONG, unix_pair};
    use std::collections::BTreeSet;

    /// Connects even streams, while nobody holds it; hears which were connected and which given up.
    #[derive(Default)]
    struct Even {
        connected: Mutex<BTreeSet<u16>>,
        given_up: Mutex<BTreeSet<u16>>,
        held: Mutex<()>,
    }

    impl Connect for Even {
        fn connect(&self, _: Duration) -> Result<OwnedFd> {
            Ok(unix_pair().0)
        }

        fn connect_stream(&self, stream: u16, deadline: Duration) -> Result<OwnedFd> {
            let _may = lock(&self.held);
            lock(&self.connected).insert(stream);
            match stream % 2 {
                0 => self.connect(deadline),
                _ => Err(Failure::new(FailureKind::Connection, "connect", "odd")),
            }
        }

        fn stream_dialled(&self, _: u16, _: bool) {
            panic!("nothing was said on it, for good or ill");
        }

        fn stream_given_up(&self, stream: u16) {
            lock(&self.given_up).insert(stream);
        }

        fn name(&self) -> String {
            "even".into()
        }
    }

    fn begun(streams: u16) -> (Arc<Even>, Early) {
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        early.begin(&connect, streams, LONG);
        (even, early)
    }

    fn soon() -> Instant {
        Instant::now() + LONG
    }

    fn wait_for(even: &Even, given_up: &[u16]) {
        let until = soon();
        while lock(&even.given_up).iter().ne(given_up) {
            assert!(Instant::now() < until, "{:?}", lock(&even.given_up));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn each_socket_is_had_once_by_its_stream_and_what_came_to_nothing_not_at_all() {
        assert!(Early::default().take(0, soon()).is_none(), "nothing was begun");
        let (even, early) = begun(3);
        assert_eq!(
            [0, 1, 2, 3].map(|stream| early.take(stream, soon()).is_some()),
            [true, false, true, false]
        );
        assert!(early.take(0, soon()).is_none(), "another stream would have its socket");
        assert_eq!(*lock(&even.connected), [0, 1, 2].into());
        assert!(lock(&even.given_up).is_empty());
    }

    /// Else a way of several would count a stream that nobody has.
    #[test]
    fn what_no_stream_takes_is_given_up_and_its_way_hears_that_whenever_it_is_connected() {
        let (even, early) = begun(6);
        let all_are = |even: &Even| lock(&even.connected).len() == 6;
        let until = soon();
        while !all_are(&even) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        early.give_up_from(&*even, 3);
        wait_for(&even, &[4]);
        assert!(early.take(4, soon()).is_none());
        assert!(early.take(2, soon()).is_some(), "it was not given up");
        // And those that are connected only then.
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        let held = lock(&even.held);
        early.begin(&connect, 4, LONG);
        early.give_up_from(&*even, 0);
        assert!(lock(&even.given_up).is_empty());
        drop(held);
        wait_for(&even, &[0, 2]);
    }

    #[test]
    fn one_that_is_not_connected_in_time_is_not_waited_for_any_longer() {
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        let held = lock(&even.held);
        early.begin(&connect, 1, LONG);
        let begun = lock(&early.0).get(&0).cloned().unwrap();
        assert!(early.take(0, Instant::now() + Duration::from_millis(5)).is_none());
        drop(held);
        let until = soon();
        while Arc::strong_count(&begun) > 1 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(lock(&even.given_up).is_empty(), "its stream may stand elsewhere by then");
    }

    #[test]
    fn who_wants_it_too_late_finds_none() {
        let (_even, early) = begun(2);
        let begun = lock(&early.0).remove(&0).unwrap();
        begun.wait(soon());
        let socket = begun.take_out(State::Over).unwrap();
        let state = Mutex::new(State::Connected(socket));
        let at = Instant::now().checked_sub(LASTS).unwrap();
        lock(&early.0).insert(0, Arc::new(Begun { at, state, changes: Condvar::new() }));
        assert!(early.take(0, soon()).is_none(), "the server has cut it by then");
    }
}
