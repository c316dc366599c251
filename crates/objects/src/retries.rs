//! What is asked again, and when.
