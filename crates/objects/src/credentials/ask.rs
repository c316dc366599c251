//! Questions to services that give credentials: by HTTP, each with a limit, a few times.

use super::Means;
use std::time::Duration;
use thalweg_mover::FailureKind;
use thalweg_mover::failure::of_io;
use ureq::RequestBuilder;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How a service is asked.
pub(super) struct Manner {
    /// For one question with its answer, from looking up the name on.
    pub(super) patience: Duration,
    /// How often, where it does not answer or says that it cannot at present.
    pub(super) tries: u32,
    /// Before the second try; twice as long before each further one.
    pub(super) pause: Duration,
    /// Whether a proxy may be between: never to what is on this machine or beside it.
    pub(super) by_proxy: bool,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    Get,
    /// Without content.
    Put,
    /// A form, sent by POST.
    Form(&'a [(&'a str, &'a str)]),
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Why there is no answer, without the question: a URL, a header or a form may be a secret.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: FailureKind,
    pub(super) why: String,
}

/// Asks, and gives the first answer that a further try would not change, else the last one. No redirect is followed.
pub(super) fn ask(
    means: &Means,
    manner: &Manner,
    url: &str,
    headers: &[(&str, &str)],
    question: Question<'_>,
) -> Result<Answer, Trouble> {
    let mut pause = manner.pause;
    for _ in 1..manner.tries {
        match ask_once(means, manner, url, headers, question) {
            Ok(answer) if !is_passing(answer.status) => return Ok(answer),
            Err(error) if !is_passing_error(&error) => return Err(trouble(&error, manner)),
            Ok(_) | Err(_) => (means.surroundings.pause)(pause),
        }
        pause = pause.saturating_mul(2);
    }
    ask_once(means, manner, url, headers, question).map_err(|error| trouble(&error, manner))
}

fn ask_once(
    means: &Means,
    manner: &Manner,
    url: &str,
    headers: &[(&str, &str)],
    question: Question<'_>,
) -> Result<Answer, ureq::Error> {
    let agent = &means.agent;
    let response = match question {
        Question::Get => prepare(agent.get(url), manner, headers).call()?,
        Question::Put => prepare(agent.put(url), manner, headers).send_empty()?,
        Question::Form(pairs) => {
            prepare(agent.post(url), manner, headers).send_form(pairs.iter().copied())?
        }
    };
    let status = response.status().as_u16();
    let body = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_string()?;
    Ok(Answer { status, body })
}

fn prepare<Any>(
    request: RequestBuilder<Any>,
    manner: &Manner,
    headers: &[(&str, &str)],
) -> RequestBuilder<Any> {
    let config = request.config().http_status_as_error(false).timeout_global(Some(manner.patience));
    let config = config.max_redirects(0).max_redirects_will_error(false);
    let request = if manner.by_proxy { config.build() } else { config.proxy(None).build() };
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// Whether a service that answers so may answer otherwise in a moment.
fn is_passing(status: u16) -> bool {
    status == 429 || status >= 500
}

fn is_passing_error(error: &ureq::Error) -> bool {
    use ureq::Error as E;
    matches!(error, E::Io(_) | E::Timeout(_) | E::HostNotFound | E::ConnectionFailed | E::Protocol(_))
}

fn trouble(error: &ureq::Error, manner: &Manner) -> Trouble {
    use ureq::Error as E;
    let connection = |why: String| Trouble { kind: FailureKind::Connection, why };
    match error {
        E::Io(error) => {
            let failure = of_io("ask", error);
            Trouble { kind: failure.kind, why: failure.cause }
        }
        E::Timeout(_) => connection(format!("no answer within {} s", manner.patience.as_secs())),
        E::BodyExceedsLimit(_) => Trouble {
            kind: FailureKind::Protocol,
            why: format!("the answer has more than {ANSWER_BYTES_MAX} bytes"),
        },
        // These have the question in their words.
        E::Http(_) | E::BadUri(_) | E::RequireHttpsOnly(_) => {
            Trouble { kind: FailureKind::Usage, why: "it cannot be asked so".to_owned() }
        }
        E::ConnectProxyFailed(_) => connection("the proxy does not connect".to_owned()),
        other => connection(other.to_string()),
    }
}
