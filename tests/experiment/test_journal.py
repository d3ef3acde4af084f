"""The journal: what was appended survives kills and full disks, and what was damaged is never read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from skactive.experiment import _journal
from skactive.experiment._journal import Journal, Record

ROOT = Path(__file__).parents[2]
RECORDS = [
    Record("all", {"kind": "a", "x": 0.1 + 0.2}),
    Record("all", {"kind": "b", "text": 'é"\n', "nan": float("inf")}, b"\x00memory"),
    Record("all", {"kind": "c", "x": None}, b""),
]


def journal_of(path, records=RECORDS):
    """A file with these records, the first of them begun and the others appended."""
    journal, _ = Journal.open(path)
    journal.begin(lambda _: records[:1])
    for record in records[1:]:
        journal.append(record)
    return path


def changed(path, statement):
    """The file after a statement of SQL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    return path


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_records_come_back_as_they_were_from_a_single_file(tmp_path):
    path = journal_of(tmp_path / "j")
    assert Journal.open(path)[1] == RECORDS
    assert files(tmp_path) == ["j"]


def test_a_path_without_a_file_is_an_empty_journal_and_stays_without_one(tmp_path):
    assert Journal.open(tmp_path / "j")[1] == []
    assert files(tmp_path) == []


def test_an_empty_file_is_an_empty_journal(tmp_path):
    path = tmp_path / "j"
    path.touch()
    assert Journal.open(path)[1] == []
    assert Journal.open(journal_of(path))[1] == RECORDS


def test_a_write_that_a_kill_cut_off_is_taken_back(tmp_path):
    path, killed = journal_of(tmp_path / "j"), tmp_path / "killed"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages are on the disk before the end of the transaction
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE records SET content = 'half'")
        for number in range(4, 100):
            connection.execute("INSERT INTO records VALUES (?, '', zeroblob(3000), NULL, x'')", (number,))
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{killed}{end}")
    assert b"half" in killed.read_bytes()
    assert Journal.open(killed)[1] == RECORDS
    Journal.open(killed)[0].append(Record("all", {"kind": "d"}))
    assert Journal.open(killed)[1] == [*RECORDS, Record("all", {"kind": "d"})]


def test_a_full_disk_is_an_error_that_loses_no_record(tmp_path, monkeypatch):
    path = journal_of(tmp_path / "j")
    with monkeypatch.context() as full:
        full.setattr(_journal, "_SETTINGS", (*_journal._SETTINGS, "PRAGMA max_page_count = 3"))
        with pytest.raises(OSError, match=r"`checkpoint`.*could not be written: .*full.*rounds are safe"):
            Journal.open(path)[0].append(Record("all", {"kind": "d"}, bytes(20000)))
    assert Journal.open(path)[1] == RECORDS
    assert Journal.open(journal_of(path))[1] == RECORDS + RECORDS


def test_no_changed_byte_is_read_as_a_record(tmp_path):
    whole = journal_of(tmp_path / "j").read_bytes()
    path, refused = tmp_path / "damaged", 0
    # All bytes with something in them; of the empty space, one in 61.
    for position in (i for i in range(len(whole)) if whole[i] or i % 61 == 0):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        try:
            assert Journal.open(path)[1] == RECORDS
        except ValueError:
            refused += 1
    assert refused > sum(len(record.memory or b"") + len(repr(record.content)) for record in RECORDS)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET content = replace(content, '0.3', '0.4') WHERE number = 1",
        "UPDATE records SET memory = x'00' WHERE number = 2",
        "UPDATE records SET memory = NULL WHERE number = 3",
        "UPDATE records SET checksum = x'' WHERE number = 2",
        "UPDATE records SET part_of = 'another' WHERE number = 2",
        "DELETE FROM records WHERE number = 2",
        "UPDATE records SET number = 4 WHERE number = 2",
    ],
)
def test_a_changed_a_missing_and_a_moved_record_are_errors_that_name_it(statement, tmp_path):
    path = changed(journal_of(tmp_path / "j"), statement)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"`checkpoint`.* is damaged: the checksum of record [123] is wrong"):
        Journal.open(path)
    assert path.read_bytes() == before


def test_the_remedy_of_a_damaged_record_keeps_those_before_it(tmp_path):
    path = changed(journal_of(tmp_path / "j"), "UPDATE records SET content = '{}' WHERE number = 3")
    with pytest.raises(ValueError, match="`DELETE FROM records WHERE number >= 3`"):
        Journal.open(path)
    assert Journal.open(changed(path, "DELETE FROM records WHERE number >= 3"))[1] == RECORDS[:2]


