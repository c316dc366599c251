//! thalweg.
fn main() {}
