//! The daemon: accepts connections, guards exports, and runs the server's side of sessions.
//!
//! It never sees a sealed frame: after TLS and hello a connection belongs to a [`thalweg_mover::run::session`]. What a
//! daemon keeps for all of its clients is here: hubs of detectors' frames, slots, the log.
#![forbid(unsafe_code)]

pub mod export;

pub mod accept;

mod room;

pub mod host;

mod flows;

mod frames;

mod log;

pub mod published;

mod answer;

pub mod manager;

pub mod slots;
