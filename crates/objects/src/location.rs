//! Buckets and keys as users write them.
