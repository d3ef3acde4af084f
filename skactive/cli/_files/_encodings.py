"""Texts as bytes: read from whichever encoding they are in, and written in UTF-8."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from ._errors import file_error


def as_utf8(content: bytes, path: Path, notes: list[str]) -> bytes:
    """The text in UTF-8, without a mark at its head."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            content = content.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError as error:
            raise file_error(path, "its mark says UTF-16, and it is not. Save it as UTF-8.") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    binary = file_error(path, "this is no text: it holds bytes that are no characters. Save the table as UTF-8 text.")
    if b"\0" in content:
        raise binary
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for position in range(0, len(content), 2**20):
            place = position - len(decoder.getstate()[0])
            decoder.decode(content[position : position + 2**20], final=position + 2**20 >= len(content))
    except UnicodeDecodeError as error:
        if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
            raise binary from error
        line = content.count(b"\n", 0, place + error.start) + 1
        try:
            name, content = "Windows-1252", content.decode("cp1252").encode("utf-8")
        except UnicodeDecodeError:  # five bytes are nothing there
            name, content = "Latin-1", content.decode("latin-1").encode("utf-8")
        notes.append(f"{path} is not UTF-8 (line {line}): read as {name}.")
    return content


def encoded(text: str, path: Path) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        trouble = f"{text[max(error.start - 20, 0) : error.start]!r} is followed by half of a character. Remove it."
        raise file_error(path, trouble) from error
