//! A bucket as a source.
