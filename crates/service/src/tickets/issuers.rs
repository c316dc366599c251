//! Identity providers whose tokens a daemon takes, and what it gives their holders: a file in TOML.
//!
//! ```text
//! [issuer.iam]
//! issuer = "https://iam.example.org/"
//! audience = "https://data.example.org"
//! name = "preferred_username"
//!
//! [[issuer.iam.rule]]
//! claim = "groups"
//! value = "/beamline7"
//! export = ["data:no-delete"]
//! below = "run7"
//! bwlimit = "2Gbit/s"
//! ```
//!
//! The first rule that fits gives its rights, which are those of a ticket, and no other gives more. A token that no
//! rule fits gives none. What is not known in the file is an error.

use super::{Part, Reach, Record, parse_below};
use crate::export::is_name;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::place_file::{self, ISSUERS_MAX};
use thalweg_mover::link::{Fingerprint, Token};
use thalweg_sys::{atomic_file, user};
use thalweg_tokens::{Checked, NotGood, Provider, issuer_of};
use thalweg_wire::hello::Answer;

/// Larger files are none of these.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Rules of one provider.
const RULES_MAX: usize = 1024;
/// Longest name that a token may give its holder.
const HOLDER_BYTES_MAX: usize = 255;
/// Longest name of a provider in the file.
const ISSUER_NAME_BYTES_MAX: usize = 32;
/// Of what a token says so much is kept, as JSON: of all guests together 64 MiB. Somebody in a hundred groups has less.
const CLAIMS_BYTES_MAX: usize = 4 << 10;
/// What fails.
const READ_ISSUERS: &str = "read the issuers";

/// Reads a rate of bits a second, or says what is wrong with it.
pub type ParseRate = fn(&str) -> std::result::Result<u64, String>;

/// See the module.
#[derive(Debug)]
pub struct Issuers {
    all: Vec<Issuer>,
    /// SHA-256 of the text of the file.
    digest: Vec<u8>,
}

struct Issuer {
    /// What its holders are called by, behind an `@`.
    name: String,
    provider: Provider,
    /// The claim that tells its holders apart.
    holder: Vec<String>,
    /// What a place file says of it.
    told: place_file::Issuer,
    rules: Vec<Rule>,
}

/// What some tokens give.
struct Rule {
    fits: Fits,
    gives: Gives,
    bits_per_s_max: Option<u64>,
}

enum Fits {
    Everyone,
    /// Those in which this claim is, or has, this value.
    Has(Vec<String>, String),
}

enum Gives {
    Parts(Vec<Part>),
    /// What the token says of one directory of this export (WLCG's `storage.read:/path` and so on).
    Storage(String),
}

/// What a token gives.
pub(super) struct Given {
    pub record: Arc<Record>,
    /// What the token says, as JSON, for when the rules are others; `None` if that is too long to be kept.
    pub claims: Option<Box<str>>,
}

/// Without what the token says.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("record", &self.record).finish_non_exhaustive()
    }
}

/// Why a token is not taken: what its holder is told, and what the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    /// For the holder.
    pub answer: Answer,
    /// For the log.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    issuer: BTreeMap<String, IssuerText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerText {
    issuer: String,
    audience: OneOrMore,
    name: Option<OneOrMore>,
    client: Option<String>,
    scopes: Option<OneOrMore>,
    resource: Option<String>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    claim: Option<OneOrMore>,
    value: Option<String>,
    #[serde(default)]
    everyone: bool,
    #[serde(default)]
    export: Vec<String>,
    below: Option<String>,
    storage: Option<String>,
    bwlimit: Option<String>,
}

/// A text, or a list of some.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn into_list(self) -> Vec<String> {
        match self {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(list) => list,
        }
    }
}

/// What is read, or what is wrong with it.
type InWords<T> = std::result::Result<T, String>;

