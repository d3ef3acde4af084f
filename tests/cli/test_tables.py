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
import stat
import string
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skactive.cli import _tables
from skactive.cli._files import FileError, atomic_write
from skactive.cli._tables import DELIMITERS, read_table, write_table

TYPED = [".jsonl", ".parquet", ".xlsx"]
TEXTS = [".csv", ".tsv"]
ALL = [*TEXTS, *TYPED]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own, so that messages hold short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def read(content: str | bytes, name: str = "a.csv", **options) -> pd.DataFrame:
    return read_table(put(name, content), **options)


def values(column: pd.Series) -> list:
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)]


def refused(match: str, content: str | bytes, name: str = "a.csv", **options) -> None:
    """One line that begins with the file and holds these words."""
    with pytest.raises(FileError, match=re.escape(match)) as caught:
        read(content, name, **options)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


# --- ids and other texts --------------------------------------------------------------------------

IDS = [
    "03",
    "1e5",
    "NA",
    "None",
    "null",
    "nan",
    "True",
    " x ",
    "1.0",
    "-0",
    "+4912345678",
    "١٢",
    "'",
    'say "hi"',
    "a;b",
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_ids_come_as_they_stand_and_only_an_empty_cell_is_missing(mark, end):
    rows = io.StringIO(newline="")
    writer = csv.writer(rows, delimiter=mark, lineterminator=end)
    writer.writerows([["id", "n"], *([value, 1] for value in IDS), ["", 1]])
    frame = read(rows.getvalue(), text=["id"])
    assert values(frame["id"]) == [*IDS, None]
    assert frame["n"].dtype == np.int64
    assert frame.attrs["notes"] == []


def test_a_column_named_as_text_need_not_be_there():
    assert read("id,n\n03,1\n", text=["id", "churn"]).to_dict("list") == {"id": ["03"], "n": [1]}


@pytest.mark.parametrize("suffix", TYPED)
def test_a_number_in_an_id_column_becomes_its_text(suffix):
    write_table(pd.DataFrame({"id": [3, 2**53], "f": [3.0, 2.5], "b": [True, False]}), f"a{suffix}")
    frame = read_table(f"a{suffix}", text=["id", "f", "b"])
    assert frame.to_dict("list") == {"id": ["3", str(2**53)], "f": ["3", "2.5"], "b": ["True", "False"]}


def test_ids_of_parquet_are_decoded_and_written_out():
    day = datetime.date(2024, 1, 5)
    table = pyarrow.table(
        {
            "dictionary": pyarrow.array(["03", None]).dictionary_encode(),
            "decimal": pyarrow.array([decimal.Decimal("3.00"), None]),
            "long": pyarrow.array([decimal.Decimal(10**30), None]),
            "day": pyarrow.array([day, None]),
            "time": pyarrow.array([datetime.datetime(2024, 1, 5, 12, 30), None]),
            "big": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
        }
    )
    pyarrow.parquet.write_table(table, "a.parquet")
    frame = read_table("a.parquet", text=table.column_names)
    first = {name: values(frame[name])[0] for name in frame}
    assert first == {
        "dictionary": "03",
        "decimal": "3",
        "long": "1" + "0" * 30,
        "day": "2024-01-05",
        "time": "2024-01-05 12:30:00",
        "big": str(2**64 - 1),
    }
    assert all(values(frame[name])[1] is None for name in frame)


def test_an_id_cell_that_a_workbook_shows_with_zeros_comes_with_them():
    book = openpyxl.Workbook()
    book.active.append(["id", "n"])
    for row, shown in enumerate(["000", "General"], 2):
        book.active.append([3, 3])
        for column in (1, 2):
            book.active.cell(row, column).number_format = shown
    book.save("a.xlsx")
    assert read_table("a.xlsx", text=["id"]).to_dict("list") == {"id": ["003", "3"], "n": [3, 3]}


@pytest.mark.parametrize("suffix", TYPED)
def test_an_id_that_has_lost_digits_is_refused(suffix):
    frame = pd.DataFrame({"id": [1.0, 1.2345678901234568e19]})
    write_table(frame, f"a{suffix}")
    with pytest.raises(FileError, match=r"^a\.\S+ cannot be read: the number 1\.23\S+ has lost digits"):
        read_table(f"a{suffix}", text=["id"])


def test_a_whole_id_that_a_workbook_cannot_hold_has_lost_digits():
    book = openpyxl.Workbook()
    for row in [["id"], [2**60]]:
        book.active.append(row)
    book.save("a.xlsx")
    with pytest.raises(FileError, match=r"^a\.xlsx cannot be read: the number 1\.15\S+ has lost digits"):
        read_table("a.xlsx", text=["id"])


# --- numbers, truths, codes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "dtype", "expected"),
    [
        (["1", "-2"], "int64", [1, -2]),
        (["1", "", "9007199254740993"], "Int64", [1, None, 2**53 + 1]),
        (["1", "NA", "null"], "Int64", [1, None, None]),
        (["-9223372036854775808", "9223372036854775807"], "int64", [-(2**63), 2**63 - 1]),
        (["1", "18446744073709551616"], "str", ["1", "18446744073709551616"]),
        (["1.5", "2"], "float64", [1.5, 2.0]),
        (["1.0", ""], "float64", [1.0, None]),
        (["1e5", ".5", "-.5", "3."], "float64", [1e5, 0.5, -0.5, 3.0]),
        (["0.30000000000000004", "5e-324"], "float64", [0.30000000000000004, 5e-324]),
        (["inf", "-Infinity", "1"], "float64", [math.inf, -math.inf, 1.0]),
        (["1", "1e999"], "str", ["1", "1e999"]),
        (["NaN", "1.5"], "float64", [None, 1.5]),
        ([" 3", "4 "], "int64", [3, 4]),
        (["+3", "-2"], "int64", [3, -2]),
        (["+4912345678", "1"], "str", ["+4912345678", "1"]),
        (["007", "1"], "str", ["007", "1"]),
        (["1", "00501"], "str", ["1", "00501"]),
        (["-05", "1"], "str", ["-05", "1"]),
        ([" 05", "1"], "str", [" 05", "1"]),
        (["0", "0.5", "-0.5"], "float64", [0.0, 0.5, -0.5]),
        (["0x1F", "1"], "str", ["0x1F", "1"]),
        (["1_000", "1"], "str", ["1_000", "1"]),
        (["1,234", "2"], "str", ["1,234", "2"]),
        (["1", "x"], "str", ["1", "x"]),
        (["2024-01-05", "2024-01-06"], "str", ["2024-01-05", "2024-01-06"]),
        (["True", "false", "TRUE"], "bool", [True, False, True]),
        (["True", "", "False"], "boolean", [True, None, False]),
        (["TRUE", "NA", "FALSE"], "boolean", [True, None, False]),
        (["True", "1"], "str", ["True", "1"]),
        (["yes", "no"], "str", ["yes", "no"]),
        (["NA", "None"], "str", ["NA", "None"]),
        (["NA", "red", ""], "str", ["NA", "red", None]),
        (["", ""], "float64", [None, None]),
    ],
)
def test_a_column_without_a_type_is_what_all_its_cells_are(cells, dtype, expected):
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([["id", "x"], *(["k", cell] for cell in cells)])
    column = read(rows.getvalue(), text=["id"])["x"]
    assert values(column) == expected
    assert [type(value) for value in values(column)] == [type(value) for value in expected]
    assert (column.dtype in ("str", object)) if dtype == "str" else (column.dtype == dtype)


