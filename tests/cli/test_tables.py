"""Tables in files: what is read is what stands there, what is written is whole, every trouble has a sentence."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import math
import os
import re
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

from skactive.cli import _files, main
from skactive.cli._cells import OPEN, Choices, Dialect
from skactive.cli._files import FileError, atomic_write
from skactive.cli._tables import DELIMITERS, read_table, write_table

TYPED = [".jsonl", ".parquet", ".xlsx"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own, so that messages hold short names."""
    monkeypatch.chdir(tmp_path)


def read(content: str | bytes, name: str = "a.csv", **options) -> pd.DataFrame:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(name, **options)


def read_sheet(*rows: list, **options) -> pd.DataFrame:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save("a.xlsx")
    return read_table("a.xlsx", **options)


def values(column: pd.Series) -> list:
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)]


def cells(frame: pd.DataFrame) -> dict[str, list]:
    return {name: values(frame[name]) for name in frame}


def refused(match: str, function, *arguments, **options) -> None:
    """One line that begins with the file and holds these words."""
    with pytest.raises(FileError) as caught:
        function(*arguments, **options)
    assert match in str(caught.value), (match, arguments)
    assert re.match(r"\S+\.\w+ ", str(caught.value))
    assert "\n" not in str(caught.value)


IDS = ["03", "1e5", "NA", "nan", "True", "1.0", "-0", "+4912345678", "١٢", "'", "a;b", " x ", 'say "hi"', "a\n\r\nb"]


