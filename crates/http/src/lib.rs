//! What sends requests over HTTP, for all that ask services which are not ours: stores of objects, identity providers.
//!
//! 1. [`Authorities`] are read: those of the system, or those of one file alone.
//! 2. [`agent`] makes what sends, for what is wished of it. Each goes by the proxies of the environment (`ALL_PROXY`,
//!    `HTTPS_PROXY`, `NO_PROXY`), says who asks, and takes what is answered as it is stored.
//!
//! No agent follows a redirect: nobody leads us somewhere else than where the user or the operator said. Each wait has
//! an end: [`Limits`].
//!
//! Not here: what is asked, what becomes of an error, and whether anything is asked again.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use url::{Host, Url};

/// What fails where certificates of authorities are read.
const READ_CERTIFICATES: &str = "read the certificates of authorities";

/// Who is believed where they say whose a certificate is.
#[derive(Debug, Clone)]
pub struct Authorities(Vec<Certificate<'static>>);

impl Authorities {
    /// Those of the system, or those that `SSL_CERT_FILE` names. That there are none is told at the first handshake.
    pub fn of_system() -> Authorities {
        Authorities::of(&rustls_native_certs::load_native_certs())
    }

    /// Those in this PEM file, and no others.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, or has no certificate in it.
    pub fn of_file(path: &Path) -> Result<Authorities> {
        let found = rustls_native_certs::load_certs_from_paths(Some(path), None);
        if found.certs.is_empty() {
            let error = found.errors.first();
            let cause = error.map_or("no certificate is in it".to_owned(), ToString::to_string);
            let failure = Failure::new(FailureKind::Usage, READ_CERTIFICATES, cause);
            return Err(failure::at_path(failure, path));
        }
        Ok(Authorities::of(&found))
    }

    fn of(found: &rustls_native_certs::CertificateResult) -> Authorities {
        let owned = found.certs.iter().map(|authority| Certificate::from_der(authority).to_owned());
        Authorities(owned.collect())
    }
}

/// When a request is given up.
#[derive(Debug, Clone, Copy)]
pub enum Limits {
    /// All of it, answer included, is over in this time: what is asked for is small.
    Whole(Duration),
    /// Each step has a limit, and the whole has none: what is asked for may be large.
    Steps {
        /// In this time a connection is made, TLS included.
        connect: Duration,
        /// In this time an answer begins.
        answer: Duration,
        /// A connection that moves nothing for so long is given up.
        stall: Duration,
    },
}

/// Connections that are kept for the next request.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// So many at most, in all and to one host.
    pub connections_max: usize,
    /// So long one waits.
    pub age_max: Duration,
}

/// A few, as long as most servers keep theirs.
impl Default for Kept {
    fn default() -> Kept {
        Kept { connections_max: 3, age_max: Duration::from_secs(15) }
    }
}

/// What an agent is to be like.
#[derive(Debug)]
pub struct Wishes {
    /// Whom it believes.
    pub authorities: Authorities,
    /// What is asked is on this machine, which no proxy reaches by that name: none is used.
    pub is_near: bool,
    /// The form of answers that is asked for, such as `application/json`. `None`: any.
    pub accept: Option<&'static str>,
    /// How long it waits.
    pub limits: Limits,
    /// What it keeps open.
    pub kept: Kept,
}

/// What sends requests: connections are kept and used again. An answer's status is no error.
pub fn agent(wishes: Wishes) -> ureq::Agent {
    let Wishes { authorities: Authorities(authorities), is_near, accept, limits, kept } = wishes;
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::from(authorities))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    let mut config = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("thalweg/", env!("CARGO_PKG_VERSION")))
        // What is stored is to arrive, not what it expands to.
        .accept_encoding("identity")
        .max_idle_connections(kept.connections_max)
        .max_idle_connections_per_host(kept.connections_max)
        .max_idle_age(kept.age_max);
    config = match limits {
        Limits::Whole(limit) => config.timeout_global(Some(limit)),
        Limits::Steps { connect, answer, stall } => config
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(answer))
            .timeout_per_read(Some(stall))
            .timeout_per_write(Some(stall)),
    };
    if let Some(accept) = accept {
        config = config.accept(accept);
    }
    if is_near {
        config = config.proxy(None);
    }
    ureq::Agent::new_with_config(config.build())
}

/// Whether an address is of this machine's loopback, as far as it says so itself: no name is looked up.
pub fn is_loopback(address: &Url) -> bool {
    match address.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::testing::{Answer, Service};

    fn wishes(accept: Option<&'static str>) -> Wishes {
        Wishes {
            authorities: Authorities::of_system(),
            is_near: true,
            accept,
            limits: Limits::Whole(Duration::from_secs(60)),
            kept: Kept::default(),
        }
    }

    #[test]
    fn an_agent_says_who_asks_and_for_what_and_is_led_nowhere_else() {
        let service = Service::start(|asked| match asked.path() {
            "/moved" => Answer::new(302, "").with("location", format!("{}/elsewhere", asked.here)),
            _ => Answer::new(404, ""),
        });
        let agent = agent(wishes(Some("application/json")));
        for (path, status) in [("/moved", 302), ("/none", 404)] {
            let answer = agent.get(service.url(path)).call().expect("an answer");
            assert_eq!(answer.status().as_u16(), status, "{path}");
        }
        let asked = service.asked();
        assert_eq!(asked.iter().map(|asked| asked.path()).collect::<Vec<_>>(), ["/moved", "/none"]);
        let version = concat!("thalweg/", env!("CARGO_PKG_VERSION"));
        for (name, value) in
            [("user-agent", version), ("accept", "application/json"), ("accept-encoding", "identity")]
        {
            assert_eq!(asked[0].headers.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn what_is_wished_is_what_an_agent_has() {
        let second = Duration::from_secs(1);
        let whole = agent(Wishes { limits: Limits::Whole(second), ..wishes(None) });
        let timeouts = whole.config().timeouts();
        assert_eq!((timeouts.global, timeouts.connect), (Some(second), None));
        let steps = Limits::Steps { connect: second, answer: 2 * second, stall: 3 * second };
        let kept = Kept { connections_max: 64, age_max: 4 * second };
        let steps = agent(Wishes { limits: steps, kept, ..wishes(None) });
        let config = steps.config();
        let timeouts = config.timeouts();
        assert_eq!((timeouts.global, timeouts.connect), (None, Some(second)));
        assert_eq!(timeouts.recv_response, Some(2 * second));
        assert_eq!([config.timeout_per_read(), config.timeout_per_write()], [Some(3 * second); 2]);
        assert_eq!([config.max_idle_connections(), config.max_idle_connections_per_host()], [64; 2]);
        assert_eq!((config.max_idle_age(), config.max_redirects()), (4 * second, 0));
        assert!(config.proxy().is_none(), "what is on this machine is asked without one");
    }

    #[test]
    fn the_loopback_is_known_by_what_an_address_says() {
        let is = |text: &str| is_loopback(&Url::parse(text).expect("a URL"));
        for near in ["http://localhost:1/x", "http://127.0.0.2", "https://[::1]:8443/"] {
            assert!(is(near), "{near}");
        }
        for far in ["http://h/", "https://10.0.0.1/", "http://localhost.example.org/", "file:///x"] {
            assert!(!is(far), "{far}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_refused_by_its_name() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (missing, empty) = (scratch.path().join("missing.pem"), scratch.path().join("empty.pem"));
        std::fs::write(&empty, "").expect("a file");
        for path in [missing, empty] {
            let failure = Authorities::of_file(&path).expect_err("it has none");
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.to_string().contains(&path.display().to_string()), "{failure}");
        }
    }
}
