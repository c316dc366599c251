//! What is known of a store before it is asked: endpoint, region, style of addresses, profile.
//!
//! Of each, the first one that is there: what the user gave, the environment, the profile, the default. Environment,
//! home directory, clock and waiting come in as [`Surroundings`].

use crate::credentials::Profile;
use crate::location::check_amazon_bucket;
use rusty_s3::UrlStyle;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};
use thalweg_mover::failure::shown_path;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use url::{Host, Url};

/// What a user may say of a store. What is not said is looked for in the environment and in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// URL of the store, `http` or `https`. Default: Amazon's of the region.
    pub endpoint: Option<String>,
    /// Region that requests are signed for. Default: `us-east-1`.
    pub region: Option<String>,
    /// Where the bucket stands in a URL. Default: at Amazon in the host, unless its name has a dot; else in the path.
    pub style: Option<Style>,
    /// Profile in the AWS configuration. Where it is said here, keys in the environment are not used.
    pub profile: Option<String>,
    /// File of certificates (PEM) to trust. Default: those of the system.
    pub ca: Option<PathBuf>,
    /// Whether requests are not signed: for what everybody may read.
    pub anonymous: bool,
}

/// Where the name of a bucket stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `https://HOST/BUCKET/KEY`.
    Path,
    /// `https://BUCKET.HOST/KEY`.
    VirtualHost,
}

/// What a variable of the environment has.
pub type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What surrounds a program, so that tests bring their own.
#[derive(Clone)]
pub struct Surroundings {
    /// A variable of the environment.
    pub env: Arc<Variables>,
    /// Home directory, where `.aws` is.
    pub home: Option<PathBuf>,
    /// The clock.
    pub now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// Waits so long.
    pub pause: Arc<dyn Fn(Duration) + Send + Sync>,
    /// Ends all pauses, also those to come.
    pub end_pauses: Arc<dyn Fn() + Send + Sync>,
    /// How long a store that does not answer is tried again.
    pub patience: Duration,
    /// What chance is made from.
    pub seed: u64,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process(patience: Duration, seed: u64) -> Surroundings {
        let pauses: Arc<Pauses> = Arc::default();
        let ends = pauses.clone();
        Surroundings {
            env: Arc::new(|name: &str| std::env::var(name).ok()),
            home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            now: Arc::new(SystemTime::now),
            pause: Arc::new(move |time| pauses.wait(time)),
            end_pauses: Arc::new(move || ends.end()),
            patience,
            seed,
        }
    }

    /// A variable of the environment, without blanks around it. One without content is not there.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = (self.env)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// A path as people write it: `~/` is the home directory.
    pub(crate) fn path(&self, written: &str) -> PathBuf {
        match (written.strip_prefix("~/"), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(written),
        }
    }
}

/// Pauses that can be ended, all of them.
#[derive(Default)]
struct Pauses {
    are_over: Mutex<bool>,
    end: Condvar,
}

impl Pauses {
    fn wait(&self, time: Duration) {
        drop(self.end.wait_timeout_while(lock(&self.are_over), time, |are_over| !*are_over));
    }

    fn end(&self) {
        *lock(&self.are_over) = true;
        self.end.notify_all();
    }
}

/// The environment may hold secrets: none of it is shown.
impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// Options with everything filled in.
#[derive(Debug, Clone)]
pub struct Settled {
    /// URL of the store, without the bucket.
    pub endpoint: Url,
    /// Whether the store is Amazon's own.
    pub is_amazon: bool,
    /// Region that requests are signed for.
    pub region: String,
    /// Where the name of the bucket stands.
    pub style: UrlStyle,
    /// File of certificates (PEM) to trust in place of the system's.
    pub ca: Option<PathBuf>,
    /// The same for services that give credentials: what the user gave for the store says nothing of them.
    pub services_ca: Option<PathBuf>,
    /// Whether requests are not signed.
    pub anonymous: bool,
    /// What the AWS configuration has of the profile.
    pub profile: Profile,
}