def test_the_odd_cell_may_stand_at_the_end_of_a_long_column():
    n = 5000
    for last, dtype in [
        ("x", "str"),
        ("007", "str"),
        ("0.5", "float64"),
        ("True", "str"),
        ("", "Int64"),
        ("NA", "Int64"),
    ]:
        frame = read("id,x\n" + "a,1\n" * n + f"a,{last}\n")
        assert (frame["x"].dtype in ("str", object)) if dtype == "str" else (frame["x"].dtype == dtype)
        assert len(frame) == n + 1
    first_filled = read("id,x\n" + "a,\n" * n + "a,1\n")["x"]
    assert first_filled.dtype == "Int64"


def test_whole_numbers_beyond_64_bits_stay_text_and_a_note_says_so():
    long = "1" * 25
    assert read(f"id,x\na,{long}\nb,\n").attrs["notes"] == [
        "a.csv: column 'x' holds whole numbers of too many digits: read as text."
    ]
    frame = read(f'{{"x": {long}}}\n{{"x": 1}}\n', "a.jsonl")
    assert frame["x"].tolist() == [long, "1"]
    assert frame.attrs["notes"] == ["a.jsonl: column 'x' holds whole numbers of too many digits: read as text."]


def test_decimal_commas_are_read_in_a_file_of_semicolons():
    frame = read("id;x;y;z;u\n03;3,5;1,5e3;1,5;-,5\n04;-1;2;2.5;NA\n", text=["id"])
    assert frame["x"].tolist() == [3.5, -1.0]
    assert frame["y"].tolist() == [1500.0, 2.0]
    assert frame["z"].tolist() == ["1,5", "2.5"]  # of two minds
    assert values(frame["u"]) == [-0.5, None]
    assert frame.attrs["notes"] == []
    assert read("id\tx\n03\t3,5\n", "a.tsv")["x"].tolist() == ["3,5"]


def test_a_decimal_comma_that_could_part_thousands_is_told():
    frame = read("id;x\na;1,234\nb;2\n")
    assert frame["x"].tolist() == [1.234, 2.0]
    assert frame.attrs["notes"] == ["a.csv: column 'x': 1,234 is read as 1.234, with a decimal mark."]


