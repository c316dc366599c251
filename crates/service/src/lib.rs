//! The daemon: accepts connections, guards exports, and runs the server's side of sessions.
//!
//! It never sees a sealed frame: after TLS and hello a connection belongs to a [`thalweg_mover::run::session`]. What a
//! daemon keeps for all of its clients is here: hubs of detectors' frames, slots, the log.
//!
//! Clients use of it [`published`], by which they tell `thalweg why` of their transfers as a daemon does of its own,
//! and [`sessions`], where they are servers themselves: a mover that ssh started, a hub of one's own.
#![forbid(unsafe_code)]

pub mod export;

mod counts;

pub mod tickets;

pub mod accept;

mod min_free;

pub mod sessions;

mod flows;

mod frames;

mod log;

pub mod published;

pub mod metrics;

pub mod errands;

mod answer;

pub mod sd_notify;

pub mod slots;
