//! First logins of one command at several hosts: all at the same time, where nobody is asked for anything.
//!
//! 1. ssh is started so that it asks its user for nothing (`BatchMode`). What it says is kept until it is known what
//!    becomes of that.
//! 2. Where it ends without having got there, its user may have to type, or to believe a key: what it said is dropped,
//!    and it is started once more, as any ssh. One host asks after the other. No other login of that kind is under way
//!    then, so that an answer goes where it was asked for.
//!
//! A host that did not answer, as OpenSSH says it, is not asked: it would keep the others waiting. Where OpenSSH says
//! nothing of that, one that ended in time is. A program that is not OpenSSH is taken for one that may ask. A key that
//! has to be touched is not told of in the first step.
//!
//! A command at one host alone logs in once, as its user's ssh does.

use crate::failure::{self, Failure, Reason, Result};
use crate::link::ssh::{RUN, Ssh};
use crate::mutex::lock;
use crate::run::dialling::not_reached;
use crate::run::thread;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Logins at the same time that ask for nothing: through one jump host they are at one sshd, which turns strangers away
/// at random from ten on (`MaxStartups 10:30:100`).
const SILENT_MAX: usize = 8;
/// Between two looks whether somebody else has logged in.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What is kept of what an ssh says until it has logged in.
const WORDS_BYTES_MAX: usize = 64 << 10;
/// Time for the last words of an ssh that has ended to be read.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What OpenSSH says, in English whatever the locale, of a host that wants more, or whose key is not known.
const REFUSED: &[&str] = &["Permission denied (", "Host key verification failed"];
/// Of one that did not answer, or that has no address, also as a host on the way sees it.
const UNREACHED: &[&str] = &[
    "ssh: connect to host ",
    "ssh: Could not resolve hostname ",
    "open failed: connect failed: ",
    "timed out",
];

/// Each is held by a login that asks for nothing.
static SILENT: [Mutex<()>; SILENT_MAX] = [const { Mutex::new(()) }; SILENT_MAX];
/// Held where a user may have to type.
static ASKING: [Mutex<()>; 1] = [Mutex::new(())];

/// Logins at one host. See the module.
#[derive(Default)]
pub(super) struct Logins {
    /// Of those that asked for nothing.
    words: Mutex<Vec<Words>>,
}

impl Logins {
    /// Has `start` log in, unless it `is_over` before.
    ///
    /// # Errors
    /// What `start` has; `Connection` if it is over.
    pub(super) fn log_in<T>(
        &self,
        ssh: &Ssh,
        is_over: &dyn Fn() -> bool,
        start: impl Fn(&Ssh) -> Result<T>,
    ) -> Result<T> {
        if ssh.connect_max().is_none() {
            return start(ssh);
        }
        if let Some(started) = self.in_silence(ssh, is_over, &start)? {
            return Ok(started);
        }
        let _turn = turn(&ASKING, is_over)?;
        start(ssh)
    }

    /// `None`: its user may have to type.
    fn in_silence<T>(
        &self,
        ssh: &Ssh,
        is_over: &dyn Fn() -> bool,
        start: &impl Fn(&Ssh) -> Result<T>,
    ) -> Result<Option<T>> {
        let (from, to) = std::io::pipe().map_err(|error| failure::of_io(RUN, &error))?;
        let Some(silent) = ssh.silent(to) else { return Ok(None) };
        let words = Words::begin(from, show)?;
        let turn = turn(&SILENT, is_over)?;
        let begun = Instant::now();
        let started = start(&silent);
        let took = begun.elapsed();
        drop(turn);
        // And with it our end of its words.
        drop(silent);
        match started {
            Ok(started) => {
                words.decide(true);
                lock(&self.words).push(words);
                Ok(Some(started))
            }
            Err(failure) => {
                words.await_end(Instant::now() + LAST_WORDS);
                let is_asked = !is_over() && may_be_asked(&failure, &words.said(), took, ssh);
                words.decide(!is_asked);
                if is_asked { Ok(None) } else { Err(failure) }
            }
        }
    }

    /// What was said last is shown, if ssh has ended.
    pub(super) fn close(&self) {
        let until = Instant::now() + LAST_WORDS;
        for words in lock(&self.words).drain(..) {
            words.await_end(until);
        }
    }
}

/// Whether a login that asked for nothing may get there if it asks: ssh ended by itself and said that it was refused,
/// or neither that nor that nobody answered, and it was soon.
fn may_be_asked(failure: &Failure, said: &[u8], took: Duration, ssh: &Ssh) -> bool {
    let said = String::from_utf8_lossy(said);
    let has = |any: &[&str]| any.iter().any(|words| said.contains(words));
    let is_soon = || ssh.connect_max().is_some_and(|most| took < most);
    // A host that answers may say anything before it refuses: its banner.
    failure.reason == Reason::SshEnded && (has(REFUSED) || (!has(UNREACHED) && is_soon()))
}

