//! A transfer inside one process: the same engine without the wire.

use crate::endpoint::{Destination, Source};
use crate::event::Events;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::run::bell::Bell;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::{Did, SendLane, SendRun};
use crate::run::transfer::Transfer;
use crate::run::within::{Heard, NUMBER, Within};
use crate::run::{Ended, LineSink};
use crate::stage::intake::Intake;
use crate::transfer::{receiver, sender};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use thalweg_wire::message::Terms;

/// Streams look for work at least this often, whatever they were told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Both sides of a transfer in this process.
pub struct LocalTransfer {
    /// The sending side.
    pub sender: Arc<SendRun>,
    /// The receiving side.
    pub receiver: Arc<ReceiveRun>,
    within: Within,
}

impl LocalTransfer {
    /// Starts it with `streams` threads that each read, digest, verify and write. With `removed` source files
    /// are removed, and counted there: see [`SendRun::remove_sources`].
    ///
    /// # Errors
    /// If there are no threads or no memory to be had: the destination is closed then.
    pub fn start(
        source: Arc<dyn Source>,
        destination: Arc<dyn Destination>,
        terms: Terms,
        streams: u16,
        events: Events,
        lines: Option<LineSink>,
        removed: Option<Arc<AtomicU64>>,
    ) -> Result<LocalTransfer> {
        let (within, [sending, receiving], [sender_hears, receiver_hears]) = Within::new();
        let limits = sender::Limits::for_path(&terms, Some(Duration::ZERO));
        // Events of entries come from one side only.
        let sender = SendRun::new(NUMBER, source, terms.clone(), limits, sending, events);
        if let Some(lines) = lines {
            sender.tell_lines(lines);
        }
        let receiver = ReceiveRun::start(
            NUMBER,
            destination,
            terms,
            receiver::Limits::default(),
            receiving,
            crate::event::nobody(),
        )?;
        let mut transfer = LocalTransfer { sender, receiver, within };
        let removing = removed.map_or(Ok(()), |removed| transfer.sender.remove_sources(removed));
        let hears = [sender_hears, receiver_hears];
        match removing.and_then(|()| transfer.start_threads(hears, streams)) {
            Ok(()) => Ok(transfer),
            Err(failure) => {
                transfer.close();
                Err(failure)
            }
        }
    }

    fn start_threads(&mut self, [sender_hears, receiver_hears]: [Heard; 2], streams: u16) -> Result<()> {
        let LocalTransfer { sender, receiver, within } = self;
        let (hearing, failing) = (receiver.clone(), receiver.clone());
        within.deliver(receiver_hears, move |message| hearing.hear(message), move |f| failing.fail(f))?;
        let (hearing, aborting) = (sender.clone(), sender.clone());
        within.deliver(sender_hears, move |message| hearing.hear(message), move |f| aborting.abort(f))?;
        for stream in 0..streams.max(1) {
            sender.stream_up(stream);
            let aborting = sender.clone();
            let (sender, receiver) = (sender.clone(), receiver.clone());
            // Made there: what it has in flight belongs to that thread.
            let work = move |bell: &Bell| match sender.lane(stream) {
                Ok(lane) => stream_work(&sender, receiver, lane, bell),
                Err(error) => {
                    let failure = failure::of_memory(failure::START_TRANSFER, &error);
                    sender.abort(failure.because(Reason::NoThreads));
                }
            };
            within.spawn("stream", move |f| aborting.abort(f), work)?;
        }
        sender.start()
    }

    /// Waits for the end, at most so long.
    pub fn wait(&self, at_most: Duration) -> Option<Ended> {
        self.receiver.tick();
        let ended = self.sender.wait(at_most)?;
        self.receiver.wait(Duration::from_secs(5));
        Some(ended)
    }

    /// Ends all threads and closes the destination.
    pub fn close(mut self) {
        self.within.stop();
        if self.sender.ended().is_none() {
            self.sender.abort(Failure::new(FailureKind::Stopped, "copy", "stopped on request"));
        }
        self.sender.stop_removing();
        self.receiver.close();
        self.within.close();
    }
}

