//! One property for each decoder. The fuzz targets run them on what libFuzzer makes up; `crates/wire/tests/corpus.rs` and
//! `crates/mover/tests/corpus.rs` run them on every file of `corpus/`, so that what was found stays fixed.

pub mod wire;

#[cfg(feature = "mover")]
pub mod mover;