impl Issuers {
    /// Reads the file.
    ///
    /// # Errors
    /// `Usage`, with what is wrong, for one that makes no sense or is too long; `Permission` if others may change it;
    /// else what the kernel says.
    pub fn read(path: &Path, parse_rate: ParseRate) -> Result<Issuers> {
        let fail = |error: &std::io::Error| super::at(READ_ISSUERS, path, error);
        let refuse = |kind, cause: &str| failure::at_path(Failure::new(kind, READ_ISSUERS, cause), path);
        let file = atomic_file::open(path).map_err(|error| fail(&error))?;
        let metadata = file.metadata().map_err(|error| fail(&error))?;
        check_writers(metadata.mode(), metadata.uid())
            .map_err(|cause| refuse(FailureKind::Permission, &cause))?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| fail(&error))?;
        if read as u64 > FILE_BYTES_MAX {
            return Err(refuse(FailureKind::Usage, "it is longer than 1 MiB"));
        }
        Issuers::from_text(&text, parse_rate).map_err(|cause| refuse(FailureKind::Usage, &cause))
    }

    pub(super) fn from_text(text: &str, parse_rate: ParseRate) -> InWords<Issuers> {
        let file: FileText = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            format!("line {line}: {}", error.message())
        })?;
        if file.issuer.is_empty() || file.issuer.len() > ISSUERS_MAX {
            return Err(format!("there are 1 to {ISSUERS_MAX} of [issuer.NAME]"));
        }
        let mut all: Vec<Issuer> = Vec::new();
        for (name, told) in file.issuer {
            let place = format!("[issuer.{name}]");
            let issuer = Issuer::of(name, told, parse_rate).map_err(|why| format!("{place}: {why}"))?;
            // Which of two would be meant, a token does not say.
            if all.iter().any(|other| other.provider.issuer() == issuer.provider.issuer()) {
                return Err(format!("{place}: another has the same issuer"));
            }
            all.push(issuer);
        }
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        Ok(Issuers { all, digest: digest.as_ref().to_vec() })
    }

    /// Whether both were read of the same text.
    pub(super) fn is_same(&self, other: &Issuers) -> bool {
        self.digest == other.digest
    }

    /// The same, with the keys that others have of its providers.
    pub(super) fn with_keys_of(self, others: &Issuers) -> Issuers {
        let with_keys = |issuer: Issuer| {
            let known = others.all.iter().find(|known| known.provider.issuer() == issuer.provider.issuer());
            let Some(known) = known else { return issuer };
            Issuer { provider: issuer.provider.with_keys_of(&known.provider), ..issuer }
        };
        Issuers { all: self.all.into_iter().map(with_keys).collect(), ..self }
    }

    /// Each, for who needs to have a token of one.
    pub fn told(&self) -> Vec<place_file::Issuer> {
        self.all.iter().map(|issuer| issuer.told.clone()).collect()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What the holder of a token has, who shows this certificate. May ask a provider for its keys.
    ///
    /// # Errors
    /// Why it is nothing. No words of it are the token's own, but its issuer.
    pub(super) fn given_by(
        &self,
        token: &Token,
        certificate: Fingerprint,
        now: u64,
    ) -> std::result::Result<Given, NotTaken> {
        let refused = |why: String| NotTaken { answer: Answer::TokenRefused, why };
        let named = issuer_of(token.as_str()).ok_or_else(|| refused("it is no token".to_owned()))?;
        let issuer = self.all.iter().find(|issuer| issuer.provider.issuer() == named);
        let issuer = issuer.ok_or_else(|| refused("it is of no issuer that is taken".to_owned()))?;
        let name = &issuer.name;
        let checked = issuer.provider.check(token.as_str()).map_err(|not_good| match not_good {
            NotGood::Expired => NotTaken { answer: Answer::TokenExpired, why: format!("{name}: it expired") },
            NotGood::Refused(why) => refused(format!("{name}: {why}")),
            NotGood::Unchecked(why) => {
                NotTaken { answer: Answer::TokenUnchecked, why: format!("{name}: {}", why.cause) }
            }
        })?;
        issuer.give(checked, certificate, now)
    }

    /// Whether they give what others gave by a token that was good.
    pub(super) fn still_give(&self, given: &Given) -> bool {
        let record = &given.record;
        let claims =
            given.claims.as_ref().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        let of = |issuer: &&Issuer| Some(issuer.provider.issuer()) == record.issuer.as_deref();
        let (Some(claims), Some(issuer)) = (claims, self.all.iter().find(of)) else { return false };
        let (is_for_us, expires_at) = (issuer.provider.is_for(&claims), record.expires_at.unwrap_or(0));
        let now = issuer.grant(&Checked { claims, expires_at }, record.certificate, record.made_at);
        is_for_us && now.is_ok_and(|now| now.gives_as(record))
    }

    /// As if a token that says this had been good.
    #[cfg(test)]
    pub(super) fn given_as_by(&self, claims: &Value, certificate: Fingerprint, expires_at: u64) -> Given {
        let claims = claims.as_object().expect("claims").clone();
        let of =
            |issuer: &&Issuer| claims.get("iss").and_then(Value::as_str) == Some(issuer.provider.issuer());
        let issuer = self.all.iter().find(of).expect("an issuer");
        issuer.give(Checked { claims: claims.clone(), expires_at }, certificate, 0).expect("a rule")
    }
}