@pytest.mark.parametrize("suffix", TYPED)
def test_what_a_format_types_is_kept(suffix):
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "gaps": pd.array([1, None, 2**53], dtype="Int64"),
            "float": [0.1 + 0.2, np.nan, 1.0],
            "truth": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "text": ["3", "007", None],
            "none": [np.nan] * 3,
        }
    )
    write_table(frame, f"a{suffix}")
    back = read_table(f"a{suffix}")
    assert {name: values(back[name]) for name in back} == {name: values(frame[name]) for name in frame}
    numbers = ["whole", "gaps", "float", "truth", "maybe", "none"]
    assert back[numbers].dtypes.tolist() == frame[numbers].dtypes.tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_dates_are_dates_where_the_format_has_them(suffix):
    days = pd.to_datetime(["2024-01-05", None, "1969-12-31 23:59:59.5"], format="mixed")
    write_table(pd.DataFrame({"id": ["a", "b", "c"], "d": days}), f"a{suffix}")
    back = read_table(f"a{suffix}")["d"]
    assert back.dtype.kind == "M"
    assert back.equals(pd.Series(days).astype(back.dtype))


def test_parquet_of_other_programs():
    table = pyarrow.table(
        {
            "decimal": pyarrow.array([decimal.Decimal("1.50"), None]),
            "whole": pyarrow.array([decimal.Decimal("3"), decimal.Decimal("4")]),
            "too long": pyarrow.array([decimal.Decimal(10**30), None]),
            "day": pyarrow.array([datetime.date(2024, 1, 5), None]),
            "hour": pyarrow.array([datetime.time(12, 30), None]),
            "zone": pyarrow.array([datetime.datetime(2024, 1, 5), None], pyarrow.timestamp("us", "Europe/Rome")),
            "big": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
            "dictionary": pyarrow.array(["a", None]).dictionary_encode(),
            "large": pyarrow.array(["", None], pyarrow.large_string()),
            "small": pyarrow.array([1, 2], pyarrow.int8()),
            "none": pyarrow.nulls(2),
        }
    )
    pyarrow.parquet.write_table(table, "a.parquet")
    frame = read_table("a.parquet")
    first = {name: values(frame[name])[0] for name in frame}
    assert (first["decimal"], first["whole"], first["too long"]) == (1.5, 3, "1" + "0" * 30)
    assert first["day"] == pd.Timestamp("2024-01-05")
    assert first["hour"].startswith("12:30:00")
    assert str(frame["zone"].dtype).endswith("Europe/Rome]")
    assert (first["big"], first["dictionary"], first["large"], first["none"]) == (2**64 - 1, "a", "", None)
    assert (str(frame["big"].dtype), str(frame["small"].dtype)) == ("UInt64", "int8")


def test_mixed_columns_stay_text():
    frame = read('{"x": 1, "y": 1, "z": 1}\n{"x": "a", "y": 2.5, "z": true}\n{"x": null, "y": null}\n', "a.jsonl")
    assert values(frame["x"]) == ["1", "a", None]
    assert values(frame["y"]) == [1.0, 2.5, None]
    assert values(frame["z"]) == ["1", "True", None]
    frame = read('{"x": 9007199254740993}\n{"x": 2.5}\n', "a.jsonl")
    assert frame["x"].tolist() == ["9007199254740993", "2.5"]
    assert values(read('{"x": 1}\n{"x": "NA"}\n', "a.jsonl")["x"]) == [1, None]


