//! What the sender's kernel says about the path.

use super::need::{Cause, Need};
use super::slow::{self, Slow};
use super::{Evidence, Where};
use crate::stage::Stage;
use crate::stage::pace::SPACED_TIMES;
use crate::tune::ledbat;
use thalweg_wire::account::StreamAccount;
use thalweg_wire::limits;

/// A window is the bound if it was for this share of the time with anything to send.
const LIMITED: f64 = 0.4;
/// The kernel counts only part of the time in which a window or the send buffer is the bound, above all where it paces.
/// From this share on it is, if what is under way says so too.
const TOUCHED: f64 = 0.1;
/// Packets wait in a queue on the way where the round trip is so many times the smallest, and so much longer in seconds
/// (within a room the smallest is next to nothing), and more of them than a stream begins with.
const QUEUED: f64 = 1.5;
const QUEUED_S: f64 = 0.002;
/// Beyond this round trip, in seconds, something is under way most of the time, whatever the path could carry.
const NEAR_S: f64 = 0.002;
/// Share of bytes sent again from which a path counts as lossy; a full queue loses packets too.
pub(super) const LOSSY: f64 = 2e-4;
/// From this share on it is loss that holds streams back also where packets seem to wait in a queue, if not half of
/// what their windows allow is under way: in front of a full queue all of it is.
const VERY_LOSSY: f64 = 0.01;
/// The link was full if packets waited in a queue for this share of the time with anything to send, by all looks at it.
const QUEUED_LONG: f64 = 0.5;
/// A queue that lost more than this share of what was lost explains the losses, unless such a share of all bytes was
/// lost besides.
const BY_QUEUE: f64 = 0.5;
const BESIDES: f64 = 0.005;
/// As long as it may grow, the kernel keeps a send buffer at nearly three times the congestion window; one that may not
/// is at least two thirds full while its sender waits. More than this share of it under way: the buffer is the bound.
const HELD: f64 = 0.5;
/// What a stream may send before anything was acknowledged (RFC 6928: ten segments), in bytes.
const FIRST_BYTES: f64 = 14_600.0;

/// The path's need: the time in which both sides waited for it. `None` without a path.
pub(super) fn need(evidence: &Evidence) -> Option<Need> {
    if !evidence.is_linked {
        return None;
    }
    let wait = |nanos: u64, threads: f64| nanos as f64 / 1e9 / threads;
    let (sender, receiver) = (&evidence.sender, &evidence.receiver);
    let sending = sender.stage(Stage::Send as u8);
    // Who gives way waits for the path at its own pace.
    let paced = if evidence.yields { sender.stage(Stage::Pace as u8).busy_nanos } else { 0 };
    let sent = wait(sending.output_nanos + paced, evidence.sending_threads());
    let receiving = receiver.stage(Stage::Receive as u8);
    let received = wait(receiving.input_nanos, evidence.receiving_threads());
    // Of a flow it counts no threads.
    let has_told = if evidence.is_flow { receiving.items > 0 } else { receiving.threads > 0 };
    // Until its accounts have come only ours say anything.
    let seconds = if has_told { sent.min(received) } else { sent };
    // Who gives way waits while nothing is under way.
    let at_most = if evidence.yields { f64::INFINITY } else { busy_at_most(evidence) };
    let seconds = (seconds * sharing(evidence)).min(at_most).min(evidence.seconds());
    Some(Need { stage: None, place: Where::Path, cause: cause(evidence), seconds, weight: seconds })
}

/// The most that can have been waited for the path, in seconds: the time with anything to carry, of all streams. A
/// thread that gets no CPU waits for longer until it hears that there is room. Infinite where that is not known: the
/// kernel counts no such time, or streams broke and took theirs along.
fn busy_at_most(evidence: &Evidence) -> f64 {
    /// Of the content: more is missing only where a stream is.
    const WHOLE: f64 = 0.9;
    let busy: f64 = evidence.sender.streams.iter().map(|stream| stream.busy_nanos as f64 / 1e9).sum();
    let is_whole = carried_bytes(evidence) >= evidence.bytes as f64 * WHOLE;
    if is_whole && busy > 0.0 { busy } else { f64::INFINITY }
}

/// How many times as much the streams carried as this transfer's content: others share them, and the wait for the path
/// is booked on the one whose frame came, or went. At least 1.
fn sharing(evidence: &Evidence) -> f64 {
    /// Names, digests and headers are no content.
    const ENTRY_BYTES: f64 = 1024.0;
    /// A digest with its headers, for each of the smallest chunks.
    const COMPARED_SHARE: f64 = 128.0 / limits::CHUNK_BYTES_MIN as f64;
    let names = evidence.entries as f64 * ENTRY_BYTES + evidence.compared_bytes as f64 * COMPARED_SHARE;
    let carried = carried_bytes(evidence) - names;
    (carried / (evidence.bytes as f64).max(1.0)).max(1.0)
}

