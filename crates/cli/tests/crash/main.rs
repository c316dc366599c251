//! Kill anything, any number of times, at any moment: nothing is lost, nothing half stands under a final name, little
//! is sent again, nothing is left behind. Rows C-1 to C-6, C-8, C-9, I-8 and I-9 of docs/faults.md.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

#[path = "../support/mod.rs"]
mod support;

// Killed at any moment, or for want of memory; the daemon too.
mod kills;

// Asked to stop.
mod stops;

// Killed at each call to the kernel.
mod calls;

// Power that is cut, disks that stop syncing.
mod power;

// What is left for the next attempt, and rots.
mod rot;
