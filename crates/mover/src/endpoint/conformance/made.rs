//! Endpoints that need no disk, and the ones around others.

use super::destination::{self, DestinationBed, Stands};
use super::flow::{self, FlowBed};
use super::source::{self, Act, SourceBed};
use super::{Missing, none_of};
use crate::endpoint::content::Content;
use crate::endpoint::dataset::{DESCRIPTION_NAME, DatasetSource, DatasetSpec};
use crate::endpoint::flow_destination::{FlowDestination, NullFlows, PipeDestination};
use crate::endpoint::simulated::{ArraySpec, SimulatedDisk, SimulatedSource};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::synthetic::{NoiseSource, NullDestination, ZeroSource, fill_with_noise};
use crate::endpoint::{Destination, Source};
use std::collections::BTreeMap;
use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_wire::message::Terms;

/// A source in which nothing changes.
struct Made<S> {
    source: S,
    files: Vec<(String, Vec<u8>)>,
}

impl<S: Fn() -> Arc<dyn Source>> SourceBed for Made<S> {
    fn source(&self) -> Arc<dyn Source> {
        (self.source)()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.files.clone()
    }

    fn change(&self, _: Act) -> bool {
        false
    }
}

/// Checks what a source in which nothing changes has to keep.
fn check_made(
    source: impl Fn() -> Arc<dyn Source> + Clone + 'static,
    files: &[(String, Vec<u8>)],
    missing: &Missing,
) {
    let bed = || -> Box<dyn SourceBed> { Box::new(Made { source: source.clone(), files: files.to_vec() }) };
    source::check(source::PROMISES, missing, &bed);
    none_of(source::CHANGES, "nothing in it can be changed");
}

const ANY_NAME: &str = "it makes a file whatever it is called";

fn noisy(file: &str, bytes: usize) -> (String, Vec<u8>) {
    let mut content = vec![0; bytes];
    fill_with_noise(&mut content, 0);
    (file.to_owned(), content)
}

#[test]
fn a_source_of_zeros_keeps_what_sources_promise() {
    const BYTES: usize = 70_001;
    let missing = [(source::UNKNOWN_IS_NOT_FOUND, ANY_NAME), (source::UNKNOWN_IS_NOT_SEEN, ANY_NAME)];
    let source = || -> Arc<dyn Source> { Arc::new(ZeroSource { bytes: BYTES as u64 }) };
    check_made(source, &[("zero".to_owned(), vec![0; BYTES])], &missing);
}

#[test]
fn a_source_of_noise_keeps_what_sources_promise() {
    let missing = [(source::UNKNOWN_IS_NOT_FOUND, ANY_NAME), (source::UNKNOWN_IS_NOT_SEEN, ANY_NAME)];
    let source = || -> Arc<dyn Source> { Arc::new(NoiseSource { bytes: 10_000, file_bytes: 4000 }) };
    let files = [noisy("noise-0", 4000), noisy("noise-1", 4000), noisy("noise-2", 2000)];
    check_made(source, &files, &missing);
}

#[test]
fn a_source_that_is_spared_and_cut_keeps_what_sources_promise() {
    let missing = [(source::UNKNOWN_IS_NOT_FOUND, ANY_NAME), (source::UNKNOWN_IS_NOT_SEEN, ANY_NAME)];
    let source = || -> Arc<dyn Source> {
        let noise = NoiseSource { bytes: 8000, file_bytes: 4000 };
        Arc::new(SparingSource::new(Arc::new(noise), 6000))
    };
    // The second is where the bytes are used up.
    check_made(source, &[noisy("noise-0", 4000), noisy("noise-1", 2000)], &missing);
}

#[test]
fn a_data_set_keeps_what_sources_promise() {
    // Some 4 of 8 extents are holes.
    let spec = DatasetSpec {
        files: 2,
        sizes: vec![((3 << 20) + 17, 1)],
        sparse_percent: 50,
        ..DatasetSpec::default()
    };
    let mut files = vec![(DESCRIPTION_NAME.to_owned(), spec.description())];
    for number in 0..spec.files {
        let file = spec.file(number);
        let mut content = vec![0; file.bytes as usize];
        file.fill(0, &mut content);
        files.push((file.path, content));
    }
    let source = move || -> Arc<dyn Source> { Arc::new(DatasetSource::new(spec.clone()).unwrap()) };
    check_made(source, &files, &[]);
}