# --- how texts are written ------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("name", "content"), [("a.csv", "id,größe\né,1\n"), ("a.jsonl", '{"id": "é", "größe": 1}\n')])
def test_unicode_with_its_mark_is_read_without_a_word(name, content, encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    frame = read(mark + content.encode(encoding), name)
    assert frame.to_dict("list") == {"id": ["é"], "größe": [1]}
    assert frame.attrs["notes"] == []


def test_other_encodings_are_read_and_told():
    frame = read("id,x\na,1\nMüller €,2\n".encode("cp1252"))
    assert frame["id"].tolist() == ["a", "Müller €"]
    assert frame.attrs["notes"] == ["a.csv: it is not UTF-8 (line 3): read as Windows-1252."]
    refused("can't decode byte 0x81", b"id,x\n\xe9\x81,2\n")  # which is no character of either


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_in_a_header_whose_quotes_hold_the_others(mark):
    frame = read(f'"a,b;c|d\te\nf"{mark}x{mark}"y"\n1{mark}2{mark}3\n')
    assert frame.to_dict("list") == {"a,b;c|d\te\nf": [1], "x": [2], "y": [3]}


def test_of_several_delimiters_the_rows_tell_which_it_is():
    assert list(read("id|name, first, last|x\n1|a|2\n")) == ["id", "name, first, last", "x"]
    assert list(read("a,b;c\n1;2\n")) == ["a,b", "c"]


def test_the_delimiter_of_a_file_named_tsv_is_a_tab():
    assert list(read("a,b,c\td\n1\t2\n", "a.tsv")) == ["a,b,c", "d"]
    assert list(read("id;x\na;1\n", "a.tsv")) == ["id;x"]


def test_a_single_column_has_no_delimiter():
    assert read("id\n03\n04\n", text=["id"])["id"].tolist() == ["03", "04"]
    refused("Expected 1 columns, got 2: hello, you", "text\nhello, you\n")


def test_quotes_line_breaks_and_blank_lines():
    content = '\n\r\nid,t\n\na,"x\ny"\nb,"say ""hi"""\r\nc,"1\r\n2"\nd,5" pipe\n\n\n\r\n'
    frame = read(content)
    assert frame["t"].tolist() == ["x\ny", 'say "hi"', "1\r\n2", '5" pipe']


@pytest.mark.parametrize("content", ["id,x\na,1", "id,x\na,1\n,\n,\n", "id,x\n\n,\na,1\n\n"])
def test_a_row_without_any_value_is_no_row(content):
    assert read(content).to_dict("list") == {"id": ["a"], "x": [1]}


def test_a_delimiter_at_the_end_of_all_lines_is_no_column():
    assert read("id,x,\na,1,\n").to_dict("list") == {"id": ["a"], "x": [1]}
    refused("Expected 2 columns, got 3", "id,x\na,1,\n")
    refused("Expected 3 columns, got 2", "id,x,\na,1\n")


def test_a_cell_may_be_long():
    long = "x" * 10_000_000
    frame = read(f'id,t\na,"{long}\n"\nb,1\n')
    assert frame["t"].str.len().tolist() == [len(long) + 1, 1]
    refused("Expected 2 columns, got 1", f'id,t\na,"{long}\n"\nb\n')


def test_three_hundred_columns():
    names = [f"c{i}" for i in range(300)]
    frame = read(",".join(names) + "\n" + ",".join(map(str, range(300))) + "\n")
    assert list(frame) == names
    assert frame.loc[0].tolist() == list(range(300))


@pytest.mark.parametrize("content", ["id,x", "id,x\n", "id,x\r\n\r\n", "id,x\n,\n"])
def test_a_header_alone_is_a_table_without_rows(content):
    frame = read(content)
    assert (list(frame), len(frame)) == (["id", "x"], 0)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_a_table_without_rows_comes_back(suffix):
    write_table(pd.DataFrame({"id": [], "x": []}), f"a{suffix}")
    assert (list(read_table(f"a{suffix}")), len(read_table(f"a{suffix}"))) == (["id", "x"], 0)


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_the_index_that_pandas_writes_is_left_out_and_told(suffix):
    frame = pd.DataFrame({"id": ["a", "b"]}, index=[5, 3])
    frame.to_csv("a.csv")
    frame.to_excel("a.xlsx")
    back = read_table(f"a{suffix}")
    assert back.to_dict("list") == {"id": ["a", "b"]}
    note = f"a{suffix}: the index that pandas wrote without a name was left out."
    assert back.attrs["notes"] == [note]


def test_the_index_that_pandas_writes_into_parquet_is_left_out_and_told():
    pd.DataFrame({"id": ["a", "b"]}, index=[5, 3]).to_parquet("a.parquet")
    back = read_table("a.parquet")
    assert back.to_dict("list") == {"id": ["a", "b"]}
    assert back.attrs["notes"] == ["a.parquet: the index that pandas wrote without a name was left out."]


def test_folders_with_an_equals_sign_add_no_column(here):
    Path("week=1").mkdir()
    write_table(pd.DataFrame({"id": ["a"]}), "week=1/a.parquet")
    assert list(read_table("week=1/a.parquet")) == ["id"]


def test_json_lines_with_differing_keys_have_missing_values():
    frame = read('{"id": "a", "x": 1}\n\n{"y": "u", "id": "b"}\r\n{"id": "\\u2028"}\n', "a.jsonl")
    assert list(frame) == ["id", "x", "y"]
    assert values(frame["id"]) == ["a", "b", "\u2028"]
    assert values(frame["x"]) == [1, None, None]
    assert frame["x"].dtype == "Int64"
    assert values(frame["y"]) == [None, "u", None]


def test_only_one_sheet_is_read_and_told():
    book = openpyxl.Workbook()
    hidden = book.create_sheet("hidden", 0)
    hidden.append(["other"])
    hidden.sheet_state = "hidden"
    book["Sheet"].append(["id"])
    book["Sheet"].append(["03"])
    book.create_sheet("more").append(["id"])
    book.save("a.xlsx")
    frame = read_table("a.xlsx")
    assert frame["id"].tolist() == ["03"]
    assert frame.attrs["notes"] == ["a.xlsx: of 3 sheets, 'Sheet' was read."]


def test_errors_in_a_workbook_are_missing_and_told():
    book = openpyxl.Workbook()
    for row in [[], ["id", "x"], ["a", 1], [], ["b", "#DIV/0!"], ["c", "#N/A"]]:
        book.active.append(row)
    book.save("a.xlsx")
    frame = read_table("a.xlsx")
    assert values(frame["x"]) == [1, None, None]
    assert frame.attrs["notes"] == ["a.xlsx: 2 cells that hold an error are missing values, B5 the first."]


# --- bad files ------------------------------------------------------------------------------------

EMPTY = "It must begin with a header"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", EMPTY),
        ("\n\r\n\n", EMPTY),
        (b"\xef\xbb\xbf", EMPTY),
        (",\n,\n", EMPTY),
        ("i,x\n1,2\n1,2,3\n", "Row #3: Expected 2 columns, got 3: 1,2,3"),
        ("i;x\n1;2\n1;2;3\n", "Row #3: Expected 2 columns, got 3: 1;2;3"),
        ("i\tx\n1\t2\n1\t\t3\n", "Row #3: Expected 2 columns, got 3: 1"),
        ('i,x\n1,"a\nb"\n\n1,2,\n', "Expected 2 columns, got 3: 1,2,"),
        ('"i\n",x\r\n1,2\r\n1,2,3\r\n', "Expected 2 columns, got 3: 1,2,3"),
        ("i,x,y\n1,2,3\n1,2\n", "Row #3: Expected 3 columns, got 2: 1,2"),
        ("i,x\n1,2\n  \n", "Expected 2 columns, got 1"),
        ('i,x\n1,2\n3,"a\n5,6\n', "line 3: unexpected end of data. Is a quote never closed?"),
        ('i,x\n1,say "hi\n3,"a\n5,6\n', "line 3: unexpected end of data. Is a quote never closed?"),
        ('i,x\n1,2\n3,"a', "line 3: unexpected end of data. Is a quote never closed?"),
        ('i,"x\n1,2\n', "line 1: unexpected end of data. Is a quote never closed?"),
        ("i,x,i\n1,2,3\n", "several columns have the name 'i'"),
        ("i,,x\n1,2,3\n", "column 2 has no name"),
        ("\n,x\na,2\n", "column 1 has no name"),
        (b"i,x\n1,\x00\n", "NUL"),
        ("i,x\n1,2\n".encode("utf-16-le"), "NUL"),
        (bytes(range(1, 256)), "can't decode byte"),
        (b"\xff\xfei", "'utf-16"),
    ],
)
def test_a_bad_text_is_refused_in_one_sentence(content, message):
    refused(message, content)


