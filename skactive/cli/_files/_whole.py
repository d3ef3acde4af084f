"""Files that stand on the disk whole or not at all, and the check of where a file shall stand."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._errors import FileError, file_error


def check_target(path: Path, force: bool) -> None:
    try:
        if path.is_dir():
            raise FileError(f"{path} is a folder. Name a file in it.")
        if not path.parent.is_dir():
            raise file_error(path, f"there is no folder {path.parent}. Make it first.")
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is not a regular file. Name another file.")
        if path.exists() and not force:
            raise FileError(f"{path} exists. --force overwrites it, or name another file.")
    except OSError as error:
        raise file_error(path, f"it cannot be written: {error.strerror}.") from error


@contextmanager
def written_whole(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A file to write, in the same folder, that takes the place of `path` once it is whole and on the disk.

    After any error (a full disk, Ctrl-C) it is gone, and at `path` stands what stood there before, if anything.

    Parameters
    ----------
    path : str or path
        Where the file shall stand. A link is followed.
    force : bool
        Whether a file that is there may be replaced.

    Yields
    ------
    pathlib.Path
        An empty file, with the suffix of `path`, to be written over.

    Raises
    ------
    FileError
        `path` exists and there is no `force`, is no file, or cannot be written.
    """
    path = Path(path)
    check_target(path, force)
    target = Path(os.path.realpath(path))
    kept = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    unfinished = target.with_name(f".{secrets.token_hex(8)}{''.join(kept)}")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        check_target(path, force)  # it may have come in the meantime
        if target.exists():
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        unfinished.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        if error.filename not in {None, str(unfinished), os.fspath(unfinished)}:
            raise
        remedy = " Make room." if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
        raise file_error(path, f"it could not be written: {error.strerror or error}.{remedy}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
