//! The platform of a container: it names where to ask, and with which token.

use super::ask::{Manner, Question, ask};
use super::{Look, Means, answer, failed, file};
use crate::options::{shown_file, shown_url};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use thalweg_mover::{FailureKind, Result};
use url::{Host, Url};

const SOURCE: &str = "the container's platform";

/// Who is asked for what is named by a path alone.
const PLATFORM: &str = "http://169.254.170.2";

/// Who may be asked in clear beside this machine itself: the platforms of Amazon, which answer on the same host.
const PLATFORMS_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(169, 254, 170, 2), Ipv4Addr::new(169, 254, 170, 23)];
const PLATFORM_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23);

/// The longest token that is read.
const TOKEN_BYTES_MAX: usize = 32 << 10;

const MANNER: Manner =
    Manner { patience: Duration::from_secs(5), tries: 3, pause: Duration::from_secs(1), by_proxy: false };

/// What the platform gives, where it says that it gives something.
pub(super) fn look(means: &Means) -> Result<Look> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let variable = |name| means.surroundings.variable(name);
    let (name, written) = match (variable(RELATIVE), variable(FULL)) {
        // Else what stands there would be more of the host.
        (Some(path), _) if !path.starts_with('/') => {
            let cause = format!("{RELATIVE} does not begin with a slash");
            return Err(failed(FailureKind::Usage, SOURCE, cause));
        }
        (Some(path), _) => (RELATIVE, format!("{PLATFORM}{path}")),
        (None, Some(full)) => (FULL, full),
        (None, None) => return Ok(Look::Nothing(format!("neither {RELATIVE} nor {FULL} is set"))),
    };
    let url = match Url::parse(&written) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        _ => return Err(failed(FailureKind::Usage, SOURCE, format!("{name} is no URL of http or https"))),
    };
    let source = format!("{SOURCE}, {}", shown_url(&url));
    if url.scheme() == "http" && !may_be_asked_in_clear(&url) {
        let cause = "in clear only this machine and the platforms of Amazon are asked: have https";
        return Err(failed(FailureKind::Usage, &source, cause));
    }
    let token = token(means)?;
    let authorization = token.as_deref().map(|token| ("Authorization", token));
    let accept = [("Accept", "application/json")];
    let headers: Vec<(&str, &str)> = accept.into_iter().chain(authorization).collect();
    let asked = ask(means, &MANNER, url.as_str(), &headers, Question::Get);
    let answer = asked.map_err(|trouble| failed(trouble.kind, &source, trouble.why))?;
    match answer.status {
        200 => answer::read(&source, &answer.body, false).map(Look::Found),
        status => {
            let kind = if status >= 500 { FailureKind::Connection } else { FailureKind::Permission };
            Err(failed(kind, &source, format!("it answers with {status}")))
        }
    }
}

/// What is shown to the platform: the file is read anew each time, since it is renewed.
fn token(means: &Means) -> Result<Option<String>> {
    const FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
    const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
    let (name, token) = match (means.surroundings.variable(FILE), means.surroundings.variable(TOKEN)) {
        (Some(written), _) => {
            let path = means.surroundings.path(&written);
            let missing = || {
                let cause = format!("there is no `{}`, which {FILE} names", shown_file(&path));
                failed(FailureKind::NotFound, SOURCE, cause)
            };
            (FILE, file::text(&path, TOKEN_BYTES_MAX)?.ok_or_else(missing)?.trim().to_owned())
        }
        (None, Some(token)) => (TOKEN, token),
        (None, None) => return Ok(None),
    };
    // A line break in it would begin another header.
    match token.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        true => Ok(Some(token)),
        false => Err(failed(FailureKind::Usage, SOURCE, format!("{name} has characters that no token has"))),
    }
}

fn may_be_asked_in_clear(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback() || PLATFORMS_V4.contains(&address),
        Some(Host::Ipv6(address)) => address.is_loopback() || address == PLATFORM_V6,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_and_the_platforms_of_amazon_are_asked_in_clear() {
        let may = |url: &str| may_be_asked_in_clear(&Url::parse(url).unwrap());
        for url in [
            "http://localhost:1/a",
            "http://127.0.0.1/a",
            "http://127.9.9.9/a",
            "http://[::1]:1/a",
            "http://169.254.170.2/a",
            "http://169.254.170.23/a",
            "http://[fd00:ec2::23]/a",
        ] {
            assert!(may(url), "{url}");
        }
        for url in [
            "http://localhost.example.org/a",
            "http://127.0.0.1.example.org/a",
            "http://169.254.170.2@example.org/a",
            "http://169.254.169.254/a",
            "http://10.0.0.1/a",
            "http://[fd00:ec2::24]/a",
            "http://[::ffff:10.0.0.1]/a",
        ] {
            assert!(!may(url), "{url}");
        }
    }
}
