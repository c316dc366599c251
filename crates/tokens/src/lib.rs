//! Tokens of identity providers (OpenID Connect), as a server checks them: whose they are, for whom, until when. Such a
//! server asks nothing of a provider but its keys, and nothing of ours is known to it.
//!
//! 1. [`issuer_of`] says which provider a token names. Nothing else of it is believed until its signature is checked.
//! 2. [`Provider::check`] checks it against the keys of that provider: a signature by an asymmetric algorithm, `iss`,
//!    `aud`, `exp`, `nbf`, and what kind of token it is (RFC 7519, RFC 8725, RFC 9068).
//! 3. The keys are found as OpenID Connect Discovery says, and kept: [`Provider`].
//!
//! A client comes by one by a [`Login`] at the provider, which is approved in a browser.
//!
//! Not here: what a token permits; and where a client keeps it.
#![forbid(unsafe_code)]

mod http;

mod discovery;

mod keys;

mod check;

mod login;

pub use check::{Checked, NotGood, Provider, issuer_of};
pub use http::{GRANT_LIMIT, LOGIN_LIMIT};
pub use login::{Asked, Granted, Login, Pace, Polled};
