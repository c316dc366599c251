//! A transfer as its session sees it: one of five kinds, and what is done alike with all of them.

use crate::failure::{Failure, Result};
use crate::run::flow::receiver::FlowReceive;
use crate::run::flow::sender::FlowSend;
use crate::run::frames::FramesLink;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::SendRun;
use crate::stage::Stage;
use std::sync::Arc;
use thalweg_wire::message::{Heartbeat, Terms, TransferMessage};

/// One side of a transfer.
#[derive(Clone)]
pub enum Transfer {
    /// We send.
    Send(Arc<SendRun>),
    /// We receive.
    Receive(Arc<ReceiveRun>),
    /// We send what is still being made.
    SendFlows(Arc<FlowSend>),
    /// We receive it.
    ReceiveFlows(Arc<FlowReceive>),
    /// One end of a lane of frames.
    Frames(Arc<dyn FramesLink>),
}

/// What of a transfer got across: what the peer acknowledged, and what it sent well.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Crossed {
    /// Content bytes that are verified at the destination.
    pub verified_bytes: u64,
    /// Of these, durable.
    pub durable_bytes: u64,
    /// Entries or flows that are settled.
    pub settled: u64,
    /// One, if it has ended.
    pub ended: u64,
    /// Bytes that we verified, segments of chunks that are not whole included.
    pub received_bytes: u64,
    /// Bytes that we sent: no claim of the peer counts beyond these.
    pub sent_bytes: u64,
}

impl Transfer {
    /// What both sides agreed on.
    pub fn terms(&self) -> &Terms {
        match self {
            Transfer::Send(run) => run.terms(),
            Transfer::Receive(run) => run.terms(),
            Transfer::SendFlows(run) => run.terms(),
            Transfer::ReceiveFlows(run) => run.terms(),
            Transfer::Frames(run) => run.terms(),
        }
    }

    /// Whether we send.
    pub fn sends(&self) -> bool {
        match self {
            Transfer::Send(_) | Transfer::SendFlows(_) => true,
            Transfer::Receive(_) | Transfer::ReceiveFlows(_) => false,
            Transfer::Frames(run) => run.sends(),
        }
    }

    /// Whether it writes at the destination of this job.
    pub fn writes_for(&self, job_key: &[u8; 16]) -> bool {
        matches!(self, Transfer::Receive(_) | Transfer::ReceiveFlows(_)) && self.terms().job_key == *job_key
    }

    /// What got across so far.
    pub(crate) fn crossed(&self) -> Crossed {
        match self {
            Transfer::Send(run) => {
                let progress = run.progress();
                Crossed {
                    verified_bytes: progress.bytes_verified,
                    durable_bytes: progress.bytes_durable,
                    settled: progress.entries_settled,
                    ..sent(&**run)
                }
            }
            Transfer::SendFlows(run) => {
                let progress = run.progress();
                Crossed { durable_bytes: progress.marked_bytes, settled: progress.settled, ..sent(&**run) }
            }
            Transfer::Receive(run) => received(&run.progress(), &**run),
            Transfer::ReceiveFlows(run) => received(&run.progress(), &**run),
            Transfer::Frames(run) => Crossed {
                verified_bytes: run.moved_bytes(),
                sent_bytes: if run.sends() { run.accounts().bytes(Stage::Send) } else { 0 },
                ..Crossed::default()
            },
        }
    }

    /// The peer said something to it.
    pub(super) fn hear(&self, message: TransferMessage) -> Result<()> {
        match self {
            Transfer::Send(run) => run.hear(message),
            Transfer::Receive(run) => run.hear(message),
            Transfer::SendFlows(run) => run.hear(message),
            Transfer::ReceiveFlows(run) => run.hear(message),
            Transfer::Frames(run) => run.hear(message),
        }
    }

    /// The link stands (again).
    pub(super) fn link_up(&self) {
        match self {
            Transfer::Send(run) => run.link_up(),
            Transfer::Receive(run) => run.link_up(),
            Transfer::SendFlows(run) => run.link_up(),
            Transfer::ReceiveFlows(run) => run.link_up(),
            Transfer::Frames(run) => run.link_up(),
        }
    }

    /// The link is lost; it may come back.
    pub(super) fn link_lost(&self) {
        if let Transfer::Frames(run) = self {
            run.link_lost();
        }
        self.drop_unsaid();
    }

    /// What still waits to be said to the link that was is not for the next one, which is told everything anew.
    pub(super) fn drop_unsaid(&self) {
        match self {
            Transfer::Send(run) => run.link_lost(),
            Transfer::Receive(run) => run.link_lost(),
            _ => {}
        }
    }

    /// A stream is ready.
    pub(super) fn stream_up(&self, stream: u16) {
        if let Transfer::Send(run) = self {
            run.stream_up(stream);
        }
    }

    /// A stream is gone: what it carried may never have arrived.
    pub(super) fn stream_lost(&self, stream: u16) {
        match self {
            Transfer::Send(run) => run.stream_lost(stream),
            Transfer::SendFlows(run) => run.stream_lost(stream),
            Transfer::Frames(run) => run.stream_lost(stream),
            Transfer::Receive(_) | Transfer::ReceiveFlows(_) => {}
        }
    }

    /// The session ends. What may go on in another one waits for that: whoever has it ends it.
    pub(super) fn session_ends(&self, why: &Failure) {
        match self {
            Transfer::Send(run) if run.ended().is_none() => run.abort(why.clone()),
            Transfer::Receive(run) if run.ended().is_none() => run.abort(why.clone()),
            Transfer::Send(_) | Transfer::Receive(_) => {}
            Transfer::SendFlows(run) => run.detach(),
            Transfer::ReceiveFlows(run) => run.detach(),
            Transfer::Frames(run) => run.detach(),
        }
    }

    /// Some times a second; if it is to `tell`, the peer hears our accounts.
    pub(super) fn tick(&self, tell: bool) {
        match self {
            Transfer::Send(run) => run.tick(),
            Transfer::Receive(run) => run.tick(),
            Transfer::Frames(run) => run.tick(),
            Transfer::SendFlows(_) | Transfer::ReceiveFlows(_) => {}
        }
        match self {
            Transfer::Send(run) if tell => run.tell_accounts(),
            Transfer::Receive(run) if tell => run.tell_accounts(),
            Transfer::SendFlows(run) if tell => run.tell_accounts(),
            Transfer::ReceiveFlows(run) if tell => run.tell_accounts(),
            _ => {}
        }
    }
}

fn sent(run: &impl Party) -> Crossed {
    Crossed {
        ended: u64::from(run.ended().is_some()),
        sent_bytes: run.accounts().bytes(Stage::Send),
        ..Crossed::default()
    }
}

fn received(progress: &Heartbeat, run: &impl Party) -> Crossed {
    Crossed {
        verified_bytes: progress.verified_bytes,
        durable_bytes: progress.durable_bytes,
        settled: progress.settled_entries,
        ended: u64::from(run.ended().is_some()),
        received_bytes: run.accounts().good_bytes(),
        sent_bytes: 0,
    }
}
