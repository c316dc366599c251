//! What a stream is opened with: its source and destination, its plan, its terms.

use super::{FlowFrom, FlowTo, Job, internal};
use crate::endpoint::OPEN_DESTINATION;
use crate::endpoint::feed::Feed;
use crate::endpoint::feed::open::{self, GrowingPlace};
use crate::endpoint::feed::pipe::{PipeFeed, refuse_other_ends};
use crate::endpoint::flow_destination::{FlowDestination, NullFlows, PipeDestination};
use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::flow_destination::LocalFlows;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::plan::{self, Asked, Path, Plan};
use crate::run::LineSink;
use crate::run::agree::{self, Signer};
use crate::run::client::Client;
use crate::run::far_mover::{FarMover, unused_of_link, without_effect};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{Check, Direction, Open, Place, Request, SourceForm, Terms, TransferNumber};
use thalweg_wire::receipt::{Signatory, TransferKind};

/// Name of standard input in messages and receipts.
pub const PIPE_NAME: &[u8] = b"stdin";
/// Streams that are opened without being asked for: over a distance each brings a first window of its own, so that what
/// comes early does not wait for one to grow; beyond some they only let pieces overtake each other.
const FLOW_STREAMS_MAX: u16 = 8;

impl Job<'_> {
    pub(super) fn feed(&self, from: FlowFrom, terms: &Terms) -> Result<(Box<dyn Feed>, SourceForm)> {
        let piece_bytes = terms.segment_bytes as usize;
        let until = &self.wishes.terms.until;
        let is_given = matches!(from, FlowFrom::Pipe(_));
        let (feed, form): (Box<dyn Feed>, SourceForm) = match from {
            FlowFrom::Pipe(pipe) => {
                refuse_other_ends(until)?;
                let name =
                    RelativePath::new(PIPE_NAME.to_vec()).map_err(|error| internal(&error.to_string()))?;
                let feed = PipeFeed::new(pipe, name, piece_bytes);
                (Box::new(feed), SourceForm::Single { name: PIPE_NAME.to_vec() })
            }
            FlowFrom::Local(path) => open::open(&GrowingPlace { path, below: None }, until, piece_bytes)?,
            FlowFrom::Far(..) => return Err(internal("the source is far")),
        };
        if feed.is_pipe() {
            self.tell_unused_of_pipe(is_given);
        }
        Ok((feed, form))
    }

    /// Says what was asked for and does nothing on this way, once.
    pub(super) fn tell_unused(&mut self, far: Option<&FarMover>) {
        // Of what rides in ssh, or goes nowhere, no socket is ours.
        let has_sockets = far.is_some_and(|far| !far.is_carried());
        let link = &self.wishes.link;
        let mut options = vec![("--dscp", link.dscp.is_some() && !has_sockets)];
        options.extend(unused_of_link(far, link, self.wishes.asked_of_way));
        options.extend(self.wishes.unused.iter().map(|option| (option.as_str(), true)));
        if let Some(text) = without_effect(far, &options)
            && !std::mem::replace(&mut self.is_unused_told, true)
        {
            (self.watch.events)(Event::Note(text));
        }
    }

    /// Says what was asked for and is only for files. A pipe that has a name may be waited for; one that is given is
    /// there.
    fn tell_unused_of_pipe(&self, is_given: bool) {
        let until = &self.wishes.terms.until;
        let options = [
            ("-f", until.forever),
            ("--wait", until.wait && is_given),
            ("--poll", until.poll_ms.is_some()),
            ("--recheck", until.recheck),
        ];
        let unused: Vec<&str> =
            options.into_iter().filter_map(|(option, is_asked)| is_asked.then_some(option)).collect();
        if !unused.is_empty() {
            let text = format!("without effect for a pipe: {}", unused.join(", "));
            (self.watch.events)(Event::Note(text));
        }
    }

    pub(super) fn opening(&self, transfer: TransferNumber, request: Request, terms: Terms) -> Open {
        Open { transfer, request, terms, signer: Some(self.identity.signatory()) }
    }

    /// The bytes of `asked` that the far side has `granted`, to be kept until they are marked; less is told, once.
    /// `keeps`: which side that is.
    pub(super) fn granted(&mut self, granted: u64, asked: u64, keeps: &str) -> u64 {
        let granted = granted.min(asked);
        if granted < asked && !std::mem::replace(&mut self.is_window_told, true) {
            let text = format!(
                "the {keeps} keeps at most {granted} bytes of a stream in memory until they are durable, of the {asked} that \
                 were asked for (--buffer): that is what there is room for beside others"
            );
            (self.watch.events)(Event::Note(text));
        }
        granted
    }

    pub(super) fn plan(&self, client: &Client, direction: Direction) -> Plan {
        let (sender, receiver) = client.systems(direction);
        self.planned(Path { rtt: Some(client.rtt), sender, receiver, ..Path::default() })
    }

    pub(super) fn planned(&self, path: Path) -> Plan {
        let plan = plan::plan(&self.asked(), &path);
        (self.watch.events)(Event::Planned(Box::new(plan.clone())));
        plan
    }

    /// What a plan goes by besides the path.
    pub(super) fn asked(&self) -> Asked {
        let rate_bits_per_s = self.wishes.rate.bytes_per_s().map(|rate| rate.saturating_mul(8));
        let why = "pieces come one after the other: more only let them overtake";
        let streams_most = Some((FLOW_STREAMS_MAX, why));
        Asked { rate_bits_per_s, streams_most, ..self.wishes.asked.clone() }
    }

    pub(super) fn terms(&self, plan: &Plan, job_key: [u8; 16]) -> Terms {
        Terms {
            check: Check::Digest,
            rate_bytes_per_s: self.wishes.rate.bytes_per_s(),
            job_key,
            ..self.wishes.link.terms(plan)
        }
    }

    /// `place`: where it is written, if that is here and keeps anything.
    pub(super) fn signer(&self, peer: Signatory, place: Option<Place>) -> Signer<'_> {
        let header = self.wishes.receipt.as_ref().map(|receipt| receipt.header);
        let kind = TransferKind::Stream;
        let signer = Signer { identity: self.identity, kind, peer, session: None, place, header };
        if let Some(text) = agree::note_of(&signer) {
            (self.watch.events)(Event::Note(text));
        }
        signer
    }

    pub(super) fn signer_with(
        &self,
        client: &Client,
        number: TransferNumber,
        server: Signatory,
        place: Option<Place>,
    ) -> Signer<'_> {
        Signer { session: Some(client.session.tie(number)), ..self.signer(server, place) }
    }

    pub(super) fn lines(&self) -> Option<LineSink> {
        self.wishes.receipt.as_ref().map(|receipt| (receipt.lines)())
    }
}

