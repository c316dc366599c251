//! A far mover that questions go to. An answer is heard over as many links as it takes, if that is wanted.
//!
//! 1. The question is asked, and heard piece by piece.
//! 2. If its link is lost, another one is waited for, or dialled in a session of its own where the far mover has
//!    forgotten the session by then: one without transfers it keeps for seconds.
//! 3. The question is asked again, behind what was heard: no piece of one link's answer counts as one of another's.
//!
//! It is given up by the rules of copies, [`Attempts`]: when nothing came of it within the patience of the link. And
//! when a bounded number of links in a row brought pieces, but no new path.

use super::position::Position;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::retry::attempts::Attempts;
use thalweg_mover::run::chance;
use thalweg_mover::run::client::{ANSWER_TIMEOUT, Answers, Client, LinkSettings};
use thalweg_mover::run::copy::{HEALS, Stop};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_mover::run::thread;
use thalweg_wire::message::{Question, Reply};

/// Beyond our patience a session has so long to say why there is no link: its own began a little later, with the loss.
const LAST_WORD: Duration = Duration::from_secs(5);
/// After a dial that came to nothing nobody dials for so long: many may wait for the same link.
const DIAL_REST: Duration = Duration::from_millis(500);
/// Between two looks whether a dial is over, or somebody asked to stop.
const DIAL_LOOK: Duration = Duration::from_millis(50);
/// What fails.
const ASK: &str = "ask the server";

/// See the module.
pub(super) struct Far {
    /// What another session is begun with; `None`: the first is the only one.
    another: Option<(Arc<FarMover>, LinkSettings)>,
    now: Arc<Mutex<Now>>,
}

struct Now {
    client: Arc<Client>,
    /// The link that was asked last.
    link: u64,
    links_lost: u64,
    /// Somebody dials.
    is_dialling: bool,
    /// A dial that came to nothing, and when.
    failed: Option<(Instant, Failure)>,
}

/// Why an answer ends before its end.
pub(super) enum Cut {
    /// Its link was lost, or there is none.
    Lost(Failure),
    Final(Failure),
}

impl Cut {
    /// For who does not go on.
    pub(super) fn failure(self) -> Failure {
        match self {
            Cut::Lost(failure) | Cut::Final(failure) => failure,
        }
    }
}

impl Far {
    /// By this session; where it is over, by `another` one.
    pub(super) fn new(client: Arc<Client>, another: Option<(Arc<FarMover>, LinkSettings)>) -> Far {
        let link = client.session.epoch();
        let now = Now { client, link, links_lost: 0, is_dialling: false, failed: None };
        Far { another, now: Arc::new(Mutex::new(now)) }
    }

    /// The session by which it is asked now.
    pub(super) fn client(&self) -> Arc<Client> {
        lock(&self.now).client.clone()
    }

    /// Links that were lost, and in whose place another one came.
    pub(super) fn links_lost(&self) -> u64 {
        lock(&self.now).links_lost
    }

    /// Has pieces of the answer taken until its end. With `outlasts` over as many links as it takes: then `question`
    /// says what is asked for by what was heard.
    ///
    /// # Errors
    /// `Stopped`; the server's reason; what `take` says; `Connection`, with `outlasts` for an outage longer than the
    /// patience.
    pub(super) fn hear(
        &self,
        (outlasts, stop): (bool, &Stop),
        question: &dyn Fn(&Position) -> Question,
        take: &mut dyn FnMut(Reply, &mut Position) -> Result<()>,
    ) -> Result<()> {
        let Some((_, settings)) = self.another.as_ref().filter(|_| outlasts) else {
            let mut at = Position::default();
            let answers = self.client().ask(question(&at))?;
            return hear_once(answers, stop, &mut at, take, &mut || {}).map_err(Cut::failure);
        };
        let (mut at, patience) = (Position::kept(), settings.patience);
        let mut attempts = Attempts::new(HEALS, patience, Instant::now());
        attempts.linked();
        loop {
            attempts.begin();
            let spent = attempts.dial(Instant::now());
            let until = Instant::now() + patience.saturating_sub(spent) + LAST_WORD;
            let heard = self.standing(until, stop).and_then(|client| {
                attempts.linked();
                // What is slow to begin is no outage, however short the patience for one.
                let answers = client.ask(question(&at)).map_err(Cut::Lost)?.within(ANSWER_TIMEOUT);
                hear_once(answers, stop, &mut at, take, &mut || attempts.goes_well(Instant::now()))
            });
            let failure = match heard {
                Ok(()) => return Ok(()),
                Err(Cut::Final(failure)) => return Err(failure),
                Err(Cut::Lost(failure)) => failure,
            };
            if let Some(why) = at.lose_link() {
                let cause = format!("{}; {why}", failure.cause);
                return Err(Failure::new(failure.kind, ASK, cause).because(Reason::BeginsAnew));
            }
            let Some(pause) = attempts.failed(&failure, Instant::now(), chance()) else {
                return Err(given_up(failure, patience));
            };
            tracing::info!(%failure, "the link of an answer was lost");
            if !stop.pause(pause) {
                return Err(stopped());
            }
        }
    }

