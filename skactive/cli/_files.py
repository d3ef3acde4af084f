"""Files that commands write: whole or not at all."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = ".skactive-"  # how names of temporary files begin

MOST_IN_NAME = 240  # bytes, of the 255 that there are: SQLite's journal has a longer name
MOST_UNPACKED, TIMES = 2**28, 50
"""A packed file may unpack to so many bytes, or to so many times its own; texts are a third to a tenth when packed."""


class FileError(ValueError):
    """What is wrong with a file, in one line that names it."""


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary file in the same folder, to be written, that replaces `path` at the end.

    After any error (a full disk, Ctrl-C) it is gone, and `path` is as it was. After a kill it stays until the next
    command writes to the folder. A link is followed.
    """
    path = Path(path)
    check_target(path, force)
    target = Path(os.path.realpath(path))
    _clear(target.parent)
    temporary = target.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}{target.suffix}")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), "rb+") as file:
            with suppress(OSError):  # of folders that have no locks, where `_clear` removes nothing
                _lock(file)
            yield temporary
            os.fsync(file.fileno())
        check_target(path, force)  # it may have come in the meantime
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except OSError as error:
        if error.filename not in (None, str(temporary), temporary):
            raise
        remedy = " Make room." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise FileError(f"{path} could not be written: {error.strerror or error}.{remedy}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _lock(file: IO[bytes]) -> None:
    """Lock a file while it is open; an error if another process has."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _clear(folder: Path) -> None:
    """Remove unfinished files of commands that were killed: those that nobody locks, first a database's journal."""
    for left in sorted(folder.glob(f"{_UNFINISHED}*"), reverse=True):
        with suppress(OSError), left.with_name(left.name.removesuffix("-journal")).open("rb") as file:
            _lock(file)
            left.unlink()


def contents(path: str) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):  # one may wait for ever, or never end
        raise ValueError("it is not a regular file")
    content = Path(path).read_bytes()
    if not str(path).lower().endswith(".gz"):
        return content
    most = max(MOST_UNPACKED, TIMES * len(content))
    with gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(most + 1)
    check_size(len(unpacked), len(content), "Unpack it first, if that is right.")
    return unpacked


def check_size(n_bytes: int, n_packed: int, remedy: str) -> None:
    """Refuse what would fill the memory."""
    most = max(MOST_UNPACKED, TIMES * n_packed)
    if n_bytes > most:
        raise ValueError(
            f"it unpacks to more than {most / 2**20:,.0f} MiB, the limit for a packed file of "
            f"{n_packed / 2**20:,.1f} MiB. {remedy}"
        )


def check_target(path: Path, force: bool) -> None:
    """Refuse a path where no file can be written, or one is."""
    if len(os.fsencode(path.name)) > MOST_IN_NAME:
        raise FileError(f"{path.name[:80]}... is too long a name: use at most {MOST_IN_NAME} bytes.")
    if not path.parent.is_dir():
        raise FileError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is not a regular file. Name another file.")
    if path.exists() and not force:
        raise FileError(f"{path} exists. --force overwrites it, or name another file.")