@pytest.mark.parametrize("part", [0.01, 0.3, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(part, tmp_path):
    path = journal_of(tmp_path / "j")
    os.truncate(path, int(part * path.stat().st_size))
    with pytest.raises(ValueError, match=r"is damaged|is a file of another kind"):
        Journal.open(path)


def other_database(path):
    return changed(path, "CREATE TABLE records (number INTEGER PRIMARY KEY, content TEXT)")


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"no line end", b'{"json": 1}\n', other_database])
def test_a_file_of_another_kind_is_refused_and_left_alone(content, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(content) if isinstance(content, bytes) else content(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"`checkpoint`.* is a file of another kind. Give a new path; nothing was"):
        Journal.open(path)
    with pytest.raises(ValueError, match=r"`checkpoint`.* is a file of another kind"):
        Journal(path, os.getpid()).append(RECORDS[0])
    assert (path.read_bytes(), files(tmp_path)) == (before, ["data"])


def test_a_checkpoint_of_json_lines_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line := b'{"checksum":"0123456789abcdef0123456789abcdef","record":{"kind":"settings"}}\n')
    with pytest.raises(ValueError, match=r"`checkpoint`.* is a checkpoint of JSON lines, .* was not changed."):
        Journal.open(path)
    assert path.read_bytes() == line


def test_another_layout_is_refused(tmp_path):
    path = changed(journal_of(tmp_path / "j"), "PRAGMA user_version = 1")
    with pytest.raises(ValueError, match=r"another version of skactive, in layout 1; this one reads layout 2"):
        Journal.open(path)


def test_a_file_in_use_for_too_long_is_an_error(tmp_path, monkeypatch):
    path = journal_of(tmp_path / "j")
    monkeypatch.setattr(_journal, "_PATIENCE", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert Journal.open(path)[1] == RECORDS  # reading waits for the end of a write only
        with pytest.raises(OSError, match="could not be written: database is locked"):
            Journal.open(path)[0].append(RECORDS[0])


def test_what_was_not_begun_in_a_file_is_not_added_to_it(tmp_path):
    path = journal_of(tmp_path / "j")
    with pytest.raises(ValueError, match=r"`checkpoint`.* was removed or replaced"):
        Journal.open(path)[0].append(Record("another", {}))
    assert Journal.open(path)[1] == RECORDS


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_that_was_removed_or_emptied_is_not_written_to(content, tmp_path):
    journal, _ = Journal.open(path := journal_of(tmp_path / "j"))
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"`checkpoint`.* was removed or replaced"):
        journal.append(RECORDS[0])
    assert (path.read_bytes() if path.exists() else None) == content


def test_who_begins_a_file_sees_what_another_began_a_moment_before(tmp_path):
    first, second = Journal.open(tmp_path / "j")[0], Journal.open(tmp_path / "j")[0]
    assert first.begin(lambda records: RECORDS[: 1 - len(records)]) == RECORDS[:1]
    assert second.begin(lambda records: RECORDS[2:] if records == RECORDS[:1] else []) == [RECORDS[0], RECORDS[2]]


WRITER = """
import sys
from pathlib import Path
from skactive.experiment._journal import Journal, Record
path, owner, writer = sys.argv[1:]
for i in range(40):
    Journal(Path(path), int(owner)).append(Record("all", {"writer": writer, "i": i}, bytes(1000 * int(writer))))
"""


@pytest.mark.slow
def test_writers_in_several_processes_lose_no_record(tmp_path):
    path = journal_of(tmp_path / "j", RECORDS[:1])
    command = [sys.executable, "-c", WRITER, str(path), str(os.getpid())]
    writers = [subprocess.Popen([*command, str(writer)], cwd=ROOT) for writer in range(2)]
    while any(writer.poll() is None for writer in writers):
        Journal.open(path)  # reading at any moment finds whole records only
        time.sleep(0.1)
    assert [writer.wait() for writer in writers] == [0, 0]
    records = [record.content for record in Journal.open(path)[1][1:]]
    for writer in "01":
        assert [record["i"] for record in records if record["writer"] == writer] == list(range(40))


def test_a_worker_whose_experiment_was_killed_writes_no_more(tmp_path):
    journal = Journal(tmp_path / "j", owner=2**22 + 1)  # no process has this id
    with pytest.raises(SystemExit):
        journal.append(RECORDS[0])
    assert not journal.path.exists()