def test_a_workbook_and_a_parquet_file_named_csv_are_refused():
    frame = pd.DataFrame({"id": ["03", "04"], "x": [1, 2]})
    for suffix in (".xlsx", ".parquet"):
        write_table(frame, f"b{suffix}")
        refused("cannot be read", Path(f"b{suffix}").read_bytes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"i": 1}\n{"i": 1,}\n', "line 2 is no JSON object"),
        ('{"i": 1}\n\n[1]\n', "line 3 must be a JSON object, {...}"),
        ("3\n", "line 1 must be a JSON object, {...}"),
        ('{"i": {"j": 1}}\n', "column 'i' is nested"),
        ('{"i": 1}\n{"i": [1]}\n', "column 'i' is nested"),
        ('{"i": 1}\n{"": 2}\n', "column 2 has no name"),
        ('{"i": "\\ud800"}\n', "surrogates not allowed"),
        ("\n", EMPTY),
        ("{}\n", EMPTY),
        ('{"i": ' + "[" * 5000, "line 1 is no JSON object"),
        ('{"i": ' + "1" * 5000 + "}\n", "line 1 is no JSON object: Exceeds the limit"),
    ],
)
def test_bad_json_lines_are_refused_in_one_sentence(content, message):
    refused(message, content, "a.jsonl")


def test_a_parquet_file_cut_in_the_middle_is_refused():
    write_table(pd.DataFrame({"id": ["a"] * 1000, "x": np.arange(1000)}), "b.parquet")
    whole = Path("b.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], whole[:4], b"rubbish", whole[len(whole) // 2 :], b""):
        refused("cannot be read: ", content, "a.parquet")


@pytest.mark.parametrize("column", [pyarrow.array([[1]]), pyarrow.array([{"a": 1}]), pyarrow.array([b"x"])])
def test_columns_of_parquet_that_are_no_cells_are_refused_by_name(column):
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a"], "x": column}), "a.parquet")
    with pytest.raises(FileError, match=r"^a\.parquet cannot be read: column 'x' holds values of the kind"):
        read_table("a.parquet")


@pytest.mark.parametrize("names", [["x", "x"], ["x", ""]])
def test_names_of_parquet_are_checked(names):
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, names), "a.parquet")
    with pytest.raises(FileError, match="have the name 'x'" if names[1] else "column 2 has no name"):
        read_table("a.parquet")


