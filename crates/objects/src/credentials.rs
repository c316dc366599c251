//! Who we are to a store.
//!
//! Credentials are looked for in the order of [`SOURCES`], and the first source that is set up decides: where it
//! fails, none behind it is asked. They are renewed [`BEFORE_END`] by whoever needs them, one at a time, while all
//! others go on with the old ones; so does everybody while a renewal fails and the old ones still hold.
//!
//! Every look has an end: a program is killed after [`process::PATIENCE`], a service is asked a few times with a limit
//! each. Secrets are in no error, no log and no `Debug`.

// Files of the AWS configuration: their form.
mod ini;

// Files: read whole, with a bound.
mod file;

// What sources answer: JSON, times, keys.
mod answer;

// Questions to services.
mod ask;

// 2. A profile of the AWS configuration.
mod profile;

// A command that prints credentials.
mod process;

// 3. A token that a platform puts into a file, and what a token service gives for it.
mod web_identity;

// 4. The platform of a container.
mod container;

// 5. The machine itself, at Amazon.
mod instance;

#[cfg(test)]
pub(crate) mod testing;

pub use profile::Profile;

use crate::options::{Settled, Surroundings};
use answer::Found;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};

/// How long before their end credentials are renewed; half of what they hold where that is less, so that those that
/// never hold so long are not renewed at each request.
const BEFORE_END: Duration = Duration::from_secs(5 * 60);

/// How long a look that failed is not repeated: many threads need credentials, and each would ask.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The longest that one source may say of what it does not have, in characters: five of them fit a failure.
const FINDING_CHARS_MAX: usize = 250;

/// The credentials for one store, used by many threads.
pub struct Credentials {
    anonymous: bool,
    means: Means,
    state: Mutex<State>,
    /// Held by who renews.
    renewing: Mutex<()>,
}

impl Credentials {
    /// Those of a store. Nothing is looked for before they are needed. `agent` asks what is asked by HTTP.
    pub fn of(settled: &Settled, surroundings: Surroundings, agent: ureq::Agent) -> Credentials {
        let (profile, region) = (settled.profile.clone(), settled.region.clone());
        Credentials {
            anonymous: settled.anonymous,
            means: Means { profile, region, surroundings, agent, has_role: AtomicBool::new(false) },
            state: Mutex::default(),
            renewing: Mutex::default(),
        }
    }

    /// Those that hold now; `None` for anonymous. Renews them where they end soon, which may take a minute; waits for
    /// who renews them already if there are none until then.
    ///
    /// # Errors
    /// `Permission` where no source has any, naming each with what was found there, and where a source refuses;
    /// `Usage` and `Unsupported` for a source that is set up wrong, or in a way that is not supported; `Connection` for
    /// one that does not answer. For ten seconds the same one again.
    pub fn now(&self) -> Result<Option<Arc<rusty_s3::Credentials>>> {
        if self.anonymous {
            return Ok(None);
        }
        if let Some(known) = lock(&self.state).known(self.time()) {
            return known.map(Some);
        }
        let _one = match self.renewing.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if let Some(old) = lock(&self.state).holding(self.time()) {
                    return Ok(Some(old));
                }
                self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        // Somebody may have renewed them, or failed to, until we had the turn.
        if let Some(known) = lock(&self.state).known(self.time()) {
            return known.map(Some);
        }
        let looked = look(&self.means);
        let now = self.time();
        let mut state = lock(&self.state);
        let looked = looked.and_then(|(found, source)| state.take(found, source, now));
        if let Err(failure) = looked {
            state.failed = Some((now, failure.clone()));
            let Some(old) = state.holding(now) else { return Err(failure) };
            tracing::warn!(%failure, "credentials are not renewed; the old ones still hold");
            return Ok(Some(old));
        }
        state.failed = None;
        Ok(state.holding(now))
    }

    /// The store called these expired: what is fetched anew at the next call, unless somebody did already.
    pub fn refuse(&self, these: &Arc<rusty_s3::Credentials>) {
        let mut state = lock(&self.state);
        if state.held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.credentials, these)) {
            state.held = None;
            state.refused = Some(Arc::clone(these));
            state.failed = None;
        }
    }

    fn time(&self) -> SystemTime {
        (self.means.surroundings.now)()
    }
}

/// What is held is not shown.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("anonymous", &self.anonymous).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// What the store called expired.
    refused: Option<Arc<rusty_s3::Credentials>>,
    /// When a look failed last, if none went well since.
    failed: Option<(SystemTime, Failure)>,
}

struct Held {
    credentials: Arc<rusty_s3::Credentials>,
    renew_at: Option<SystemTime>,
    until: Option<SystemTime>,
}

