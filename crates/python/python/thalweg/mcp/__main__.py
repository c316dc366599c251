"""``python -m thalweg.mcp``: the command line, and the end of the server."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable

from thalweg.errors import Error, UsageError
from thalweg.mcp.audit import Audit
from thalweg.mcp.jobs import Rules
from thalweg.mcp.places import Allowed

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50}


def _size(text: str) -> int:
    """A size as the program reads it: `100GB`, `1.5TiB`, `4096`."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kmgtp]i?)?b?", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: 100GB, 1.5TiB")
    return int(float(found[1]) * (_UNITS | _BINARY)[found[2] or ""])


def _between(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return read


def _parser() -> argparse.ArgumentParser:
    words = "A server for language models, over the standard streams (Model Context Protocol)."
    parser = argparse.ArgumentParser("python -m thalweg.mcp", description=words, allow_abbrev=False)
    add = parser.add_argument
    add("--read", metavar="PLACE", nargs="+", action="extend", default=[], help="places that copies may come from")
    add("--write", metavar="PLACE", nargs="+", action="extend", default=[], help="places that copies may go to")
    add("--audit", metavar="FILE", required=True, help="each call is written here, durably, as JSON lines")
    add("--replace", action="store_true", help="let copies replace what is at their destination")
    add("--copies", metavar="N", type=_between(1, 16), default=1, help="copies at once (1)")
    add("--max-bytes", metavar="SIZE", type=_size, default=10**12, help="content bytes of a plan, and of a copy (1TB)")
    add("--max-entries", metavar="N", type=_between(1, 10**6), default=100_000, help="entries of a plan (100000)")
    add("--max-seconds", metavar="S", type=_between(1, 10**7), default=86_400, help="of a call, and of a copy (86400)")
    add("--max-list", metavar="N", type=_between(1, 1000), default=100, help="entries of a list in an answer (100)")
    add("--ticket", metavar="FILE", default=os.environ.get("THALWEG_TICKET"), help="what `thalweg serve` wrote")
    add("--state", metavar="DIR", default=os.environ.get("THALWEG_STATE"), help="keys, and what is remembered")
    add("--program", metavar="FILE", default=shutil.which("thalweg"), help="the program, for `doctor` (on $PATH)")
    return parser


def _rules(asked: argparse.Namespace) -> Rules:
    """Raises :class:`~thalweg.UsageError` where a model could name what guards it."""
    allowed = Allowed(asked.read, asked.write)
    if not asked.read and not asked.write:
        raise UsageError("name a place: --read PLACE, --write PLACE", kind="usage", operation="read options")
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    kept = {"audit file": asked.audit, "ticket": asked.ticket, "state": asked.state or os.path.join(home, "thalweg")}
    for what, path in kept.items():
        if path and allowed.holds(path):
            hint = "name narrower places, or put it elsewhere"
            cause = f"the {what} is in a place that a model may name"
            raise UsageError(cause, kind="usage", operation="read options", path=path, hint=hint)
    return Rules(
        allowed=allowed,
        ticket=asked.ticket,
        state=asked.state,
        copies_max=asked.copies,
        bytes_max=asked.max_bytes,
        entries_max=asked.max_entries,
        seconds_max=asked.max_seconds,
        list_max=asked.max_list,
        replaces=asked.replace,
    )


async def _serve(rules: Rules, audit: Audit, program: str | None) -> None:
    from mcp.server.stdio import stdio_server

    from thalweg.mcp.tools import Tools

    tools = Tools(rules, audit, program)
    await tools.begin()
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    async def end() -> None:
        await tools.end()
        # The library waits for a line that nobody may ever send.
        os._exit(0)

    def asked_to_end() -> None:
        if not ending:
            ending.append(loop.create_task(end()))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_end)
    server = tools.server()
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())
    if ending:
        await ending[0]
    await tools.end()


def main() -> int:
    """Serves until the client closes the streams. The exit code is 2 for options that make no sense."""
    asked = _parser().parse_args()
    try:
        rules, audit = _rules(asked), Audit(asked.audit)
        asyncio.run(_serve(rules, audit, asked.program))
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: write the audit file failed on `{asked.audit}`: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"error: {error} (pip install 'thalweg[mcp]')", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
