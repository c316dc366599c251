//! Values of options as users write them: what they mean, which there are, and how the program writes them itself.

pub mod units;

pub mod memory;

pub mod names;

pub mod addresses;

pub mod congestion;

pub mod knobs;

pub mod dataset;

pub mod simulated;