impl State {
    /// What needs no look: credentials that are not to be renewed yet, or what the last look came to a moment ago.
    fn known(&self, now: SystemTime) -> Option<Result<Arc<rusty_s3::Credentials>>> {
        let held = self.held.as_ref().filter(|held| is_before(now, held.until));
        if let Some(held) = held.filter(|held| is_before(now, held.renew_at)) {
            return Some(Ok(Arc::clone(&held.credentials)));
        }
        // A clock that was put back says nothing of a moment ago.
        let is_recent = |at: &SystemTime| now.duration_since(*at).is_ok_and(|since| since < TRY_AGAIN);
        let (_, failure) = self.failed.as_ref().filter(|(at, _)| is_recent(at))?;
        Some(held.map(|held| Arc::clone(&held.credentials)).ok_or_else(|| failure.clone()))
    }

    /// Credentials that hold, also if they are to be renewed.
    fn holding(&self, now: SystemTime) -> Option<Arc<rusty_s3::Credentials>> {
        let held = self.held.as_ref().filter(|held| is_before(now, held.until))?;
        Some(Arc::clone(&held.credentials))
    }

    /// Takes what was found, unless it is of no use.
    fn take(&mut self, found: Found, source: &'static str, now: SystemTime) -> Result<()> {
        if self.refused.as_ref().is_some_and(|refused| **refused == found.credentials) {
            let cause = "the store calls these credentials expired, and there are no others yet";
            return Err(failed(FailureKind::Permission, source, cause));
        }
        if !is_before(now, found.until) {
            let cause = "the credentials have ended by this machine's clock: get new ones, or set it";
            return Err(failed(FailureKind::Permission, source, cause));
        }
        let renew_at = found.until.map(|until| {
            let left = until.duration_since(now).unwrap_or_default();
            until.checked_sub(BEFORE_END.min(left / 2)).unwrap_or(until)
        });
        let credentials = Arc::new(found.credentials);
        self.held = Some(Held { credentials, renew_at, until: found.until });
        self.refused = None;
        Ok(())
    }
}

/// Whether that is still to come; what has no end is.
fn is_before(now: SystemTime, end: Option<SystemTime>) -> bool {
    end.is_none_or(|end| now < end)
}

/// What sources are asked with.
struct Means {
    profile: Profile,
    region: String,
    surroundings: Surroundings,
    agent: ureq::Agent,
    /// The machine had a role: that it does not answer is no sign that it has none.
    has_role: AtomicBool,
}

/// What a source has.
enum Look {
    Found(Found),
    /// It is not set up: what was looked for, in a few words.
    Nothing(String),
}

/// Looks in one place.
type Looking = fn(&Means) -> Result<Look>;

/// Where credentials are looked for, in this order.
const SOURCES: [(&str, Looking); 5] = [
    ("the environment", look_at_environment),
    ("the profile", profile::look),
    ("web identity", web_identity::look),
    ("the container's platform", container::look),
    ("the machine at Amazon", instance::look),
];

/// Asks one source after another. With what was found comes the name of its source.
fn look(means: &Means) -> Result<(Found, &'static str)> {
    let mut findings = Vec::new();
    for (source, look) in SOURCES {
        match look(means)? {
            Look::Found(found) => return Ok((found, source)),
            Look::Nothing(finding) => {
                findings.push(finding.chars().take(FINDING_CHARS_MAX).collect::<String>());
            }
        }
    }
    let cause = format!(
        "nobody says who you are to the store: {}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name \
         a profile of `~/.aws/config` that has keys; for what everybody may read there is `anonymous`",
        findings.join("; ")
    );
    Err(Failure::new(FailureKind::Permission, GET, cause))
}

/// 1. The environment.
fn look_at_environment(means: &Means) -> Result<Look> {
    const KEY: &str = "AWS_ACCESS_KEY_ID";
    const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
    if means.profile.is_chosen_here() {
        let profile = means.profile.name();
        return Ok(Look::Nothing(format!("keys of the environment are not used, since {profile} was named")));
    }
    let variable = |name| means.surroundings.variable(name);
    let half = |set: &str, unset: &str| {
        failed(FailureKind::Usage, "the environment", format!("{set} is set, and {unset} is not"))
    };
    match (variable(KEY), variable(SECRET)) {
        (Some(key), Some(secret)) => {
            let token = variable("AWS_SESSION_TOKEN");
            Found::new("the environment", &key, &secret, token.as_deref(), None).map(Look::Found)
        }
        (Some(_), None) => Err(half(KEY, SECRET)),
        (None, Some(_)) => Err(half(SECRET, KEY)),
        (None, None) => Ok(Look::Nothing(format!("{KEY} is not set"))),
    }
}

/// What fails where there are no credentials.
const GET: &str = "get credentials for the store";

/// The failure of one source.
fn failed(kind: FailureKind, source: &str, cause: impl fmt::Display) -> Failure {
    Failure::new(kind, GET, format!("{source}: {cause}"))
}

#[cfg(test)]
mod tests;
