//! Two hosts, or more, as network namespaces on this machine, joined by an emulated path. Any program runs in them.
//!
//! ```text
//! left-1  eth0 ─┐ veth                                        veth ┌─ eth0  right-1
//!               ├──── router: forward hook ── queue ── wire ───────┤
//! left-2  eth0 ─┘                                                  └─ eth0  right-2
//! ```
//!
//! Between the sides every packet goes through the wire ([`wire`] decides, [`direction`] does). Hosts of one side reach
//! each other without it.
//!
//! **Nothing is left behind.** The namespaces have no names: they live by descriptors that the testbed's own process
//! holds, and all devices, rules and queues live in them. When that process ends, of whatever, the [`warden`] ends the
//! programs in the hosts, and the kernel takes all of it away. What is left then is a directory with its record, which
//! the next `up`, `down`, `list` or `status` removes, of whatever name; they end programs in the hosts as well, if the
//! warden could not.

// What becomes of each packet, and when: decides.
pub mod wire;

// The papers' paths.
pub mod presets;

// What a testbed is to be.
pub mod spec;

// Where testbeds are recorded, and how they are found, asked and removed.
pub mod registry;

// The testbed's own process.
pub mod daemon;

// The process that ends what runs in the hosts, once the testbed's own has ended.
pub mod warden;

// The hosts: namespaces, devices, addresses.
pub(crate) mod hosts;

// One direction of the path: does.
mod direction;

// Messages to netfilter.
pub(crate) mod netlink;

// How well the path keeps what was asked, measured.
pub mod check;