/// Refuses a file of this mode and owner if others than this user and root may change it.
fn check_writers(mode: u32, owner: u32) -> InWords<()> {
    if mode & 0o022 != 0 {
        return Err("others may change who comes in: run `chmod go-w` on it".to_owned());
    }
    if owner != user::effective_uid() && owner != 0 {
        return Err(format!("it belongs to user {owner}, who could change who comes in: make a copy of it"));
    }
    Ok(())
}

/// Without rules and keys.
impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("issuer", &self.provider.issuer()).finish_non_exhaustive()
    }
}

impl Issuer {
    fn of(name: String, told: IssuerText, parse_rate: ParseRate) -> InWords<Issuer> {
        if !is_name(&name, ISSUER_NAME_BYTES_MAX) {
            return Err(
                "its name has at most 32 letters, digits, `-`, `_` and `.`, and no `.` first".to_owned()
            );
        }
        let provider = Provider::new(&told.issuer, told.audience.into_list());
        let provider = provider.map_err(|failure| format!("`issuer`, `audience`: {}", failure.cause))?;
        let holder = told.name.map_or_else(|| vec!["sub".to_owned()], OneOrMore::into_list);
        if told.rule.is_empty() || told.rule.len() > RULES_MAX {
            return Err(format!("there are 1 to {RULES_MAX} rules"));
        }
        let rules =
            told.rule.into_iter().enumerate().map(|(at, rule)| {
                Rule::of(rule, parse_rate).map_err(|why| format!("rule {}: {why}", at + 1))
            });
        let rules = rules.collect::<InWords<Vec<Rule>>>()?;
        let scopes = told.scopes.map_or_else(Vec::new, OneOrMore::into_list);
        let told =
            place_file::Issuer { url: told.issuer, client: told.client, scopes, resource: told.resource };
        told.check().map_err(|why| format!("`client`, `scopes`, `resource`: {why}"))?;
        Ok(Issuer { name, provider, holder, told, rules })
    }

    fn give(
        &self,
        checked: Checked,
        certificate: Fingerprint,
        now: u64,
    ) -> std::result::Result<Given, NotTaken> {
        let record = self.grant(&checked, certificate, now)?;
        let claims = Value::Object(checked.claims).to_string();
        let claims = Some(claims.into_boxed_str()).filter(|text| text.len() <= CLAIMS_BYTES_MAX);
        Ok(Given { record: Arc::new(record), claims })
    }

