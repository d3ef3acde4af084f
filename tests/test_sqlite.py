"""SQLite files of our own: whole transactions survive kills and full disks, and other files are refused unchanged."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from skactive._utils.sqlite import Kind, SqliteFile

KIND = Kind(
    parameter="`path`",
    noun="a list of words",
    application=b"test",
    layout=2,
    tables=("CREATE TABLE words (number INTEGER PRIMARY KEY, word TEXT NOT NULL)",),
    patience=0.01,
    error=KeyError,
    file_error=InterruptedError,
)
WORDS = ["one", 'é"\n', ""]


def file_of(path, words=WORDS):
    file = SqliteFile(path, KIND)
    with file.writing(create=True) as connection:
        add(connection, words)
    return file


def add(connection, words):
    connection.executemany("INSERT INTO words (word) VALUES (?)", [(word,) for word in words])


def words_in(file):
    with file.reading() as connection:
        file.check_integrity(connection)
        return [word for (word,) in connection.execute("SELECT word FROM words ORDER BY number")]


def changed(path, statement):
    """The file after a statement of SQL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    return path


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_empty_file_is_begun_once_and_a_missing_one_is_not_read_or_added_to(tmp_path):
    (tmp_path / "f").touch()
    assert words_in(file_of(tmp_path / "f")) == WORDS
    assert words_in(file_of(tmp_path / "f", ["two"])) == [*WORDS, "two"]
    for do in ("reading", "writing"):
        with (
            pytest.raises(InterruptedError, match=r"`path`=.*missing' could not be"),
            getattr(SqliteFile(tmp_path / "missing", KIND), do)(),
        ):
            pass
    assert files(tmp_path) == ["f"]


def test_a_transaction_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = file_of(tmp_path / "f")
    with pytest.raises(ZeroDivisionError), file.writing() as connection:
        add(connection, (word if word == "two" else 1 / 0 for word in ("two", "three")))
    assert words_in(file) == WORDS


def test_a_write_that_a_kill_cut_off_is_taken_back(tmp_path):
    path, killed = file_of(tmp_path / "f").path, tmp_path / "killed"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages are on the disk before the end of the transaction
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE words SET word = 'half'")
        for _ in range(100):
            connection.execute("INSERT INTO words (word) VALUES (zeroblob(3000))")
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{killed}{end}")
    assert b"half" in killed.read_bytes()
    assert words_in(SqliteFile(killed, KIND)) == WORDS
    with SqliteFile(killed, KIND).writing() as connection:
        add(connection, ["two"])
    assert words_in(SqliteFile(killed, KIND)) == [*WORDS, "two"]


def test_a_file_in_use_for_too_long_is_an_error_and_reading_changes_nothing(tmp_path):
    file = file_of(tmp_path / "f")
    with file.writing():
        assert words_in(file) == WORDS  # reading waits for the end of a write only
        with pytest.raises(InterruptedError, match=r"could not be written: database is locked for .* another process"):
            file_of(tmp_path / "f")
    with pytest.raises(InterruptedError, match="readonly"), file.reading() as connection:
        add(connection, ["two"])


def refusal_of(path):
    """The message with which a file is refused, by reading and writing alike, and left as it was."""
    before = path.read_bytes()
    errors = []
    for do in ("reading", "writing"):
        with pytest.raises(KeyError) as error, getattr(SqliteFile(path, KIND), do)() as connection:
            SqliteFile(path, KIND).check_integrity(connection)
        errors.append(error)
    assert (path.read_bytes(), files(path.parent)) == (before, [path.name])
    return str(errors[0].value)


def test_files_and_databases_of_others_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"a,b\n1,2\n")
    assert "is not a list of words, or its first bytes are damaged. Nothing in it was changed." in refusal_of(path)
    empty = changed(file_of(tmp_path / "f").path, "PRAGMA application_id = 3")
    for other in (path, changed(empty, "DROP TABLE words")):
        with pytest.raises(KeyError, match="is not a list of words"):
            file_of(other)


OTHERS = {
    "PRAGMA application_id = 3": "is not a list of words",
    "PRAGMA user_version = 1": "another version of skactive, in layout 1; this one reads layout 2",
    "CREATE VIEW more AS SELECT 1": "is damaged: its tables are not those",
    "CREATE TRIGGER t AFTER INSERT ON words BEGIN UPDATE words SET word = 'no'; END": "its tables are not those",
    "DROP TABLE words": "its tables are not those",
}


@pytest.mark.parametrize("statement", OTHERS)
def test_other_databases_layouts_and_tables_are_refused(statement, tmp_path):
    assert OTHERS[statement] in refusal_of(changed(file_of(tmp_path / "f").path, statement))


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(part, tmp_path):
    path = file_of(tmp_path / "f").path
    os.truncate(path, int(part * path.stat().st_size))
    assert "is damaged" in (message := refusal_of(path)) or "is not a list of words" in message
