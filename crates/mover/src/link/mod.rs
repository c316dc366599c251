//! All connections between two movers.
