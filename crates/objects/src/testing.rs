//! A store in memory that can be told to fail.
