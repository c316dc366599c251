//! One property for each decoder. The fuzz targets run them on what libFuzzer makes up; `corpus.rs` in the tests of
//! the crates runs them on every file of `corpus/`, so that what was found stays fixed.

pub mod wire;

pub mod mover;

pub mod cli;