/// One that takes next to no time.
fn array(bytes: u64) -> ArraySpec {
    ArraySpec {
        seek: Duration::ZERO,
        bytes_per_s: 100_000_000_000,
        devices: 4,
        is_scattered: true,
        bytes,
        seed: 5,
        ..ArraySpec::default()
    }
}

#[test]
fn a_simulated_array_keeps_what_sources_promise() {
    const BYTES: usize = 300_001;
    let missing = [(source::UNKNOWN_IS_NOT_FOUND, ANY_NAME), (source::UNKNOWN_IS_NOT_SEEN, ANY_NAME)];
    let spec = array(BYTES as u64);
    let mut content = vec![0; BYTES];
    Content::Noise.fill(spec.seed, 0, &mut content);
    let source = move || -> Arc<dyn Source> { Arc::new(SimulatedSource::new(spec.clone()).unwrap()) };
    check_made(source, &[("sim".to_owned(), content)], &missing);
}

/// Nowhere, on a disk that takes its time or not.
struct Nowhere {
    is_on_disk: bool,
}

impl DestinationBed for Nowhere {
    fn open(&self, _: Terms) -> Arc<dyn Destination> {
        match self.is_on_disk {
            true => Arc::new(NullDestination::on(SimulatedDisk::new(array(64 << 20)).unwrap())),
            false => Arc::new(NullDestination::default()),
        }
    }

    fn stands(&self) -> BTreeMap<String, Stands> {
        BTreeMap::new()
    }

    fn hidden(&self) -> usize {
        0
    }

    fn put(&self, _: &str, _: &[u8]) {}

    fn lead_out(&self, _: &str) {}

    fn outside(&self) -> BTreeMap<String, Stands> {
        BTreeMap::new()
    }
}

#[test]
fn a_destination_that_keeps_nothing_takes_all_that_destinations_promise_to_take() {
    for is_on_disk in [false, true] {
        let bed = || -> Box<dyn DestinationBed> { Box::new(Nowhere { is_on_disk }) };
        destination::check(destination::PROMISES, &[], &bed);
    }
    none_of(destination::KEPT, "it keeps nothing");
}

struct NoFlow;

impl FlowBed for NoFlow {
    fn open(&self) -> Box<dyn FlowDestination> {
        Box::new(NullFlows)
    }

    fn content(&self) -> Vec<u8> {
        Vec::new()
    }

    fn hidden(&self) -> usize {
        0
    }

    fn block(&self) {}

    fn consumer_ends(&self) -> bool {
        false
    }
}

#[test]
fn flows_to_nowhere_keep_what_flows_promise() {
    const REASON: &str = "nothing is kept of a flow";
    let bed = || -> Box<dyn FlowBed> { Box::new(NoFlow) };
    flow::check(flow::PROMISES, &[(flow::ARRIVES, REASON)], &bed);
    none_of(flow::KEPT, REASON);
}

/// A pipe, for one transfer, and who reads it.
struct ReadPipe {
    written: Mutex<Option<OwnedFd>>,
    read: Mutex<Option<PipeReader>>,
}

impl ReadPipe {
    fn new() -> ReadPipe {
        let (read, write) = std::io::pipe().unwrap();
        ReadPipe { written: Mutex::new(Some(write.into())), read: Mutex::new(Some(read)) }
    }
}

impl FlowBed for ReadPipe {
    fn open(&self) -> Box<dyn FlowDestination> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::new(PipeDestination::new(written.expect("it is opened once")))
    }

    fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // To the end, which comes with the end of the transfer.
        read.as_mut().expect("it is read").read_to_end(&mut content).unwrap();
        content
    }

    fn hidden(&self) -> usize {
        0
    }

    fn block(&self) {}

    fn consumer_ends(&self) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

#[test]
fn a_flow_into_a_pipe_keeps_what_flows_promise() {
    let bed = || -> Box<dyn FlowBed> { Box::new(ReadPipe::new()) };
    flow::check(flow::PROMISES, &[], &bed);
    none_of(flow::KEPT, "what a pipe has taken is gone, and it takes nothing a second time");
}
