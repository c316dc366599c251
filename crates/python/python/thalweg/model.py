"""What should happen, before it does: the equations of the field, as pure functions.

They are those of the Rust crate (``mover::model``), which tests them against the published numbers. Python numbers carry no
units, so the unit is in every name: ``_bytes``, ``_bits_per_s`` (decimal), ``_s`` (seconds); shares are from 0 to 1. What a law
cannot be asked raises :class:`ValueError`, which says the range.

The papers: 000 Zettar's "drainage basin", 001 "Transferring a petabyte in a day", 003 "To stream or not to stream",
004 XDD.

>>> round(bandwidth_delay_product_bytes(rate_bits_per_s=100e9, rtt_s=0.060))
750000000
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, cast

from thalweg import _thalweg
from thalweg._docs import document

__all__ = [
    "BBR_LOSS_MAX",
    "DAY_S",
    "MEASUREMENTS_MIN",
    "Advice",
    "Basin",
    "BreakEven",
    "Carried",
    "Condition",
    "CongestionControl",
    "Costs",
    "Damage",
    "Delay",
    "Fit",
    "Looks",
    "Measurement",
    "Optimum",
    "Path",
    "Prediction",
    "Remote",
    "Scan",
    "Stage",
    "Starts",
    "Tail",
    "Tier",
    "WayTimes",
    "Width",
    "Work",
    "advise",
    "bandwidth_delay_product_bytes",
    "basin",
    "bit_error_loss",
    "bit_error_rate",
    "congestion_stretch",
    "fit",
    "io_overhead",
    "local_s",
    "loss_allowed",
    "loss_rate_bits_per_s",
    "loss_window_segments",
    "speed_score",
    "streams_needed",
    "tail",
    "tier",
    "transfer_efficiency",
    "utilisation",
    "volume_bytes",
    "volume_rate_bits_per_s",
    "volume_time_s",
    "window_rate_bits_per_s",
]

#: Reno: half the window at each loss; CUBIC: RFC 9438, Linux's default; BBR version 1: takes no loss for congestion.
CongestionControl: TypeAlias = Literal["reno", "cubic", "bbr"]
#: How transfers that share a link begin: together (003 Fig 2a), or each in a slot of its own (Fig 2b).
Starts: TypeAlias = Literal["simultaneous", "scheduled"]
#: Whether 001 Eq 6 may be used: where its condition is broken, predictions are too short.
Condition: TypeAlias = Literal["holds", "broken", "unknown"]
#: What a completion time is good for (003 section 5): below 1 s, 10 s, 60 s.
Tier: TypeAlias = Literal["real-time", "near-real-time", "quasi-real-time"]

#: BBR's model of the path falls at loss beyond this share (Cardwell et al., ACM Queue 14(5), 2016, Fig 8).
BBR_LOSS_MAX = 0.05
#: Seconds of a day.
DAY_S = 86_400.0
#: Fewest measurements for a fit.
MEASUREMENTS_MIN = 4


def _ask(law: str, **quantities: Any) -> Any:
    return json.loads(_thalweg.law(law, json.dumps(quantities, default=_plain)))


def _plain(quantity: Any) -> object:
    """What other libraries have numbers and arrays as."""
    if hasattr(quantity, "tolist"):
        return quantity.tolist()
    if hasattr(quantity, "__index__"):
        return operator.index(quantity)
    if hasattr(quantity, "__float__"):
        return float(quantity)
    raise TypeError(f"{quantity!r} is no number")


def _number(law: str, **quantities: Any) -> float:
    answer = _ask(law, **quantities)
    if answer is None:
        raise ValueError(f"{law}: the result is beyond the range of numbers")
    return cast(float, answer)


# Windows


def window_rate_bits_per_s(window_bytes: float, rtt_s: float) -> float:
    """Most that one stream carries by its window, in bits a second: window / round trip time. Both positive."""
    return _number("window.rate_bits_per_s", window_bytes=window_bytes, rtt_s=rtt_s)


def bandwidth_delay_product_bytes(rate_bits_per_s: float, rtt_s: float) -> float:
    """Fewest bytes under way that keep a path busy: rate x RTT (000 section III-A). Both positive. Holds without loss."""
    return _number("window.bandwidth_delay_product_bytes", rate_bits_per_s=rate_bits_per_s, rtt_s=rtt_s)


def streams_needed(rate_bits_per_s: float, rtt_s: float, window_bytes: float) -> float:
    """How many streams with this window (bytes) each keep a path busy: the bandwidth-delay product in windows, rounded up."""
    return _number(
        "window.streams_needed", rate_bits_per_s=rate_bits_per_s, rtt_s=rtt_s, window_bytes=window_bytes
    )


# Loss


def loss_window_segments(control: CongestionControl, loss: float, rtt_s: float) -> float | None:
    """Mean window of one stream under loss, in segments; ``None`` where loss does not bind it (BBR).

    Reno: sqrt(3/2) / sqrt(p) (Mathis et al., CCR 27(3), 1997, Eq 3). CUBIC: the larger of that and RFC 9438 section 5, Eq 5.
    ``loss``: share of packets, more than 0, sensible below 1e-2. ``rtt_s``: seconds, positive.
    """
    return cast(float | None, _ask("loss.window_segments", control=control, loss=loss, rtt_s=rtt_s))


def loss_rate_bits_per_s(
    control: CongestionControl, loss: float, rtt_s: float, segment_bytes: float = 1448.0
) -> float | None:
    """Most that one stream carries under loss, in bits a second of payload: :func:`loss_window_segments` of
    ``segment_bytes`` (TCP's payload in a packet: 1448 at MTU 1500, 8948 at 9000) in each round trip."""
    answer = _ask("loss.rate_bits_per_s", control=control, loss=loss, rtt_s=rtt_s, segment_bytes=segment_bytes)
    return cast(float | None, answer)


def loss_allowed(
    control: CongestionControl, rate_bits_per_s: float, rtt_s: float, segment_bytes: float = 1448.0
) -> float | None:
    """The share of packets that may be lost while one stream still carries this rate (bits a second). ``None`` for BBR."""
    answer = _ask(
        "loss.loss_allowed",
        control=control,
        rate_bits_per_s=rate_bits_per_s,
        rtt_s=rtt_s,
        segment_bytes=segment_bytes,
    )
    return cast(float | None, answer)


def bit_error_rate(loss: float, frame_bytes: float) -> float:
    """Error rate of bits that a loss of frames (share) of ``frame_bytes`` bytes means."""
    return _number("bit_error.rate", loss=loss, frame_bytes=frame_bytes)


def bit_error_loss(bit_error_rate: float, frame_bytes: float) -> float:
    """Share of frames of ``frame_bytes`` bytes lost at an error rate of bits: 1 - (1 - BER)^bits, errors independent."""
    return _number("bit_error.loss", bit_error_rate=bit_error_rate, frame_bytes=frame_bytes)


@dataclass(frozen=True)
class Carried:
    """The most that streams carry."""

    #: Bits a second.
    rate_bits_per_s: float
    #: What bounds it.
    by: Literal["line", "window", "loss"]
    #: Whether loss is beyond what its law is good for (1 %): then streams carry less than this.
    is_beyond_law: bool = False


@dataclass(frozen=True)
class Path:
    """A path and the streams on it. What is ``None`` binds nothing."""

    #: Of the line, bits a second.
    bandwidth_bits_per_s: float
    #: Round trip time, seconds. Without it neither window nor loss says anything.
    rtt_s: float | None = None
    #: Bytes that each stream has under way at most.
    window_bytes: float | None = None
    #: Share of packets lost.
    loss: float = 0.0
    #: What answers loss.
    control: CongestionControl = "cubic"
    #: TCP's payload in a packet, bytes.
    segment_bytes: float = 1448.0
    #: Number of streams.
    streams: float = 1.0

    def carried(self) -> Carried:
        """The least of the line (less what is lost and sent again), and of the streams' windows and losses together.
        Assumes that streams lose independently, and that no other traffic is there."""
        return Carried(**_ask("path.carried", **asdict(self)))


# Data, time and rate


def volume_time_s(bytes: float, rate_bits_per_s: float) -> float:
    """Seconds to move so many bytes at a rate in bits a second."""
    return _number("volume.time_s", bytes=bytes, rate_bits_per_s=rate_bits_per_s)


def volume_rate_bits_per_s(bytes: float, time_s: float) -> float:
    """Rate, in bits a second, that moves so many bytes in so many seconds."""
    return _number("volume.rate_bits_per_s", bytes=bytes, time_s=time_s)


def volume_bytes(rate_bits_per_s: float, time_s: float) -> float:
    """Bytes that a rate (bits a second) moves in a time (seconds). Over :data:`DAY_S` it is 000 Table V."""
    return _number("volume.bytes", rate_bits_per_s=rate_bits_per_s, time_s=time_s)


# Damage


@dataclass(frozen=True)
class Looks:
    """What it costs to look at content once more, beside sending it."""

    #: Seconds in which a byte is read, 1 / R_read.
    read_s_per_byte: float = 0.0
    #: Seconds in which its part of a checksum is made, a_ck.
    check_s_per_byte: float = 0.0


@dataclass(frozen=True)
class Damage:
    """Files that are verified after they arrived, and some that fail (001 section 4.1)."""

    #: Number of files, N.
    files: float
    #: Bytes of a file, x.
    file_bytes: float
    #: Failures of verification, n.
    failures: float

    def time_s(self, rate_bits_per_s: float) -> float:
        """Seconds with whole files sent again: x (N + n) / R (001 Eq 1). ``rate_bits_per_s``: end to end."""
        return _number("repair.time_s", rate_bits_per_s=rate_bits_per_s, **asdict(self))

    def effective_rate_bits_per_s(self, rate_bits_per_s: float) -> float:
        """What users see of a rate with whole files sent again, in bits a second: N R / (N + n) (001 Eq 2)."""
        return _number("repair.effective_rate_bits_per_s", rate_bits_per_s=rate_bits_per_s, **asdict(self))

    def time_by_chunk_s(self, chunk_bytes: float, rate_bits_per_s: float) -> float:
        """Seconds with only a chunk of ``chunk_bytes`` sent again for each failure: (N x + n chunk) / R."""
        return _number(
            "repair.time_by_chunk_s", chunk_bytes=chunk_bytes, rate_bits_per_s=rate_bits_per_s, **asdict(self)
        )

    def time_with_looks_s(self, rate_bits_per_s: float, looks: Looks) -> float:
        """Seconds with whole files sent again, each read and its checksum made once more, which 001 Eq 1 leaves out:
        x (N + n) / R + n x (1 / R_read + a_ck). A bound: a mover may hide some of the second term."""
        return _number("repair.time_with_looks_s", rate_bits_per_s=rate_bits_per_s, **asdict(looks), **asdict(self))

    def effective_rate_with_looks_bits_per_s(self, rate_bits_per_s: float, looks: Looks) -> float:
        """What users see of a rate then, in bits a second: 001 Eq 2 with :meth:`time_with_looks_s`."""
        return _number(
            "repair.effective_rate_with_looks_bits_per_s",
            rate_bits_per_s=rate_bits_per_s,
            **asdict(looks),
            **asdict(self),
        )

    def time_by_chunk_with_looks_s(self, chunk_bytes: float, rate_bits_per_s: float, looks: Looks) -> float:
        """Seconds with only a chunk sent again for each failure, where comparing finds them, so that all of the data
        are looked at once more: (N x + n chunk) / R + N x (1 / R_read + a_ck). ``looks`` is of the slower end."""
        return _number(
            "repair.time_by_chunk_with_looks_s",
            chunk_bytes=chunk_bytes,
            rate_bits_per_s=rate_bits_per_s,
            **asdict(looks),
            **asdict(self),
        )


# Number of files


@dataclass(frozen=True)
class Work:
    """What is moved, and by how many at once."""

    #: S: bytes in all.
    bytes: float
    #: cc: files under way at once.
    concurrency: float


@dataclass(frozen=True)
class Optimum:
    """The number of files, and their size, with the least time."""

    #: N*: a multiple of the concurrency.
    files: float
    #: x* = S / N*, bytes.
    file_bytes: float
    #: Seconds with so many.
    time_s: float
    #: ``balance`` of starts and last verification; ``concurrency``: each process needs a file; ``most`` that was asked about.
    bound: Literal["balance", "concurrency", "most"]


@dataclass(frozen=True)
class Costs:
    """The four parameters of 001 Eq 6, for one concurrency."""

    #: a_trs: seconds to transfer a byte, in one process.
    transfer_s_per_byte: float
    #: b_trs: seconds to start a file's transfer.
    transfer_start_s: float
    #: a_ck: seconds to verify a byte.
    check_s_per_byte: float
    #: b_ck + b_srvs: seconds to start a verification, and the service; once.
    once_s: float

    def transfer_s(self, file_bytes: float) -> float:
        """Seconds to transfer one file: a_trs x + b_trs (001 Eq 3)."""
        return _number("files.transfer_s", file_bytes=file_bytes, **asdict(self))

    def check_and_service_s(self, file_bytes: float) -> float:
        """Seconds to verify one file, and for the service, once: a_ck x + b_ck + b_srvs (001 Eq 4)."""
        return _number("files.check_and_service_s", file_bytes=file_bytes, **asdict(self))

    def process_s(self, files: float, file_bytes: float) -> float:
        """Seconds for ``files`` files of ``file_bytes`` in one process (001 Eq 5). Valid if :meth:`is_transfer_longer`."""
        return _number("files.process_s", files=files, file_bytes=file_bytes, **asdict(self))

    def time_s(self, work: Work, files: float) -> float:
        """Seconds for all of it in ``files`` files (001 Eq 6). Valid if :meth:`is_transfer_longer`."""
        return _number("files.time_s", work=asdict(work), files=files, **asdict(self))

    def is_transfer_longer(self) -> bool:
        """The condition of Eqs 5 and 6: a_ck < a_trs."""
        return cast(bool, _ask("files.is_transfer_longer", **asdict(self)))

    def optimum(self, work: Work, files_max: float) -> Optimum:
        """The best number of files, at most ``files_max``: N* = sqrt(cc S a_ck / b_trs)."""
        return Optimum(**_ask("files.optimum", work=asdict(work), files_max=files_max, **asdict(self)))


@dataclass(frozen=True)
class Measurement:
    """A transfer that was measured."""

    #: N: number of files.
    files: float
    #: What was moved, and by how many at once.
    work: Work
    #: T: seconds.
    time_s: float


@dataclass(frozen=True)
class Prediction:
    """A time with its range: 1 of 100 transfers is expected below ``low_s``, 1 of 100 above ``high_s``. Seconds."""

    #: Most likely.
    time_s: float
    #: P1.
    low_s: float | None
    #: P99.
    high_s: float | None


@dataclass(frozen=True)
class Fit:
    """Parameters of 001 Eq 6 from measurements of one concurrency."""

    #: The parameters.
    costs: Costs
    #: cc, for which alone they hold.
    concurrency: float
    #: Bytes of the measurements, smallest and largest.
    bytes: tuple[float, float]
    #: Files of the measurements, smallest and largest.
    files: tuple[float, float]
    #: Whether a_trs and b_ck + b_srvs could be told apart; else a_trs is an upper bound with both in it.
    is_split_known: bool
    #: Mean of |predicted - measured| / measured, a share.
    mean_absolute_error: float
    #: Standard deviation of relative errors; ``None`` with no more measurements than parameters.
    relative_deviation: float | None
    #: What it was made of.
    measurements: tuple[Measurement, ...]

    def condition(self) -> Condition:
        """Whether 001 Eq 6 holds: a_ck < a_trs, by more than chance makes of such measurements (P99)."""
        return cast(Condition, _ask("fit.condition", measurements=_measured(self.measurements)))

    def predict(self, bytes: float, files: float) -> Prediction:
        """Seconds of so many bytes in so many files, with the range of a single transfer (Student's t)."""
        told = _ask("fit.predict", bytes=bytes, files=files, measurements=_measured(self.measurements))
        return Prediction(**told)

    def optimum(self, bytes: float, files_max: float) -> Optimum:
        """The best number of files for so many bytes, at most ``files_max``."""
        told = _ask("fit.optimum", bytes=bytes, files_max=files_max, measurements=_measured(self.measurements))
        return Optimum(**told)

    def is_flat(self, bytes: float, files_max: float) -> bool:
        """Whether no number of files up to ``files_max`` is better than another for so many bytes, as far as the measurements
        tell: the best and the worst differ by no more than :attr:`relative_deviation`."""
        told = _ask("fit.is_flat", bytes=bytes, files_max=files_max, measurements=_measured(self.measurements))
        return cast(bool, told)


def _measured(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    return [asdict(measurement) for measurement in measurements]


def fit(measurements: Sequence[Measurement]) -> Fit:
    """Fits 001 Eq 6 to at least :data:`MEASUREMENTS_MIN` measurements of one concurrency, with least relative errors."""
    told = _ask("fit.fit", measurements=_measured(measurements))
    return Fit(
        costs=Costs(**told["costs"]),
        concurrency=told["concurrency"],
        bytes=tuple(told["bytes"]),
        files=tuple(told["files"]),
        is_split_known=told["is_split_known"],
        mean_absolute_error=told["mean_absolute_error"],
        relative_deviation=told["relative_deviation"],
        measurements=tuple(measurements),
    )


# Delay


@dataclass(frozen=True)
class Delay:
    """The four parts of a packet's delay, in seconds (003 Eq 1)."""

    #: Looking at the packet.
    processing_s: float
    #: Waiting in queues.
    queueing_s: float
    #: Putting its bits on the line.
    transmission_s: float
    #: Distance / speed of light in the medium.
    propagation_s: float

    def total_s(self) -> float:
        """All of it (003 Eq 1)."""
        return _number("delay.total_s", **asdict(self))

    def overlooked_s(self) -> float:
        """What is overlooked by taking propagation for the whole (003 Eq 2, which the paper shows as a trap)."""
        return _number("delay.overlooked_s", **asdict(self))


# Local or remote


def local_s(flop_per_byte: float, bytes: float, flop_per_s: float) -> float:
    """T_local = C S / R_local (003 Eq 3), in seconds."""
    return _number("completion.local_s", flop_per_byte=flop_per_byte, bytes=bytes, flop_per_s=flop_per_s)


def transfer_efficiency(transfer_bits_per_s: float, bandwidth_bits_per_s: float) -> float:
    """alpha = R_transfer / Bw (003 section 3.1), a share."""
    return _number(
        "completion.efficiency",
        transfer_bits_per_s=transfer_bits_per_s,
        bandwidth_bits_per_s=bandwidth_bits_per_s,
    )


def io_overhead(io_s: float, transfer_s: float) -> float:
    """theta = (T_IO + T_transfer) / T_transfer (003 Eq 7): 1 where nothing goes through files. Seconds."""
    return _number("completion.io_overhead", io_s=io_s, transfer_s=transfer_s)


@dataclass(frozen=True)
class BreakEven:
    """What each parameter must be; ``None`` where no value of it suffices."""

    #: At least this transfer efficiency.
    efficiency: float | None
    #: At most this I/O overhead.
    io_overhead: float | None
    #: At least so many times as fast a remote machine.
    ratio: float | None
    #: At least this bandwidth, bits a second.
    bandwidth_bits_per_s: float | None


@dataclass(frozen=True)
class Remote:
    """Remote processing of one unit of data (003 section 3)."""

    #: S: bytes of a unit.
    bytes: float
    #: Bw: of the path, bits a second (the paper: GB/s).
    bandwidth_bits_per_s: float
    #: alpha: transfer efficiency, a share.
    efficiency: float
    #: theta: I/O overhead, 1 or more; 1 is a stream.
    io_overhead: float
    #: T_local: seconds that the analysis takes here.
    local_s: float
    #: r = R_remote / R_local.
    ratio: float

    def transfer_s(self) -> float:
        """T_transfer = S / (alpha Bw) (003 Eq 5), in seconds."""
        return _number("completion.transfer_s", **asdict(self))

    def io_s(self) -> float:
        """T_IO = (theta - 1) T_transfer (003 Eq 8), in seconds."""
        return _number("completion.io_s", **asdict(self))

    def remote_s(self) -> float:
        """T_remote = T_local / r (003 Eq 6), in seconds."""
        return _number("completion.remote_s", **asdict(self))

    def total_s(self) -> float:
        """T_pct = T_transfer + T_remote + T_IO (003 Eqs 4, 9 and 10), in seconds."""
        return _number("completion.total_s", **asdict(self))

    def gain(self) -> float:
        """T_local / T_pct: above 1 remote is quicker."""
        return _number("completion.gain", **asdict(self))

    def break_even(self, target_s: float) -> BreakEven:
        """What each parameter must be for T_pct = ``target_s`` seconds."""
        return BreakEven(**_ask("completion.break_even", target_s=target_s, **asdict(self)))


# Score and tail


def speed_score(worst_s: float, theoretical_s: float) -> float:
    """Streaming Speed Score: T_worst / T_theoretical (003 Eq 11), in seconds both. 1 is ideal."""
    return _number("score.speed_score", worst_s=worst_s, theoretical_s=theoretical_s)


def tier(time_s: float) -> Tier | None:
    """The strictest tier that a completion time is good for (003 section 5); ``None``: for none."""
    return cast(Tier | None, _ask("score.tier", time_s=time_s))


@dataclass(frozen=True)
class Tail:
    """The distribution of measured times, in seconds (003 Fig 3), by nearest rank."""

    #: So many were measured.
    count: int
    #: Half took no longer.
    p50_s: float
    #: 90 of 100 took no longer.
    p90_s: float
    #: 99 of 100 took no longer. Of further times one of a hundred is likely to take longer.
    p99_s: float
    #: One of them that is no shorter than P99 of all times to come, with 95 % confidence; ``None`` of fewer than 299.
    p99_bound_s: float | None
    #: The longest.
    max_s: float


def tail(times_s: Sequence[float]) -> Tail:
    """The tail of measured times, in seconds: each figure was measured, none is interpolated."""
    return Tail(**_ask("score.tail", times_s=list(times_s)))


# Load


def utilisation(bytes: float, period_s: float, bandwidth_bits_per_s: float) -> float:
    """Share of a link that data need which come again every ``period_s`` seconds: S / (period Bw)."""
    return _number(
        "congestion.utilisation", bytes=bytes, period_s=period_s, bandwidth_bits_per_s=bandwidth_bits_per_s
    )


def congestion_stretch(utilisation: float, starts: Starts = "simultaneous") -> float | None:
    """T_worst / T_ideal at this utilisation (a share), from the figures of 003's own bed (Fig 2); ``None`` above 1."""
    return cast(float | None, _ask("congestion.stretch", utilisation=utilisation, starts=starts))


# Frames


@dataclass(frozen=True)
class Scan:
    """Frames of a detector, and the path that they take (003 Fig 4 as a law)."""

    #: Number of frames.
    frames: float
    #: Bytes of a frame.
    frame_bytes: float
    #: Seconds from one frame to the next.
    period_s: float
    #: Of the path, bits a second.
    rate_bits_per_s: float
    #: Seconds that each file costs besides its bytes.
    file_start_s: float

    def bytes(self) -> float:
        """Bytes in all."""
        return _number("frames.bytes", **asdict(self))

    def acquisition_s(self) -> float:
        """Seconds until the last frame was taken."""
        return _number("frames.acquisition_s", **asdict(self))

    def in_files_s(self, files: float) -> float:
        """Seconds from the first frame until the last has arrived, gathered into ``files`` equal files."""
        return _number("frames.in_files_s", files=files, **asdict(self))

    def streamed_s(self) -> float:
        """The same with each frame sent as it comes."""
        return _number("frames.streamed_s", **asdict(self))


# Basin


@dataclass(frozen=True)
class Stage:
    """A stage of the way."""

    #: Its name.
    name: str
    #: The most that it carries, bits a second.
    capacity_bits_per_s: float
    #: How long a byte is in it, seconds.
    latency_s: float = 0.0


@dataclass(frozen=True)
class Width:
    """A stage beside the others."""

    #: How many times as wide as the narrowest.
    times_narrowest: float
    #: Growth of the whole rate, in per cent, for each per cent that this stage is widened.
    sensitivity: float
    #: The rate of the whole, bits a second, if this stage were infinitely wide.
    rate_without_bits_per_s: float | None
    #: Bytes that must be in it at once to keep the rate.
    in_flight_bytes: float


@dataclass(frozen=True)
class Basin:
    """A row of stages: the narrowest sets the rate (000)."""

    #: The stages.
    stages: tuple[Stage, ...]
    #: Place of the narrowest in the row.
    narrowest: int
    #: What the way carries, bits a second.
    rate_bits_per_s: float
    #: How long a byte is under way, seconds.
    latency_s: float
    #: One for each stage.
    widths: tuple[Width, ...]

    def time_s(self, bytes: float) -> float:
        """Seconds for so many bytes: latency + bytes / rate."""
        return _number("basin.time_s", bytes=bytes, stages=[asdict(stage) for stage in self.stages])


def basin(stages: Sequence[Stage]) -> Basin:
    """The basin of a row of stages: which is the narrowest, and what widening one would gain."""
    told = _ask("basin.basin", stages=[asdict(stage) for stage in stages])
    widths = tuple(Width(**width) for width in told["widths"])
    return Basin(tuple(stages), told["narrowest"], told["rate_bits_per_s"], told["latency_s"], widths)


# Advice


@dataclass(frozen=True)
class WayTimes:
    """A way, with its times in seconds; ``None``: not known."""

    #: Analyse here, send from memory to memory, or send files.
    way: Literal["local", "stream", "file"]
    #: All of it, as expected.
    time_s: float
    #: Of that on the path.
    transfer_s: float
    #: Of that the way of the last byte, half a round trip; 0 if that is not known.
    distance_s: float
    #: Of that reading and writing files.
    io_s: float
    #: Of that analysis.
    analysis_s: float
    #: All of it, in 99 of 100 cases no longer.
    p99_s: float | None
    #: All of it, with the slowest transfer that is known of: P99, or without it the longest that was measured, or as expected.
    slowest_s: float
    #: What it is good for, by the slowest.
    tier: Tier | None
    #: Whether the path carries the data as they come.
    keeps_up: bool
    #: Whether the deadline holds at P99.
    holds: bool | None
    #: Deadline less the slowest.
    left_s: float | None
    #: The worst / ideal of a transfer at which the deadline still holds.
    score_allowed: float | None
    #: Where it begins to be quicker than local, and keeps up.
    to_beat_local: BreakEven | None
    #: Where it begins to hold the deadline as expected, and keeps up.
    to_be_in_time: BreakEven | None


@dataclass(frozen=True)
class Advice:
    """Local, file or stream (003 section 5)."""

    #: Share of the path that the data need; above 1 it is impossible.
    utilisation: float | None
    #: The best way; ``None`` if none keeps up with the data.
    best: Literal["local", "stream", "file"] | None
    #: Why it is the best.
    ground: Literal["quickest", "quickest-as-expected", "in-time", "in-time-as-expected", "too-late"] | None
    #: All ways that could be judged.
    ways: tuple[WayTimes, ...]
    #: Why ``starts`` gives no P99: 003's bed had another period or round trip, or its slots do not keep up.
    unlike_003: Literal["period", "round-trip", "slots"] | None


def advise(
    *,
    bytes: float,
    bandwidth_bits_per_s: float,
    efficiency: float = 1.0,
    is_efficiency_bound: bool = False,
    remote_s: float = 0.0,
    local_s: float | None = None,
    period_s: float | None = None,
    deadline_s: float | None = None,
    files_io_overhead: float | None = None,
    files_prediction: Prediction | None = None,
    files_condition: Condition = "unknown",
    p99_s: float | None = None,
    score: float | None = None,
    starts: Starts | None = None,
    rtt_s: float | None = None,
) -> Advice:
    """Analyse here, stream, or send files? Will the deadline hold at P99?

    ``bytes`` of a unit, one every ``period_s`` seconds; the path's bandwidth (bits a second) and transfer efficiency (alpha;
    with ``is_efficiency_bound`` no more than an upper bound, so that nothing is promised); its round trip time in seconds
    (``rtt_s``: half of it is in each time over the path; ``None``, no distance is); seconds of the analysis here and there.
    What files cost: theta (``files_io_overhead``) or a :class:`Prediction` with the condition of its :class:`Fit`
    (``files_condition``; broken, it gives no P99). What is known of the slowest transfers: P99 in seconds (of measured times
    :attr:`Tail.p99_bound_s`), or worst / ideal (``score``), or nothing but how transfers begin (``starts``: as in 003's bed
    at this load, if the path is like it; needs ``period_s``).
    """
    told = _ask(
        "advice.advise",
        bytes=bytes,
        bandwidth_bits_per_s=bandwidth_bits_per_s,
        efficiency=efficiency,
        is_efficiency_bound=is_efficiency_bound,
        remote_s=remote_s,
        local_s=local_s,
        period_s=period_s,
        deadline_s=deadline_s,
        files_io_overhead=files_io_overhead,
        files_prediction=None if files_prediction is None else asdict(files_prediction),
        files_condition=files_condition,
        p99_s=p99_s,
        score=score,
        starts=starts,
        rtt_s=rtt_s,
    )
    best, ground = told["best"] or (None, None)
    ways = tuple(_way(way) for way in told["ways"])
    return Advice(told["utilisation"], best, ground, ways, told["unlike_003"])


def _way(told: dict[str, Any]) -> WayTimes:
    for name in ("to_beat_local", "to_be_in_time"):
        told[name] = None if told[name] is None else BreakEven(**told[name])
    return WayTimes(**told)


_VALUES = (Carried, Path, Damage, Work, Optimum, Costs, Measurement, Prediction, Fit, Delay, BreakEven, Remote, Tail, Scan)
for _one in (*_VALUES, Looks, Stage, Width, Basin, WayTimes, Advice):
    document(_one)
