//! Where a copy reads and where it writes, and the key that says it is the same copy as an earlier one.

use super::{From, Job, To, Wishes, removal};
use crate::endpoint::dataset::DatasetSource;
use crate::endpoint::filtered::FilteredSource;
use crate::endpoint::local::destination::{DestinationPlace, LocalDestination};
use crate::endpoint::local::overlap;
use crate::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::simulated::{SimulatedDisk, SimulatedSource};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::synthetic::{NoiseSource, NullDestination, ZeroSource};
use crate::endpoint::{Destination, Source};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::filter::Filter;
use std::sync::Arc;
use thalweg_wire::message::{Place, SourceForm, Terms};
use thalweg_wire::path::Escaped;

impl Job<'_> {
    pub(super) fn source(&self) -> Result<(Arc<dyn Source>, SourceForm)> {
        match self.from {
            From::Zero(bytes) => {
                let source = self.chosen(Arc::new(ZeroSource { bytes: *bytes }))?;
                Ok((source, SourceForm::Single { name: b"zero".to_vec() }))
            }
            From::Noise(bytes, file_bytes) => {
                let source = NoiseSource { bytes: *bytes, file_bytes: *file_bytes };
                Ok((self.chosen(Arc::new(source))?, SourceForm::Many))
            }
            From::Dataset(spec) => {
                let source = DatasetSource::new(spec.clone())?;
                Ok((self.chosen(Arc::new(source))?, SourceForm::Many))
            }
            From::Simulated(spec) => {
                let source = SimulatedSource::new(spec.clone())?;
                let source = self.chosen(Arc::new(source))?;
                Ok((source, SourceForm::Single { name: b"sim".to_vec() }))
            }
            From::Local(paths) => {
                let roots = paths
                    .iter()
                    .map(|path| SourceRoot {
                        path: path.clone(),
                        contents: ends_with_slash(path),
                        below: None,
                    })
                    .collect();
                let Wishes { selection, fidelity, .. } = self.wishes;
                let options = ScanOptions {
                    filter: self.filter()?,
                    only: selection.only.clone(),
                    preserve: fidelity.preserve,
                    one_file_system: selection.one_file_system,
                    follow_links: selection.follow_links,
                    part: selection.part,
                    direct: self.disk().source.direct,
                };
                let mut source = LocalSource::open(roots, options)?;
                removal::check_source(&source, self.wishes)?;
                let removes = self.wishes.removes_sources;
                if removes {
                    source.expect_removal();
                }
                if let To::Local(to) = self.to {
                    let deletes = fidelity.delete_max.is_some();
                    overlap::refuse(&source, to, ends_with_slash(to), deletes, removes)?;
                    source.stay_out_of(to);
                }
                let form = source.form();
                let source: Arc<dyn Source> = Arc::new(source);
                match self.wishes.trial {
                    Some(trial) => Ok((Arc::new(SparingSource::new(source, trial.bytes_max)), form)),
                    None => Ok((source, form)),
                }
            }
            From::Given(given) => {
                if given.chooses {
                    // Dealt again it would lack what the two deal differently: files of several names.
                    return (given.open)();
                }
                self.refuse_list()?;
                let (source, form) = (given.open)()?;
                Ok((self.chosen(source)?, form))
            }
            From::Far(..) => Err(Failure::new(FailureKind::Internal, "open", "the source is far")),
        }
    }

    /// What is to be copied of a source that looks neither at the filter nor at the part: all that is made from a
    /// number or a seed, too.
    fn chosen(&self, source: Arc<dyn Source>) -> Result<Arc<dyn Source>> {
        self.refuse_list()?;
        let selection = &self.wishes.selection;
        if selection.filter.is_empty() && selection.part.is_none() {
            return Ok(source);
        }
        Ok(Arc::new(FilteredSource::new(source, self.filter()?).only_part(selection.part)))
    }

    /// Only a tree looks names up.
    fn refuse_list(&self) -> Result<()> {
        if self.wishes.selection.only.is_empty() {
            return Ok(());
        }
        let cause = "names of a list are not looked up there (--files-from): --include and --exclude choose";
        Err(Failure::new(FailureKind::Unsupported, "open", cause))
    }

    pub(super) fn destination(&self, form: &SourceForm, terms: &Terms) -> Result<Arc<dyn Destination>> {
        match self.to {
            To::Null => Ok(Arc::new(NullDestination::default())),
            To::Simulated(spec) => Ok(Arc::new(NullDestination::on(SimulatedDisk::new(spec.clone())?))),
            To::Scratch(path, bytes_max) => {
                let place = DestinationPlace { path: path.clone(), below: None };
                Ok(Arc::new(LocalDestination::open_scratch(&place, form, terms.clone(), *bytes_max)?))
            }
            To::Local(path) => {
                let slash = ends_with_slash(path);
                let place = DestinationPlace { path: path.clone(), below: None };
                let protect = self.filter()?;
                let state = self.wishes.remembered.state.clone();
                let mut destination =
                    LocalDestination::open(place, form, slash, terms.clone(), state, protect)?;
                if matches!(self.from, From::Local(_)) {
                    destination.stand_beside_source();
                }
                if let Some(first) = destination.missing_above() {
                    let makes = if terms.dry_run { "would make" } else { "made" };
                    let first = Escaped(first.as_os_str().as_encoded_bytes());
                    let text =
                        format!("{makes} `{first}` and what is below it: the destination was not there");
                    (self.watch.events)(Event::Note(text));
                }
                if destination.direct_is_missed() {
                    let why = "its file system takes no direct I/O, or is in memory";
                    let text = format!("--direct destination=on: written by way of the page cache: {why}");
                    (self.watch.events)(Event::Note(text));
                }
                Ok(Arc::new(destination))
            }
            To::Given(given) => (given.open)(form, terms, &self.wishes.selection.filter),
            To::Far(..) => Err(Failure::new(FailureKind::Internal, "open", "the destination is far")),
        }
    }

    pub(super) fn filter(&self) -> Result<Filter> {
        Filter::new(self.wishes.selection.filter.clone())
    }

    /// Same sources and destination, and the same part of them, same key: what lets a second attempt find what the
    /// first left behind. Of what is pushed to a daemon the machine is part of the source: nodes of a cluster have the
    /// same paths, and a daemon the same certificate of all. By ssh it is not: there a user goes on from another login
    /// node of the same file system. Neither of a part: all its hosts see the same files, and it goes on from any.
    pub(super) fn job_key(&self) -> [u8; 16] {
        self.job_key_at(&thalweg_sys::machine::identity())
    }

    fn job_key_at(&self, machine: &[u8]) -> [u8; 16] {
        use std::os::unix::ffi::OsStrExt;
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 job key");
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        let mut add_place = |place: &Place| {
            add(place.export.as_deref().unwrap_or("").as_bytes());
            add(&place.path);
        };
        match self.from {
            From::Far(_, places) => places.iter().for_each(&mut add_place),
            From::Local(_)
            | From::Zero(_)
            | From::Noise(..)
            | From::Dataset(_)
            | From::Simulated(_)
            | From::Given(_) => {}
        }
        if let To::Far(_, place) = self.to {
            add_place(place);
            if place.export.is_some() && self.wishes.selection.part.is_none() {
                add(machine);
            }
        }
        match self.from {
            From::Local(paths) => {
                for path in paths {
                    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                    add(absolute.as_os_str().as_bytes());
                }
            }
            From::Zero(bytes) | From::Noise(bytes, _) => add(&bytes.to_le_bytes()),
            // It says all that there is to say of the set.
            From::Dataset(spec) => add(&spec.description()),
            From::Simulated(spec) => {
                add(&spec.bytes.to_le_bytes());
                add(&spec.seed.to_le_bytes());
            }
            From::Given(given) => add(&given.name),
            From::Far(far, _) => add(far.name().as_bytes()),
        }
        match self.to {
            To::Local(path) => {
                add(std::path::absolute(path).unwrap_or_else(|_| path.clone()).as_os_str().as_bytes());
            }
            To::Given(given) => add(&given.name),
            To::Null | To::Scratch(..) | To::Simulated(_) | To::Far(..) => {}
        }
        // Parts go their ways at the same time, each with what it left behind.
        if let Some(part) = self.wishes.selection.part {
            add(&part.number.to_le_bytes());
            add(&part.count.to_le_bytes());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        key
    }
}

