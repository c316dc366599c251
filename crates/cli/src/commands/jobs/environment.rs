//! Which variables a job goes by when it is resumed. The first time it has all that its user has.
//!
//! Kept are those that say where things are, and the options of this program. Secrets are not, nor what belongs to one
//! login: of those that a command may go by only the names are kept, so that it can be said which are missing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use thalweg_cli::config;
use thalweg_cli::jobs::{Bytes, Variable};

/// Kept as they are.
const KEPT: [&str; 30] = [
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "BEARER_TOKEN_FILE",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "THALWEG_CONFIG",
    "THALWEG_LOG",
    "THALWEG_STATIC",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// Addresses, kept where nobody's password is in them.
const ADDRESSES: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS"];

/// What of an environment is kept, and the names of what is not.
pub fn of(all: impl Iterator<Item = (OsString, OsString)>) -> (Vec<Variable>, Vec<String>) {
    let (mut kept, mut withheld) = (Vec::new(), Vec::new());
    for (name, value) in all {
        let Ok(name) = name.into_string() else { continue };
        if is_kept(&name) && !has_password(&name, &value) {
            kept.push(Variable { name, value: Bytes(value.into_vec()) });
        } else if is_missed(&name) {
            withheld.push(name);
        }
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    withheld.sort_unstable();
    (kept, withheld)
}

/// Gives a command these variables, and of all others that are kept none.
pub fn restore(command: &mut Command, kept: &[Variable]) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_kept) {
            command.env_remove(name);
        }
    }
    command.envs(kept.iter().map(|variable| (&variable.name, OsStr::from_bytes(&variable.value.0))));
}

/// Those of these names that are not in the environment now.
pub fn missing(withheld: &[String]) -> impl Iterator<Item = &str> {
    withheld.iter().map(String::as_str).filter(|name| std::env::var_os(name).is_none())
}

fn is_kept(name: &str) -> bool {
    let is_option = || config::OPTIONS.into_iter().any(|option| config::variable(option) == name);
    KEPT.contains(&name) || ADDRESSES.contains(&name) || (name.starts_with("THALWEG_") && is_option())
}

fn has_password(name: &str, value: &OsStr) -> bool {
    ADDRESSES.contains(&name) && value.as_bytes().contains(&b'@')
}

/// Whether a command may go by it.
fn is_missed(name: &str) -> bool {
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    name.starts_with("AWS_") || is_proxy || matches!(name, "BEARER_TOKEN" | "SSH_AUTH_SOCK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_places_are_kept_and_of_secrets_the_names() {
        let all = [
            ("PATH", "/bin"),
            ("THALWEG_TICKET", "site.ticket"),
            ("THALWEG_JOB", "77"),
            ("THALWEG_CLIENT_LINE", "1"),
            ("AWS_PROFILE", "me"),
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("AWS_ENDPOINT_URL", "https://me:canary@store.example"),
            ("AWS_ENDPOINT_URL_S3", "https://store.example"),
            ("https_proxy", "http://me:canary@proxy.example"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("BEARER_TOKEN", "canary"),
            ("BEARER_TOKEN_FILE", "/run/user/7/token"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("SSL_CERT_FILE", "site.pem"),
            ("SSL_CERT_DIR", "/etc/site"),
            ("API_TOKEN", "canary"),
        ];
        let all = all.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let (kept, withheld) = of(all.into_iter());
        let names: Vec<&str> = kept.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names[..4], ["AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "BEARER_TOKEN_FILE", "PATH"]);
        assert_eq!(names[4..], ["SSL_CERT_DIR", "SSL_CERT_FILE", "THALWEG_TICKET", "XDG_RUNTIME_DIR"]);
        assert!(kept.iter().all(|variable| !variable.value.0.ends_with(b"canary")));
        assert_eq!(withheld[..2], ["AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY"]);
        assert_eq!(withheld[2..], ["BEARER_TOKEN", "SSH_AUTH_SOCK", "https_proxy"]);
        let none = ["THALWEG_NO_SUCH_VARIABLE_1".to_owned(), "PATH".to_owned()];
        assert_eq!(missing(&none).collect::<Vec<_>>(), ["THALWEG_NO_SUCH_VARIABLE_1"]);
    }
}