/// Waits until one of these is free. Whoever has one logs in, which ends.
fn turn(gates: &'static [Mutex<()>], is_over: &dyn Fn() -> bool) -> Result<MutexGuard<'static, ()>> {
    loop {
        for gate in gates {
            match gate.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        if is_over() {
            return Err(not_reached("the copy is over"));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The turn of somebody who types, for tests of who waits for it.
#[cfg(test)]
pub(super) fn typing() -> MutexGuard<'static, ()> {
    turn(&ASKING, &|| false).unwrap()
}

fn show(words: &[u8]) {
    // As ssh itself: who does not read it does without.
    let _ = std::io::stderr().write_all(words);
}

/// What an ssh says that asks for nothing, and what it started at the other side, until both have ended.
struct Words {
    kept: Arc<Mutex<Kept>>,
    reader: JoinHandle<()>,
}

struct Kept {
    words: Vec<u8>,
    /// Whether what comes is shown; not known yet.
    is_shown: Option<bool>,
    show: fn(&[u8]),
}

impl Words {
    fn begin(mut from: PipeReader, show: fn(&[u8])) -> Result<Words> {
        let kept = Arc::new(Mutex::new(Kept { words: Vec::new(), is_shown: None, show }));
        let takes = kept.clone();
        let read = move || {
            let mut piece = [0; 4096];
            loop {
                match from.read(&mut piece) {
                    Ok(0) => return,
                    Ok(read) => lock(&takes).take(&piece[..read]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        let reader = thread::guarded("ssh-words", drop, read)?;
        Ok(Words { kept, reader })
    }

    /// What came so far is shown, and what comes from now on; or nothing of it is.
    fn decide(&self, is_shown: bool) {
        let mut kept = lock(&self.kept);
        kept.is_shown = Some(is_shown);
        let words = std::mem::take(&mut kept.words);
        kept.take(&words);
    }

    /// What came so far and is not decided about.
    fn said(&self) -> Vec<u8> {
        lock(&self.kept).words.clone()
    }

    fn await_end(&self, until: Instant) {
        while !self.reader.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Kept {
    fn take(&mut self, words: &[u8]) {
        match self.is_shown {
            None => {
                let room = WORDS_BYTES_MAX - self.words.len();
                self.words.extend_from_slice(&words[..words.len().min(room)]);
            }
            Some(true) => (self.show)(words),
            Some(false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::link::ssh::START;
    use crate::link::testing::LONG;
    use std::ffi::OsStr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn ssh(command: &str, connect_max: Option<Duration>) -> Ssh {
        Ssh::new(OsStr::new(command), "far", None).unwrap().within(connect_max)
    }

    fn ended() -> Failure {
        Failure::new(FailureKind::Connection, START, "ssh did not reach far").because(Reason::SshEnded)
    }

    /// How many are there at a time, and were at most.
    #[derive(Default)]
    struct Count {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Count {
        /// Is there until `goes_on` says no, of how many are there by then.
        fn pass(&self, goes_on: impl Fn(usize) -> bool) {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let until = Instant::now() + LONG;
            while goes_on(self.most.load(Ordering::SeqCst)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn logins_that_ask_for_nothing_are_under_way_together_and_those_that_may_ask_one_after_the_other() {
        let (silent, asking) = (Count::default(), Count::default());
        let logins = Logins::default();
        let start = |there: &Ssh| {
            if there.asks_nothing() {
                // Each waits until as many are there as may be.
                silent.pass(|most| most < SILENT_MAX);
                return Err(ended());
            }
            // Long enough for another one to come in.
            asking.pass(|_| {
                std::thread::sleep(Duration::from_millis(5));
                false
            });
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..SILENT_MAX + 4 {
                scope.spawn(|| logins.log_in(&ssh("ssh", Some(LONG)), &|| false, start).unwrap());
            }
        });
        assert_eq!(silent.most.into_inner(), SILENT_MAX);
        assert_eq!(asking.most.into_inner(), 1);
    }

    /// What was tried of a login that ends like this: each time, whether it asked for nothing.
    fn tried(ssh: &Ssh, failure: &Failure, is_over: bool) -> Vec<bool> {
        tried_saying(ssh, "", failure, is_over)
    }

    fn tried_saying(ssh: &Ssh, words: &str, failure: &Failure, is_over: bool) -> Vec<bool> {
        let tried = Mutex::new(Vec::new());
        let start = |there: &Ssh| {
            lock(&tried).push(there.asks_nothing());
            there.say(words.as_bytes());
            Err::<(), Failure>(failure.clone())
        };
        let is_over = || is_over && !lock(&tried).is_empty();
        assert_eq!(Logins::default().log_in(ssh, &is_over, start).unwrap_err().kind, failure.kind);
        tried.into_inner().unwrap()
    }

    #[test]
    fn who_may_have_to_type_is_asked_and_a_host_that_does_not_answer_or_has_no_program_is_tried_once() {
        assert_eq!(tried(&ssh("ssh", Some(LONG)), &ended(), false), [true, false]);
        // It took as long as it may.
        assert_eq!(tried(&ssh("ssh", Some(Duration::ZERO)), &ended(), false), [true]);
        assert_eq!(tried(&ssh("ssh", Some(LONG)), &ended(), true), [true]);
        let missing = Failure::new(FailureKind::NotFound, START, "no `thalweg` at far");
        assert_eq!(tried(&ssh("ssh", Some(LONG)), &missing, false), [true]);
        // One that may ask in its own way, and one that is alone.
        assert_eq!(tried(&ssh("wrapper", Some(LONG)), &ended(), false), [false]);
        assert_eq!(tried(&ssh("ssh", None), &ended(), false), [false]);
    }

    /// By its words, however long it took: its user's `ConnectTimeout` may be shorter than ours, and its sshd slow.
    #[test]
    fn a_host_that_refuses_is_one_that_asks_and_one_that_does_not_answer_is_tried_once() {
        let (soon, late) = (Some(LONG), Some(Duration::ZERO));
        for words in [
            "user@far: Permission denied (publickey,password).\r\n",
            "No ED25519 host key is known for far and you have requested strict checking.\r\n\
             Host key verification failed.\r\n",
            "Who is idle is timed out.\nuser@far: Permission denied (keyboard-interactive).\r\n",
        ] {
            for connect_max in [soon, late] {
                let tried = tried_saying(&ssh("ssh", connect_max), words, &ended(), false);
                assert_eq!(tried, [true, false], "{words}");
            }
        }
        for words in [
            "ssh: connect to host far port 22: Connection timed out\r\n",
            "ssh: connect to host far port 22: No route to host\r\n",
            "ssh: connect to host far port 22: Connection refused\r\n",
            "ssh: connect to host far port 22: Permission denied\r\n",
            "ssh: Could not resolve hostname far: Name or service not known\r\n",
            "Connection timed out during banner exchange\r\nConnection to far port 22 timed out\r\n",
            "channel 0: open failed: connect failed: No route to host\r\nstdio forwarding failed\r\n",
        ] {
            assert_eq!(tried_saying(&ssh("ssh", soon), words, &ended(), false), [true], "{words}");
        }
        let neither = "Connection closed by 192.0.2.7 port 22\r\n";
        assert_eq!(tried_saying(&ssh("ssh", soon), neither, &ended(), false), [true, false]);
        assert_eq!(tried_saying(&ssh("ssh", late), neither, &ended(), false), [true]);
        // It got there, where the program may say anything.
        let missing = Failure::new(FailureKind::NotFound, START, "no `thalweg` at far");
        let words = "sh: thalweg: Permission denied (far)\n";
        assert_eq!(tried_saying(&ssh("ssh", soon), words, &missing, false), [true]);
    }

    static SHOWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    #[test]
    fn what_ssh_says_is_shown_when_it_is_logged_in_and_lost_where_somebody_is_asked() {
        let begin = || {
            let (from, to) = std::io::pipe().unwrap();
            let words = Words::begin(from, |words| lock(&SHOWN).extend_from_slice(words)).unwrap();
            (words, to)
        };
        let said = |is_shown: bool| {
            lock(&SHOWN).clear();
            let (words, mut to) = begin();
            to.write_all(b"before, ").unwrap();
            words.decide(is_shown);
            to.write_all(b"after").unwrap();
            drop(to);
            words.await_end(Instant::now() + LONG);
            assert!(words.reader.is_finished());
            String::from_utf8(lock(&SHOWN).clone()).unwrap()
        };
        assert_eq!(said(true), "before, after");
        assert_eq!(said(false), "");
        // Who says much is heard, and not kept without bound.
        let (words, mut to) = begin();
        to.write_all(&vec![b'x'; 2 * WORDS_BYTES_MAX]).unwrap();
        drop(to);
        words.await_end(Instant::now() + LONG);
        assert_eq!(lock(&words.kept).words.len(), WORDS_BYTES_MAX);
    }
}
