"""Files of the fsspec file system that are written: kept here until they are whole, then copied."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.fs import ThalwegFileSystem

__all__ = ["Packed", "Written"]


class Written(io.BufferedIOBase):
    """A file that is written here and copied when it is closed; within a transaction, when that is committed.

    One that an exception closes is not whole, and is thrown away. Wrappers (text, compression, ``fsspec.open``) do not say
    why they close it: an exception counts that is being handled then, and was not when the file was opened.
    """

    def __init__(self, fs: ThalwegFileSystem, path: str, autocommit: bool, goes_on: bool = False) -> None:
        self.fs, self.path, self.autocommit = fs, fs._strip_protocol(path), autocommit
        self._handled = sys.exc_info()[1]
        # What encodes or compresses what is written here, if it still is.
        self._outer: weakref.ref[Any] | None = None
        # Until all is there: Python closes also what was only half made.
        self._is_broken = True
        self._directory = tempfile.TemporaryDirectory(prefix="thalweg-")
        self._here = os.path.join(self._directory.name, "content")
        # As any program makes files: by the umask.
        self._file = open(self._here, "w+b")
        if goes_on:
            self._file.close()
            self.fs.get_file(self.path, self._here)
            # It has the mode of the far one, which may let nobody write, and keeps that there.
            os.chmod(self._here, 0o600)
            self._file = open(self._here, "r+b")
            self._file.seek(0, os.SEEK_END)
        self._is_broken = False

    @property
    def full_name(self) -> str:
        return self.fs.unstrip_protocol(self.path)

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None) -> int:
        return self._file.truncate(size)

    def flush(self, force: bool = False) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        (handled, self._handled), now = (self._handled, None), sys.exc_info()[1]
        is_broken = self._is_broken or (now is not None and now is not handled)
        # Until all is on this disk: what could not be written there is not whole, whoever closes it once more.
        self._is_broken = True
        try:
            self._file.close()
            self._is_broken = is_broken
        finally:
            try:
                if self.autocommit:
                    self._deliver()
            finally:
                super().close()

    def wrapped_by(self, outer: Any) -> None:
        """What is written here goes through this first. It is not kept alive: who drops it closes it."""
        self._outer = weakref.ref(outer)

    def commit(self) -> None:
        """Closes it, with what wraps it, and copies it, unless it is not whole."""
        try:
            outer = None if self._outer is None else self._outer()
            if outer is not None:
                outer.close()
            self.close()
        except BaseException:
            self._directory.cleanup()
            raise
        self._deliver()

    def _deliver(self) -> None:
        try:
            if not self._is_broken:
                self.fs._put(self._here, self.path, only_content=True)
        finally:
            self._directory.cleanup()

    def discard(self) -> None:
        """Throws it away."""
        self._is_broken = True
        self._file.close()
        self._directory.cleanup()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._is_broken |= kind is not None
        self.close()


class Packed(io.BufferedIOBase):
    """A file that is compressed as it is written, in a :class:`Written` below, which is closed with it: what compresses
    leaves that to others."""

    def __init__(self, written: Written, packer: Any) -> None:
        self._written, self._packer = written, packer

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._packer.seekable())

    def write(self, data: Any) -> int:
        return int(self._packer.write(data))

    def tell(self) -> int:
        return int(self._packer.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._packer.seek(offset, whence))

    def flush(self) -> None:
        if not self._written.closed:
            self._packer.flush()

    def wrapped_by(self, outer: Any) -> None:
        self._written.wrapped_by(outer)

    def close(self) -> None:
        if self.closed:
            return
        try:
            # An exception that comes of this is being handled when the file below is closed: it is not whole.
            self._packer.close()
        finally:
            try:
                self._written.close()
            finally:
                super().close()
