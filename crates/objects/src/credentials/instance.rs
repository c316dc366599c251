//! The machine itself, where it is one of Amazon's: its metadata service (IMDS), version 2.
//!
//! 1. A token. 2. The name of the machine's role. 3. Its credentials.
//!
//! Elsewhere nobody answers, which is found out within two seconds. Where there was a role once, that is an outage.

use super::ask::{Answer, Manner, Question, Trouble, ask};
use super::{Look, Means, answer, failed};
use crate::options::{Written, shown_url};
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_mover::{FailureKind, Result};

const SOURCE: &str = "the machine's metadata";

const SERVICE: &str = "http://169.254.169.254";
const SERVICE_V6: &str = "http://[fd00:ec2::254]";

/// How long a token may be used, in seconds: the longest time that the service gives.
const TOKEN_SECONDS: &str = "21600";

const ROLES: &str = "latest/meta-data/iam/security-credentials/";

const MANNER: Manner =
    Manner { patience: Duration::from_secs(1), tries: 2, pause: Duration::ZERO, by_proxy: false };

/// What the machine may do by its role, if it is one that has any.
pub(super) fn look(means: &Means) -> Result<Look> {
    const DISABLED: &str = "AWS_EC2_METADATA_DISABLED";
    const MODE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";
    let variable = |name| means.surroundings.variable(name);
    if variable(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(Look::Nothing(format!("{SOURCE} is not asked, since {DISABLED} is set")));
    }
    let service = || {
        let is_v6 = variable(MODE).is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let text = if is_v6 { SERVICE_V6 } else { SERVICE };
        Written { place: SOURCE.to_owned(), text: text.to_owned() }
    };
    let written = Written::of_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", &means.surroundings);
    let url = written.unwrap_or_else(service).endpoint()?;
    let source = format!("{SOURCE}, {}", shown_url(&url));
    let base = url.as_str().trim_end_matches('/');
    let refusal = |answer: &Answer| {
        let kind = if answer.status >= 500 { FailureKind::Connection } else { FailureKind::Permission };
        failed(kind, &source, format!("it answers with {}", answer.status))
    };
    let unanswered = |trouble: Trouble| failed(trouble.kind, &source, trouble.why);

    let had_role = means.has_role.load(Ordering::Relaxed);
    let seconds = [("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS)];
    let token = match ask(means, &MANNER, &format!("{base}/latest/api/token"), &seconds, Question::Put) {
        Ok(answer) if answer.status == 200 => answer.body.trim().to_owned(),
        Ok(answer) if had_role => return Err(refusal(&answer)),
        Err(trouble) if had_role => return Err(failed(FailureKind::Connection, &source, trouble.why)),
        // Whoever answers there is no metadata service.
        Ok(answer) => {
            let finding = format!("{source}: it gives no token and answers with {}", answer.status);
            return Ok(Look::Nothing(finding));
        }
        Err(trouble) => return Ok(Look::Nothing(format!("{source}: {}", trouble.why))),
    };
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(failed(FailureKind::Protocol, &source, "its token has characters that none has"));
    }
    let headers = [("X-aws-ec2-metadata-token", &*token)];
    let get = |path: &str| {
        ask(means, &MANNER, &format!("{base}/{path}"), &headers, Question::Get).map_err(unanswered)
    };

    let roles = get(ROLES)?;
    let role = match roles.status {
        200 => roles.body.lines().next().unwrap_or_default().trim(),
        404 => "",
        _ => return Err(refusal(&roles)),
    };
    if role.is_empty() {
        return Ok(Look::Nothing(format!("{source}: the machine has no role")));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    if !role.chars().all(is_name) {
        let cause = "the name of its role has characters that none has";
        return Err(failed(FailureKind::Protocol, &source, cause));
    }
    let answer = get(&format!("{ROLES}{role}"))?;
    match answer.status {
        200 => {
            let found = answer::read(&source, &answer.body, false)?;
            means.has_role.store(true, Ordering::Relaxed);
            Ok(Look::Found(found))
        }
        _ => Err(refusal(&answer)),
    }
}