impl Options {
    /// Fills in what is not said, for requests to `bucket`. Reads the files of the AWS configuration, at most 1 MiB of
    /// each.
    ///
    /// # Errors
    /// `Usage` for a value that makes no sense, naming where it stands, and for a file that is none of this kind, with
    /// its line; `NotFound` for a profile that was named and is not there; else what the kernel says of a file.
    pub fn settle(&self, bucket: &str, surroundings: &Surroundings) -> Result<Settled> {
        let profile = Profile::read(self.profile.as_deref(), surroundings)?;
        let region = self.settle_region(&profile, surroundings)?;
        let endpoint = match self.written_endpoint(&profile, surroundings) {
            Some(written) => written.endpoint()?,
            None => written_default(&region).endpoint()?,
        };
        let is_amazon = matches!(endpoint.host(), Some(Host::Domain(host)) if is_amazon(host));
        if is_amazon {
            check_amazon_bucket(bucket)?;
        }
        let style = match self.settle_style(&profile)? {
            Some(Style::Path) => UrlStyle::Path,
            Some(Style::VirtualHost) if !matches!(endpoint.host(), Some(Host::Domain(_))) => {
                let cause = "the store's host is an address, before which no bucket's name can stand: \
                             take style `path`";
                return Err(usage(cause.to_owned()));
            }
            Some(Style::VirtualHost) => UrlStyle::VirtualHost,
            // The certificates of Amazon are for one label before their hosts.
            None if is_amazon && !bucket.contains('.') => UrlStyle::VirtualHost,
            None => UrlStyle::Path,
        };
        let written_ca = || {
            let of_profile = || profile.value("ca_bundle").map(str::to_owned);
            surroundings.variable("AWS_CA_BUNDLE").or_else(of_profile)
        };
        let services_ca = written_ca().map(|written| surroundings.path(&written));
        let ca = self.ca.clone().or_else(|| services_ca.clone());
        let anonymous = self.anonymous;
        Ok(Settled { endpoint, is_amazon, region, style, ca, services_ca, anonymous, profile })
    }

    fn settle_region(&self, profile: &Profile, surroundings: &Surroundings) -> Result<String> {
        let of_environment = || {
            let names = ["AWS_REGION", "AWS_DEFAULT_REGION"];
            names.iter().find_map(|name| Written::of_variable(name, surroundings))
        };
        let written = Written::of_user("the option for the region", self.region.as_deref())
            .or_else(of_environment)
            .or_else(|| Written::of_profile("region", profile));
        match written {
            Some(written) if is_region(&written.text) => Ok(written.text),
            // It is part of a host's name.
            Some(written) => Err(written.refused("a region has letters, digits and dashes")),
            None => Ok(REGION.to_owned()),
        }
    }

    fn written_endpoint(&self, profile: &Profile, surroundings: &Surroundings) -> Option<Written> {
        let given = Written::of_user("the option for the endpoint", self.endpoint.as_deref());
        if given.is_some() {
            return given;
        }
        let ignored = surroundings.variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
        if ignored.is_some_and(|ignored| ignored.eq_ignore_ascii_case("true")) {
            return None;
        }
        ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]
            .iter()
            .find_map(|name| Written::of_variable(name, surroundings))
            .or_else(|| {
                let text = profile.service_endpoint("s3")?.to_owned();
                Some(Written { place: "`endpoint_url` of `services`".to_owned(), text })
            })
            .or_else(|| Written::of_profile("endpoint_url", profile))
    }

    fn settle_style(&self, profile: &Profile) -> Result<Option<Style>> {
        if self.style.is_some() {
            return Ok(self.style);
        }
        let Some(written) = Written::of_profile("s3.addressing_style", profile) else { return Ok(None) };
        match &*written.text {
            "path" => Ok(Some(Style::Path)),
            "virtual" => Ok(Some(Style::VirtualHost)),
            "auto" => Ok(None),
            _ => Err(written.refused("it is one of `path`, `virtual` and `auto`")),
        }
    }
}