    /// What the first rule that fits gives.
    fn grant(
        &self,
        checked: &Checked,
        certificate: Fingerprint,
        now: u64,
    ) -> std::result::Result<Record, NotTaken> {
        let nothing = |why: &str| {
            let why = format!("{}: {why}", self.name);
            NotTaken { answer: Answer::TokenWithoutRights, why }
        };
        let holder = at_path(&checked.claims, &self.holder).and_then(Value::as_str);
        let is_plain = |holder: &&str| {
            (1..=HOLDER_BYTES_MAX).contains(&holder.len())
                && holder.bytes().all(|byte| byte.is_ascii_graphic())
        };
        // It stands in logs and lists.
        let holder = holder.filter(is_plain).ok_or_else(|| {
            nothing(
                "the claim that names its holder (`name`) is not there, or no word of at most 255 characters",
            )
        })?;
        let rule = self.rules.iter().find(|rule| rule.fits.fit(&checked.claims));
        let rule = rule.ok_or_else(|| nothing("no rule fits"))?;
        let parts = match &rule.gives {
            Gives::Parts(parts) => parts.clone(),
            Gives::Storage(export) => {
                let part = storage(&checked.claims, export);
                vec![part.ok_or_else(|| nothing("its storage scopes are none, or not of one directory"))?]
            }
        };
        let name = format!("{holder}@{}", self.name);
        Ok(Record {
            reach: Reach::Only(parts),
            bits_per_s_max: rule.bits_per_s_max,
            expires_at: Some(checked.expires_at),
            issuer: Some(self.provider.issuer().to_owned()),
            ..Record::of(&name, certificate, now)
        })
    }
}

impl Rule {
    fn of(told: RuleText, parse_rate: ParseRate) -> InWords<Rule> {
        let fits = match (told.claim, told.value, told.everyone) {
            (Some(claim), Some(value), false) => Fits::Has(claim.into_list(), value),
            (None, None, true) => Fits::Everyone,
            _ => return Err("it has `claim` and `value`, or `everyone = true`".to_owned()),
        };
        let gives = match (told.storage, told.export.is_empty()) {
            (Some(export), true) if is_name(&export, thalweg_wire::limits::NAME_BYTES_MAX) => {
                if told.below.is_some() {
                    return Err("`below` is what the token says of `storage`".to_owned());
                }
                Gives::Storage(export)
            }
            (None, false) => Gives::Parts(parts(&told.export, told.below.as_deref())?),
            _ => return Err("it has `export`, or the name of an export in `storage`".to_owned()),
        };
        let rate = told.bwlimit.map(|text| parse_rate(&text).map_err(|why| format!("`bwlimit`: {why}")));
        Ok(Rule { fits, gives, bits_per_s_max: rate.transpose()? })
    }
}

fn parts(exports: &[String], below: Option<&str>) -> InWords<Vec<Part>> {
    if exports.len() > super::PARTS_MAX {
        return Err(format!("`export`: there are at most {}", super::PARTS_MAX));
    }
    let below = below.map(parse_below).transpose().map_err(|why| format!("`below`: {why}"))?;
    let below = below.unwrap_or_default();
    let mut names = HashSet::new();
    let mut parts = Vec::new();
    for text in exports {
        let part = Part::read(text).map_err(|why| format!("`export`: {why}"))?;
        if !names.insert(part.export.clone()) {
            return Err(format!("it names the export `{}` twice", part.export));
        }
        parts.push(Part { below: below.clone(), ..part });
    }
    // In whichever order a file names them they are the same.
    parts.sort_by(|one, other| one.export.cmp(&other.export));
    Ok(parts)
}

impl Fits {
    fn fit(&self, claims: &Map<String, Value>) -> bool {
        match self {
            Fits::Everyone => true,
            Fits::Has(claim, value) => at_path(claims, claim).is_some_and(|told| match told {
                // A scope is a list in one text.
                Value::String(text) if claim == &["scope"] => text.split(' ').any(|word| word == value),
                Value::String(text) => text == value,
                Value::Array(list) => list.iter().any(|one| one.as_str() == Some(value.as_str())),
                _ => false,
            }),
        }
    }
}

/// A claim, or one within another.
fn at_path<'a>(claims: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(claims.get(first)?, |value, name| value.get(name))
}