fn ends_with_slash(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event;
    use crate::link::{Identity, ServerTrust, client_config};
    use crate::run::client::TcpConnect;
    use crate::run::copy::{Selection, Stop, Watch};
    use crate::run::far_mover::FarMover;
    use thalweg_wire::message::PartOf;

    /// A scheduler starts a task again on another node.
    #[test]
    fn a_part_goes_on_from_another_machine_and_what_is_no_part_of_a_push_does_not() {
        let identity = Identity::generate("test").unwrap();
        let tls = client_config(&identity, &ServerTrust::Pinned(identity.fingerprint())).unwrap();
        let far = FarMover::new(Arc::new(TcpConnect::new(vec!["a:1".to_owned()])), tls);
        let place = Place { export: Some("data".to_owned()), path: b"run7".to_vec() };
        let (from, to) = (From::Local(vec!["/gpfs/run7/".into()]), To::Far(Arc::new(far), place));
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let stop = Stop::default();
        let key = |part, machine: &[u8]| {
            let selection = Selection { part, ..Selection::default() };
            let wishes = Wishes { selection, ..Wishes::default() };
            Job::new(&from, &to, &wishes, &identity, &watch, &stop).job_key_at(machine)
        };
        let (first, second) = (PartOf::new(1, 8), PartOf::new(2, 8));
        assert_eq!(key(first, b"one"), key(first, b"other"));
        assert_ne!(key(first, b"one"), key(second, b"one"), "each with what it left behind");
        assert_ne!(key(first, b"one"), key(PartOf::new(1, 7), b"one"));
        assert_ne!(key(None, b"one"), key(None, b"other"));
    }
}
