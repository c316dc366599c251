//! Far movers for commands that only ask.

use crate::args::places::AskArgs;
use crate::place::Places;
use thalweg_client::fars::{Fars, How};
pub use thalweg_client::reach::Reach;

/// Those of the places of a command that only asks.
pub fn fars(args: &AskArgs, places: &Places) -> Fars {
    Fars::new(How::to_ask(places, args.ticket.as_deref(), args.ssh.options()))
}