/// Bytes that the streams carried since the transfer began, those of other transfers included.
pub(super) fn carried_bytes(evidence: &Evidence) -> f64 {
    evidence.sender.streams.iter().map(|stream| stream.acked_bytes as f64).sum()
}

fn cause(evidence: &Evidence) -> Cause {
    let streams = &evidence.sender.streams;
    // What the kernel says of the connections of ssh is not told, or is of the way to a program on the same machine.
    if evidence.in_ssh {
        return Cause::Ssh;
    }
    let sum = |of: fn(&StreamAccount) -> u64| streams.iter().map(of).sum::<u64>() as f64;
    let busy = sum(|stream| stream.busy_nanos).max(1.0);
    if is_window_the_bound(streams) {
        return Cause::Window;
    }
    let lost = lost_share(evidence);
    let (rtt, rtt_min) = (sum(|stream| stream.rtt_nanos), sum(|stream| stream.rtt_min_nanos));
    let waits_s = (rtt - rtt_min) / 1e9 / streams.len().max(1) as f64;
    // A few packets are no queue: that is how long the last of them took.
    let queued = streams.iter().map(|stream| queued_bytes(stream, waits_s)).sum::<f64>();
    let was_full = is_queued_long(streams) || is_lost_by_queue(streams);
    let is_queued = was_full || rtt > rtt_min * QUEUED && waits_s > QUEUED_S && queued > FIRST_BYTES;
    // Who gives way has no more under way than the delay allows: neither losses nor buffers bound it.
    if evidence.yields && is_waiting_for_others(evidence) {
        return Cause::Link;
    }
    let by_buffer = sum(|stream| stream.sndbuf_limited_nanos) / busy;
    let is_buffer_full = is_buffer_full(streams) && !is_queued && lost <= LOSSY;
    if by_buffer > LIMITED || by_buffer > TOUCHED && is_half_empty(streams) || is_buffer_full {
        return Cause::SendBuffer;
    }
    match slow::of(evidence) {
        Some(Slow::Stream(..)) => return Cause::SlowStream,
        Some(Slow::Way(..)) => return Cause::SlowCard,
        None => {}
    }
    if is_held_by_losses(evidence) {
        return Cause::Loss;
    }
    // The last round trip is one look, and may be a long one by chance.
    let is_held_back = lost > VERY_LOSSY && is_half_empty(streams) && !was_full;
    if lost > LOSSY && !is_queued || is_held_back { Cause::Loss } else { Cause::Link }
}

/// Whether packets waited in a queue most of the time, by all looks at it: at the end it is empty.
fn is_queued_long(streams: &[StreamAccount]) -> bool {
    let sum = |of: fn(&StreamAccount) -> u64| streams.iter().map(of).sum::<u64>() as f64;
    sum(|stream| stream.queued_nanos) > sum(|stream| stream.busy_nanos) * QUEUED_LONG
}

/// Whether most of what was lost a full queue lost, and next to nothing the way itself.
fn is_lost_by_queue(streams: &[StreamAccount]) -> bool {
    let sum = |of: fn(&StreamAccount) -> u64| streams.iter().map(of).sum::<u64>() as f64;
    let (lost, by_queue) = (sum(|stream| stream.retransmitted_bytes), sum(|stream| stream.overflow_bytes));
    by_queue > lost * BY_QUEUE && lost - by_queue <= sum(|stream| stream.sent_bytes) * BESIDES
}

/// Whether congestion windows were the bound, and small for what was lost: long after they began streams carried far
/// less than the path was seen to carry. A queue that the beginning overran lost most of it, perhaps; the link is not
/// full for that afterwards.
fn is_held_by_losses(evidence: &Evidence) -> bool {
    /// So many round trips after its beginning a stream is through with it.
    const BEGINNING: f64 = 50.0;
    /// A stream that halves its window at each loss, or takes less off it, carries three quarters of what it had, and
    /// more where a queue keeps the link busy meanwhile.
    const FULL: f64 = 0.6;
    let streams = &evidence.sender.streams;
    let Some(peak) = joint_peak_bytes_per_s(evidence) else { return false };
    let busy = streams.iter().map(|stream| stream.busy_nanos).max().unwrap_or(0) as f64 / 1e9;
    let is_ours = evidence.yields || is_paced(evidence);
    busy > rtt_seconds(evidence) * BEGINNING
        && carried_bytes(evidence) < peak * busy * FULL
        && lost_share(evidence) > 0.0
        && !is_ours
        && !is_half_empty(streams)
        && !is_queued_long(streams)
}