def test_a_bad_workbook_is_refused():
    refused("cannot be read: ", b"rubbish", "a.xlsx")
    write_table(pd.DataFrame({"id": ["a"]}), "b.xlsx")
    whole = Path("b.xlsx").read_bytes()
    refused("cannot be read: ", whole[: len(whole) // 2], "a.xlsx")
    with zipfile.ZipFile("c.xlsx", "w") as zipped:
        zipped.writestr("readme", "no workbook")
    refused("cannot be read: ", Path("c.xlsx").read_bytes(), "c.xlsx")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the sheet is empty"),
        ([["id", None, "x"], ["a", 1, 2]], "column 2 has no name"),
        ([[], ["id", "id"], ["a", 1]], "several columns have the name 'id'"),
        ([["id"], ["a"], ["b", None, 3]], "column 3 has no name"),
        ([["id", "x"], ["a", 1], ["b", "=B2+1"]], "cell B3 holds a formula without a result"),
    ],
)
def test_a_bad_sheet_is_refused(rows, message):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save("a.xlsx")
    with pytest.raises(FileError, match=re.escape(f"a.xlsx cannot be read: {message}")):
        read_table("a.xlsx")


def test_a_formula_with_its_result_is_that_result():
    book = openpyxl.Workbook()
    for row in [["id", "x"], ["a", "=1+1"], ["b", 3]]:
        book.active.append(row)
    book.save("b.xlsx")
    with zipfile.ZipFile("b.xlsx") as before, zipfile.ZipFile("a.xlsx", "w") as after:  # as a spreadsheet saves it
        for name in before.namelist():
            after.writestr(name, re.sub(rb"</f><v ?/?>(</v>)?", b"</f><v>2</v>", before.read(name)))
    assert read_table("a.xlsx").to_dict("list") == {"id": ["a", "b"], "x": [2, 3]}


def test_a_path_that_is_no_file_is_refused():
    Path("folder.csv").mkdir()
    for name, message in [
        ("folder.csv", "folder.csv cannot be read: Is a directory"),
        ("none.csv", "none.csv cannot be read: No such file or directory"),
        ("folder.csv/none.csv", "folder.csv/none.csv cannot be read: No such file or directory"),
        ("a.xls", "a.xls: a table is told by its suffix, one of .csv, .tsv, .jsonl, .parquet, .xlsx"),
        ("a.xlsx.gz", "a.xlsx.gz: a table is told by its suffix"),
    ]:
        with pytest.raises(FileError, match="^" + re.escape(message)):
            read_table(name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
def test_a_pipe_is_not_written_to():
    os.mkfifo("a.csv")
    with pytest.raises(FileError, match=r"^a\.csv is no regular file\. Name another file\.$"):
        write_table(pd.DataFrame({"id": ["a"]}), "a.csv", force=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_file_that_may_not_be_read_is_refused():
    os.chmod(put("a.csv", "id\n"), 0)
    with pytest.raises(FileError, match=r"^a\.csv cannot be read: Permission denied$"):
        read_table("a.csv")


@pytest.mark.parametrize("library", ["pyarrow", "openpyxl"])
def test_a_missing_library_is_named_with_what_to_install(library, here):
    write_table(pd.DataFrame({"id": ["a"], "x": [1], "y": [None]}), "a.xlsx")
    code = f"""
import sys
sys.modules[{library!r}] = None
from skactive.cli import main
sys.exit(main(["start", "c.db", "--pool", "a.xlsx", "--id", "id", "--target", "y"]))
"""
    root = Path(_tables.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here,
                          env={**os.environ, "PYTHONPATH": str(root)}, check=False)  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(rf"skactive start: error: .*{library}.* pip install \"skactive\[tabular\]\"\n", done.stderr)


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ALL)
def test_a_file_is_not_written_over_unless_forced(suffix):
    name = f"week1{suffix}"
    write_table(pd.DataFrame({"id": ["03"]}), name)
    before = Path(name).read_bytes()
    with pytest.raises(FileError) as caught:
        write_table(pd.DataFrame({"id": ["04"]}), name)
    assert str(caught.value) == f"{name} exists. --force overwrites it, or name another file."
    assert Path(name).read_bytes() == before
    write_table(pd.DataFrame({"id": ["04"]}), name, force=True)
    assert read_table(name, text=["id"])["id"].tolist() == ["04"]
    assert os.listdir() == [name]


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


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pd.DataFrame({"x": [1], "": [2]}),
    ],
)
@pytest.mark.parametrize("suffix", ALL)
def test_a_table_whose_columns_have_no_names_or_the_same_is_not_written(suffix, frame):
    with pytest.raises(FileError, match=r"^a\.\S+ cannot be written: columns must have names that differ"):
        write_table(frame, f"a{suffix}")
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("name", "cells", "message"),
    [
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
    ],
)
def test_what_a_format_cannot_hold_is_refused(name, cells, message):
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        write_table(pd.DataFrame({"x": pd.Series(cells, dtype=object)}), name)
    assert str(caught.value).startswith(f"{name} cannot be written: ")
    assert "\n" not in str(caught.value)
    assert os.listdir() == []


