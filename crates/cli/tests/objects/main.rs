//! Copies to and from buckets, with real servers: versitygw and moto. Each test runs with both, one after the other,
//! unless only one of them can do what it is about.

#[path = "../support/mod.rs"]
mod support;

// Others need more of it.
#[allow(dead_code)]
#[path = "../support/sshd.rs"]
mod sshd;

// The servers, and what is in them without us.
mod servers;

// Trees and single objects, there and back.
mod trees;

// Keys and names that are not what the other side has.
mod names;

// Buckets that are watched.
mod watched;

// What is killed, overwritten or left behind.
mod breaks;

// By ssh, through a daemon, by https.
mod ways;

// What is refused, and with which words.
mod refusals;