/// What a token permits in an export by WLCG's scopes. An export has one directory for a holder: that which may be
/// written, if there is one, and it has to be read as well; else that which may be read.
fn storage(claims: &Map<String, Value>, export: &str) -> Option<Part> {
    let scopes = claims.get("scope").and_then(Value::as_str)?;
    let of = |right: &str| -> Option<Vec<String>> {
        let paths = scopes.split(' ').filter_map(|scope| scope.strip_prefix(right)?.strip_prefix(":/"));
        // One that makes no sense is not passed over.
        paths.map(|path| if path.is_empty() { Some(String::new()) } else { parse_below(path).ok() }).collect()
    };
    let (read, create, modify) = (of("storage.read")?, of("storage.create")?, of("storage.modify")?);
    let written: Vec<&String> = create.iter().chain(&modify).collect();
    let chosen: Vec<&String> = if written.is_empty() { read.iter().collect() } else { written };
    let below = *chosen.first()?;
    let is_one = chosen.iter().all(|path| *path == below);
    let covers = |outer: &String| {
        outer.is_empty()
            || below.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !is_one || !read.iter().any(covers) {
        return None;
    }
    Some(Part {
        export: export.to_owned(),
        below: below.clone(),
        read_only: create.is_empty() && modify.is_empty(),
        no_delete: modify.is_empty(),
        no_replace: modify.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = r#"
[issuer.iam]
issuer = "https://iam.example.org/"
audience = ["https://data.example.org", "data"]
name = "preferred_username"

[[issuer.iam.rule]]
claim = ["realm_access", "roles"]
value = "operator"
export = ["data", "incoming:no-delete"]

[[issuer.iam.rule]]
claim = "groups"
value = "/beamline7"
export = ["data:ro"]
below = "run7"
bwlimit = "8bit/s"

[[issuer.iam.rule]]
claim = "scope"
value = "storage"
storage = "data"

[issuer.other]
issuer = "https://other.example.org"
audience = "data"

[[issuer.other.rule]]
everyone = true
export = ["data:ro"]
"#;

    fn rate(text: &str) -> std::result::Result<u64, String> {
        text.strip_suffix("bit/s").and_then(|number| number.parse().ok()).ok_or_else(|| "no rate".to_owned())
    }

    fn granted(at: usize, claims: &Value) -> std::result::Result<Record, NotTaken> {
        let issuers = Issuers::from_text(FILE, rate).unwrap();
        let claims = claims.as_object().unwrap().clone();
        issuers.all[at].grant(&Checked { claims, expires_at: 7 }, Fingerprint([1; 32]), 5)
    }

    #[test]
    fn the_first_rule_that_fits_gives_the_rights_of_a_ticket() {
        let given = |claims: Value| {
            let record = granted(0, &claims).unwrap();
            let Reach::Only(parts) = record.reach else { panic!("never all exports") };
            let parts: Vec<String> =
                parts.iter().map(|part| format!("{}/{}", part.shown(), part.below)).collect();
            (parts.join(" "), record.bits_per_s_max)
        };
        let operator =
            json!({ "preferred_username": "alice", "realm_access": { "roles": ["x", "operator"] } });
        assert_eq!(given(operator), ("data/ incoming:no-delete/".to_owned(), None));
        let both = json!({ "preferred_username": "alice", "groups": ["/beamline7"], "scope": "storage" });
        assert_eq!(given(both), ("data:ro/run7".to_owned(), Some(8)));
        let one = json!({ "preferred_username": "alice", "groups": "/beamline7" });
        assert_eq!(given(one).0, "data:ro/run7");
        let record = granted(0, &json!({ "preferred_username": "alice", "groups": ["/beamline7"] })).unwrap();
        assert_eq!((record.name.as_str(), record.expires_at), ("alice@iam", Some(7)));
        assert_eq!(record.issuer.as_deref(), Some("https://iam.example.org/"));
        assert!(record.check(6).is_ok());
        let expired = record.check(7).unwrap_err();
        assert!(expired.cause.contains("the token of `alice@iam` expired"), "{expired}");
        assert!(expired.cause.contains("https://iam.example.org/"), "{expired}");
        assert_eq!(granted(1, &json!({ "sub": "b" })).unwrap().name, "b@other");
    }

    #[test]
    fn a_token_that_no_rule_fits_or_that_names_nobody_gives_nothing() {
        let refused = |claims: Value| granted(0, &claims).unwrap_err();
        for claims in [
            json!({ "preferred_username": "alice" }),
            json!({ "preferred_username": "alice", "groups": ["/beamline70", "beamline7"] }),
            json!({ "preferred_username": "alice", "groups": { "/beamline7": true } }),
            json!({ "preferred_username": "alice", "realm_access": ["operator"] }),
            json!({ "preferred_username": "alice", "scope": "storages x" }),
        ] {
            let not_taken = refused(claims);
            assert_eq!(not_taken.answer, Answer::TokenWithoutRights);
            assert!(not_taken.why.contains("no rule fits"), "{not_taken:?}");
        }
        let long = "x".repeat(256);
        for name in
            [json!(null), json!(7), json!(""), json!("a b"), json!("a\u{1b}[31m"), json!("ä"), json!(long)]
        {
            let not_taken = refused(json!({ "preferred_username": name, "groups": ["/beamline7"] }));
            assert!(not_taken.why.contains("names its holder"), "{not_taken:?}");
        }
        assert!(
            refused(json!({ "sub": "alice", "groups": ["/beamline7"] })).why.contains("names its holder")
        );
    }

    #[test]
    fn storage_scopes_give_one_directory_and_never_more_than_they_say() {
        let part = |scope: &str| {
            let claims = json!({ "scope": scope });
            storage(claims.as_object().unwrap(), "data")
                .map(|part| format!("{}/{}", part.shown(), part.below))
        };
        assert_eq!(part("storage.read:/").as_deref(), Some("data:ro,no-delete,no-replace/"));
        assert_eq!(part("openid storage.read:/a/b").as_deref(), Some("data:ro,no-delete,no-replace/a/b"));
        assert_eq!(part("storage.read:/a storage.create:/a").as_deref(), Some("data:no-delete,no-replace/a"));
        assert_eq!(part("storage.read:/ storage.modify:/a").as_deref(), Some("data/a"));
        for odd in [
            "",
            "openid",
            "storage.read",
            "storage.readx:/",
            "storage.modify:/a",
            "storage.read:/a storage.modify:/ab",
            "storage.read:/a storage.read:/b",
            "storage.read:/ storage.modify:/a storage.create:/b",
            "storage.read:/a/../b",
        ] {
            assert_eq!(part(odd), None, "{odd}");
        }
    }

    #[test]
    fn other_rules_give_the_same_to_whom_they_do_not_concern_and_nothing_so_to_others() {
        let issuers = Issuers::from_text(FILE, rate).unwrap();
        let given = |more: Value| {
            let mut claims = json!({
                "iss": "https://iam.example.org/", "aud": ["other", "data"], "preferred_username": "alice"
            });
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            issuers.given_as_by(&claims, Fingerprint([1; 32]), 7)
        };
        let operator = given(json!({ "realm_access": { "roles": ["operator"] } }));
        let both = given(json!({ "groups": ["/beamline7"], "scope": "storage storage.read:/run7" }));
        let other = |old: &str, new: &str| {
            assert!(FILE.contains(old), "{old}");
            let other = Issuers::from_text(&FILE.replacen(old, new, 1), rate).unwrap();
            assert!(other.is_same(&other) && !other.is_same(&issuers));
            (other.still_give(&operator), other.still_give(&both))
        };
        assert!(issuers.still_give(&operator) && issuers.still_give(&both));
        assert_eq!(other("[issuer.iam]", "# The site.\n[issuer.iam]"), (true, true));
        assert_eq!(other("https://other.example.org", "https://more.example.org"), (true, true));
        // The group is taken out, so that another rule fits; it reaches elsewhere, or is slower.
        for (old, new) in [("/beamline7", "/beamline8"), ("run7", "run8"), ("8bit/s", "16bit/s")] {
            assert_eq!(other(old, new), (true, false), "{old}");
        }
        assert_eq!(other("incoming:no-delete", "incoming"), (false, true));
        // In another order they are the same.
        assert_eq!(
            other(r#"["data", "incoming:no-delete"]"#, r#"["incoming:no-delete", "data"]"#),
            (true, true)
        );
        // Another name for them, other audiences, another provider.
        for (old, new) in [
            ("\"preferred_username\"", "\"iss\""),
            (", \"data\"]", "]"),
            ("https://iam.example.org/", "https://iam.example.org"),
        ] {
            assert_eq!(other(old, new), (false, false), "{old}");
        }
        // What is not kept has to be shown again.
        let long = given(json!({ "groups": ["/beamline7"], "more": "x".repeat(CLAIMS_BYTES_MAX) }));
        assert!(long.claims.is_none() && !issuers.still_give(&long));
    }

    #[test]
    fn a_file_that_others_may_change_or_that_is_too_long_is_refused() {
        let own = user::effective_uid();
        assert!(check_writers(0o644, own).is_ok() && check_writers(0o640, 0).is_ok());
        assert!(check_writers(0o664, own).unwrap_err().contains("chmod go-w"));
        let refused = check_writers(0o644, own + 1).unwrap_err();
        assert!(refused.contains(&format!("user {}", own + 1)), "{refused}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            Issuers::read(file.path(), rate).map(|_| ())
        };
        read(FILE).unwrap();
        // Cut behind a rule it would make sense.
        let padded = |bytes: usize| format!("{FILE}{}", "\n".repeat(bytes - FILE.len()));
        let most = usize::try_from(FILE_BYTES_MAX).unwrap();
        read(&padded(most)).unwrap();
        let refused = read(&(padded(most) + "x")).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage, "{refused}");
        assert!(refused.cause.contains("longer than"), "{refused}");
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_what_is_wrong() {
        let refused = |text: &str| Issuers::from_text(text, rate).map(|_| ()).unwrap_err();
        assert!(refused("").contains("issuer"));
        assert!(refused("[issuer.a]\nissuer = 1\n").starts_with("line "));
        let odd = |old: &str, new: &str| {
            assert!(FILE.contains(old), "{old}");
            refused(&FILE.replacen(old, new, 1))
        };
        assert!(odd("audience = \"data\"", "audience = []").contains("audience"));
        assert!(odd("https://iam", "http://iam").contains("https"));
        assert!(odd("https://other.example.org", "https://iam.example.org/").contains("same issuer"));
        let named =
            r#"issuer.'o@' = { issuer = "https://h/", audience = "a", rule = [{ everyone = true }] }"#;
        assert!(refused(named).contains("its name"));
        assert!(odd("data:ro", "data:rw").contains("flag"));
        assert!(odd("\"incoming:no-delete\"", "\"data\"").contains("twice"));
        assert!(odd("run7", "../run7").contains("below"));
        assert!(odd("8bit/s", "fast").contains("bwlimit"));
        assert!(odd("everyone = true", "everyone = false").contains("everyone"));
        assert!(odd("everyone = true", "everyone = true\nvalue = \"x\"").contains("everyone"));
        assert!(odd("storage = \"data\"", "storage = \"data\"\nexport = [\"data\"]").contains("storage"));
        assert!(odd("everyone = true", "newer = true").contains("newer"));
        let login = |text: &str| format!("audience = \"data\"\n{text}");
        for text in ["client = \"two words\"", "client = \"\"", "client = \"a\"\nscopes = [\"a\\\"\"]"] {
            assert!(odd("audience = \"data\"", &login(text)).contains("`client`"), "{text}");
        }
        assert!(odd("audience = \"data\"", &login("scopes = [\"openid\"]")).contains("there is none"));
        assert!(odd("audience = \"data\"", &login("resource = \"data\"")).contains("there is none"));
        let as_one = login("client = \"a\"\nscopes = \"openid offline_access\"");
        assert!(odd("audience = \"data\"", &as_one).contains("a list of words, one scope each"));
    }

    #[test]
    fn a_place_file_is_told_how_one_logs_in_at_a_provider_where_that_is_said() {
        let login = "audience = \"data\"\nclient = \"thalweg\"\nscopes = [\"openid\", \"offline_access\"]\n\
                     resource = \"https://data.example.org\"";
        let file = FILE.replacen("audience = \"data\"", login, 1);
        let told = Issuers::from_text(&file, rate).unwrap().told();
        assert_eq!((&told[0].client, told[0].scopes.len()), (&None, 0));
        assert_eq!(told[1].url, "https://other.example.org");
        assert_eq!(told[1].client.as_deref(), Some("thalweg"));
        assert_eq!(told[1].scopes, ["openid", "offline_access"]);
        assert_eq!(told[1].resource.as_deref(), Some("https://data.example.org"));
    }
}