/// Where a stream is written, as its receiver states it.
pub(super) fn place_of(to: &FlowTo) -> Option<Place> {
    match to {
        FlowTo::Local(path) => Some(agree::place_of(path)),
        FlowTo::Pipe(_) | FlowTo::Null | FlowTo::Far(..) => None,
    }
}

/// A path is opened as often as it takes, a descriptor once.
pub(super) fn open_destination(
    to: &mut Option<FlowTo>,
    form: &SourceForm,
    terms: &Terms,
) -> Result<Arc<dyn FlowDestination>> {
    let to = match to {
        Some(FlowTo::Local(path)) => FlowTo::Local(path.clone()),
        to => to.take().ok_or_else(|| internal("the destination is gone"))?,
    };
    destination_of(to, form, terms)
}

fn destination_of(to: FlowTo, form: &SourceForm, terms: &Terms) -> Result<Arc<dyn FlowDestination>> {
    match to {
        FlowTo::Null => Ok(Arc::new(NullFlows)),
        FlowTo::Pipe(_) if *form == SourceForm::Many => {
            let cause = "a directory does not go into a pipe: name a single file";
            Err(Failure::new(FailureKind::Usage, OPEN_DESTINATION, cause))
        }
        FlowTo::Pipe(pipe) => Ok(Arc::new(PipeDestination::new(pipe))),
        FlowTo::Local(path) => {
            let slash = path.as_os_str().as_bytes().ends_with(b"/");
            let place = DestinationPlace { path, below: None };
            Ok(Arc::new(LocalFlows::open(place, form, slash, &terms.job_key)?))
        }
        FlowTo::Far(..) => Err(internal("the destination is far")),
    }
}

/// Same destination, same key, whatever the source: one stream at a time marks what grows there.
pub(super) fn job_key_of(far: Option<(&Arc<FarMover>, &Place)>, to: &FlowTo) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 key of a stream");
    if let Some((_, place)) = far {
        hasher.update(place.export.as_deref().unwrap_or("").as_bytes()).update(b"\0").update(&place.path);
    }
    if let FlowTo::Local(path) = to {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        hasher.update(absolute.as_os_str().as_bytes());
    }
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}