/// Whether we held streams back on purpose, or did: a rate that was kept earlier is none now.
fn is_paced(evidence: &Evidence) -> bool {
    let paced = evidence.sender.stage(Stage::Pace as u8);
    evidence.rate_bytes_per_s.is_some() || paced.bytes > 0 || evidence.sender.limit.is_some()
}

/// Whether packets were seen to wait in a queue, and more often than once by chance.
pub(super) fn is_queue_common(evidence: &Evidence) -> bool {
    /// Of the time with something to send.
    const SEEN: f64 = 0.1;
    let sum = |of: fn(&StreamAccount) -> u64| evidence.sender.streams.iter().map(of).sum::<u64>() as f64;
    sum(|stream| stream.queued_nanos) > sum(|stream| stream.busy_nanos) * SEEN
}

/// Whether the threads that send waited more for what others leave than for the path.
fn is_waiting_for_others(evidence: &Evidence) -> bool {
    let row = |stage: Stage| evidence.sender.stage(stage as u8);
    row(Stage::Pace).busy_nanos > row(Stage::Send).output_nanos
}

/// Whether the path was full nearly all of the time: packets waited in a queue, and it carried what it carries at most.
pub(super) fn is_full(evidence: &Evidence) -> bool {
    /// Of the time: it takes some to begin and to end.
    const NEARLY: f64 = 0.7;
    let Some(peak) = joint_peak_bytes_per_s(evidence) else { return false };
    let seconds = carried_bytes(evidence) / peak;
    is_queued_long(&evidence.sender.streams) && seconds > evidence.seconds() * NEARLY
}

/// Share of bytes that were sent again.
pub(super) fn lost_share(evidence: &Evidence) -> f64 {
    let sum = |of: fn(&StreamAccount) -> u64| evidence.sender.streams.iter().map(of).sum::<u64>() as f64;
    sum(|stream| stream.retransmitted_bytes) / sum(|stream| stream.sent_bytes).max(1.0)
}

/// Bytes that may wait in a queue on the way, where each waits so many seconds: never more than may be under way.
fn queued_bytes(stream: &StreamAccount, waits_s: f64) -> f64 {
    let most = if stream.cwnd_bytes > 0 { stream.cwnd_bytes as f64 } else { f64::INFINITY };
    (rate(stream) * waits_s).min(most)
}

/// Bytes a second of the time with something to send.
pub(super) fn rate(stream: &StreamAccount) -> f64 {
    stream.acked_bytes as f64 * 1e9 / stream.busy_nanos.max(1) as f64
}

/// Bytes that were under way, by rate and round trip.
fn under_way(stream: &StreamAccount) -> f64 {
    stream.acked_bytes as f64 * stream.rtt_nanos as f64 / stream.busy_nanos.max(1) as f64
}

/// Whether what was under way was at most half of what congestion window and peer allowed.
fn is_half_empty(streams: &[StreamAccount]) -> bool {
    streams.iter().all(|stream| under_way(stream) * 2.0 < stream.cwnd_bytes.min(stream.window_bytes) as f64)
}

/// Whether what was under way filled our send buffers, as far as a buffer fills.
fn is_buffer_full(streams: &[StreamAccount]) -> bool {
    let is_full = |stream: &StreamAccount| {
        stream.send_buffer_bytes > 0 && under_way(stream) > stream.send_buffer_bytes as f64 * HELD
    };
    !streams.is_empty() && streams.iter().all(is_full)
}

/// Whether the peer's window was the bound: by the time that the kernel counts, and by what was under way.
fn is_window_the_bound(streams: &[StreamAccount]) -> bool {
    let sum = |of: fn(&StreamAccount) -> u64| streams.iter().map(of).sum::<u64>() as f64;
    let share = sum(|stream| stream.rwnd_limited_nanos) / sum(|stream| stream.busy_nanos).max(1.0);
    share > LIMITED || share > TOUCHED && is_window_full(streams)
}

/// Whether what was under way filled the peer's window, and the congestion window had room.
fn is_window_full(streams: &[StreamAccount]) -> bool {
    streams.iter().all(|stream| {
        let window = stream.window_bytes as f64;
        under_way(stream) > window * 0.7 && window * 1.25 < stream.cwnd_bytes as f64
    })
}