@pytest.mark.parametrize(("mark", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\r"), ("|", "\n")])
def test_ids_come_as_they_stand_and_only_an_empty_cell_is_missing(mark, end):
    rows = io.StringIO(newline="")
    writer = csv.writer(rows, delimiter=mark, lineterminator=end)
    writer.writerows([["id", "n"], *([value, 1] for value in IDS), ["", 1]])
    frame = read(rows.getvalue(), text=["id", "a column that is not there"])
    assert repr(cells(frame)) == repr({"id": [*IDS, None], "n": [1] * (len(IDS) + 1)})
    assert frame.attrs["notes"] == []


@pytest.mark.parametrize("suffix", TYPED)
def test_a_number_in_an_id_column_becomes_its_text(suffix):
    write_table(pd.DataFrame({"id": [3, 2**53], "f": [3.0, 2.5], "b": [True, False]}), f"a{suffix}")
    frame = read_table(f"a{suffix}", text=["id", "f", "b"])
    assert frame.to_dict("list") == {"id": ["3", str(2**53)], "f": ["3", "2.5"], "b": ["True", "False"]}


def test_parquet_of_other_programs_as_text_and_as_it_is():
    day = datetime.date(2024, 1, 5)
    columns = {  # as Arrow has it, as text, as it is read
        "dictionary": (pyarrow.array(["03", None]).dictionary_encode(), "03", "03"),
        "decimal": (pyarrow.array([decimal.Decimal("1.50"), None]), "1.50", 1.5),
        "long": (pyarrow.array([decimal.Decimal(10**30), None]), str(10**30), str(10**30)),
        "day": (pyarrow.array([day, None]), "2024-01-05", pd.Timestamp(day)),
        "time": (pyarrow.array([datetime.datetime(2024, 1, 5, 12), None]), "2024-01-05 12:00:00", None),
        "big": (pyarrow.array([2**64 - 1, None], pyarrow.uint64()), str(2**64 - 1), 2**64 - 1),
    }
    os.mkdir("week=1")  # a folder that adds no column
    path = "week=1/a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({name: column for name, (column, *_) in columns.items()}), path)
    as_text, as_it_is = read_table(path, text=columns), read_table(path)
    assert list(as_it_is) == list(columns)
    for name, (_, text, value) in columns.items():
        assert values(as_text[name]) == [text, None], name
        assert value is None or values(as_it_is[name]) == [value, None], name
    assert as_it_is["time"].iloc[0] == pd.Timestamp("2024-01-05 12:00")
    assert str(as_it_is["big"].dtype) == "UInt64"


def test_an_id_that_has_lost_digits_is_refused():
    refused("the number 1.25e+19 has lost digits", read, '{"id": 12500000000000000e3}', "a.jsonl", text=["id"])
    refused("has lost digits", read_sheet, ["id"], [2**60], text=["id"])


COLUMNS = [
    ("1 -2", [1, -2]),
    ("1 . 9007199254740993", [1, None, 2**53 + 1]),
    ("1 NA null", [1, None, None]),
    ("-9223372036854775808 9223372036854775807", [-(2**63), 2**63 - 1]),
    ("1.0 .", [1.0, None]),
    ("1e5 .5 -.5 3.", [1e5, 0.5, -0.5, 3.0]),
    ("0.30000000000000004 5e-324", [0.30000000000000004, 5e-324]),
    ("inf -Infinity 1", [math.inf, -math.inf, 1.0]),
    ("NaN 0", [None, 0]),
    ("+5 6", [5, 6]),
    ("+1.5 -2", [1.5, -2.0]),
    ("True false TRUE", [True, False, True]),
    ("TRUE NA FALSE", [True, None, False]),
    ("NA red .", ["NA", "red", None]),
    (". .", [None, None]),
]
TEXTS = "1 18446744073709551616|1 1e999|+49301234 +49305678|1 00501|-05 1|0x1F 1|1_000 1|1,234 2|2024-01-05 2024-01-06"


def test_a_column_without_a_type_is_what_all_its_cells_are():
    for text, expected in [*COLUMNS, *((text, text.split()) for text in f"{TEXTS}|True 1|NA None".split("|"))]:
        rows = [f'k,"{"" if cell == "." else cell}"\n' for cell in text.split()]  # a point is for an empty cell
        assert repr(values(read(f"id,x\n{''.join(rows)}")["x"])) == repr(expected), text


def test_the_odd_cell_may_stand_at_the_end_of_a_long_column():
    for cells, kind in [("1x", str), (["1", "007"], str), (["1", "0.5"], float), (["1", "NA"], int), (["", "1"], int)]:
        first, last = cells
        found = values(read("id,x\n" + f"a,{first}\n" * 5000 + f"a,{last}\n")["x"])
        assert {type(value) for value in found if value is not None} == {kind}, last


TWO, LONG = {"id": ["é"], "größe": [1]}, "1" * 25
WINDOWS = "it is not UTF-8 (line 1): read as Windows-1252."
THOUSANDS = "column 'x': ',' in '1,234' is the decimal mark; --decimal overrides it."
EITHER = THOUSANDS.replace("is the decimal mark", "may be either: no numbers")
PARTED = "column 'x': '.' in '1.234 €' parts thousands; --decimal overrides it."
TOO_LONG = "column 'x' holds whole numbers with too many digits: read as text."
READ = {  # the file, what is read, what is told
    "UTF-8 with its mark": ("a.csv", "\ufeffid,größe\né,1\n", TWO, ""),
    "UTF-16 with its mark": ("a.csv", "id,größe\né,1\n".encode("utf-16"), TWO, ""),
    "big-endian JSON": ("a.jsonl", b"\xfe\xff" + '{"id": "é", "größe": 1}'.encode("utf-16-be"), TWO, ""),
    "Windows-1252": ("a.csv", "id,größe\né,1\n".encode("cp1252"), TWO, WINDOWS),
    "a delimiter in more columns": ("a.csv", "a|b, c, d|e\n1|2|3\n", {"a": [1], "b, c, d": [2], "e": [3]}, ""),
    "a delimiter in all rows": ("a.csv", "a,b;c\n1;2\n", {"a,b": [1], "c": [2]}, ""),
    "no delimiter": ("a.csv", "id\n03\nb\n", {"id": ["03", "b"]}, ""),
    "one at the end of all lines": ("a.csv", "id,x,\na,1,\n", {"id": ["a"], "x": [1]}, ""),
    "rows without a value": ("a.csv", "\n\r\nid,x\n\n,\na, 3\nb,4 \n,\n\n", {"id": ["a", "b"], "x": [3, 4]}, ""),
    "a header alone": ("a.csv", "id,x\r\n\r\n,", {"id": [], "x": []}, ""),
    "decimal commas": ("a.csv", "x;y\n3,5;-,5\n-1;NA\n1,5e3;2", {"x": [3.5, -1.0, 1500.0], "y": [-0.5, None, 2.0]}, ""),
    "commas and points": ("a.csv", "id;x\na;1,5\nb;2.5\n", {"id": ["a", "b"], "x": ["1,5", "2.5"]}, ""),
    "a first line of Excel": ("a.csv", "sep=;\r\nid,x;y\r\na;1,5\r\n", {"id,x": ["a"], "y": [1.5]}, ""),
    "thousands": ("a.csv", "x;y\n1,234;a\n2;b\n", {"x": [1.234, 2.0], "y": ["a", "b"]}, THOUSANDS),
    "a comma": ("a.csv", 'x,y\n"1,234",a\n2,b\n', {"x": ["1,234", "2"], "y": ["a", "b"]}, EITHER),
    "a point": ("a.csv", "x\n1.234\n2\n", {"x": [1.234, 2.0]}, THOUSANDS.replace(",", ".")),
    "points": ("a.csv", "x;y\n1.234 €;1\n2 €;2\n", {"x": ["1.234 €", "2 €"], "y": [1, 2]}, PARTED),
    "many digits": ("a.csv", f"id,x\na,{LONG}\nb,1\n", {"id": ["a", "b"], "x": [LONG, "1"]}, TOO_LONG),
    "kinds of JSON": ("a.jsonl", '{"x": 1, "y": 1}\n\n{"x": "a", "y": 2.5}\n', {"x": ["1", "a"], "y": [1.0, 2.5]}, ""),
    "keys of JSON": ("a.jsonl", '{"x": 1}\r\n{"y": "\\u2028"}\n', {"x": [1, None], "y": [None, "\u2028"]}, ""),
    "long in JSON": ("a.jsonl", '{"x": 9007199254740993}\n{"x": 2.5}', {"x": ["9007199254740993", "2.5"]}, TOO_LONG),
}


@pytest.mark.parametrize(("name", "content", "expected", "note"), READ.values(), ids=READ)
def test_what_stands_there_is_read_and_what_is_a_guess_is_told(name, content, expected, note):
    frame = read(content, name)
    assert repr(cells(frame)) == repr(expected)
    assert frame.attrs["notes"] == ([f"{name}: {note}"] if note else [])


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_lists_of_numbers_of_one_length_are_a_column_for_each_place(suffix):
    frame = pd.DataFrame({"id": ["a", "b", "c"], "at": [[1.5, 2.0], None, [0.0, 4.0]], "y": None})
    frame.to_parquet("a.parquet")
    frame.to_json("a.jsonl", orient="records", lines=True)
    found = read_table(f"a{suffix}", text=["id", "y"])
    assert found.columns.tolist() == ["id", "at 0", "at 1", "y"]
    np.testing.assert_array_equal(found[["at 0", "at 1"]], [[1.5, 2.0], [np.nan, np.nan], [0.0, 4.0]])


def test_dates_are_dates_where_the_format_has_them():
    days = pd.Series(pd.to_datetime(["2024-01-05", None, "1969-12-31 23:59:59.5"], format="mixed"))
    for name in ("a.parquet", "a.xlsx"):
        write_table(pd.DataFrame({"id": ["a", "b", "c"], "d": days}), name)
        back = read_table(name)["d"].reset_index(drop=True)
        assert back.dtype.kind == "M"
        assert back.equals(days.astype(back.dtype))


def test_the_index_that_pandas_writes_is_left_out_and_told():
    frame = pd.DataFrame({"id": ["a", "b"]}, index=[5, 3])
    for name, write in (("a.csv", frame.to_csv), ("a.xlsx", frame.to_excel), ("a.parquet", frame.to_parquet)):
        write(name)
        back = read_table(name)
        assert back.to_dict("list") == {"id": ["a", "b"]}
        assert back.attrs["notes"] == [f"{name}: the unnamed index that pandas wrote is ignored."]


def test_of_a_workbook_one_sheet_is_read_with_zeros_as_they_are_shown_and_errors_as_gaps():
    book = openpyxl.Workbook()
    hidden, sheet = book.create_sheet("hidden", 0), book["Sheet"]
    hidden.sheet_state = "hidden"
    for row in [[], ["id", "n", "x"], [3, 3, 1], [], [3, 3, "#DIV/0!"], ["b", 3, "#N/A"]]:
        sheet.append(row)
    sheet["A3"].number_format = sheet["B3"].number_format = "000"
    book.save("a.xlsx")
    frame = read_table("a.xlsx", text=["id"])
    assert cells(frame) == {"id": ["003", "3", "b"], "n": [3, 3, 3], "x": [1, None, None]}
    assert frame.attrs["notes"] == [
        "a.xlsx: cells with an error are read as missing: 'C5', 'C6' of 'Sheet'.",
    ]


def sheets(*pages):
    """A workbook of sheets of these rows, the first of which is open."""
    book = openpyxl.Workbook()
    for number, rows in enumerate(pages):
        sheet = book.create_sheet(f"page {number}", number)
        for row in rows:
            sheet.append(row)
    book.active = 0
    book.save("a.xlsx")


TITLES = "Staff 2026\n\n{0}as of;1,5{0}\nid;x;y\na;1;\n\nb;2;no\n;;\n"


def test_a_header_below_titles_is_found_by_its_names_and_rows_have_the_numbers_of_the_spreadsheet():
    for quote, name in (("", "a.csv"), ('"', "a.csv")):  # a quoted title has a delimiter that counts for nothing
        frame = read(TITLES.format(quote), name, text=["y"], names=["id", "y"])
        assert cells(frame) == {"id": ["a", "b"], "x": [1, 2], "y": [None, "no"]}
        assert frame.index.tolist() == [5, 7]
        assert frame.attrs["notes"] == ["a.csv: its header is row 4: the rows above it are ignored."]
    rows = [["Staff 2026"], [], ["as of", 1.5], ["id", "x", "y"], ["a", 1], [], ["b", 2, "no"]]
    sheets([["notes"]], rows)
    for sheet in (None, "page 1"):
        found = read_table("a.xlsx", names=["id", "y"], dialect=Dialect(sheet=sheet))
        assert cells(found) == cells(frame)
        assert found.index.tolist() == [5, 7]
        assert found.attrs["notes"][0] == "a.xlsx: its header is row 4: the rows above it are ignored."
        several = ["a.xlsx: sheet 'page 1' of 3 was read. --sheet selects another."]
        assert found.attrs["notes"][1:] == (several if sheet is None else [])
    refused("it has no sheet 'x'. Its sheets: 'page 0'", read_table, "a.xlsx", dialect=Dialect(sheet="x"))
    refused(
        "Row #4: Expected 1 columns, got 3: id,x,y. No row has the names 'z'", read, "\nStaff\n\nid,x,y\n", names="z"
    )
    refused("Row #7: Expected 3 columns, got 4: b;2;no;", read, TITLES.replace("no", "no;"), names=["id", "y"])
    for name, rows in (("a.jsonl", [2, 4]), ("a.parquet", [1, 2])):
        write_table(frame, name)
        if name == "a.jsonl":
            Path(name).write_text("\n" + Path(name).read_text().replace("\n", "\n\n"))
        assert read_table(name).index.tolist() == rows


def test_what_a_file_leaves_open_is_as_in_the_pool_and_what_it_shows_is_not():
    semicolons, commas = "id;x\na;1,5\n", "id,x\na,1.5\n"
    for like in (Dialect(";", ","), Dialect(",", ".")):
        for content, dialect in ((semicolons, Dialect(";", ",")), (commas, Dialect(",", "."))):
            frame = read(content, like=like)
            assert (values(frame["x"]), frame.attrs["dialect"]) == ([1.5], dialect)
    assert cells(read("a,b;c\n1,2;3\n", like=Dialect(","))) == {"a": [1], "b;c": ["2;3"]}
    for known in ({"dialect": Dialect("^")}, {"like": Dialect("^")}):
        assert cells(read("id^x\na^1\n", **known)) == {"id": ["a"], "x": [1]}
    assert read("id;n\na;1\n", like=Dialect(";", ",")).attrs["dialect"].decimal == ","
    assert read("id,n\na,1\n", like=Dialect(";", ",")).attrs["dialect"].decimal is None
    assert read("id;x\na;1.028\n", dialect=Dialect(decimal=","))["x"].tolist() == [1028]
    for shown in ("1.654,50", "7,5 €", "-2,5"):  # by thousands, by a unit
        assert read(f'x,y,kind\n1.028,"{shown}",kg\n')["x"].tolist() == [1028]
    for other in ("1. Platz", "1,028", "11.02.2020", "v1,5"):
        assert read(f"x\ty\n1.028\t{other}\n")["x"].tolist() == [1.028]
    frame = pd.DataFrame({"id": ["é"], "x": [1.5]})
    for encoding in ("cp1252", "utf-16"):
        write_table(frame, "b.csv", Dialect(";", ",", encoding))
        assert Path("b.csv").read_bytes() == "id;x\r\né;1,5\r\n".encode(encoding)
        back = read_table("b.csv", like=Dialect(";", ",", encoding))
        assert (back.attrs["dialect"].encoding, back.attrs["notes"]) == (encoding, [])
        os.remove("b.csv")
    write_table(frame.assign(id="ł"), "b.csv", Dialect(encoding="cp1252"))  # which has no such letter
    assert Path("b.csv").read_bytes() == "\ufeffid,x\r\nł,1.5\r\n".encode()


def test_a_workbook_offers_labels_keeps_its_header_in_sight_and_has_columns_that_fit():
    frame = pd.DataFrame({"id": ["03", "=1"], "y": [None, None], "note": ["short", "x" * 200]})
    for closed in (True, False):
        write_table(frame, "b.xlsx", OPEN, Choices("y", ["01", "a, b"], closed), force=True)
        book = openpyxl.load_workbook("b.xlsx")
        sheet, listed = book.active, book["labels"]
        assert (sheet.freeze_panes, listed.sheet_state) == ("A2", "hidden")
        assert [sheet.column_dimensions[letter].width for letter in "ABC"] == [4, 3, 60]
        (offered,) = sheet.data_validations.dataValidation
        assert (str(offered.sqref), offered.formula1, offered.type) == ("B2:B3", "labels!$A$1:$A$2", "list")
        assert offered.showErrorMessage == closed
        assert [cell.value for (cell,) in listed.rows] == ["01", "a, b"]
        assert {sheet[at].number_format for at in ("A2", "A3", "B2", "B3")} == {"@"}
        assert sheet["A3"].data_type == "s"  # and no formula
        back = read_table("b.xlsx")
        assert (list(back), back.attrs["notes"]) == (["id", "y", "note"], [])


def test_a_formula_with_its_result_is_that_result_and_refused_without():
    refused("cell B2 holds a formula without a result", read_sheet, ["id", "x"], ["a", "=1+1"], ["b", 3])
    with zipfile.ZipFile("a.xlsx") as before, zipfile.ZipFile("b.xlsx", "w") as after:  # as a spreadsheet saves it
        for name in before.namelist():
            after.writestr(name, re.sub(rb"</f><v ?/?>(</v>)?", b"</f><v>2</v>", before.read(name)))
    assert read_table("b.xlsx").to_dict("list") == {"id": ["a", "b"], "x": [2, 3]}


BAD_TEXTS = [
    (",\n,\n", "It must begin with a header"),
    ("i;x\n1;2\n1;2;3\n", "Row #3: Expected 2 columns, got 3: 1;2;3"),
    ("i,x,y\n1,2,3\n1,2\n", "Row #3: Expected 3 columns, got 2: 1,2"),
    ("text\nhello, you\n", "Expected 1 columns, got 2: hello, you"),
    ('i,x\n1,say "hi\n3,"a\n5,6\n', "line 3: unexpected end of data. Is a quotation mark not closed?"),
    ("i,x,i\n1,2,3\n", "several columns have the name 'i'"),
    ("i,x\n1,2\n".encode("utf-16-le"), "NUL"),
    (b"id,x\n\xe9\x81,2\n", "can't decode byte 0x81"),
]
BAD_LINES = [
    ('{"i": 1}\n{"i": 1,}\n', "line 2 is not a JSON object"),
    ('{"i": 1, "a": 2, "a": 3}\n', "line 1 is not a JSON object: it has a duplicate key"),
    ('{"i": 1}\n\n[1]\n', "line 3 must be a JSON object, {...}"),
    ('{"i": 1}\n{"i": [1]}\n', "column 'i' is nested"),
    ('{"i": [1]}\n\n{"i": [1, 2]}\n', "column 'i' holds values of type list<item: int64> ('[1 2]', row 3)"),
    ("{}\n", "It must begin with a header"),
]


def test_a_bad_text_is_refused_in_one_sentence():
    for name, bad in (("a.csv", BAD_TEXTS), ("a.jsonl", BAD_LINES)):
        for content, message in bad:
            refused(message, read, content, name)


def test_what_is_broken_or_no_table_is_refused():
    for name in ("b.parquet", "b.xlsx"):
        write_table(pd.DataFrame({"id": ["a"] * 1000, "x": np.arange(1000)}), name)
        whole = Path(name).read_bytes()
        refused("cannot be read: ", read, whole[: len(whole) // 2], name)
    for cell in (b"x", ["x"], {"x": 1}):
        pyarrow.parquet.write_table(pyarrow.table({"id": ["a"], "x": pyarrow.array([cell])}), "a.parquet")
        refused("column 'x' holds values of type", read_table, "a.parquet")
    refused("the sheet is empty", read_sheet)
    refused("column 3 has no name", read_sheet, ["id", "y"], ["a"], ["b", None, 3])
    Path("folder.csv").mkdir()
    for name, message in [
        ("folder.csv", "folder.csv cannot be read: Is a directory"),
        ("a.xls", "a.xls: the suffix of a table must be one of .csv, .tsv, .jsonl, .parquet, .xlsx"),
    ]:
        with pytest.raises(FileError, match=re.escape(message)):
            read_table(name)


def test_what_unpacks_to_more_than_the_limit_is_refused_before_it_is_in_memory(monkeypatch):
    monkeypatch.setattr(_files, "MOST_UNPACKED", 2**20)
    row = b"1,2\n" * 2**18
    Path("a.csv.gz").write_bytes(gzip.compress(b"id,x\n" + row))
    Path("b.csv.gz").write_bytes(gzip.compress(b"id,x\n" + row[:-8]))
    write_table(pd.DataFrame({"id": ["a"]}), "a.xlsx")
    with zipfile.ZipFile("a.xlsx", "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/more.xml", b" " * 2**20)
    pyarrow.parquet.write_table(pyarrow.table({"id": pyarrow.array([0] * 2**18)}), "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"id": ["x" * 1000] * 1049}), "b.parquet")  # one text, by a dictionary
    ways = ("Unpack it first", "Save it as .csv", "in Python", "in Python")
    for name, remedy in zip(("a.csv.gz", "a.xlsx", "a.parquet", "b.parquet"), ways, strict=True):
        refused("it unpacks to more than 1 MiB", read_table, name)
        refused(remedy, read_table, name)
    assert len(read_table("b.csv.gz")) == 2**18 - 2
    with pytest.raises(FileError, match="too long a name: use at most 240 bytes"), atomic_write("ü" * 121):
        pass


def test_a_missing_library_is_named_with_what_to_install_and_the_demonstration_needs_none(monkeypatch, capsys):
    write_table(pd.DataFrame({"id": ["a"], "x": [1], "y": [None]}), "a.xlsx")
    for library in ("openpyxl", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
        if library == "pyarrow":
            for module in ("commands", "exchange", "tables"):
                monkeypatch.delitem(sys.modules, f"skactive.cli._{module}")
        assert main(["start", "c.db", "--pool", "a.xlsx", "--id", "id", "--target", "y"]) == 1
        error = capsys.readouterr().err
        assert re.fullmatch(rf"skactive start: error: .*{library}.* pip install {library}\n", error)
    assert main(["demo", "-o", "none/a.png"]) == 2


def test_a_csv_file_is_plain_and_says_utf8_to_spreadsheets_where_it_matters():
    frame = pd.DataFrame({"id": ["03", 'a "b"'], "x": [0.1 + 0.2, np.nan], "b": [True, None], "n": [1, 2]})
    write_table(frame, "a.csv")
    assert Path("a.csv").read_bytes() == b'id,x,b,n\r\n03,0.30000000000000004,True,1\r\n"a ""b""",,,2\r\n'
    write_table(pd.DataFrame({"id": ["é"]}), "b.csv")
    assert Path("b.csv").read_bytes() == "\ufeffid\r\né\r\n".encode()


def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written():
    for name, cells, message in [
        *((f"a{suffix}", ["ab\ud800"], "surrogates not allowed") for suffix in (".csv", *TYPED)),
        ("a.jsonl", [math.inf], "not JSON compliant"),
        ("a.xlsx", [2**53 + 1], "a workbook cannot hold the number 9007199254740993"),
        ("a.xlsx", ["x" * 32768], "characters, not 32768"),
        ("a.parquet", [1, "a"], "Conversion failed for column x"),
        ("a.xlsx", range(2**20), "a sheet holds at most 1048575 rows, not 1048576"),
    ]:
        refused(message, write_table, pd.DataFrame({"x": pd.Series(cells, dtype=object)}), name)
    twice = pd.DataFrame([[1, 2]], columns=[1, "1"])
    refused("cannot be written: columns must have different names", write_table, twice, "a.csv")
    assert os.listdir() == []


def test_the_file_appears_at_once_and_one_that_is_there_or_comes_in_the_meantime_stays_unless_forced():
    with atomic_write("a.csv") as unfinished:
        unfinished.write_bytes(b"new")
        assert not Path("a.csv").exists()
    assert Path("a.csv").read_bytes() == b"new"
    with pytest.raises(FileError, match=r"^b\.csv exists\."), atomic_write("b.csv") as unfinished:
        Path("b.csv").write_bytes(b"other")
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
    os.mkfifo("pipe.csv")
    refused("it is not a regular file", read_table, "pipe.csv")
    with pytest.raises(FileError, match=r"^pipe\.csv is not a regular file"), atomic_write("pipe.csv", force=True):
        pass


@pytest.mark.skipif(os.name == "nt", reason="processes of another kind")
def test_an_unfinished_file_of_a_killed_command_is_removed_by_the_next_one_and_none_of_a_living_one():
    if (child := os.fork()) == 0:
        with atomic_write("a.db") as unfinished:
            unfinished.with_name(f"{unfinished.name}-journal").write_text("of SQLite")
            os._exit(9)
    os.waitpid(child, 0)
    assert len(os.listdir()) == 2
    with atomic_write("a.csv") as unfinished, atomic_write("b.csv"):
        assert unfinished.exists()
    assert sorted(os.listdir()) == ["a.csv", "b.csv"]


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
    if suffix in (".csv", ".xlsx"):  # an empty text is a gap there, and a row without any value no row
        rows = [tuple(cell or None for cell in row) for row in rows if any(row)]
    if suffix == ".jsonl":  # has no header
        rows = rows or [("a",) * len(names)]
    path = tmp_path_factory.mktemp("files") / f"a{suffix}"
    write_table(pd.DataFrame(rows, columns=names, dtype=object), path)
    back = read_table(path, text=names)
    assert back.attrs["notes"] == []
    assert list(back) == names
    assert [*zip(*cells(back).values(), strict=True)] == rows


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
    assert cells(back) == cells(frame)
