"""Plans, and the copies that are made of them.

1. A plan is a dry run: what would be copied, counted, bounded in bytes and entries, with a digest of what was seen.
2. A copy is made of a plan of this server, by its number, once, within an hour. Nothing of it can be asked otherwise.
3. Before it begins both sides are looked at again. What is not as the plan showed it is refused.
4. While it runs it has its time, and no more bytes than a plan may have. One that ends early is stopped in order.

Nothing is deleted, at either side. What is at the destination is left alone, unless the server was started to replace.
Not guaranteed: that nothing changes between 3 and the copy. What is new by then is copied, within the same bounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from thalweg import _copy, _thalweg, _work, aio
from thalweg._copy import CopyOptions, Report
from thalweg._work import Event
from thalweg.errors import BusyError, ConflictError, Error, NotFoundError, StoppedError, UsageError
from thalweg.mcp.answers import failure
from thalweg.mcp.places import Allowed, Place

#: How long a plan is good for, in seconds: what a model saw an hour ago it does not know any more.
PLAN_S_MAX = 3600.0
#: Plans, and copies that are over, which are kept; the oldest are forgotten.
KEPT_MAX = 64
#: The longest that an answer waits for a copy, in seconds: clients give up at about a minute.
WAIT_S_MAX = 50.0
#: How long a question may be without an answer of the far side, in seconds.
ASK_PATIENCE_S = 60.0
#: How long copies that are stopped may take, when the server ends; then the process does.
_END_S_MAX = 60.0
#: What of a copy's end is no answer for a model: pages of figures.
_LEFT_OUT = ("event", "evidence", "stages")


@dataclass(frozen=True)
class Rules:
    """What the server was started with."""

    allowed: Allowed
    #: Where the ticket is, and keys and what is remembered; ``None``: as the package finds them.
    ticket: str | None = None
    state: str | None = None
    #: Copies at once.
    copies_max: int = 1
    #: Content bytes of a plan, and of a copy.
    bytes_max: int = 10**12
    #: Entries of a plan.
    entries_max: int = 100_000
    #: Seconds of a call, and of a copy.
    seconds_max: float = 86_400.0
    #: Entries of a list in an answer.
    list_max: int = 100
    #: Whether what is at the destination may be replaced.
    replaces: bool = False

    @property
    def asking(self) -> _work.Asking:
        """How places are reached that are asked about."""
        return {"ticket": self.ticket, "patience_s": ASK_PATIENCE_S}


@dataclass
class Look:
    """What a dry run, and a list of the source, showed."""

    #: The sum of the digests of all that was told, in whatever order: it differs if anything does.
    digest: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("done", "unchanged", "skipped", "failed"), 0))
    #: Content bytes that would be copied.
    bytes: int = 0
    #: The first entries of which there is something to say.
    entries: list[Event] = field(default_factory=list)

    def add(self, told: str) -> None:
        self.digest = (self.digest + int.from_bytes(blake2b(told.encode(), digest_size=32).digest())) % (1 << 256)


@dataclass(frozen=True)
class Plan:
    """What was shown, and may be copied once."""

    number: str
    source: Place
    destination: Place
    #: Where the receipt goes, if there is one.
    receipt: Place | None
    options: CopyOptions
    look: Look
    made_at: float


@dataclass
class Copy:
    """One under way, or over."""

    number: str
    plan: Plan
    state: str = "running"
    progress: Event | None = None
    finished: Event | None = None
    error: Error | None = None
    #: Why it was stopped by this server, if it was.
    stopped_why: str | None = None
    work: aio.Transfer | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, why: str) -> None:
        """Asks it to stop in order; does not wait."""
        if self.state == "running" and self.stopped_why is None:
            self.stopped_why = why
            if self.work is not None:
                self.work.stop()

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"copy": self.number, "plan": self.plan.number, "state": self.state}
        told |= {"source": self.plan.source.shown, "destination": self.plan.destination.shown}
        told |= {"stopped_why": self.stopped_why, "progress": self.progress, "finished": self.finished}
        return told | {"error": None if self.error is None else failure(self.error)}


class Jobs:
    """All of a server; used on one event loop. ``tell`` records how each copy ended."""

    def __init__(self, rules: Rules, tell: Callable[[dict[str, Any]], Awaitable[object]]) -> None:
        self._rules, self._tell = rules, tell
        self._plans: dict[str, Plan] = {}
        self._copies: dict[str, Copy] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Held from the second look at a plan until its copy counts.
        self._begins = asyncio.Lock()
        self._is_ending = False

    async def plan(
        self, source: Place, destination: Place, receipt: Place | None, asked: CopyOptions
    ) -> dict[str, Any]:
        """What a copy would do; nothing is changed. Raises :class:`~thalweg.UsageError` for one beyond the bounds."""
        self.refuse_written([source, destination, *([] if receipt is None else [receipt])])
        options: CopyOptions = {**asked, "ignore_existing": not self._rules.replaces, "ticket": self._rules.ticket}
        options["state"] = self._rules.state
        look = await self._look(source, destination, receipt, options)
        number = f"plan-{secrets.token_hex(8)}"
        made = Plan(number, source, destination, receipt, options, look, time.monotonic())
        _keep(self._plans, number, made)
        told: dict[str, Any] = {"plan": number, "good_for_s": PLAN_S_MAX, "replaces": self._rules.replaces}
        told |= {"source": source.shown, "destination": destination.shown, "bytes": look.bytes, **look.counts}
        told |= {"receipt": None if receipt is None else receipt.shown}
        said = sum(look.counts.values()) - look.counts["unchanged"]
        left_off = said - len(look.entries)
        return told | {"entries": look.entries} | ({"entries_left_off": left_off} if left_off else {})

    async def copy(self, number: str, wait_s: float) -> dict[str, Any]:
        """Begins what was planned, and waits a while for its end. Raises :class:`~thalweg.Error` for what may not begin."""
        async with self._begins:
            plan = self._plans.get(number)
            if plan is None or time.monotonic() - plan.made_at > PLAN_S_MAX:
                cause = "there is no such plan: each is good for one copy, within an hour"
                raise NotFoundError(cause, kind="notfound", operation="copy", hint="ask for another plan")
            running = self._running()
            if len(running) >= self._rules.copies_max or self._is_ending:
                cause = f"{len(running)} copies run, and so many may run at once: {self._rules.copies_max}"
                raise BusyError(cause, kind="busy", operation="copy", hint="wait for one with `progress`, or `stop` it")
            # A plan that was refused is spent as well: the next one shows what is there now.
            del self._plans[number]
            self._refuse_changed(plan)
            again = await self._look(plan.source, plan.destination, plan.receipt, plan.options)
            if again.digest != plan.look.digest:
                cause = "the source or the destination is not as the plan showed it"
                raise ConflictError(cause, kind="conflict", operation="copy", hint="ask for another plan")
            if self._is_ending:
                raise StoppedError("the server ends", kind="stopped", operation="copy")
            copying = Copy(f"copy-{secrets.token_hex(8)}", plan)
            _keep(self._copies, copying.number, copying, lambda one: one.state != "running")
            task = asyncio.create_task(self._run(copying))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await self.progress(copying.number, wait_s)

    async def progress(self, number: str, wait_s: float) -> dict[str, Any]:
        """How far a copy is, or how it ended; waits a while for its end."""
        copying = self._known(number)
        try:
            async with asyncio.timeout(min(wait_s, WAIT_S_MAX)):
                await copying.over.wait()
        except TimeoutError:
            pass
        return copying.told()

    async def stop(self, number: str) -> dict[str, Any]:
        """Stops a copy in order, and waits a while for its end. Another plan of the same places resumes it."""
        copying = self._known(number)
        copying.stop("a call asked for it")
        return await self.progress(number, WAIT_S_MAX)

    def stop_all(self, why: str) -> None:
        """Stops all copies in order, and begins no more; does not wait."""
        self._is_ending = True
        for copying in self._running():
            copying.stop(why)

    async def end(self) -> None:
        """Stops all copies in order, and waits for their ends."""
        self.stop_all("the server ends")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S_MAX)

    def told(self) -> list[dict[str, Any]]:
        """All copies that are known, a line each."""
        names = ("copy", "state", "source", "destination")
        return [{name: copying.told()[name] for name in names} for copying in self._copies.values()]

    def refuse_written(self, places: Sequence[Place]) -> None:
        """Refuses what a copy under way writes, or has in it: links may come there at any moment."""
        for copying in self._running():
            written = [one for one in (copying.plan.destination, copying.plan.receipt) if one is not None]
            for place in places:
                if any(place.meets(one) for one in written):
                    hint = f"wait for it with `progress` of {copying.number}, or `stop` it"
                    text = "a copy that runs writes there"
                    raise BusyError(text, kind="busy", operation="ask", path=place.shown, hint=hint)

    async def refuse_links(self, places: Sequence[Place]) -> None:
        """Refuses far places with links in them; see :meth:`Place.refuse_links`."""

        def look() -> None:
            for place in places:
                place.refuse_links(self._rules.asking)

        await aio.to_its_end(look)

    def _running(self) -> list[Copy]:
        return [one for one in self._copies.values() if one.state == "running"]

    def _known(self, number: str) -> Copy:
        copying = self._copies.get(number)
        if copying is None:
            hint = "`list` without a place tells which copies there are"
            raise NotFoundError("there is no such copy of this server", kind="notfound", operation="ask", hint=hint)
        return copying

    def _refuse_changed(self, plan: Plan) -> None:
        """Resolves the places of a plan once more."""
        allowed = self._rules.allowed
        places = [plan.source, plan.destination, *([] if plan.receipt is None else [plan.receipt])]
        read = [allowed.source, allowed.destination, allowed.destination]
        for place, again in zip(places, read, strict=False):
            if again(place.shown) != place:
                hint = "ask for another plan"
                raise ConflictError(
                    "it leads elsewhere by now", kind="conflict", operation="copy", path=place.shown, hint=hint
                )
        self.refuse_written(places)

    async def _look(
        self, source: Place, destination: Place, receipt: Place | None, options: CopyOptions
    ) -> Look:
        await self.refuse_links([source, destination])
        if receipt is not None and os.path.lexists(receipt.raw):
            cause = "a receipt takes the place of nothing: name a file that is not there"
            raise ConflictError(cause, kind="conflict", operation="plan", path=receipt.shown)
        look, seen = Look(), 0
        dry: CopyOptions = {**options, "dry_run": True, "entries": True, "check_entries": False, "progress_s": 0.2}
        dry["patience_s"] = ASK_PATIENCE_S
        async with aio.transfer(source.text, destination.text, **dry) as looking:
            async for event in looking:
                if event["event"] == "entry":
                    look.add(json.dumps(event, sort_keys=True))
                    outcome, seen = event["outcome"], seen + 1
                    look.counts[outcome] += 1
                    look.bytes += event.get("bytes", 0) if outcome == "done" else 0
                    if outcome != "unchanged" and len(look.entries) < self._rules.list_max:
                        kept = ("path", "type", "bytes", "outcome", "kind", "reason", "operation", "why")
                        look.entries.append({name: event[name] for name in kept if name in event})
                elif event["event"] == "progress":
                    seen = max(seen, event["entries_found"])
                self._refuse_beyond(look, seen)
            await looking.report()
        # The times of the source's entries: a dry run goes by them, and does not tell them.
        await aio.to_its_end(lambda: self._add_source(source, look))
        return look

    def _refuse_beyond(self, look: Look, entries: int) -> None:
        for what, number, most in (
            ("bytes", look.bytes, self._rules.bytes_max),
            ("entries", entries, self._rules.entries_max),
        ):
            if number > most:
                cause = f"this is more than {most} {what}, which is all that a plan may have"
                raise UsageError(cause, kind="usage", operation="plan", hint="plan a part of it")

    def _add_source(self, source: Place, look: Look) -> None:
        session = _thalweg.Session(os.fsdecode(source.root), _work.reaching_of(self._rules.asking))
        try:
            for told in session.list(source.below, True):
                look.add(told)
        finally:
            session.close()

    async def _run(self, copying: Copy) -> None:
        plan = copying.plan
        options: CopyOptions = {**plan.options, "check_entries": False}
        if plan.receipt is not None:
            options["receipt"] = plan.receipt.text
        try:
            async with asyncio.timeout(self._rules.seconds_max):
                async with aio.transfer(plan.source.text, plan.destination.text, **options) as work:
                    copying.work = work
                    if copying.stopped_why is not None:
                        work.stop()
                    async for event in work:
                        self._hear(copying, event)
                    report = await work.report()
            copying.finished, copying.state = _finished(report), "finished"
        except Error as error:
            copying.error = error
            copying.state = "stopped" if copying.stopped_why is not None else "failed"
            if isinstance(error.report, _copy.Report):
                copying.finished = _finished(error.report)
        except TimeoutError:
            copying.stopped_why = f"it ran for {self._rules.seconds_max} seconds, which is all that a copy may have"
            copying.state = "stopped"
        except BaseException:
            copying.state = "stopped"
            raise
        finally:
            copying.work = None
            copying.over.set()
            await self._tell(copying.told())

    def _hear(self, copying: Copy, event: Event) -> None:
        if event["event"] != "progress":
            return
        copying.progress = {name: value for name, value in event.items() if name != "event"}
        if event["bytes_verified"] > self._rules.bytes_max:
            copying.stop(f"it had more than {self._rules.bytes_max} bytes, which is all that a copy may have")


def _finished(report: Report) -> Event:
    """The event `finished`, without what fills pages, and with what failed."""
    told = {name: value for name, value in report.details.items() if name not in _LEFT_OUT}
    return told | {"failures": [failure(error) for error in report.failures]}


def _keep(kept: dict[str, Any], number: str, one: Any, may_go: Callable[[Any], bool] = lambda one: True) -> None:
    """Adds it, and forgets the oldest that may go."""
    kept[number] = one
    for old in [name for name, held in kept.items() if may_go(held) and name != number]:
        if len(kept) <= KEPT_MAX:
            break
        del kept[old]