/// Where nobody says a region: what all stores but Amazon's take as well.
const REGION: &str = "us-east-1";

/// What Amazon's hosts end with, and those of its partition in China.
const AMAZON: &str = "amazonaws.com";
const AMAZON_CHINA: &str = "amazonaws.com.cn";

/// What the hosts of a region end with.
pub(crate) fn domain_of(region: &str) -> &'static str {
    if region.starts_with("cn-") { AMAZON_CHINA } else { AMAZON }
}

/// Machines and services of customers have names below Amazon's, too: those of its stores say what they are, also
/// those in a network of a customer's own (`vpce`).
fn is_amazon(host: &str) -> bool {
    let is_store = |label: &str| label == "s3" || label.starts_with("s3-");
    [AMAZON, AMAZON_CHINA].iter().any(|domain| {
        let before = host.strip_suffix(domain).and_then(|before| before.strip_suffix('.'));
        before.is_some_and(|before| before.split('.').any(is_store))
    })
}

/// Whether this may stand in the name of a host, and in what is signed. Other stores than Amazon's choose their own.
pub(crate) fn is_region(text: &str) -> bool {
    let may_stand = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=63).contains(&text.len()) && text.chars().all(may_stand)
}

/// A value, and where somebody wrote it.
pub(crate) struct Written {
    pub(crate) place: String,
    pub(crate) text: String,
}

fn written_default(region: &str) -> Written {
    let text = format!("https://s3.{region}.{}", domain_of(region));
    Written { place: "the endpoint of the region".to_owned(), text }
}

impl Written {
    fn of_user(place: &str, text: Option<&str>) -> Option<Written> {
        Some(Written { place: place.to_owned(), text: text?.trim().to_owned() })
    }

    pub(crate) fn of_variable(name: &str, surroundings: &Surroundings) -> Option<Written> {
        Some(Written { place: name.to_owned(), text: surroundings.variable(name)? })
    }

    fn of_profile(name: &str, profile: &Profile) -> Option<Written> {
        let text = profile.value(name)?.to_owned();
        Some(Written { place: format!("`{name}` of {}", profile.name()), text })
    }

