//! What the AWS configuration has of one profile.

use super::ini::{self, Sections, Values};
use super::{Found, Look, Means, failed, file, process, web_identity};
use crate::options::{Surroundings, shown_file};
use std::fmt;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{at_path, shown_path};
use thalweg_mover::{Failure, FailureKind, Result};

/// The longest file of the AWS configuration that is read.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What the AWS configuration (`~/.aws/config`, `~/.aws/credentials`) has of one profile, and where that was read.
#[derive(Clone)]
pub struct Profile {
    written_name: String,
    chosen: Chosen,
    files: Files,
    values: Values,
    /// The section that its `services` names.
    services: Values,
    is_there: bool,
}

/// Who says which profile it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    /// The user, of this place.
    Here,
    /// The environment, of all.
    Environment,
    /// Nobody.
    Default,
}

#[derive(Clone)]
struct Files {
    config: Option<PathBuf>,
    credentials: Option<PathBuf>,
}

impl Profile {
    /// Reads the `given` profile, or the one of the environment, or the default one.
    ///
    /// # Errors
    /// `NotFound` if one was named and is not there; `Usage` for a file that is none of this kind, with its line; else
    /// what the kernel says.
    pub(crate) fn read(given: Option<&str>, surroundings: &Surroundings) -> Result<Profile> {
        let given = given.map(|given| (given.trim().to_owned(), Chosen::Here));
        let (written_name, chosen) = given
            .or_else(|| Some((surroundings.variable("AWS_PROFILE")?, Chosen::Environment)))
            .unwrap_or_else(|| ("default".to_owned(), Chosen::Default));
        let file = |variable: &str, name: &str| match surroundings.variable(variable) {
            Some(written) => Some(surroundings.path(&written)),
            None => surroundings.home.as_ref().map(|home| home.join(".aws").join(name)),
        };
        let files = Files {
            config: file("AWS_CONFIG_FILE", "config"),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        };
        let (values, services, is_there) = (Values::new(), Values::new(), false);
        Profile { written_name, chosen, files, values, services, is_there }.again()
    }

    /// The same profile, as its files have it now.
    ///
    /// # Errors
    /// As [`Profile::read`].
    pub(super) fn again(&self) -> Result<Profile> {
        let config = self.files.config.as_deref().map_or_else(|| Ok(Sections::new()), read_file)?;
        let credentials = self.files.credentials.as_deref().map_or_else(|| Ok(Sections::new()), read_file)?;
        let name = &self.written_name;
        let of_config = [(name == "default").then(|| name.clone()), Some(format!("profile {name}"))];
        let of_config = of_config.iter().flatten().filter_map(|section| config.get(section));
        let of_credentials = credentials.get(name);
        let mut is_there = of_credentials.is_some();
        let mut values = Values::new();
        for section in of_config {
            is_there = true;
            values.extend(section.clone());
        }
        if let Some(section) = of_credentials {
            // Keys of one file do not go with a token of the other.
            if section.contains_key(KEY) {
                values.remove(SECRET);
                values.remove(TOKEN);
            }
            values.extend(section.clone());
        }
        let services = values.get("services").map(|services| format!("services {services}"));
        let services = services.and_then(|section| config.get(&section)).cloned().unwrap_or_default();
        let profile = Profile { values, services, is_there, ..self.clone() };
        match is_there || self.chosen == Chosen::Default {
            true => Ok(profile),
            false => Err(Failure::new(FailureKind::NotFound, "read the profile", profile.absence())),
        }
    }

    /// What it is called in a message.
    pub(crate) fn name(&self) -> String {
        format!("profile `{}`", shown_path(self.written_name.as_bytes()))
    }

    /// What it has under this name, if anything; `OUTER.NAME` where it stands below another name.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The `endpoint_url` that its `services` have for one of them.
    pub(crate) fn service_endpoint(&self, service: &str) -> Option<&str> {
        let endpoint = self.services.get(&format!("{service}.endpoint_url"))?;
        (!endpoint.is_empty()).then_some(endpoint)
    }

    /// Whether the user named it for this place, so that keys of the environment are somebody else's.
    pub(super) fn is_chosen_here(&self) -> bool {
        self.chosen == Chosen::Here
    }

    /// That it is nowhere, in words.
    fn absence(&self) -> String {
        let files = [&self.files.config, &self.files.credentials].into_iter().flatten();
        let files: Vec<String> = files.map(|file| format!("`{}`", shown_file(file))).collect();
        match files.is_empty() {
            true => format!("{}: there is no home directory to look for it", self.name()),
            false => format!("{} is not in {}", self.name(), files.join(" or ")),
        }
    }
}

/// Names and values of a profile may be secrets: only what it is called is shown.
impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("name", &self.written_name).finish_non_exhaustive()
    }
}

const KEY: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";
const TOKEN: &str = "aws_session_token";

/// What the AWS tools sign in by themselves with.
const SIGN_INS: [&str; 6] =
    ["role_arn", "sso_session", "sso_start_url", "sso_account_id", "sso_role_name", "login_session"];

/// Keys that stand in the profile, those that its command prints, or those for its token.
pub(super) fn look(means: &Means) -> Result<Look> {
    let profile = means.profile.again()?;
    let source = profile.name();
    if !profile.is_there {
        return Ok(Look::Nothing(profile.absence()));
    }
    if let (Some(role), Some(path)) = (profile.value("role_arn"), profile.value("web_identity_token_file")) {
        let path = means.surroundings.path(path);
        let session = profile.value("role_session_name");
        return web_identity::assume(means, &source, role, &path, session).map(Look::Found);
    }
    if let Some(name) = SIGN_INS.iter().find(|name| profile.value(name).is_some()) {
        let shown = shown_path(profile.written_name.as_bytes());
        let cause = format!(
            "it signs in by `{name}`, which the AWS tools do: have another profile with \
             `credential_process = aws configure export-credentials --profile {shown} --format process`, \
             and name that one"
        );
        return Err(failed(FailureKind::Unsupported, &source, cause));
    }
    match (profile.value(KEY), profile.value(SECRET)) {
        (Some(key), Some(secret)) => {
            Found::new(&source, key, secret, profile.value(TOKEN), None).map(Look::Found)
        }
        (Some(_), None) => Err(failed(FailureKind::Usage, &source, format!("it has {KEY} and no {SECRET}"))),
        (None, Some(_)) => Err(failed(FailureKind::Usage, &source, format!("it has {SECRET} and no {KEY}"))),
        (None, None) => match profile.value("credential_process") {
            Some(command) => process::run(&source, command, process::PATIENCE).map(Look::Found),
            None => Ok(Look::Nothing(format!("{source} has no keys and no `credential_process`"))),
        },
    }
}

fn read_file(path: &Path) -> Result<Sections> {
    let Some(text) = file::text(path, FILE_BYTES_MAX)? else { return Ok(Sections::new()) };
    ini::parse(&text).map_err(|trouble| {
        let cause = format!("line {}: {}", trouble.line, trouble.why);
        at_path(Failure::new(FailureKind::Usage, "read the profile", cause), path)
    })
}
