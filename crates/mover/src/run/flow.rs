//! Transfers of flows at work: what [`crate::flow`] decides, done by threads.
//!
//! The sending side has a thread that reads ([`crate::endpoint::feed`]); the session's streams take pieces from it. The
//! receiving side has three: one opens what is there, one writes, one makes marks. Both sides outlive sessions: after
//! an outage that a session did not survive they go on in the next one, where they were.

pub mod sender;

pub mod receiver;

pub mod local;

pub mod lags;

pub mod slot;

pub mod job;

mod entry;

mod failing;
