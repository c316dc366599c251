use super::*;
use std::sync::mpsc::Sender;

/// Passes on what it hears of syncs.
struct Hub(Mutex<Sender<u64>>);

impl Heard for Hub {
    fn written(&self, _: u64, _: Location, _: &Record) {}

    fn synced(&self, place: u64) {
        let _ = self.0.lock().unwrap().send(place);
    }

    fn wants_sync(&self) -> bool {
        true
    }

    fn trouble(&self, why: &Failure) {
        panic!("{why}");
    }

    fn broken(&self, why: Failure) {
        panic!("{why}");
    }
}

#[test]
fn what_is_durable_does_not_go_back_where_an_older_record_is_written_later() {
    let scratch = tempfile::tempdir().unwrap();
    let place = StorePlace { below: Dir::open(scratch.path()).unwrap(), path: b"scan".to_vec() };
    let store = Arc::new(Store::open(&place).unwrap());
    let (tells, synced) = mpsc::channel();
    let hub: Arc<dyn Heard> = Arc::new(Hub(Mutex::new(tells)));
    let (jobs, thread) = store.start(1 << 20, Arc::downgrade(&hub)).unwrap();
    for (place, wanted) in [(5, 6), (2, 6), (6, 7)] {
        jobs.send(Job::Write(place, Record::Note(Item::End))).unwrap();
        assert_eq!(synced.recv().unwrap(), wanted);
    }
    jobs.send(Job::Stop).unwrap();
    thread.join().unwrap();
}
