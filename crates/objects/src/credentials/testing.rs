//! Homes and clocks of tests' own.

use crate::options::{Options, Surroundings};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use thalweg_mover::mutex::lock;

/// A home directory with an environment and a clock, both of which may be changed while they are used.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    environment: Arc<Mutex<BTreeMap<String, String>>>,
    clock: Arc<Mutex<SystemTime>>,
}

impl Home {
    /// An empty one, at no machine of Amazon's.
    pub(crate) fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".aws")).unwrap();
        let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let mut home = Home { directory, environment: Arc::default(), clock: Arc::new(Mutex::new(clock)) };
        home.set("AWS_EC2_METADATA_DISABLED", "true");
        home
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        lock(&self.environment).insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        lock(&self.environment).remove(name);
    }

    /// Writes a file of `.aws`.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(".aws").join(name), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn advance(&self, by: Duration) {
        *lock(&self.clock) += by;
    }

    /// Waiting takes no time but by the clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let (environment, clock) = (Arc::clone(&self.environment), Arc::clone(&self.clock));
        let waiting = Arc::clone(&self.clock);
        Surroundings {
            env: Arc::new(move |name: &str| lock(&environment).get(name).cloned()),
            home: Some(self.directory.path().to_owned()),
            now: Arc::new(move || *lock(&clock)),
            pause: Arc::new(move |time| *lock(&waiting) += time),
            end_pauses: Arc::new(|| {}),
            patience: Duration::from_secs(600),
            seed: 1,
        }
    }

    /// The chain, for these options.
    pub(crate) fn credentials(&self, options: &Options) -> super::Credentials {
        let settled = options.settle("run7", &self.surroundings()).unwrap();
        let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().proxy(None).build());
        super::Credentials::of(&settled, self.surroundings(), agent)
    }
}
