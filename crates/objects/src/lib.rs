//! Object stores: buckets that speak S3's protocol, as sources and destinations of copies.
//!
//! Names in the order in which a request passes them; [`source`] and [`destination`] are the mover's endpoints on top.

pub mod location;

pub mod options;

pub mod credentials;

pub mod http;

pub mod retries;

pub mod answers;

pub mod store;

mod bucket;

pub mod source;

pub mod destination;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
