//! Knobs of a copy that are turned by hand: of cp and sync, and of predict, which asks how long such a copy takes.

use super::copy::{CheckBy, parse_memory};
use crate::units;
use thalweg_client::options::knobs::{self, Sides};
use thalweg_mover::failure::Failure;
use thalweg_mover::plan;
use thalweg_wire::message::{Direct, Order};

/// What is remembered of copies goes by each of them: see [`thalweg_client::profiles::ByHand`].
#[derive(Debug, clap::Args)]
pub struct KnobArgs {
    /// Compress where it pays
    #[arg(short = 'z', long)]
    pub compress: bool,
    /// Compress what this side sends also where that does not pay: to measure what it would take
    #[arg(long, hide = true, requires = "compress")]
    pub compress_always: bool,
    /// Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route
    #[arg(long)]
    pub no_tune: bool,
    /// How to recognise what is there already
    #[arg(long, value_enum, default_value_t = CheckBy::Evidence)]
    pub check: CheckBy,
    /// Before a file is sent that the destination lacks, look there for its content under other names, by size and
    /// time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in
    /// a bucket or a dry run, nor with `--check nothing`
    #[arg(long)]
    pub find_renames: bool,
    /// Requests to a disk in flight for each stream (default: 4)
    #[arg(long, value_name = "N", value_parser = parse_io_depth)]
    pub io_depth: Option<u16>,
    /// Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side
    /// source=on, for both source=on,destination=off
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = knobs::parse_direct)]
    pub direct: Sides<Direct>,
    /// Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial,
    /// for both source=layout,destination=serial. At the destination serial, loose or none (default:
    /// source=loose,destination=none)
    #[arg(long, value_name = "ORDER", value_parser = knobs::parse_order)]
    pub order: Option<Sides<Order>>,
    /// Helper threads for requests in flight, even where there is an io_uring
    #[arg(long)]
    pub no_io_uring: bool,
    /// Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound
    /// (default: 256)
    #[arg(long, value_name = "N", value_parser = parse_concurrency)]
    pub concurrency: Option<u32>,
    /// Chunks or packs of small files in flight in each stream (default: as many as the window takes)
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub depth: Option<u32>,
    /// Bytes of a chunk: a power of two from 64KiB to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk)]
    pub chunk: Option<u64>,
    /// Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default:
    /// near 1MiB, far 512KiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_request)]
    pub request: Option<u32>,
    /// Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far
    /// side has a bound of its own: serve --memory)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)
    #[arg(long, value_name = "SIZE", value_parser = parse_window)]
    pub window: Option<u64>,
}

impl KnobArgs {
    /// What is asked of a plan, with so many streams; `yields`: to everybody else.
    ///
    /// # Errors
    /// `Usage` for knobs that do not go together.
    pub fn asked(&self, streams: Option<u16>, yields: bool) -> Result<plan::Asked, Failure> {
        let asked = plan::Asked {
            streams,
            chunk_bytes: self.chunk,
            concurrency: self.concurrency,
            depth: self.depth,
            request_bytes: self.request,
            window_bytes: self.window,
            memory_bytes: self.memory,
            disk: knobs::disk(Some(self.direct), self.order, self.io_depth, self.no_io_uring),
            yields,
            compress: self.compress,
            compress_always: self.compress_always,
            ..plan::Asked::default()
        };
        knobs::check(&asked)?;
        Ok(asked)
    }
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::chunk)
}

fn parse_concurrency(text: &str) -> Result<u32, String> {
    knobs::concurrency(parse_count(text))
}

fn parse_depth(text: &str) -> Result<u32, String> {
    knobs::depth(parse_count(text))
}

/// None, which no count may be, for what is no number.
fn parse_count(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

fn parse_request(text: &str) -> Result<u32, String> {
    units::parse_size(text).and_then(knobs::request)
}

fn parse_io_depth(text: &str) -> Result<u16, String> {
    knobs::io_depth(parse_count(text))
}

fn parse_window(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::window)
}