    /// A session whose link stands, by `until` at the latest, but for the time of a dial.
    fn standing(&self, until: Instant, stop: &Stop) -> std::result::Result<Arc<Client>, Cut> {
        loop {
            if stop.is_asked() {
                return Err(Cut::Final(stopped()));
            }
            let client = {
                let mut now = lock(&self.now);
                if !now.client.session.is_closed()
                    && let Some(link) = now.client.session.link_epoch()
                {
                    now.links_lost += u64::from(link != now.link);
                    now.link = link;
                    return Ok(now.client.clone());
                }
                now.client.clone()
            };
            // Another session would be ended for the same reason.
            let refused = client.session.failure().filter(|failure| failure.kind == FailureKind::Permission);
            if let Some(failure) = refused {
                return Err(Cut::Final(failure));
            }
            if client.session.is_closed() && self.begin_another(stop)? {
                continue;
            }
            if Instant::now() >= until {
                let cause = "the link was lost, and none came in its place";
                return Err(Cut::Lost(Failure::new(FailureKind::Connection, ASK, cause)));
            }
            if client.session.is_closed() {
                stop.pause(DIAL_LOOK);
            } else {
                client.wait_for_link(&|| stop.is_asked() || Instant::now() >= until);
            }
        }
    }

    /// Dials in place of a session that is over, and says whether there is another one; false: somebody dials already.
    /// Who asks to stop does not wait for the end of a dial.
    fn begin_another(&self, stop: &Stop) -> std::result::Result<bool, Cut> {
        let (far, settings) = {
            let mut now = lock(&self.now);
            if !now.client.session.is_closed() {
                return Ok(true);
            }
            let Some((far, settings)) = &self.another else {
                return Err(Cut::Lost(now.client.session.why_closed(ASK)));
            };
            if now.is_dialling {
                return Ok(false);
            }
            if let Some((at, failure)) = &now.failed
                && at.elapsed() < DIAL_REST
            {
                return Err(Cut::Lost(failure.clone()));
            }
            now.is_dialling = true;
            (far.clone(), settings.clone())
        };
        if let Err(failure) = dial(far, settings, &self.now) {
            lock(&self.now).is_dialling = false;
            return Err(Cut::Lost(failure));
        }
        loop {
            if !stop.pause(DIAL_LOOK) {
                return Err(Cut::Final(stopped()));
            }
            let now = lock(&self.now);
            match &now.failed {
                _ if now.is_dialling => {}
                Some((_, failure)) => return Err(Cut::Lost(failure.clone())),
                None => return Ok(!now.client.session.is_closed()),
            }
        }
    }
}

impl Now {
    /// What became of a dial.
    fn dialled(&mut self, dialled: Result<Client>) {
        self.is_dialling = false;
        match dialled {
            Ok(client) => {
                (self.link, self.client, self.failed) = (client.session.epoch(), Arc::new(client), None);
                self.links_lost += 1;
            }
            Err(failure) => self.failed = Some((Instant::now(), failure)),
        }
    }
}

/// Dials, by a thread of its own: a dial has a bound, but nothing ends it before that. Whoever waits may leave.
fn dial(far: Arc<FarMover>, settings: LinkSettings, now: &Arc<Mutex<Now>>) -> Result<()> {
    let (dialling, panicked) = (now.clone(), now.clone());
    let work = move || {
        let dialled = far.dial(settings, event::nobody());
        lock(&dialling).dialled(dialled);
    };
    thread::guarded("dial", move |failure| lock(&panicked).dialled(Err(failure)), work).map(drop)
}