fn stream_work(sender: &SendRun, receiver: Arc<ReceiveRun>, mut lane: SendLane, bell: &Bell) {
    let mut intake = Intake::new(receiver, u32::from(lane.stream));
    loop {
        let seen = bell.rings();
        let pause = match sender.work(&mut lane, &mut intake) {
            Ok(Did::Work) => continue,
            Ok(Did::Over) => return,
            Ok(Did::Nothing(pause)) => pause.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN),
            Ok(Did::StandBy) => LOOK_AGAIN,
            Err(error) => {
                sender.abort(failure::of_io("copy", &error));
                return;
            }
        };
        intake.settle();
        if !bell.wait(seen, pause) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::{DestinationPlace, LocalDestination, LocalSource, ScanOptions, SourceRoot};
    use crate::endpoint::synthetic::NoiseSource;
    use crate::endpoint::testing::{HeldUp, Panics};
    use crate::failure::RUN_THREAD;
    use crate::filter::Filter;
    use crate::run::sender::Sources;
    use crate::run::thread::scarce;
    use std::time::Instant;
    use thalweg_wire::message::SourceForm;

    /// Far more than a copy of a few files takes.
    const LIMIT: Duration = Duration::from_secs(60);
    const FILES: NoiseSource = NoiseSource { bytes: 4 << 10, file_bytes: 1 << 10 };

    fn start(source: Arc<dyn Source>, destination: Arc<dyn Destination>) -> Result<LocalTransfer> {
        let terms = Terms::of(4 << 20, 1 << 20);
        LocalTransfer::start(source, destination, terms, 2, crate::event::nobody(), None, None)
    }

    fn end_of(transfer: LocalTransfer) -> Ended {
        let until = Instant::now() + LIMIT;
        let ended = loop {
            match transfer.wait(Duration::from_millis(100)) {
                Some(ended) => break ended,
                None => assert!(Instant::now() < until, "it does not end"),
            }
        };
        transfer.close();
        ended
    }

    #[test]
    fn whichever_thread_panics_the_transfer_ends_with_that() {
        for (panics, thread) in [
            (Panics::Scan, "scan"),
            (Panics::Decide, "decide"),
            (Panics::Sync, "rounds"),
            (Panics::Finish, "names"),
            (Panics::Conclude, "rounds"),
        ] {
            let source: Arc<dyn Source> = match panics {
                Panics::Scan => Arc::new(panics),
                _ => Arc::new(FILES),
            };
            let transfer = start(source, Arc::new(HeldUp::new(panics))).unwrap();
            let Ended::Failed(failure) = end_of(transfer) else { panic!("{panics:?} costs nothing") };
            assert_eq!((failure.kind, &*failure.operation), (FailureKind::Internal, RUN_THREAD), "{failure}");
            assert!(failure.cause.contains(&format!("`{thread}` panicked")), "{panics:?}: {failure}");
        }
    }

    /// A destination that does not come to its first sync has nothing durable.
    #[test]
    fn no_source_file_goes_before_it_is_durable_and_afterwards_all_do() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        let names = ["a", "b", "c"];
        names.iter().for_each(|name| std::fs::write(from.join(name), name).unwrap());
        let source = || -> Arc<dyn Source> {
            let root = SourceRoot { path: from.clone(), contents: true, below: None };
            let options = ScanOptions {
                filter: Filter::default(),
                only: Vec::new(),
                preserve: Default::default(),
                one_file_system: false,
                follow_links: false,
                part: None,
                direct: Default::default(),
            };
            Arc::new(LocalSource::open(vec![root], options).unwrap())
        };
        let left = || std::fs::read_dir(&from).unwrap().count();
        let terms = Terms { removes_source: true, ..Terms::of(4 << 20, 1 << 20) };
        let removed = Arc::new(AtomicU64::new(0));
        let start = |destination: Arc<dyn Destination>| {
            let (terms, events, removed) = (terms.clone(), crate::event::nobody(), Some(removed.clone()));
            LocalTransfer::start(source(), destination, terms, 2, events, None, removed)
        };
        let transfer = start(Arc::new(HeldUp::new(Panics::Sync))).unwrap();
        let sender = transfer.sender.clone();
        assert!(matches!(end_of(transfer), Ended::Failed(_)));
        // Nor when it is over.
        assert_eq!((sender.finish_removing(&|| false), left()), (Sources::default(), names.len()));

        let place = DestinationPlace { path: to.clone(), below: None };
        let filter = Filter::default();
        let opened = LocalDestination::open(place, &SourceForm::Many, true, terms.clone(), None, filter);
        let transfer = start(Arc::new(opened.unwrap())).unwrap();
        let until = Instant::now() + LIMIT;
        while transfer.wait(Duration::from_millis(100)).is_none() {
            assert!(Instant::now() < until, "it does not end");
        }
        let all = Sources { removed: names.len() as u64, ..Sources::default() };
        assert_eq!(transfer.sender.finish_removing(&|| false), all);
        transfer.close();
        assert_eq!(left(), 0);
        for name in names {
            assert_eq!(std::fs::read(to.join(name)).unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn what_finds_too_few_threads_leaves_none_and_its_destination_to_whoever_comes_next() {
        let scratch = tempfile::tempdir().unwrap();
        let destination = || -> Arc<dyn Destination> {
            let place = DestinationPlace { path: scratch.path().join("to"), below: None };
            let (terms, filter) = (Terms::of(4 << 20, 1 << 20), Filter::new(Vec::new()).unwrap());
            let opened = LocalDestination::open(place, &SourceForm::Many, true, terms, None, filter);
            Arc::new(opened.unwrap_or_else(|failure| panic!("it is still taken: {failure}")))
        };
        let mut too_few = 0;
        let transfer = loop {
            let destination = destination();
            let started = scarce::only(too_few, || start(Arc::new(FILES), destination.clone()));
            match started {
                Ok(transfer) => break transfer,
                Err(failure) => assert_eq!(failure.operation, failure::START_THREAD, "{failure}"),
            }
            assert_eq!(Arc::strong_count(&destination), 1, "something of it runs on, of {too_few} threads");
            too_few += 1;
        };
        // Three that receive, two for messages, two streams, the scan.
        assert_eq!(too_few, 8);
        assert!(matches!(end_of(transfer), Ended::Finished(totals) if totals.done == 4));
    }
}
