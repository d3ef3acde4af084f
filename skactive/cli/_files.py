"""Files that commands write: whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileError(ValueError):
    """What is wrong with a file, in one line that names it."""


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary file in the same folder, to be written, that replaces `path` at the end.

    After any error (a full disk, Ctrl-C) it is gone, and `path` is as it was. A link is followed.
    """
    path = Path(path)
    check_target(path, force)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with temporary.open("rb+") as file:
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


def check_target(path: Path, force: bool) -> None:
    """Refuse a path where no file can be written, or one is."""
    if not path.parent.is_dir():
        raise FileError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is no regular file. Name another file.")
    if path.exists() and not force:
        raise FileError(f"{path} exists. --force overwrites it, or name another file.")
