//! A bucket as a destination.
