//! Requests: one agent, limits of time.
