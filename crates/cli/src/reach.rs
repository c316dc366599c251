//! Far movers for commands that only ask.

use crate::args::places::AskArgs;
use crate::place::Places;
use thalweg_client::far_movers::FarMovers;
pub use thalweg_client::reach::Reach;

/// Those of the places of a command that only asks.
pub fn far_movers(args: &AskArgs, places: &Places) -> FarMovers {
    FarMovers::new(args.how(places))
}
