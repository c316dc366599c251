"""Docstrings that have every field with its text. The home of a text is the comment ``#:`` above its field."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from typing import Any

#: A field of a class: its name, and its type.
_FIELD = re.compile(r"    ([a-z]\w*): ([^=#]+?)(?: = .*)?$")
_TEXT = "    #: "


def _fields(home: Any) -> list[str]:
    """The fields of a class, with their texts; none where the package came without its source."""
    module = sys.modules[home.__module__]
    # The module is read once for all its classes. (`inspect.getsource` parses it for each.)
    source = iter(linecache.getlines(module.__file__ or "", vars(module)))
    begin = re.compile(rf"class {home.__name__}\b")
    lines: list[str] = []
    text: list[str] = []
    for line in source:
        if begin.match(line):
            break
    for line in source:
        line = line.rstrip()
        if line and not line.startswith(" "):
            break
        if line.startswith(_TEXT):
            text.append(line.removeprefix(_TEXT))
            continue
        field = _FIELD.match(line)
        if field is not None and text:
            lines.append(f"    {field[1]}: {field[2]}")
            lines.extend(f"        {one}" for one in text)
        text = []
    return lines


def document(of: Any, *bases: Any) -> None:
    """Gives a class its fields in its docstring; ``bases``: classes whose fields it has too."""
    fields = [line for home in (of, *bases) for line in _fields(home)]
    # `python -OO` has none.
    if fields and of.__doc__:
        head = "Options:" if hasattr(of, "__optional_keys__") else "Fields:"
        of.__doc__ = "\n".join([inspect.cleandoc(of.__doc__), "", head, *fields])
