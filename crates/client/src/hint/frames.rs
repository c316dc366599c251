use thalweg_wire::message::{Failure, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match failure.reason {
        // A sender of frames that was let in before says `Connection` where it is not let in again.
        Reason::NoWindow => {
            "ask for less (a smaller --window), have the daemon give more (`serve --frames-memory`), or wait until others are done"
        }
        Reason::NameTaken => "end the other one, or take another name: --producer, or --name of a consumer",
        Reason::ChannelCrowded => {
            "have consumers take what is there and end who is not needed (`thalweg frames status` tells who is there), or use \
             another channel"
        }
        Reason::LogNotWritten => {
            "make room where the hub's log is (or make it writable): it tries again until it can. Of a log that is full and keeps \
             all, the next hub has more with a larger --spill-size"
        }
        Reason::ConsumersSlow => {
            "its consumers are slower than its producers, or away: `thalweg frames status` tells who is how far behind"
        }
        Reason::SetOver => {
            "give this set another number (--set), or use another channel: frames of a set that is over count in none"
        }
        Reason::NoChannelRoom => {
            "the hub has no room for one more channel: wait until one is not used any more, open the others with less (--memory), or \
             have the daemon give more (`serve --frames-memory`)"
        }
        Reason::LogTaken => {
            "another daemon, or a `frames pull --hub`, serves the same directory: end it, or use another channel"
        }
        Reason::HubDirectoryTaken => {
            "end the other `frames pull --hub`, or choose another directory: each hub has its own"
        }
        Reason::LogChanged => {
            "leave alone what is beside a channel's name as long as its hub runs; a hub that is started anew begins a new log"
        }
        Reason::LogSizeUnknown => {
            "write the bytes that the log may have into that file, as a number: at least what its files have now"
        }
        _ => return None,
    })
}
