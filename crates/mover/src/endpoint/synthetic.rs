//! `zero:` and `null:`.
