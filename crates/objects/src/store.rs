//! One bucket.
