"""Tables in files, as people keep them: read without a guess that spoils them, and written whole or not at all.

What comes of a cell:

* Columns named in `text` (ids, most often the target) come as they stand: "03", "1e5" and "NA" are texts, and only an
  empty cell is missing. A number that stands there in a format that has numbers is written out, without ".0".
* In .csv and .tsv, which have no types, another column is a column of numbers if every cell is one, and of truths if
  every cell is true or false, in any of three spellings. The words for a gap ("NA", "null", ...) are gaps among
  these, and texts among texts. A column with leading zeros is one of codes: text. Dates stay text: what a model makes
  of them is its own affair.
* Whole numbers are int64, with gaps Int64: never a float that would lose digits; beyond 64 bits they stay text.
* What the formats with types hold is kept: a text "3" of a workbook is a text. A column of several kinds is text.

What the formats cannot tell apart: in .csv, .tsv and .xlsx an empty text is a missing one, and a row without any value
is no row, and is not written. In .csv and .tsv a text that looks like a number comes as a number, unless its column is
named in `text`. Dates are text in all but .parquet and .xlsx; a workbook keeps milliseconds.

Where it is: `_tables` reads and writes, by the registry of `_formats`, to which each format gives its reader and writer
(`_delimited`, `_json_lines`, `_parquet`, `_workbook`). These share `_encodings` (bytes and texts), `_names` (of
columns), `_columns` (values) and `_typing` (texts that are numbers or truths). `_whole` puts a file in its place.
"""

from __future__ import annotations

from ._columns import GAPS
from ._errors import FileError
from ._formats import SUFFIXES
from ._tables import read_table, write_table
from ._whole import written_whole

__all__ = ["GAPS", "SUFFIXES", "FileError", "read_table", "write_table", "written_whole"]
