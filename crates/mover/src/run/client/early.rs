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
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// On paths with a shorter round trip nothing is gained that anybody would notice.
pub(super) const FAR: Duration = Duration::from_millis(5);
/// A socket is of use for so long: a server cuts who says nothing for 10 s.
const LASTS: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub(super) struct Early(Mutex<Option<Begun>>);

struct Begun {
    at: Instant,
    /// Of each stream one socket, or why there is none.
    sockets: BTreeMap<u16, Receiver<Result<OwnedFd>>>,
}

impl Early {
    /// Begins to connect the first so many streams, each within the deadline. One for which there is no thread is
    /// dialled later, as ever.
    pub fn begin(&self, connect: &Arc<dyn Connect>, streams: u16, deadline: Duration) {
        let begin = |stream: u16| {
            let (tells, told) = mpsc::sync_channel(1);
            let connect = connect.clone();
            let work = move || {
                // Nobody hears it any more where the stream was given up.
                let unheard = tells.send(connect.connect_stream(stream, deadline));
                if let Err(mpsc::SendError(Ok(_))) = unheard {
                    connect.stream_dialled(stream, false);
                }
            };
            thread::guarded("dial", drop, work).ok().map(|_| (stream, told))
        };
        let sockets = (0..streams).filter_map(begin).collect();
        *lock(&self.0) = Some(Begun { at: Instant::now(), sockets });
    }

    /// The socket of this stream, if one was begun and is of use. It is waited for, at most so long.
    pub fn take(&self, stream: u16, at_most: Duration) -> Option<OwnedFd> {
        let told = {
            let mut begun = lock(&self.0);
            let begun = begun.as_mut().filter(|begun| begun.at.elapsed() < LASTS)?;
            begun.sockets.remove(&stream)?
        };
        told.recv_timeout(at_most).ok()?.ok()
    }

    /// Gives up those of streams from this one on, and all that are of no use any more.
    pub fn give_up_from(&self, connect: &dyn Connect, stream: u16) {
        let mut begun = lock(&self.0);
        let Some(kept) = begun.as_mut() else { return };
        let is_late = kept.at.elapsed() >= LASTS;
        let given_up = kept.sockets.split_off(&if is_late { 0 } else { stream });
        if kept.sockets.is_empty() {
            *begun = None;
        }
        drop(begun);
        for (stream, told) in given_up {
            if let Ok(Ok(_)) = told.try_recv() {
                connect.stream_dialled(stream, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureKind};
    use crate::link::testing::{LONG, unix_pair};
    use std::collections::BTreeSet;

    /// Connects even streams; hears which were connected and of which nothing came.
    #[derive(Default)]
    struct Even {
        connected: Mutex<BTreeSet<u16>>,
        in_vain: Mutex<BTreeSet<u16>>,
    }

    impl Connect for Even {
        fn connect(&self, _: Duration) -> Result<OwnedFd> {
            Ok(unix_pair().0)
        }

        fn connect_stream(&self, stream: u16, deadline: Duration) -> Result<OwnedFd> {
            lock(&self.connected).insert(stream);
            match stream % 2 {
                0 => self.connect(deadline),
                _ => Err(Failure::new(FailureKind::Connection, "connect", "odd")),
            }
        }

        fn stream_dialled(&self, stream: u16, stands: bool) {
            assert!(!stands);
            lock(&self.in_vain).insert(stream);
        }

        fn name(&self) -> String {
            "even".into()
        }
    }

    #[test]
    fn each_socket_is_had_once_by_its_stream_and_what_came_to_nothing_not_at_all() {
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        assert!(early.take(0, LONG).is_none(), "nothing was begun");
        early.begin(&connect, 3, LONG);
        assert_eq!([0, 1, 2, 3].map(|stream| early.take(stream, LONG).is_some()), [true, false, true, false]);
        assert!(early.take(0, LONG).is_none(), "another stream would have its socket");
        assert_eq!(*lock(&even.connected), [0, 1, 2].into());
    }

    /// Else a way of several would count a stream that nobody has.
    #[test]
    fn what_no_stream_takes_is_given_up_and_its_way_hears_that() {
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        early.begin(&connect, 6, LONG);
        early.give_up_from(&*even, 3);
        assert!(early.take(4, LONG).is_none());
        assert!(early.take(2, LONG).is_some(), "it was not given up");
        let until = Instant::now() + LONG;
        while *lock(&even.in_vain) != [4].into() {
            assert!(Instant::now() < until, "{:?}", lock(&even.in_vain));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_waits_for_too_long_finds_none() {
        let (even, early) = (Arc::new(Even::default()), Early::default());
        let connect: Arc<dyn Connect> = even.clone();
        early.begin(&connect, 2, LONG);
        if let Some(begun) = lock(&early.0).as_mut() {
            begun.at = Instant::now().checked_sub(LASTS).unwrap();
        }
        assert!(early.take(0, LONG).is_none());
        early.give_up_from(&*even, 2);
        assert!(lock(&early.0).is_none(), "the server has cut it by then");
    }
}
