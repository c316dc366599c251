//! Tokens of identity providers (OpenID Connect), as a server checks them: whose they are, for whom, until when.
//! Nothing is asked of a provider but its keys, and nothing of ours is known to it.
//!
//! 1. [`issuer_of`] says which provider a token names. Nothing else of it is believed until its signature is checked.
//! 2. [`Provider::check`] checks it against the keys of that provider: a signature by an asymmetric algorithm, `iss`,
//!    `aud`, `exp`, `nbf`, and what kind of token it is (RFC 7519, RFC 8725, RFC 9068).
//! 3. The keys are found as OpenID Connect Discovery says, and kept: [`Provider`].
//!
//! Not here: what a token permits; and how a client comes by one.
#![forbid(unsafe_code)]

mod http;

mod keys;

mod check;

pub use check::{Checked, NotGood, Provider, issuer_of};