/// The time in which the path carried what it carried, for all transfers that share it, where it is the narrowest: by
/// the rate at which the kernel got bytes across while a stream had any. What its threads waited says too little of a
/// slow path: a wait is booked when it is over, and what goes into a buffer is no wait.
pub(super) fn carrying_seconds(evidence: &Evidence) -> f64 {
    let rate: f64 = evidence.sender.streams.iter().map(rate).sum();
    // Of streams that were busy in turn the sum is more than the path carries.
    let rate = joint_peak_bytes_per_s(evidence).map_or(rate, |peak| rate.min(peak));
    // Streams that broke took their bytes along.
    let bytes = carried_bytes(evidence).max(evidence.bytes as f64);
    if rate > 0.0 { (bytes / rate).min(evidence.seconds()) } else { 0.0 }
}

/// The time that any path takes, however wide: a stream begins with ten segments and doubles what is under way in each
/// round trip (slow start, RFC 5681). Streams begin side by side and are taken to carry equal parts.
pub(super) fn beginning_seconds(evidence: &Evidence) -> f64 {
    let each = evidence.bytes as f64 / evidence.sender.streams.len().max(1) as f64;
    (each / FIRST_BYTES + 1.0).log2() * rtt_seconds(evidence)
}

/// How long the path would take if it were all there is, as far as it can be told where something else is narrower.
pub(super) fn need_behind(evidence: &Evidence) -> Option<Need> {
    let need = need(evidence)?;
    let by_peak = width_behind(evidence).map(|width| evidence.bytes as f64 / width);
    let seen = match own_seconds(evidence) {
        // The kernel counts only part of what is waited for room at the peer.
        Some(own) if busy_seconds(evidence).is_none() => by_peak.map_or(own, |seconds| seconds.min(own)),
        Some(own) => own,
        None => by_peak.unwrap_or(0.0),
    };
    let seconds = need.seconds.max(seen).min(evidence.seconds());
    Some(Need { seconds, ..need })
}

/// As [`need_behind`], as far as the path is known to be no wider: where packets left no faster than we spaced them, or
/// than the receiver had room for them, it may be. How wide it is was seen before the receiver's room was full.
pub(super) fn need_next(evidence: &Evidence) -> Option<Need> {
    if is_spaced_by_us(evidence) {
        return need(evidence);
    }
    if !is_held_by_receiver(evidence) {
        return need_behind(evidence);
    }
    let need = need(evidence)?;
    // As they were sent, which is less where they were compressed, and none of others that share the streams.
    let bytes = carried_bytes(evidence).min(evidence.bytes as f64);
    let carrying = open_bytes_per_s(evidence).map_or(0.0, |width| bytes / width);
    // What is left of the time with anything under way is too much rather than too little; threads that get no CPU hear
    // late of what came, and wait for longer than that.
    let waited = own_seconds(evidence).map_or(need.seconds, |own| need.seconds.min(own));
    Some(Need { seconds: waited.max(carrying).min(evidence.seconds()), ..need })
}

/// Whether bytes were under way because the receiver had no room for more. Of that time the kernel counts only part:
/// the last packet of what filled the room is acknowledged late (delayed acknowledgements, RFC 1122), and neither the
/// time in which it was under way nor a rate that was seen meanwhile is the path's.
///
/// Near by only: over a distance a window may be small for what the path holds, and so may one that was asked for.
fn is_held_by_receiver(evidence: &Evidence) -> bool {
    let is_near = rtt_seconds(evidence) <= NEAR_S && evidence.window_bytes.is_none();
    is_near && is_window_the_bound(&evidence.sender.streams)
}

/// Whether the time in which bytes were under way is what spacing them to the rate that was asked for takes.
pub(super) fn is_spaced_by_us(evidence: &Evidence) -> bool {
    /// The kernel spaces all but the first packets of a burst, and counts in ticks.
    const SLACK: f64 = 1.15;
    let streams = &evidence.sender.streams;
    let Some(rate) = evidence.rate_bytes_per_s.filter(|_| !streams.is_empty()) else { return false };
    let times = if evidence.yields { ledbat::SPACED_TIMES } else { SPACED_TIMES };
    let each = rate as f64 * times / streams.len() as f64;
    let is_spaced = |stream: &StreamAccount| {
        stream.busy_nanos as f64 / 1e9 <= stream.acked_bytes as f64 / each.max(1.0) * SLACK
    };
    streams.iter().all(is_spaced)
}