def test_a_table_too_large_for_a_sheet_is_refused():
    with pytest.raises(FileError, match=r"a sheet holds 1048575 rows, and there are 1048576"):
        write_table(pd.DataFrame({"x": np.arange(2**20)}), "a.xlsx")


# --- whole or not at all --------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("before", [None, b"before"])
def test_after_an_error_there_is_nothing_new(error, before):
    if before is not None:
        put("a.csv", before)

    def write():
        with atomic_write("a.csv", force=True) as unfinished:
            assert unfinished.parent == Path("a.csv").resolve().parent
            assert unfinished.suffix == ".csv"
            unfinished.write_bytes(b"half")
            raise error

    with pytest.raises(FileError if isinstance(error, OSError) else error) as caught:
        write()
    if isinstance(error, OSError):
        assert str(caught.value) == "a.csv could not be written: No space left on device. Make room."
    assert os.listdir() == ([] if before is None else ["a.csv"])
    assert before is None or Path("a.csv").read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
def test_a_full_disk_is_told():
    def write():
        with atomic_write("a.csv"), open("/dev/full", "w") as full:
            full.write("x")

    with pytest.raises(FileError, match=r"^a\.csv could not be written: No space left on device\. Make room\.$"):
        write()
    assert os.listdir() == []


def test_a_trouble_with_another_file_keeps_its_own_error():
    with pytest.raises(FileNotFoundError, match="other"), atomic_write("a.csv"):
        open("other").close()
    assert os.listdir() == []


def test_the_file_appears_at_once_and_a_file_that_came_in_the_meantime_stays():
    with atomic_write("a.csv") as unfinished:
        unfinished.write_bytes(b"new")
        assert not Path("a.csv").exists()
    assert Path("a.csv").read_bytes() == b"new"
    with pytest.raises(FileError, match=r"^b\.csv exists\."), atomic_write("b.csv") as unfinished:
        put("b.csv", b"other")
    assert Path("b.csv").read_bytes() == b"other"
    assert sorted(os.listdir()) == ["a.csv", "b.csv"]


@pytest.mark.skipif(os.name == "nt", reason="rights and links of another kind")
def test_rights_and_links_are_kept():
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


def test_a_folder_that_is_missing_or_a_target_that_is_one_is_told():
    Path("f").mkdir()
    for name, message in [
        ("f", "f is no regular file. Name another file."),
        ("g/a", "g/a cannot be written: there is no folder g. Make it first."),
    ]:
        with pytest.raises(FileError) as caught, atomic_write(name, force=True):
            pass
        assert str(caught.value) == message


def test_a_name_that_the_system_refuses_is_told():
    with pytest.raises(FileError, match=r"^(x+)\.csv cannot be read: [\w ]+$"):
        read_table("x" * 5000 + ".csv")


