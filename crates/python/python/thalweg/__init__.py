"""Moves huge data sets: encrypted, verified, durable, resumable, and says which stage is the narrowest.

>>> import thalweg
>>> report = thalweg.copy("run7", "tw://dtn.example.org/data/", ticket="ticket")  # doctest: +SKIP
>>> report.bytes_done, report.sentence  # doctest: +SKIP

Places are written as for the program: ``path``, ``[user@]host:path``, ``ssh://``, ``tw://host[:port]/export/path``,
``s3://bucket/key``, ``zero:SIZE``, ``null:``; a trailing slash on a source means its contents. What a copy promises is what the program promises:
it returns when everything is verified and durable; the same call resumes what was interrupted.

The interpreter lock is released while data move; calls may be made from several threads at once. Ctrl-C ends a call in
order: what was written becomes durable first.

:mod:`thalweg.aio` has what waits as coroutines, :mod:`thalweg.model` the equations, :mod:`thalweg.fs` an fsspec file system,
:mod:`thalweg.arrival` the item that ``thalweg watch`` runs a program for, :mod:`thalweg.mcp` a server for language models.
"""

from __future__ import annotations

from thalweg import model
from thalweg._thalweg import __version__
from thalweg._copy import (
    Check,
    Checked,
    CopyOptions,
    Receipt,
    Report,
    Transfer,
    Verified,
    Verify,
    check,
    copy,
    read_receipt,
    sync,
    transfer,
    verify,
)
from thalweg._frames import (
    Clock,
    ConsumerReport,
    Delivery,
    Frame,
    Hub,
    Latency,
    Lost,
    Policy,
    ProducerReport,
    Receiver,
    ReceiverFigures,
    ReceiverOptions,
    Sender,
    SenderFigures,
    SenderOptions,
    SetReport,
)
from thalweg._predict import Predicted, PredictOptions, predict
from thalweg._stream import Streaming, StreamOptions, StreamReport, stream, streaming
from thalweg._work import Asking, Cipher, Event, Family, Place, Reaching, SlotReport, limit_memory
from thalweg.errors import (
    BusyError,
    ChangedError,
    ConflictError,
    ConnectionFailedError,
    DamageError,
    DiskError,
    Error,
    InternalError,
    NoSpaceError,
    NotFoundError,
    NotPermittedError,
    PartialError,
    ProtocolError,
    StoppedError,
    UnsupportedError,
    UsageError,
)

__all__ = [
    "Asking",
    "BusyError",
    "ChangedError",
    "Check",
    "Checked",
    "Cipher",
    "Clock",
    "ConflictError",
    "ConnectionFailedError",
    "ConsumerReport",
    "CopyOptions",
    "DamageError",
    "Delivery",
    "DiskError",
    "Error",
    "Event",
    "Family",
    "Frame",
    "Hub",
    "InternalError",
    "Latency",
    "Lost",
    "NoSpaceError",
    "NotFoundError",
    "NotPermittedError",
    "PartialError",
    "Place",
    "Policy",
    "PredictOptions",
    "Predicted",
    "ProducerReport",
    "ProtocolError",
    "Reaching",
    "Receipt",
    "Receiver",
    "ReceiverFigures",
    "ReceiverOptions",
    "Report",
    "Sender",
    "SenderFigures",
    "SenderOptions",
    "SetReport",
    "SlotReport",
    "StoppedError",
    "StreamOptions",
    "StreamReport",
    "Streaming",
    "Transfer",
    "UnsupportedError",
    "UsageError",
    "Verified",
    "Verify",
    "__version__",
    "check",
    "copy",
    "limit_memory",
    "model",
    "predict",
    "read_receipt",
    "stream",
    "streaming",
    "sync",
    "transfer",
    "verify",
]
