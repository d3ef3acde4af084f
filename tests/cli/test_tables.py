"""Tables in files: what is read is what stands there, what is written is whole, every trouble has a sentence."""

from __future__ import annotations

import csv
import datetime
import decimal
import errno
import io
import math
import os
import re
import signal
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skactive.cli import main
from skactive.cli._files import FileError, atomic_write
from skactive.cli._tables import DELIMITERS, read_table, write_table

TYPED = [".jsonl", ".parquet", ".xlsx"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own, so that messages hold short names."""
    monkeypatch.chdir(tmp_path)


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def read(content: str | bytes, name: str = "a.csv", **options) -> pd.DataFrame:
    return read_table(put(name, content), **options)


def read_sheet(*rows: list, **options) -> pd.DataFrame:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save("a.xlsx")
    return read_table("a.xlsx", **options)


def values(column: pd.Series) -> list:
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)]


def refused(match: str, function, *arguments, **options) -> None:
    """One line that begins with the file and holds these words."""
    with pytest.raises(FileError) as caught:
        function(*arguments, **options)
    assert match in str(caught.value), (match, arguments)
    assert re.match(r"\S+\.\w+ ", str(caught.value))
    assert "\n" not in str(caught.value)


# --- ids and other texts --------------------------------------------------------------------------

IDS = ["03", "1e5", "NA", "None", "nan", "True", "1.0", "-0", "+4912345678", "١٢", "'", "a;b", " x ", 'say "hi"']


@pytest.mark.parametrize(("mark", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\r"), ("|", "\n")])
def test_ids_come_as_they_stand_and_only_an_empty_cell_is_missing(mark, end):
    rows = io.StringIO(newline="")
    writer = csv.writer(rows, delimiter=mark, lineterminator=end)
    writer.writerows([["id", "n"], *([value, 1] for value in IDS), ["", 1]])
    frame = read(rows.getvalue(), text=["id", "a column that is not there"])
    assert values(frame["id"]) == [*IDS, None]
    assert frame["n"].dtype == np.int64
    assert frame.attrs["notes"] == []


@pytest.mark.parametrize("suffix", TYPED)
def test_a_number_in_an_id_column_becomes_its_text(suffix):
    write_table(pd.DataFrame({"id": [3, 2**53], "f": [3.0, 2.5], "b": [True, False]}), f"a{suffix}")
    frame = read_table(f"a{suffix}", text=["id", "f", "b"])
    assert frame.to_dict("list") == {"id": ["3", str(2**53)], "f": ["3", "2.5"], "b": ["True", "False"]}


def test_parquet_of_other_programs_as_text_and_as_it_is():
    day, long = datetime.date(2024, 1, 5), decimal.Decimal(10**30)
    columns = {  # as Arrow has it, as text, as it is read
        "dictionary": (pyarrow.array(["03", None]).dictionary_encode(), "03", "03"),
        "decimal": (pyarrow.array([decimal.Decimal("1.50"), None]), "1.50", 1.5),
        "whole": (pyarrow.array([decimal.Decimal("3.00"), None]), "3", 3),
        "too long": (pyarrow.array([long, None]), str(long), str(long)),
        "day": (pyarrow.array([day, None]), "2024-01-05", pd.Timestamp(day)),
        "time": (pyarrow.array([datetime.datetime(2024, 1, 5, 12), None]), "2024-01-05 12:00:00", None),
        "hour": (pyarrow.array([datetime.time(12, 30), None]), "12:30:00", None),
        "big": (pyarrow.array([2**64 - 1, None], pyarrow.uint64()), str(2**64 - 1), 2**64 - 1),
        "large": (pyarrow.array(["", None], pyarrow.large_string()), "", ""),
    }
    pyarrow.parquet.write_table(pyarrow.table({name: made for name, (made, *_) in columns.items()}), "a.parquet")
    as_text, as_it_is = read_table("a.parquet", text=columns), read_table("a.parquet")
    for name, (_, text, value) in columns.items():
        assert values(as_text[name]) == [text, None], name
        assert value is None or values(as_it_is[name]) == [value, None], name
    assert as_it_is["time"][0] == pd.Timestamp("2024-01-05 12:00")
    assert str(as_it_is["big"].dtype) == "UInt64"


def test_an_id_cell_that_a_workbook_shows_with_zeros_comes_with_them():
    book = openpyxl.Workbook()
    book.active.append(["id", "n"])
    for row, shown in enumerate(["000", "General"], 2):
        book.active.append([3, 3])
        for column in (1, 2):
            book.active.cell(row, column).number_format = shown
    book.save("a.xlsx")
    assert read_table("a.xlsx", text=["id"]).to_dict("list") == {"id": ["003", "3"], "n": [3, 3]}


def test_an_id_that_has_lost_digits_is_refused():
    refused(
        "the number 1.2345678901234567e+19 has lost digits", read, '{"id": 12345678901234567e3}', "a.jsonl", text=["id"]
    )
    refused("has lost digits", read_sheet, ["id"], [2**60], text=["id"])


# --- numbers, truths, codes -----------------------------------------------------------------------

COLUMNS = [
    ("1 -2", "int64", [1, -2]),
    ("1 . 9007199254740993", "Int64", [1, None, 2**53 + 1]),
    ("1 NA null", "Int64", [1, None, None]),
    ("-9223372036854775808 9223372036854775807", "int64", [-(2**63), 2**63 - 1]),
    ("1 18446744073709551616", "str", None),
    ("1.0 .", "float64", [1.0, None]),
    ("1e5 .5 -.5 3.", "float64", [1e5, 0.5, -0.5, 3.0]),
    ("0.30000000000000004 5e-324", "float64", [0.30000000000000004, 5e-324]),
    ("inf -Infinity 1", "float64", [math.inf, -math.inf, 1.0]),
    ("1 1e999", "str", None),
    ("NaN 1.5", "float64", [None, 1.5]),
    ("+5 6", "int64", [5, 6]),
    ("+1.5 -2", "float64", [1.5, -2.0]),
    ("+49301234 +49305678", "str", None),
    ("1 00501", "str", None),
    ("-05 1", "str", None),
    ("0 0.5", "float64", [0.0, 0.5]),
    ("0x1F 1", "str", None),
    ("1_000 1", "str", None),
    ("1,234 2", "str", None),
    ("2024-01-05 2024-01-06", "str", None),
    ("True false TRUE", "bool", [True, False, True]),
    ("TRUE NA FALSE", "boolean", [True, None, False]),
    ("True 1", "str", None),
    ("NA None", "str", None),
    ("NA red .", "str", ["NA", "red", None]),
    (". .", "float64", [None, None]),
]
"""Cells, a point alone for an empty one, and the column that is read: None for the cells as they stand."""


def is_of(column: pd.Series, dtype: str) -> bool:
    return column.dtype in ("str", object) if dtype == "str" else column.dtype == dtype


def test_a_column_without_a_type_is_what_all_its_cells_are():
    for text, dtype, expected in COLUMNS:
        cells = ["" if cell == "." else cell for cell in text.split()]
        rows = io.StringIO()
        csv.writer(rows).writerows([["id", "x"], *(["k", cell] for cell in cells)])
        column = read(rows.getvalue(), text=["id"])["x"]
        found, expected = values(column), cells if expected is None else expected
        assert (found, [*map(type, found)]) == (expected, [*map(type, expected)]), text
        assert is_of(column, dtype), text
    assert read("id,x\na, 3\nb,4 \n")["x"].tolist() == [3, 4]


def test_the_odd_cell_may_stand_at_the_end_of_a_long_column():
    for last, dtype in [("x", "str"), ("007", "str"), ("0.5", "float64"), ("NA", "Int64")]:
        column = read("id,x\n" + "a,1\n" * 5000 + f"a,{last}\n")["x"]
        assert is_of(column, dtype), last
    assert is_of(read("id,x\n" + "a,\n" * 5000 + "a,1\n")["x"], "Int64")


def test_whole_numbers_beyond_64_bits_stay_text_and_a_note_says_so():
    long = "1" * 25
    for name, content in (("a.csv", f"id,x\na,{long}\nb,1\n"), ("a.jsonl", f'{{"x": {long}}}\n{{"x": 1}}\n')):
        frame = read(content, name)
        assert frame["x"].tolist() == [long, "1"]
        assert frame.attrs["notes"] == [f"{name}: column 'x' holds whole numbers of too many digits: read as text."]


def test_decimal_commas_are_read_in_a_file_of_semicolons_and_told_where_they_could_part_thousands():
    frame = read("id;x;y;z;u\n03;3,5;1,5e3;1,5;-,5\n04;-1;2;2.5;NA\n", text=["id"])
    assert frame["x"].tolist() == [3.5, -1.0]
    assert frame["y"].tolist() == [1500.0, 2.0]
    assert frame["z"].tolist() == ["1,5", "2.5"]  # of two minds
    assert values(frame["u"]) == [-0.5, None]
    assert frame.attrs["notes"] == []
    frame = read("id;x\na;1,234\nb;2\n")
    assert frame["x"].tolist() == [1.234, 2.0]
    assert frame.attrs["notes"] == ["a.csv: column 'x': 1,234 is read as 1.234, with a decimal mark."]


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_dates_are_dates_where_the_format_has_them(suffix):
    days = pd.to_datetime(["2024-01-05", None, "1969-12-31 23:59:59.5"], format="mixed")
    write_table(pd.DataFrame({"id": ["a", "b", "c"], "d": days}), f"a{suffix}")
    back = read_table(f"a{suffix}")["d"]
    assert back.dtype.kind == "M"
    assert back.equals(pd.Series(days).astype(back.dtype))


def test_mixed_columns_stay_text_and_keys_that_are_not_there_are_missing():
    lines = '{"x": 1, "y": 1, "z": 1}\n\n{"x": "a", "y": 2.5, "z": true}\r\n{"x": null, "id": "\\u2028"}\n'
    frame = read(lines, "a.jsonl")
    assert list(frame) == ["x", "y", "z", "id"]
    assert values(frame["x"]) == ["1", "a", None]
    assert values(frame["y"]) == [1.0, 2.5, None]
    assert values(frame["z"]) == ["1", "True", None]
    assert values(frame["id"]) == [None, None, "\u2028"]
    assert read('{"x": 9007199254740993}\n{"x": 2.5}\n', "a.jsonl")["x"].tolist() == ["9007199254740993", "2.5"]
    assert values(read('{"x": 1}\n{"x": "NA"}\n', "a.jsonl")["x"]) == [1, None]


# --- how texts are written ------------------------------------------------------------------------


def test_encodings_are_found_and_told_where_they_are_a_guess():
    for name, content in (("a.csv", "id,größe\né,1\n"), ("a.jsonl", '{"id": "é", "größe": 1}\n')):
        for mark, encoding in ((b"", "utf-8-sig"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
            frame = read(mark + content.encode(encoding), name)
            assert frame.to_dict("list") == {"id": ["é"], "größe": [1]}, encoding
            assert frame.attrs["notes"] == []
    frame = read("id,x\na,1\nMüller €,2\n".encode("cp1252"))
    assert frame["id"].tolist() == ["a", "Müller €"]
    assert frame.attrs["notes"] == ["a.csv: it is not UTF-8 (line 3): read as Windows-1252."]


def test_the_delimiter_is_found():
    for mark in DELIMITERS:
        frame = read(f'"a,b;c|d\te\nf"{mark}x{mark}"y"\n1{mark}2{mark}3\n')
        assert frame.to_dict("list") == {"a,b;c|d\te\nf": [1], "x": [2], "y": [3]}
    assert list(read("id|name, first, last|x\n1|a|2\n")) == ["id", "name, first, last", "x"]
    assert list(read("a,b;c\n1;2\n")) == ["a,b", "c"]
    assert list(read("a,b,c\td\n1\t2\n", "a.tsv")) == ["a,b,c", "d"]
    assert list(read("id;x\na;1\n", "a.tsv")) == ["id;x"]
    assert read("id\n03\n04\n", text=["id"])["id"].tolist() == ["03", "04"]
    assert read("id,x,\na,1,\n").to_dict("list") == {"id": ["a"], "x": [1]}  # one at the end of all lines


def test_quotes_line_breaks_and_blank_lines():
    frame = read('\n\r\nid,t\n\na,"x\ny"\nb,"say ""hi"""\r\nc,"1\r\n2"\nd,5" pipe\n\n\n\r\n')
    assert frame["t"].tolist() == ["x\ny", 'say "hi"', "1\r\n2", '5" pipe']
    for content in ("id,x\na,1", "id,x\na,1\n,\n,\n", "id,x\n\n,\na,1\n\n"):
        assert read(content).to_dict("list") == {"id": ["a"], "x": [1]}
    for content in ("id,x", "id,x\r\n\r\n", "id,x\n,\n"):
        assert (list(read(content)), len(read(content))) == (["id", "x"], 0)


def test_a_cell_may_be_long():
    long = "x" * 3_000_000
    frame = read(f'id,t\na,"{long}\n"\nb,1\n')
    assert frame["t"].str.len().tolist() == [len(long) + 1, 1]
    refused("Expected 2 columns, got 1", read, f'id,t\na,"{long}\n"\nb\n')


def test_a_table_without_rows_comes_back():
    for suffix in (".csv", ".parquet", ".xlsx"):
        write_table(pd.DataFrame({"id": [], "x": []}), f"a{suffix}")
        assert (list(read_table(f"a{suffix}")), len(read_table(f"a{suffix}"))) == (["id", "x"], 0)


def test_the_index_that_pandas_writes_is_left_out_and_told():
    frame = pd.DataFrame({"id": ["a", "b"]}, index=[5, 3])
    frame.to_csv("a.csv")
    frame.to_excel("a.xlsx")
    frame.to_parquet("a.parquet")
    for name in ("a.csv", "a.xlsx", "a.parquet"):
        back = read_table(name)
        assert back.to_dict("list") == {"id": ["a", "b"]}
        assert back.attrs["notes"] == [f"{name}: the index that pandas wrote without a name was left out."]


def test_folders_with_an_equals_sign_add_no_column():
    Path("week=1").mkdir()
    write_table(pd.DataFrame({"id": ["a"]}), "week=1/a.parquet")
    assert list(read_table("week=1/a.parquet")) == ["id"]


def test_only_one_sheet_is_read_and_told():
    book = openpyxl.Workbook()
    hidden = book.create_sheet("hidden", 0)
    hidden.append(["other"])
    hidden.sheet_state = "hidden"
    book["Sheet"].append(["id"])
    book["Sheet"].append(["03"])
    book.save("a.xlsx")
    frame = read_table("a.xlsx")
    assert frame["id"].tolist() == ["03"]
    assert frame.attrs["notes"] == ["a.xlsx: of 2 sheets, 'Sheet' was read."]


def test_errors_in_a_workbook_are_missing_and_told():
    frame = read_sheet([], ["id", "x"], ["a", 1], [], ["b", "#DIV/0!"], ["c", "#N/A"])
    assert values(frame["x"]) == [1, None, None]
    assert frame.attrs["notes"] == ["a.xlsx: 2 cells that hold an error are missing values, B5 the first."]


def test_a_formula_with_its_result_is_that_result_and_refused_without():
    refused("cell B2 holds a formula without a result", read_sheet, ["id", "x"], ["a", "=1+1"], ["b", 3])
    with zipfile.ZipFile("a.xlsx") as before, zipfile.ZipFile("b.xlsx", "w") as after:  # as a spreadsheet saves it
        for name in before.namelist():
            after.writestr(name, re.sub(rb"</f><v ?/?>(</v>)?", b"</f><v>2</v>", before.read(name)))
    assert read_table("b.xlsx").to_dict("list") == {"id": ["a", "b"], "x": [2, 3]}


# --- bad files ------------------------------------------------------------------------------------


def test_a_bad_text_is_refused_in_one_sentence():
    open_quote = "line 3: unexpected end of data. Is a quote never closed?"
    for content, message in [
        (b"\xef\xbb\xbf\n\r\n", "It must begin with a header"),
        (",\n,\n", "It must begin with a header"),
        ("i;x\n1;2\n1;2;3\n", "Row #3: Expected 2 columns, got 3: 1;2;3"),
        ('"i\n",x\r\n1,2\r\n1,2,3\r\n', "Expected 2 columns, got 3: 1,2,3"),
        ("i,x,y\n1,2,3\n1,2\n", "Row #3: Expected 3 columns, got 2: 1,2"),
        ("i,x\n1,2\n  \n", "Expected 2 columns, got 1"),
        ("id,x\na,1,\n", "Expected 2 columns, got 3"),
        ("text\nhello, you\n", "Expected 1 columns, got 2: hello, you"),
        ('i,x\n1,2\n3,"a\n5,6\n', open_quote),
        ('i,x\n1,say "hi\n3,"a\n5,6\n', open_quote),
        ("i,x,i\n1,2,3\n", "several columns have the name 'i'"),
        ("i,,x\n1,2,3\n", "column 2 has no name"),
        ("\n,x\na,2\n", "column 1 has no name"),
        (b"i,x\n1,\x00\n", "NUL"),
        ("i,x\n1,2\n".encode("utf-16-le"), "NUL"),
        (b"id,x\n\xe9\x81,2\n", "can't decode byte 0x81"),
        (b"\xff\xfei", "'utf-16"),
        (b"PK\x03\x04\x00", "cannot be read"),
    ]:  # fmt: skip
        refused(message, read, content)


def test_bad_json_lines_are_refused_in_one_sentence():
    for content, message in [
        ('{"i": 1}\n{"i": 1,}\n', "line 2 is no JSON object"),
        ('{"i": 1, "a": 2, "a": 3}\n', "line 1 is no JSON object: it has a key twice"),
        ('{"i": 1}\n\n[1]\n', "line 3 must be a JSON object, {...}"),
        ('{"i": 1}\n{"i": [1]}\n', "column 'i' is nested"),
        ('{"i": 1}\n{"": 2}\n', "column 2 has no name"),
        ('{"i": "\\ud800"}\n', "surrogates not allowed"),
        ("{}\n", "It must begin with a header"),
        ('{"i": ' + "[" * 5000, "line 1 is no JSON object"),
        ('{"i": ' + "1" * 5000 + "}\n", "line 1 is no JSON object: Exceeds the limit"),
    ]:
        refused(message, read, content, "a.jsonl")


def test_parquet_that_is_broken_or_no_table_is_refused():
    write_table(pd.DataFrame({"id": ["a"] * 1000, "x": np.arange(1000)}), "b.parquet")
    whole = Path("b.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], whole[len(whole) // 2 :], b"rubbish", b""):
        refused("cannot be read: ", read, content, "a.parquet")
    for column in (pyarrow.array([[1]]), pyarrow.array([b"x"])):
        pyarrow.parquet.write_table(pyarrow.table({"id": ["a"], "x": column}), "a.parquet")
        refused("column 'x' holds values of the kind", read_table, "a.parquet")


def test_a_workbook_that_is_broken_or_no_table_is_refused():
    write_table(pd.DataFrame({"id": ["a"]}), "b.xlsx")
    whole = Path("b.xlsx").read_bytes()
    for content in (b"rubbish", whole[: len(whole) // 2]):
        refused("cannot be read: ", read, content, "a.xlsx")
    refused("the sheet is empty", read_sheet)
    refused("column 2 has no name", read_sheet, ["id", None, "x"], ["a", 1, 2])
    refused("column 3 has no name", read_sheet, ["id", "y"], ["a"], ["b", None, 3])


def test_a_path_that_is_no_file_is_refused():
    Path("folder.csv").mkdir()
    for name, message in [
        ("folder.csv", "folder.csv cannot be read: Is a directory"),
        ("none.csv", "none.csv cannot be read: No such file or directory"),
        ("x" * 5000 + ".csv", "cannot be read: "),
        ("a.xls", "a.xls: a table is told by its suffix, one of .csv, .tsv, .jsonl, .parquet, .xlsx"),
        ("a.xlsx.gz", "a.xlsx.gz: a table is told by its suffix"),
    ]:
        with pytest.raises(FileError, match=re.escape(message)):
            read_table(name)


def test_a_missing_library_is_named_with_what_to_install_and_the_demonstration_needs_none(monkeypatch, capsys):
    write_table(pd.DataFrame({"id": ["a"], "x": [1], "y": [None]}), "a.xlsx")
    for library in ("openpyxl", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
        if library == "pyarrow":
            for module in ("skactive.cli._commands", "skactive.cli._tables"):
                monkeypatch.delitem(sys.modules, module)
        assert main(["start", "c.db", "--pool", "a.xlsx", "--id", "id", "--target", "y"]) == 1
        error = capsys.readouterr().err
        assert re.fullmatch(rf"skactive start: error: .*{library}.* pip install \"skactive\[tabular\]\"\n", error)
    assert main(["demo", "-o", "none/a.png"]) == 2


# --- writing --------------------------------------------------------------------------------------


def test_a_csv_file_is_plain_and_says_utf8_to_spreadsheets_where_it_matters():
    frame = pd.DataFrame({"id": ["03", 'a "b"'], "x": [0.1 + 0.2, np.nan], "b": [True, None], "n": [1, 2]})
    write_table(frame, "a.csv")
    assert Path("a.csv").read_bytes() == b'id,x,b,n\r\n03,0.30000000000000004,True,1\r\n"a ""b""",,,2\r\n'
    write_table(pd.DataFrame({"id": ["é"]}), "b.csv")
    assert Path("b.csv").read_bytes() == "\ufeffid\r\né\r\n".encode()


def test_texts_of_a_workbook_are_cells_of_text():
    write_table(pd.DataFrame({"id": ["03", "=1+1"], "x": [3, 4]}), "a.xlsx")
    sheet = openpyxl.load_workbook("a.xlsx").active
    cells = [sheet["A2"], sheet["A3"]]
    assert [(c.value, c.data_type, c.number_format) for c in cells] == [("03", "s", "@"), ("=1+1", "s", "@")]
    assert (sheet["B2"].value, sheet["B2"].data_type) == (3, "n")


def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written():
    for name, cells, message in [
        ("a.csv", ["ab\ud800"], "surrogates not allowed"),
        ("a.jsonl", ["ab\ud800"], "surrogates not allowed"),
        ("a.xlsx", ["ab\ud800"], "surrogates not allowed"),
        ("a.parquet", ["ab\ud800"], "surrogates not allowed"),
        ("a.jsonl", [math.inf], "not JSON compliant"),
        ("a.xlsx", [[1]], "Cannot convert [1] to Excel"),
        ("a.xlsx", [math.inf], "a workbook cannot hold the number inf"),
        ("a.xlsx", [2**53 + 1], "a workbook cannot hold the number 9007199254740993"),
        ("a.xlsx", ["x" * 32768], "a text has 32768"),
        ("a.xlsx", [pd.Timestamp("2024-01-05", tz="UTC")], "timezones"),
        ("a.parquet", [1, "a"], "Conversion failed for column x"),
        ("a.xlsx", range(2**20), "a sheet holds 1048575 rows, and there are 1048576"),
    ]:
        frame = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
        refused(f"{name} cannot be written: ", write_table, frame, name)
        refused(message, write_table, frame, name)
    for frame in (pd.DataFrame([[1, 2]], columns=[1, "1"]), pd.DataFrame({"x": [1], "": [2]})):
        refused("cannot be written: columns must have names that differ", write_table, frame, "a.csv")
    assert os.listdir() == []


# --- whole or not at all --------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["interrupt", RuntimeError, OSError(errno.ENOSPC, "No space left on device")])
def test_after_an_error_there_is_nothing_new(error):
    put("old.csv", b"before")

    def write(name):
        with atomic_write(name, force=True) as unfinished:
            assert (unfinished.parent, unfinished.suffix) == (Path(name).resolve().parent, ".csv")
            unfinished.write_bytes(b"half")
            if error == "interrupt":
                signal.raise_signal(signal.SIGINT)
            raise error

    for name in ("new.csv", "old.csv"):
        with pytest.raises((KeyboardInterrupt, RuntimeError, FileError)) as caught:
            write(name)
        if isinstance(error, OSError):
            assert str(caught.value) == f"{name} could not be written: No space left on device. Make room."
    assert os.listdir() == ["old.csv"]
    assert Path("old.csv").read_bytes() == b"before"


def test_a_trouble_with_another_file_keeps_its_own_error():
    with pytest.raises(FileNotFoundError, match="other"), atomic_write("a.csv"):
        open("other").close()
    assert os.listdir() == []


def test_the_file_appears_at_once_and_one_that_is_there_or_comes_in_the_meantime_stays_unless_forced():
    with atomic_write("a.csv") as unfinished:
        unfinished.write_bytes(b"new")
        assert not Path("a.csv").exists()
    assert Path("a.csv").read_bytes() == b"new"
    with pytest.raises(FileError, match=r"^b\.csv exists\."), atomic_write("b.csv") as unfinished:
        put("b.csv", b"other")
    with pytest.raises(FileError, match=r"^b\.csv exists\. --force overwrites it, or name another file\.$"):
        write_table(pd.DataFrame({"id": ["04"]}), "b.csv")
    assert Path("b.csv").read_bytes() == b"other"
    write_table(pd.DataFrame({"id": ["04"]}), "b.csv", force=True)
    assert Path("b.csv").read_bytes() == b"id\r\n04\r\n"
    assert sorted(os.listdir()) == ["a.csv", "b.csv"]


@pytest.mark.skipif(os.name == "nt", reason="rights, links and pipes of another kind")
def test_rights_and_links_are_kept_and_what_is_no_regular_file_is_left_alone():
    with atomic_write("a.csv"):
        pass
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat("a.csv").st_mode) == 0o666 & ~umask
    os.chmod("a.csv", 0o640)
    os.symlink("a.csv", "link.csv")
    with atomic_write("link.csv", force=True) as unfinished:
        unfinished.write_bytes(b"new")
    assert Path("link.csv").is_symlink()
    assert Path("a.csv").read_bytes() == b"new"
    assert stat.S_IMODE(os.stat("a.csv").st_mode) == 0o640
    os.mkfifo("pipe")
    Path("folder").mkdir()
    for name, message in [
        ("pipe", "pipe is no regular file. Name another file."),
        ("folder", "folder is no regular file. Name another file."),
        ("g/a", "g/a cannot be written: there is no folder g. Make it first."),
    ]:
        with pytest.raises(FileError, match=f"^{message}$"), atomic_write(name, force=True):
            pass


# --- there and back -------------------------------------------------------------------------------

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TRICKY = ["NA", "03", "1e5", "=1+1", "True", "_x0041_", "'", ",", "", "\ufeff", "\r", "\n", "\r\n", '"', '""', " a "]
CELLS = st.text(LETTERS, max_size=8) | st.sampled_from(TRICKY) | st.text('0123456789.,;"\n\r\t| -', max_size=6)
NAMES = st.text(LETTERS, min_size=1, max_size=6).filter(lambda name: not set(name) & set(DELIMITERS))


@pytest.mark.parametrize("suffix", [".csv", *TYPED])
@settings(max_examples=30)
@given(data=st.data())
def test_texts_and_names_come_back_the_same(suffix, data, tmp_path_factory):
    names = data.draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    rows = data.draw(st.lists(st.tuples(*[st.one_of(st.none(), CELLS)] * len(names)), max_size=6))
    empty_is_missing = suffix in (".csv", ".xlsx")
    if empty_is_missing:  # and a row without any value is no row
        rows = [tuple(cell or None for cell in row) for row in rows if any(row)]
    rows = rows or [("a",) * len(names)]
    path = tmp_path_factory.mktemp("files") / f"a{suffix}"
    write_table(pd.DataFrame(rows, columns=names, dtype=object), path)
    back = read_table(path, text=names)
    assert list(back) == names
    assert back.attrs["notes"] == []
    assert [*zip(*(values(back[name]) for name in names), strict=True)] == rows


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv", *TYPED])
@settings(max_examples=20)
@given(data=st.data())
def test_numbers_and_truths_come_back_the_same(suffix, data, tmp_path_factory):
    most = 2**53 if suffix == ".xlsx" else 2**63 - 1
    whole, floats = st.integers(-most, most), st.floats(allow_infinity=False)

    def column(cells, *first):  # some rows, after two that fix the type
        return [*first, *data.draw(st.lists(cells, min_size=3, max_size=3))]

    frame = pd.DataFrame(
        {
            "float": column(floats, 0.5, math.nan),
            "whole": column(whole, 1, 2),
            "gaps": pd.array(column(st.none() | whole, 1, None), dtype="Int64"),
            "truth": column(st.booleans(), True, False),
            "maybe": pd.array(column(st.none() | st.booleans(), True, None), dtype="boolean"),
        }
    )
    path = str(tmp_path_factory.mktemp("files") / f"a{suffix}")
    write_table(frame, path)
    back = read_table(path)
    assert back.dtypes.to_dict() == frame.dtypes.to_dict()
    assert {name: values(back[name]) for name in back} == {name: values(frame[name]) for name in frame}


@given(
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=5), min_size=1, max_size=8), end=st.sampled_from(["\n", "\r\n"])
)
def test_the_fast_reader_agrees_with_pythons_own(rows, end, tmp_path_factory):
    """Whatever a writer of csv quotes: the same cells, or the line of the first row with another number of them."""
    path = tmp_path_factory.mktemp("files") / "a.csv"
    content = io.StringIO(newline="")
    csv.writer(content, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    path.write_bytes(content.getvalue().encode())
    wide = [row for row in rows if len(row) > 2]
    if wide and not (len(rows[0]) == 3 and rows[0][-1] == ""):
        with pytest.raises(FileError, match=f"Expected 2 columns, got {len(wide[0])}"):
            read_table(path)
    elif not wide:
        frame = read_table(path, text=["a", "b"])
        kept = [[cell or None for cell in row] for row in rows if any(row)]
        assert [[*row] for row in zip(values(frame["a"]), values(frame["b"]), strict=True)] == kept
