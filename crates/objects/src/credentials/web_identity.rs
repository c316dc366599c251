//! A token that a platform puts into a file, and what a token service (STS) gives for it.
//!
//! The file is read anew for each renewal: the platform puts new tokens there. The request is not signed.

use super::ask::{Answer, Manner, Question, ask};
use super::{Found, Look, Means, answer, failed, file};
use crate::options::{Written, domain_of, shown_file, shown_url};
use std::path::Path;
use std::time::Duration;
use thalweg_mover::{Failure, FailureKind, Result};

/// The longest token that is read: services take 20,000 characters.
const TOKEN_BYTES_MAX: usize = 32 << 10;

const MANNER: Manner =
    Manner { patience: Duration::from_secs(10), tries: 3, pause: Duration::from_secs(1), by_proxy: true };

/// The token of the environment.
pub(super) fn look(means: &Means) -> Result<Look> {
    const FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
    const ROLE: &str = "AWS_ROLE_ARN";
    let variable = |name| means.surroundings.variable(name);
    let Some(path) = variable(FILE) else { return Ok(Look::Nothing(format!("{FILE} is not set"))) };
    let Some(role) = variable(ROLE) else {
        return Err(failed(FailureKind::Usage, SOURCE, format!("{FILE} is set, and {ROLE} is not")));
    };
    let session = variable("AWS_ROLE_SESSION_NAME");
    assume(means, SOURCE, &role, &means.surroundings.path(&path), session.as_deref()).map(Look::Found)
}

const SOURCE: &str = "web identity";

/// What the token service gives for the token in a file.
///
/// # Errors
/// Of the file, of the connection, and `Permission` with the service's words where it refuses.
pub(super) fn assume(
    means: &Means,
    source: &str,
    role: &str,
    path: &Path,
    session: Option<&str>,
) -> Result<Found> {
    let in_file = format!("{source}, `{}`", shown_file(path));
    let token = file::text(path, TOKEN_BYTES_MAX)?;
    let token = token.ok_or_else(|| failed(FailureKind::NotFound, &in_file, "there is no such file"))?;
    let token = token.trim();
    if token.is_empty() {
        return Err(failed(FailureKind::Usage, &in_file, "the file is empty"));
    }
    let endpoint = Written::of_variable("AWS_ENDPOINT_URL_STS", &means.surroundings).unwrap_or_else(|| {
        let text = format!("https://sts.{}.{}", means.region, domain_of(&means.region));
        Written { place: "the token service of the region".to_owned(), text }
    });
    let url = endpoint.endpoint()?;
    let form = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session.unwrap_or("thalweg")),
        ("WebIdentityToken", token),
    ];
    let source = format!("{source}, {}", shown_url(&url));
    let asked = ask(means, &MANNER, url.as_str(), &[("Accept", "text/xml")], Question::Form(&form));
    let answer = asked.map_err(|trouble| failed(trouble.kind, &source, trouble.why))?;
    if answer.status != 200 {
        return Err(refusal(&source, &answer, token));
    }
    let field = |name: &str| {
        let missing = || failed(FailureKind::Protocol, &source, format!("the answer has no `{name}`"));
        element(&answer.body, name).ok_or_else(missing)
    };
    let until = answer::parse_time(&field("Expiration")?)
        .ok_or_else(|| failed(FailureKind::Protocol, &source, "its `Expiration` is no time"))?;
    let (key, secret) = (field("AccessKeyId")?, field("SecretAccessKey")?);
    Found::new(&source, &key, &secret, Some(&*field("SessionToken")?), Some(until))
}

/// What the service says, unless it says our token.
fn refusal(source: &str, answer: &Answer, token: &str) -> Failure {
    let kind = if answer.status >= 500 { FailureKind::Connection } else { FailureKind::Permission };
    let words = ["Code", "Message"].iter().filter_map(|name| element(&answer.body, name));
    let words = words.filter(|words| !words.contains(token)).map(|words| answer::shown(&words));
    let words: Vec<String> = words.collect();
    let said = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    failed(kind, source, format!("it answers with {}{said}", answer.status))
}

/// The text of the first element of this name, which has no attributes and no elements in it.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = behind.split_once(&format!("</{name}>"))?;
    // The ampersand last: what it stands for is no entity.
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    let mut text = text.trim().to_owned();
    for (entity, character) in entities {
        text = text.replace(entity, character);
    }
    Some(text)
}
