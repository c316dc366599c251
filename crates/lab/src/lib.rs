//! The laboratory: how a path behaves, found out on one machine.
//!
//! Nothing here knows the command line: models and results are values that others show.
#![forbid(unsafe_code)]

// Hosts as network namespaces, joined by an emulated path.
pub mod testbed;

// What of a machine stands in the way of moving data.
pub mod doctor;

// From measurements of the parts of a way to its narrowest stage.
pub mod probe;

// Suites of measurements, their result files, and what is said of samples.
pub mod bench;

// Data sets made of numbers: written, and checked without a second copy.
pub mod dataset;

// Figures: what they say, and how they are drawn.
pub mod plot;

// From result files to figures and one HTML report.
pub mod report;

// Programs around programs.
pub mod wrap;
