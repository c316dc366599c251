use thalweg_wire::message::{Failure, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match failure.reason {
        Reason::StateTaken => {
            "end the other daemon, or give this one a state directory of its own: --state DIR"
        }
        Reason::PortTaken => "another program has this port: choose one with --listen ADDRESS:PORT",
        Reason::DestinationTaken => "wait for the other transfer, or stop it",
        Reason::GrowingTaken => {
            "give each stream a directory of its own, or wait for the other one, or stop it"
        }
        Reason::CopySilent => {
            "one that was stopped (Ctrl-Z) answers when it goes on: `fg`, or kill -CONT and its number"
        }
        Reason::WatchTaken => "end the other `thalweg watch`, or leave the work to it",
        _ => return None,
    })
}
