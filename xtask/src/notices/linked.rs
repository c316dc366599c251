use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A package of others that is linked into what is given away.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linked {
    pub name: String,
    pub version: String,
    /// As it says it: an SPDX expression, in most.
    pub licence: String,
    /// Where its sources are.
    pub directory: PathBuf,
    /// The file that it names as its licence, if it does.
    pub file: Option<PathBuf>,
}

/// What packages of the workspace are linked from, but for the workspace itself; in order of their names.
///
/// # Errors
/// If this is not what `cargo metadata` says, or one of these packages is not in it.
pub fn packages(metadata: &Value, given_away: &[&str]) -> Result<Vec<Linked>> {
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let is_ours = |package: &Value| package["source"].is_null();
    let is_first =
        |package: &Value| is_ours(package) && given_away.iter().any(|name| package["name"] == *name);
    let mut open: Vec<&str> =
        packages.iter().filter(|(_, package)| is_first(package)).map(|(id, _)| *id).collect();
    ensure!(open.len() == given_away.len(), "`cargo metadata` has not all of {}", given_away.join(", "));
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(id) = open.pop() {
        let package = packages.get(id).with_context(|| format!("`cargo metadata` says nothing of {id}"))?;
        if !seen.insert(id) || is_macro(package) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("`cargo metadata` does not say what {id} uses"))?;
        let uses = node["deps"].as_array().into_iter().flatten().filter(|used| is_linked(used));
        open.extend(uses.filter_map(|used| used["pkg"].as_str()));
        if !is_ours(package) {
            found.insert(one(package).with_context(|| format!("what `cargo metadata` says of {id}"))?);
        }
    }
    Ok(found.into_iter().collect())
}

/// Objects of a list, by the `id` of each.
fn by_id(list: &Value) -> BTreeMap<&str, &Value> {
    let objects = list.as_array().into_iter().flatten();
    objects.filter_map(|object| Some((object["id"].as_str()?, object))).collect()
}

/// Whether a package runs in the compiler: what it is made of is in no program.
fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut kinds = targets.filter_map(|target| target["kind"].as_array()).flatten();
    kinds.any(|kind| kind == "proc-macro")
}

/// Whether one package uses another in its own code, and not only in its build script or its tests.
fn is_linked(used: &Value) -> bool {
    let mut kinds = used["dep_kinds"].as_array().into_iter().flatten();
    kinds.any(|kind| kind["kind"].is_null())
}

fn one(package: &Value) -> Option<Linked> {
    let directory = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let file = package["license_file"].as_str().map(|file| directory.join(file));
    Some(Linked {
        name: package["name"].as_str()?.to_owned(),
        version: package["version"].as_str()?.to_owned(),
        licence: package["license"].as_str().unwrap_or("by its text").to_owned(),
        directory,
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(id: &str, kind: &str) -> Value {
        let source = (!id.starts_with("ours")).then_some("registry");
        json!({
            "id": id, "name": id, "version": "1.0.0", "license": "MIT", "license_file": null, "source": source,
            "manifest_path": format!("/crates/{id}/Cargo.toml"), "targets": [{"kind": [kind]}, {"kind": ["test"]}]
        })
    }

    /// Each package with what it uses, and how: `null`, "dev", "build".
    fn node(id: &str, uses: &[(&str, &[Option<&str>])]) -> Value {
        let kinds =
            |kinds: &[Option<&str>]| kinds.iter().map(|kind| json!({"kind": kind})).collect::<Vec<Value>>();
        let deps: Vec<Value> =
            uses.iter().map(|(pkg, of)| json!({"pkg": pkg, "dep_kinds": kinds(of)})).collect();
        json!({"id": id, "deps": deps})
    }

    #[test]
    fn what_is_linked_is_found_also_behind_ours_and_nothing_that_only_builds_or_tests() {
        let lib = |id: &str| package(id, "lib");
        let metadata = json!({
            "packages": [
                package("ours", "bin"), lib("ours-below"), lib("ours-chore"), lib("linked"), lib("deep"), lib("both"),
                lib("tests"), lib("builds"), package("macro", "proc-macro"), lib("of-macro"), lib("of-chore")
            ],
            "resolve": {"nodes": [
                node("ours", &[("ours-below", &[None]), ("tests", &[Some("dev")]), ("builds", &[Some("build")])]),
                node("ours-below", &[("linked", &[None]), ("macro", &[None]), ("both", &[Some("dev"), None])]),
                node("ours-chore", &[("ours", &[None]), ("of-chore", &[None])]),
                node("linked", &[("deep", &[None]), ("linked", &[Some("dev")])]),
                node("macro", &[("of-macro", &[None])]),
                node("deep", &[]), node("both", &[]), node("tests", &[]), node("builds", &[]), node("of-macro", &[]),
                node("of-chore", &[])
            ]}
        });
        let names = |given_away: &[&str]| -> Vec<String> {
            packages(&metadata, given_away).unwrap().into_iter().map(|package| package.name).collect()
        };
        assert_eq!(names(&["ours"]), ["both", "deep", "linked"]);
        assert_eq!(names(&["ours", "ours-chore"]), ["both", "deep", "linked", "of-chore"]);
        let found = packages(&metadata, &["ours"]).unwrap();
        let linked = found.iter().find(|package| package.name == "linked").unwrap();
        assert_eq!((linked.licence.as_str(), &linked.file), ("MIT", &None));
        assert_eq!(linked.directory, Path::new("/crates/linked"));
        assert!(packages(&metadata, &["ours", "gone"]).is_err() && packages(&json!({}), &["ours"]).is_err());
    }
}