/// Hears an answer as long as its link stands. `heard` is called after each piece.
fn hear_once(
    mut answers: Answers,
    stop: &Stop,
    at: &mut Position,
    take: &mut dyn FnMut(Reply, &mut Position) -> Result<()>,
    heard: &mut dyn FnMut(),
) -> std::result::Result<(), Cut> {
    loop {
        let piece = match stop.is_asked() {
            true => None,
            false => answers.piece(&|| stop.is_asked()),
        };
        match piece {
            // The rest is not asked for.
            None if stop.is_asked() => return Err(Cut::Final(stopped())),
            None => return Ok(()),
            Some(Ok(reply)) => {
                at.hear_piece();
                take(reply, at).map_err(Cut::Final)?;
                heard();
            }
            // A connection may be lost at the other end alone, which then says so over another one.
            Some(Err(failure)) if failure.kind == FailureKind::Connection || !answers.has_link() => {
                return Err(Cut::Lost(failure));
            }
            Some(Err(failure)) => return Err(Cut::Final(failure)),
        }
    }
}

pub(super) fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, ASK, "stopped on request")
}

/// What is said of the last failure: of an outage that it lasted longer than the patience.
fn given_up(failure: Failure, patience: Duration) -> Failure {
    if failure.kind != FailureKind::Connection {
        return failure;
    }
    let cause = format!("no progress for {} s: {}", patience.as_secs(), failure.cause);
    let whole = Failure::new(failure.kind, &failure.operation, cause).because(failure.reason);
    whole.because(Reason::BeginsAnew)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Hub, HubWishes};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{self, Receiver, Sender};
    use thalweg_mover::link::{ServerTrust, Ticket, client_config};
    use thalweg_mover::run::client::{Connect, TcpConnect};

    const HANG: Duration = Duration::from_secs(60);

    /// Reaches it once; each further dial is told of, and lasts until the test is over.
    struct Once {
        tcp: TcpConnect,
        was_reached: AtomicBool,
        dials: Mutex<Sender<()>>,
        over: Mutex<Receiver<()>>,
    }

    impl Connect for Once {
        fn connect(&self, deadline: Duration) -> Result<OwnedFd> {
            if !self.was_reached.swap(true, Ordering::AcqRel) {
                return self.tcp.connect(deadline);
            }
            // The test may be over.
            let _ = lock(&self.dials).send(());
            let _ = lock(&self.over).recv();
            Err(Failure::new(FailureKind::Connection, "connect", "nobody answers"))
        }

        fn name(&self) -> String {
            "a test".to_owned()
        }
    }

    #[test]
    fn who_asks_to_stop_while_another_session_is_dialled_does_not_wait_for_the_end_of_the_dial() {
        let scratch = tempfile::tempdir().unwrap();
        let ticket = scratch.path().join("ticket");
        let hub = Hub::start(&HubWishes::new(scratch.path(), &ticket)).unwrap();
        let ticket = Ticket::read(&ticket).unwrap();
        let tls = client_config(&ticket.identity().unwrap(), &ServerTrust::Pinned(ticket.server)).unwrap();
        let (dials, dialled) = mpsc::channel();
        let (over, is_over) = mpsc::channel::<()>();
        let tcp = TcpConnect::new(hub.addresses().iter().map(ToString::to_string).collect());
        let was_reached = AtomicBool::new(false);
        let connect = Once { tcp, was_reached, dials: Mutex::new(dials), over: Mutex::new(is_over) };
        let mover = Arc::new(FarMover::new(Arc::new(connect), tls));
        let client = Arc::new(mover.dial(LinkSettings::default(), event::nobody()).unwrap());
        client.close();
        let far = Far::new(client, Some((mover, LinkSettings::default())));
        let stop: Arc<Stop> = Arc::default();
        let (tell, hear) = mpsc::channel();
        let asked = stop.clone();
        std::thread::spawn(move || {
            let heard = far.hear((true, &*asked), &|_| Question::About, &mut |_, _| Ok(()));
            let _ = tell.send(heard);
        });
        dialled.recv_timeout(HANG).expect("nobody dials");
        stop.stop();
        let ended = hear.recv_timeout(HANG).expect("it waits for the dial");
        assert_eq!(ended.unwrap_err().kind, FailureKind::Stopped);
        drop((over, hub));
    }
}
