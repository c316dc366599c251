//! Far movers for commands that only ask.

use crate::args::places::AskArgs;
use crate::place::Places;
use thalweg_client::far_movers::{FarMovers, How};
pub use thalweg_client::reach::Reach;

/// Those of the places of a command that only asks.
pub fn far_movers(args: &AskArgs, places: &Places) -> FarMovers {
    FarMovers::new(How::to_ask(places, args.ticket.as_deref(), args.ssh.options()))
}