/// Time in which anything was under way on any stream, if that was the path's doing: `None` where most of it is the
/// wait for the last acknowledgement of each frame, or for room at the peer.
pub(super) fn busy_seconds(evidence: &Evidence) -> Option<f64> {
    let streams = &evidence.sender.streams;
    let limited: u64 = streams.iter().map(limited_nanos).sum();
    let busy: u64 = streams.iter().map(|stream| stream.busy_nanos).sum();
    let is_limited = limited as f64 > busy as f64 * LIMITED;
    if is_limited { None } else { together_seconds(evidence, |stream| stream.busy_nanos) }
}

/// The same without the time in which a stream waited for room at the peer or in our buffer: the path had no part in
/// that.
fn own_seconds(evidence: &Evidence) -> Option<f64> {
    together_seconds(evidence, StreamAccount::cwnd_limited_nanos)
}

fn limited_nanos(stream: &StreamAccount) -> u64 {
    stream.rwnd_limited_nanos.saturating_add(stream.sndbuf_limited_nanos)
}

/// Time in which at least one stream was at something, from how long each was; `None` over a distance, where any stream
/// is busy with waiting for acknowledgements. Streams are taken to begin independently of each other; a link that
/// several share carries the same in the time that at least one is busy.
fn together_seconds(evidence: &Evidence, nanos_of: impl Fn(&StreamAccount) -> u64) -> Option<f64> {
    let streams = &evidence.sender.streams;
    let seconds = evidence.seconds();
    let busy: f64 = streams.iter().map(|stream| stream.busy_nanos as f64 / 1e9).sum();
    let frames = evidence.sender.stage(Stage::Send as u8).items as f64;
    let rtt = rtt_seconds(evidence);
    if busy <= 0.0 || rtt > NEAR_S || frames * rtt > busy * 0.3 {
        return None;
    }
    let share = |stream: &StreamAccount| (nanos_of(stream) as f64 / 1e9 / seconds).min(1.0);
    Some(seconds * (1.0 - streams.iter().map(|stream| 1.0 - share(stream)).product::<f64>()))
}

/// The most that all streams together were seen to deliver in a second; where they were not looked at together, the
/// most that each of them was.
pub(super) fn peak_bytes_per_s(evidence: &Evidence) -> Option<f64> {
    joint_peak_bytes_per_s(evidence).or_else(|| sum_of_peaks(evidence))
}

/// How wide the path may be where something else is narrower. All streams at once had no more to send than that let
/// through, so that what they delivered together says how wide the path is only where it was full.
fn width_behind(evidence: &Evidence) -> Option<f64> {
    let joint = joint_peak_bytes_per_s(evidence);
    if is_full(evidence) { joint } else { sum_of_peaks(evidence).map(|sum| sum.max(joint.unwrap_or(0.0))) }
}

fn sum_of_peaks(evidence: &Evidence) -> Option<f64> {
    let sum: u64 = evidence.sender.streams.iter().map(|stream| stream.delivery_bytes_per_s_max).sum();
    (sum > 0).then_some(sum as f64)
}

/// The most that they delivered at once, or one of them alone: what each did at most it did at a time of its own.
/// `None` where nobody looked, or where they never had as much to send as the path takes.
fn joint_peak_bytes_per_s(evidence: &Evidence) -> Option<f64> {
    let streams = &evidence.sender.streams;
    let together: u64 = streams.iter().map(|stream| stream.peak_share_bytes_per_s).sum();
    let each = streams.iter().map(|stream| stream.delivery_bytes_per_s_max);
    let (alone, all) = (each.clone().max().unwrap_or(0), each.sum::<u64>());
    (together > 0 && all > 0).then(|| together.max(alone) as f64)
}

/// The most that the path was seen to carry while nothing else held a stream: so wide it is, and no wider. `None` where
/// that was never seen, or where it may have been we who held them, to give way or to keep a limit. It is a width of
/// near paths only: over a distance a stream takes many round trips until it fills one.
fn open_bytes_per_s(evidence: &Evidence) -> Option<f64> {
    let is_ours = evidence.yields || is_paced(evidence);
    let open: u64 = evidence.sender.streams.iter().map(|stream| stream.open_share_bytes_per_s).sum();
    let seen = joint_peak_bytes_per_s(evidence).unwrap_or(0.0);
    (open > 0 && !is_ours).then(|| seen.max(open as f64))
}

/// The largest round trip of all streams, in seconds.
pub fn rtt_seconds(evidence: &Evidence) -> f64 {
    evidence.sender.streams.iter().map(|stream| stream.rtt_min_nanos).max().unwrap_or(0) as f64 / 1e9
}