    /// As the URL of a store: of `http` or `https`, with a host and without a user.
    pub(crate) fn endpoint(&self) -> Result<Url> {
        // Nothing of it is repeated where there is a password in it.
        let url = match Url::parse(&self.text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            _ if self.text.contains('@') => return Err(self.hidden("it is no URL of a store")),
            _ => return Err(self.refused("it is no URL of a store: write https://HOST[:PORT]")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.hidden("the URL of a store has no user and no password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(self.hidden("the URL of a store ends with its path"));
        }
        Ok(url)
    }

    /// The failure of a value that makes no sense, with the value.
    fn refused(&self, why: &str) -> Failure {
        usage(format!("{}, `{}`: {why}", self.place, shown_path(self.text.as_bytes())))
    }

    /// The same, of a value that may have a secret in it.
    fn hidden(&self, why: &str) -> Failure {
        usage(format!("{}: {why}", self.place))
    }
}

fn usage(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "settle the store", cause)
}

/// A URL in a message: scheme, host and port. What stands behind may be a secret.
pub(crate) fn shown_url(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// A path in a message.
pub(crate) fn shown_file(path: &Path) -> String {
    shown_path(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::testing::Home;

    fn settled(options: &Options, bucket: &str, home: &Home) -> Settled {
        options.settle(bucket, &home.surroundings()).unwrap()
    }

    fn url(settled: &Settled) -> String {
        settled.endpoint.to_string()
    }

    #[test]
    fn without_a_word_of_anybody_the_store_is_amazons() {
        let settled = settled(&Options::default(), "run7", &Home::new());
        assert_eq!(url(&settled), "https://s3.us-east-1.amazonaws.com/");
        assert!(settled.is_amazon && !settled.anonymous && settled.ca.is_none());
        assert_eq!(settled.region, "us-east-1");
        assert!(matches!(settled.style, UrlStyle::VirtualHost));
    }

    #[test]
    fn what_the_user_gave_comes_before_the_environment_and_that_before_the_profile() {
        let mut home = Home::new();
        home.write(
            "config",
            "[default]\nregion = of-profile\nendpoint_url = http://profile:1\nca_bundle = ~/profile.pem\n\
             s3 =\n  addressing_style = virtual\n",
        );
        let of_profile = settled(&Options::default(), "run7", &home);
        assert_eq!((&*of_profile.region, &*url(&of_profile)), ("of-profile", "http://profile:1/"));
        assert_eq!(of_profile.ca, Some(home.path("profile.pem")));
        assert!(matches!(of_profile.style, UrlStyle::VirtualHost));

        home.set("AWS_DEFAULT_REGION", "of-default");
        home.set("AWS_ENDPOINT_URL", "http://all:2");
        home.set("AWS_CA_BUNDLE", "/etc/environment.pem");
        let of_environment = settled(&Options::default(), "run7", &home);
        assert_eq!((&*of_environment.region, &*url(&of_environment)), ("of-default", "http://all:2/"));
        assert_eq!(of_environment.ca, Some(PathBuf::from("/etc/environment.pem")));
        home.set("AWS_REGION", "of-environment");
        home.set("AWS_ENDPOINT_URL_S3", "http://s3:3/a");
        let of_environment = settled(&Options::default(), "run7", &home);
        assert_eq!((&*of_environment.region, &*url(&of_environment)), ("of-environment", "http://s3:3/a"));

        let options = Options {
            endpoint: Some("https://user:4".to_owned()),
            region: Some("of-user".to_owned()),
            style: Some(Style::Path),
            ca: Some(PathBuf::from("user.pem")),
            anonymous: true,
            ..Options::default()
        };
        let of_user = settled(&options, "run7", &home);
        assert_eq!((&*of_user.region, &*url(&of_user)), ("of-user", "https://user:4/"));
        assert_eq!(of_user.ca, Some(PathBuf::from("user.pem")));
        // It is the store's.
        assert_eq!(of_user.services_ca, Some(PathBuf::from("/etc/environment.pem")));
        assert!(of_user.anonymous && !of_user.is_amazon && matches!(of_user.style, UrlStyle::Path));
    }

    #[test]
    fn the_endpoint_of_a_service_comes_before_that_of_all_and_both_may_be_ignored() {
        let mut home = Home::new();
        home.write(
            "config",
            "[default]\nservices = mine\nendpoint_url = http://all\n[services mine]\n\
             ec2 =\n  endpoint_url = http://ec2\ns3 =\n  endpoint_url = http://service\n",
        );
        assert_eq!(url(&settled(&Options::default(), "run7", &home)), "http://service/");
        home.set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True");
        assert!(settled(&Options::default(), "run7", &home).is_amazon);
    }

    #[test]
    fn the_name_of_a_bucket_stands_in_the_host_where_certificates_allow_it() {
        let home = Home::new();
        let style = |endpoint: Option<&str>, bucket: &str| {
            let options = Options { endpoint: endpoint.map(str::to_owned), ..Options::default() };
            settled(&options, bucket, &home).style
        };
        assert!(matches!(style(None, "run7"), UrlStyle::VirtualHost));
        assert!(matches!(style(None, "run.7"), UrlStyle::Path));
        assert!(matches!(style(Some("https://s3.eu-west-1.amazonaws.com"), "run7"), UrlStyle::VirtualHost));
        assert!(matches!(style(Some("https://amazonaws.com.example.org"), "run7"), UrlStyle::Path));
        assert!(matches!(style(Some("https://notamazonaws.com"), "run7"), UrlStyle::Path));
        let machine = "https://ec2-192-0-2-1.eu-west-1.compute.amazonaws.com";
        assert!(matches!(style(Some(machine), "run7"), UrlStyle::Path));
        for store in [
            "https://s3-fips.us-east-1.amazonaws.com",
            "https://s3.dualstack.eu-west-1.amazonaws.com",
            "https://bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com",
        ] {
            assert!(matches!(style(Some(store), "run7"), UrlStyle::VirtualHost), "{store}");
        }
        assert!(matches!(style(Some("http://127.0.0.1:9000"), "run7"), UrlStyle::Path));
        let options = Options {
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            style: Some(Style::VirtualHost),
            ..Options::default()
        };
        let failure = options.settle("run7", &home.surroundings()).unwrap_err();
        assert!(failure.cause.contains("take style `path`"), "{failure}");
    }

    #[test]
    fn a_bucket_is_named_as_its_store_allows_it() {
        let home = Home::new();
        let at = |endpoint: Option<&str>, bucket: &str| {
            let options = Options { endpoint: endpoint.map(str::to_owned), ..Options::default() };
            options.settle(bucket, &home.surroundings())
        };
        for bucket in ["Run7", "run_7", "tenant:run7"] {
            assert!(at(Some("https://store.example.org"), bucket).is_ok(), "{bucket}");
            let failure = at(None, bucket).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
            assert!(failure.cause.contains("lower-case"), "{failure}");
        }
    }

    #[test]
    fn a_region_of_china_has_its_own_hosts() {
        let options = Options { region: Some("cn-north-1".to_owned()), ..Options::default() };
        let settled = settled(&options, "run7", &Home::new());
        assert_eq!(url(&settled), "https://s3.cn-north-1.amazonaws.com.cn/");
        assert!(settled.is_amazon);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_place_and_no_secret() {
        let mut home = Home::new();
        for (name, value, why) in [
            ("AWS_ENDPOINT_URL", "store:9000", "write https://HOST"),
            ("AWS_ENDPOINT_URL", "ftp://store", "write https://HOST"),
            ("AWS_ENDPOINT_URL", "https://u:canary@store", "no user"),
            ("AWS_ENDPOINT_URL", "u:canary@store", "no URL"),
            ("AWS_ENDPOINT_URL", "https://store/?token=canary", "ends with its path"),
            ("AWS_REGION", "eu.evil.org/", "letters, digits"),
        ] {
            home.set(name, value);
            let failure = Options::default().settle("run7", &home.surroundings()).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.cause.contains(name) && failure.cause.contains(why), "{value}: {failure}");
            assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
            home.unset(name);
        }
        home.write("config", "[default]\ns3 =\n addressing_style = dns\n");
        let failure = Options::default().settle("run7", &home.surroundings()).unwrap_err();
        assert!(failure.cause.contains("`s3.addressing_style` of profile `default`"), "{failure}");
    }

    #[test]
    fn a_profile_that_was_named_and_is_not_there_is_no_empty_one() {
        let mut home = Home::new();
        home.write("config", "[default]\nregion = a\n[profile b]\nregion = b\n");
        let options = Options { profile: Some("b".to_owned()), ..Options::default() };
        assert_eq!(settled(&options, "run7", &home).region, "b");
        home.set("AWS_PROFILE", "c");
        let failure = Options::default().settle("run7", &home.surroundings()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert!(failure.cause.contains("profile `c`") && failure.cause.contains("config"), "{failure}");
        // What the user gave comes first.
        assert_eq!(settled(&options, "run7", &home).region, "b");
    }

    #[test]
    fn surroundings_and_what_is_settled_show_no_secret() {
        let mut home = Home::new();
        home.set("AWS_SECRET_ACCESS_KEY", "canary");
        home.write("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = canary\n");
        let shown = format!("{:?} {:?}", home.surroundings(), settled(&Options::default(), "run7", &home));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