def test_a_process_that_is_killed_leaves_no_half_file(here):
    code = """
import os, signal
from skactive.cli._files import atomic_write
with atomic_write("a.csv") as unfinished:
    unfinished.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""
    root = Path(_tables.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here,
                          env={**os.environ, "PYTHONPATH": str(root)}, check=False)  # fmt: skip
    assert "KeyboardInterrupt" in done.stderr
    assert os.listdir() == []


# --- there and back -------------------------------------------------------------------------------

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TRICKY = [
    "",
    "NA",
    "null",
    "03",
    "1e5",
    "=1+1",
    "True",
    "_x0041_",
    "\ufeff",
    "\r",
    "\n",
    "\r\n",
    '"',
    '""',
    "'",
    " a ",
    ",",
    ";",
]
CELLS = st.one_of(
    st.text(LETTERS, max_size=8), st.sampled_from(TRICKY), st.text(string.digits + '.,;"\n\r\t| -', max_size=6)
)
NAMES = st.text(LETTERS, min_size=1, max_size=6).filter(lambda name: not set(name) & set(DELIMITERS))


def same_texts(sent: list, got: list, empty_is_missing: bool) -> bool:
    return got == [None if value == "" and empty_is_missing else value for value in sent]


@pytest.mark.parametrize("suffix", ALL)
@given(data=st.data())
def test_texts_and_names_come_back_the_same(suffix, data, tmp_path_factory):
    names = data.draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    rows = data.draw(st.lists(st.tuples(*[st.one_of(st.none(), CELLS)] * len(names)), max_size=6))
    if suffix in (*TEXTS, ".xlsx"):  # a row without any value is no row there
        rows = [row for row in rows if any(row)]
    elif not rows:
        rows = [("a",) * len(names)]
    path = tmp_path_factory.mktemp("files") / f"a{suffix}"
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    write_table(frame, path)
    back = read_table(path, text=names)
    assert list(back) == names
    assert back.attrs["notes"] == []
    for name in names:
        sent = [None if value is None else str(value) for value in frame[name]]
        assert same_texts(sent, values(back[name]), suffix in (*TEXTS, ".xlsx"))


@pytest.mark.parametrize("suffix", ALL)
@given(data=st.data())
def test_numbers_and_truths_come_back_the_same(suffix, data, tmp_path_factory):
    n = data.draw(st.integers(1, 5))
    most = 2**53 if suffix == ".xlsx" else 2**63 - 1

    def column(cells):
        return data.draw(st.lists(cells, min_size=n, max_size=n))

    frame = pd.DataFrame(
        {
            "id": [f"{i:02d}" for i in range(n)],
            "float": column(st.floats(allow_nan=True, allow_infinity=False)),
            "whole": column(st.integers(-most, most)),
            "gaps": pd.array(column(st.one_of(st.none(), st.integers(-most, most))), dtype="Int64"),
            "truth": column(st.booleans()),
            "maybe": pd.array(column(st.one_of(st.none(), st.booleans())), dtype="boolean"),
        }
    )
    path = tmp_path_factory.mktemp("files") / f"a{suffix}"
    write_table(frame, path)
    back = read_table(path, text=["id"])
    assert list(back) == list(frame)
    for name in frame:
        assert values(back[name]) == values(frame[name])
        plain = str(frame[name].dtype).lower().replace("boolean", "bool")
        with_gaps = {"int64": "Int64", "bool": "boolean"}.get(plain, plain)
        if name != "id" and not frame[name].isna().all():
            assert str(back[name].dtype) == (with_gaps if frame[name].isna().any() else plain)


@given(
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=5), min_size=1, max_size=8), end=st.sampled_from(["\n", "\r\n"])
)
def test_the_fast_reader_agrees_with_pythons_own(rows, end, tmp_path_factory):
    """Whatever a writer of csv quotes: the same cells, or the line of the first row with another number of them."""
    path = tmp_path_factory.mktemp("files") / "a.csv"
    content = io.StringIO(newline="")
    csv.writer(content, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    path.write_bytes(content.getvalue().encode())
    wide = [i for i, row in enumerate(rows) if len(row) > 2]
    if wide and not (len(rows[0]) == 3 and rows[0][-1] == ""):
        before = csv.reader(io.StringIO(content.getvalue(), newline=""))
        for _ in range(wide[0] + 1):
            next(before)
        with pytest.raises(FileError, match=f"Expected 2 columns, got {len(rows[wide[0]])}"):
            read_table(path)
    elif not wide:
        frame = read_table(path, text=["a", "b"])
        kept = [[cell or None for cell in row] for row in rows if any(row)]
        assert [[*row] for row in zip(values(frame["a"]), values(frame["b"]), strict=True)] == kept


# --- speed and memory -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_large_file_costs_a_few_times_what_pandas_takes(rng):
    n = 300_000
    frame = pd.DataFrame(
        {f"x{i}": rng.normal(size=n) for i in range(5)} | {f"w{i}": rng.integers(0, 10**6, n) for i in range(3)}
    )
    frame.insert(0, "id", [f"{i:07d}" for i in range(n)])
    frame["t"] = rng.choice(["red", "green"], n)
    frame.to_csv("a.csv", index=False)

    def seconds(function):
        begin = time.perf_counter()
        function()
        return time.perf_counter() - begin

    pairs = [
        (seconds(lambda: read_table("a.csv", text=["id"])), seconds(lambda: pd.read_csv("a.csv", dtype={"id": str})))
        for _ in range(5)
    ]
    assert min(ours / theirs for ours, theirs in pairs) < 5
    tracemalloc.start()
    read_table("a.csv", text=["id"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * Path("a.csv").stat().st_size  # of Python's and numpy's own


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_packed_table_comes_back_to_the_letter(suffix, tmp_path):
    frame = pd.DataFrame({"id": ["007", "1e5", "é"], "x": [1.5, 2.0, -3.25]})
    write_table(frame, str(tmp_path / f"a{suffix}.gz"))
    pd.testing.assert_frame_equal(
        read_table(str(tmp_path / f"a{suffix}.gz"), text=["id"]), frame, check_dtype=False, check_names=False
    )


def test_a_plus_sign_is_that_of_a_number_and_a_telephone_number_is_a_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b,c\n1,+5,+1.5,+49301234\n2,6,-2,+49305678\n")
    frame = read_table(str(path), text=["id"])
    assert frame["a"].tolist() == [5, 6]
    assert frame["b"].tolist() == [1.5, -2.0]
    assert frame["c"].tolist() == ["+49301234", "+49305678"]


def test_a_line_of_json_with_a_key_twice_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "a": 2, "a": 3}\n')
    with pytest.raises(FileError, match="line 1 is no JSON object: it has a key twice"):
        read_table(str(path))
