"""Labels: converted to plain values as they come in, checked, and turned into events."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ._columns import Reading, read, spelling_of
from ._ledger import Event, Ledger, State
from ._store import CampaignError, cut, shown

EXACT = 2.0**53  # up to here a float, and so a workbook, holds every whole number
MOST_CLASSES = 20  # whole numbers are classes, unless there are more different ones, or most of so many differ
FEW = 5  # whole numbers, that may be any
MOST_SHOWN = 5  # corrections that a sentence names


class Answer(NamedTuple):
    """The answer for one row."""

    id: Any  # a text or a whole number
    label: Any = None  # None leaves the row open, unless it is skipped
    annotator: str = ""  # "" if none was named
    skipped: bool = False  # the row cannot be labelled
    when: float | None = None  # in seconds since 1970, where a file says it
    remark: str = ""


def plain_labels(values: Any, name: str, ids: Any) -> list[Any]:
    """Labels as plain values, None for gaps; ``ids`` name their rows in messages."""
    series = pd.Series(values)
    labels: list[Any] = [None] * len(series)
    present = np.flatnonzero(series.notna().to_numpy(dtype=bool))
    names = pd.Index(ids)[present].tolist()
    for row, value, key in zip(present.tolist(), series.iloc[present].astype(object), names, strict=True):
        labels[row] = plain_label(value, f"`{name}` of row {key!r}")
    found = [label for label in labels if label is not None]
    if found and all(isinstance(label, float) and label % 1 == 0 and abs(label) < EXACT for label in found):
        return [None if label is None else int(label) for label in labels]  # floats because of a gap beside them
    return labels


def plain_label(value: Any, name: str) -> Any:
    """A label as a plain value; None if it is missing, as an empty text is."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, str):
        # Spreadsheets leave spaces, numpy drops what ends in \0, and some programs part an accent from its letter.
        text = unicodedata.normalize("NFC", value).strip().strip("\0")
        if re.search("[\0\ud800-\udfff]", text):  # no file of text can hold these
            raise CampaignError(f"{name} must contain neither NUL nor half of a surrogate pair. Got {value!r}.")
        return text or None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer) and abs(int(value)) < 2**63:
        return int(value)
    if isinstance(value, float | np.floating) and not math.isinf(value):
        return None if math.isnan(value) else float(value)
    several = " For several labels per row, use StochasticBatchQuery in a loop of your own." if np.ndim(value) else ""
    raise CampaignError(f"{name} must be a text, a finite 64-bit number or a boolean. Got {value!r}.{several}")


def kind_of(labels: Iterable[Any]) -> str | None:
    """Whether labels are "numbers" to be predicted or "classes"; None if there are none."""
    found = [label for label in labels if label is not None]
    known = set(found)
    if not known:
        return None
    if any(isinstance(label, str | bool) for label in known):
        return "classes"
    are_parts = any(isinstance(label, float) and label % 1 for label in known)
    are_many = len(known) > MOST_CLASSES or _most_differ(len(known), len(found))
    return "numbers" if are_parts or are_many else "classes"


def _most_differ(n_known: int, n_found: int) -> bool:
    return n_found >= MOST_CLASSES and n_known > n_found / 2


def doubt_of_classes(by_label: Mapping[Any, int]) -> str:
    """What to say where most labels are classes of their own."""
    way = 'If labels are numbers, say so by `set(task="regression")`, in the shell `skactive set --task regression`.'
    is_in_doubt = _most_differ(len(by_label), sum(by_label.values()))
    return f" Most of these classes have one row. {way}" if is_in_doubt else ""


def told_of_kind(labels: Iterable[Any], kind: str) -> str:
    """What to say of the first labels, by which it was decided what labels are; nothing where these leave no doubt."""
    found = [None if re.match("0[0-9]", str(label)) else _as_number(label) for label in labels if label is not None]
    if None in found:
        return doubt_of_classes(Counter(label for label in labels if label is not None)).strip()
    n, n_known = len(found), len(set(found))
    are_few = n < FEW or n_known <= (n / 2 if n_known <= FEW else n / 3)  # ratings come again sooner than ages
    if kind == "classes" and are_few and not any(one and one % 1 for one in found):  # as "1.028" with parted thousands
        return ""
    what, task = ("numbers to predict", "classification") if kind == "numbers" else ("classes", "regression")
    return (
        f"These first labels are read as {what}, and so are all later ones. If that is wrong, `set` changes it by "
        f'`task="{task}"`, in the shell --task {task}.'
    )


def check_one_type(labels: Iterable[Any], name: str) -> None:
    """Check that labels are all texts, all booleans or all numbers."""
    examples: dict[str, Any] = {}
    for label in labels:
        if label is not None:
            examples.setdefault(_type_of(label), label)
    if len(examples) > 1:
        raise CampaignError(
            f"{name} must be of one type. Got {shown(list(examples.values()))}: make them all texts, for example."
        )


def allowed_labels(labels: Iterable[Any], kind: str) -> list[Any]:
    """A closed set of labels as plain values of one type, sorted."""
    plain = [label for label in (plain_label(label, "`labels`") for label in labels) if label is not None]
    check_one_type(plain, "`labels`")
    return sorted({converted(label, set(), kind) for label in plain}, key=str)


def alike_in(labels: Iterable[Any]) -> list[tuple[str, str]]:
    """Pairs of texts that are one whole number, or differ in case, in spaces, or in characters that nobody sees."""
    seen: dict[str, str] = {}
    pairs = []
    for label in filter(lambda label: isinstance(label, str), labels):
        letters = unicodedata.normalize("NFKC", bare_number(label) or label.casefold())
        look = "".join(one for one in letters if not one.isspace() and unicodedata.category(one) != "Cf")
        if seen.setdefault(look, label) != label:
            pairs.append((seen[look], label))
    return pairs


def _type_of(label: Any) -> str:
    return "text" if isinstance(label, str) else "boolean" if isinstance(label, bool) else "number"


def converted(label: Any, known: Mapping[Any, Any] | set[Any], kind: str) -> Any:
    """A label in the type of the known ones: "1" from a file as 1; refuse one that cannot be."""
    if kind == "numbers":
        number = _as_number(label)
        if number is None or not abs(number) < 1e300:
            raise CampaignError(f"a label must be a number, as the others are. Got {label!r}.")
        return float(number)
    label, types = _whole(label), {_type_of(one) for one in known}
    if not types or _type_of(label) in types:
        return label
    wanted = next(iter(types))
    found = CONVERSIONS[wanted](label)
    if found is None:
        raise CampaignError(f"a label must be a {wanted}, as {shown(sorted(known, key=str), 3)} are. Got {label!r}.")
    return found


def _as_number(label: Any) -> float | int | None:
    """A number, or the one that a text spells as spreadsheets do: `float` would take "1_000", "inf" and more."""
    if isinstance(label, bool):
        return None
    if isinstance(label, int | float):
        return label
    text = label.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    number = float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) else math.nan
    return number if math.isfinite(number) else None


def fraction_of(label: Any, mark: str | None) -> Any:
    """The number that a text spells, perhaps with the decimal mark of its table, if no whole one; else the label."""
    number = _as_number(label) if isinstance(label, str) else label
    if number is None and label and mark:
        number = read(pd.Series([label], dtype=object), Reading("number", mark=mark, grouped=True)).item()
    return number if isinstance(number, float) and number % 1 > 0 else label  # a gap is none


BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "text": str,
    "boolean": lambda label: BOOLEANS.get(str(label).strip().lower()),
    "number": lambda label: _whole(_as_number(label)),
}
"""Labels of one type from those of others; None for what cannot be one."""


def _whole(label: Any) -> Any:
    """1.0 is the class 1."""
    return int(label) if isinstance(label, float) and label % 1 == 0 and abs(label) < EXACT else label


def bare_number(text: Any) -> str | None:
    """The digits of "89" and of "89.0", which spreadsheets and pandas write; None of other texts."""
    found = re.fullmatch(r"(0|-?[1-9][0-9]*)(\.0+)?", text) if isinstance(text, str) else None
    return found and found[1]


def answers_of(labels: Any, *, id: str | None, target: str, annotator: str = "") -> list[Answer]:
    """The input of `Campaign.tell` as answers, in its order."""
    if hasattr(labels, "to_pandas") and hasattr(labels, "columns"):  # of polars, say
        labels = labels.to_pandas()
    if isinstance(labels, pd.DataFrame):
        return _of_frame(labels, id=id, target=target, annotator=annotator)
    if not isinstance(labels, pd.Series | Mapping):
        raise TypeError(
            "`labels` must be a mapping of ids to labels, a Series indexed by id, or a DataFrame with columns of ids "
            f"and labels. Got a {type(labels).__name__}: a bare list does not say which row each belongs to."
        )
    return [Answer(key, plain_label(value, f"the label of {key!r}"), annotator) for key, value in labels.items()]


def _of_frame(frame: pd.DataFrame, *, id: str | None, target: str, annotator: str) -> list[Answer]:
    in_index = frame.index.name == id if id is not None else not _is_default(frame.index)
    if (id or "id") not in frame.columns and not in_index:
        raise _lacking(frame, f"a column or an index {id or 'id'!r}, with the ids of the rows")
    if target not in frame.columns:
        raise _lacking(frame, f"a column {target!r}, with the labels")
    keys = (frame[id or "id"].astype(object) if (id or "id") in frame.columns else frame.index).tolist()
    missing = [i for i, key in enumerate(keys) if key is None or key is pd.NA or key != key or key == ""]
    if missing:
        raise CampaignError("a row has no id. Give it the id of the row that the label is for.", missing)
    skipped = _flags(frame["skip"]) if "skip" in frame.columns else [False] * len(frame)
    values = plain_labels(frame[target], target, keys)
    for i, (value, skip) in enumerate(zip(values, skipped, strict=True)):
        if skip and value is not None:
            raise CampaignError(
                f"{keys[i]!r} has a label, {value!r}, and a mark in the column `skip`. Remove one of them.", [i]
            )
    said = plain_labels(frame["remark"], "remark", keys) if "remark" in frame.columns else [None] * len(keys)
    return [
        Answer(key, value, annotator, skip, remark="" if remark is None else str(remark))
        for key, value, skip, remark in zip(keys, values, skipped, said, strict=True)
    ]


def _lacking(frame: pd.DataFrame, what: str) -> CampaignError:
    return CampaignError(f"`labels` must have {what}. Its columns are {shown(frame.columns.tolist(), 12)}.")


def _is_default(index: pd.Index) -> bool:
    """True for the index of a frame that was given none."""
    return isinstance(index, pd.RangeIndex) and index.name is None and index.start == 0 and index.step == 1


_NO = {"", "0", "false", "no", "n", "0.0"}
_YES = {"1", "true", "yes", "y", "x", "skip", "skipped", "1.0"}


def _flags(column: pd.Series) -> list[bool]:
    texts = ["" if gap else str(value).strip().lower() for value, gap in zip(column, column.isna(), strict=True)]
    if wrong := [i for i, text in enumerate(texts) if text not in _NO | _YES]:
        got = texts[wrong[0]]
        raise CampaignError(f"the column `skip` must hold an x for rows to skip, else nothing. Got {got!r}.", wrong)
    return [text in _YES for text in texts]


# --- what answers change --------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What changed by `Campaign.tell`.

    Attributes
    ----------
    n_labels, n_corrected, n_same, n_skipped, n_open : int
        Rows with a first label, with another label than before, with the same label, skipped as impossible to label,
        and given without a label, which changes nothing.
    n_left_out : int
        Answers that were withdrawn (and their rows not asked for again) or that their annotators have replaced since:
        the same file may be told twice.
    new : tuple
        Labels that no row had before.
    corrections : tuple of (id, label, label)
        Rows with another label than before: the old one, and the new one.

    See Also
    --------
    Campaign : Its ``tell`` returns one.
    """

    n_labels: int
    n_corrected: int
    n_same: int
    n_skipped: int
    n_open: int
    new: tuple[Any, ...]
    corrections: tuple[tuple[Any, Any, Any], ...] = ()
    n_left_out: int = 0

    def __str__(self) -> str:
        some = [cut(f"{id!s:.80}: {before!r} to {now!r}") for id, before, now in self.corrections[:MOST_SHOWN]]
        more = self.n_corrected - len(some)
        parts = (
            (self.n_corrected, f"corrected ({', '.join(some)}{f' and {more} more' if more else ''})"),
            (self.n_same, "known already"),
            (self.n_skipped, "skipped"),
            (self.n_open, "still open"),
            (self.n_left_out, "left out, as withdrawn or replaced since"),
        )
        new = f"{self.n_labels} new label{'s' * (self.n_labels != 1)}"
        return f"{', '.join([new, *(f'{n} {what}' for n, what in parts if n)])}."


@dataclass(frozen=True)
class Vocabulary:
    """The labels of a campaign."""

    kind: str  # "classes" or "numbers"
    closed: Sequence[Any] | None  # all allowed labels; None if new ones may come
    known: Mapping[Any, Any] | set[Any]  # labels that rows have
    renamed: Mapping[Any, Any] = field(default_factory=dict)  # old names, which still come in files, and the new ones

    def label(self, label: Any) -> Any:
        """A label in the type and the spelling of the others, by its new name, if it is allowed."""
        known = set(self.closed or ()) or self.known
        label = converted(label, known, self.kind)
        bare = bare_number(label)
        same = [one for one in (label, bare, bare and f"{bare}.0") if one in known]
        label = same[0] if same else self.renamed.get(label, label)
        if self.closed is not None and label not in self.closed:
            like = "".join(f" {one!r} is like it." for one, _ in alike_in([*self.closed, label])[-1:])
            raise CampaignError(f"a label must be one of {shown(self.closed, 12)}. Got {label!r}.{like}")
        return label

    def by_now(self, label: Any) -> Any:
        """What a label of before is called since labels were renamed or are numbers; itself if it can be none."""
        with suppress(CampaignError):
            return label if label in (None, ...) else replace(self, closed=None).label(label)
        return label

    def labels(self, labels: Sequence[Any]) -> list[Any]:
        """Labels of new rows, None for gaps, in the type of the others."""
        if not self.known:
            check_one_type(labels, "labels in `target`")
        try:
            return [None if label is None else self.label(label) for label in labels]
        except CampaignError as error:
            raise CampaignError(f"`target` must hold labels of one type, and only those of `labels`: {error}") from None

    def changed(
        self, closed: bool | None, add: Sequence[Any], rename: Mapping[Any, Any]
    ) -> tuple[Any, dict[Any, Any], list[tuple[Any, Any]]]:
        """After `Campaign.set`: the closed set, None for an open one; new names of labels; and of all old ones."""
        if self.kind == "numbers":
            raise CampaignError("`closed`, `add` and `rename` are for classes, but these labels are numbers.")
        before = {*self.known, *(self.closed or ())}
        plain = {label: plain_label(label, "a label") for label in (*rename, *rename.values(), *add)}
        if None in plain.values():
            raise CampaignError("`add` and `rename` must not hold empty labels.")
        olds = [converted(plain[old], before, self.kind) for old in rename]
        if (strangers := {*olds} - before) or len({*olds}) < len(olds):
            rule = f"`rename` must name labels of {shown(sorted(before, key=str))}, each once"
            raise CampaignError(f"{rule}. Got {shown([*(strangers or rename)])}.")
        same: dict[Any, Any] = {}
        try:
            typed = {label: converted(plain[label], before, self.kind) for label in (*rename.values(), *add)}
        except CampaignError:
            if not rename:
                raise
            # Words for numbers: all are texts from now on.
            same, typed = {label: str(label) for label in before}, {label: str(one) for label, one in plain.items()}
        names = same | dict(zip(olds, map(typed.get, rename.values()), strict=True))
        is_closed = self.closed is not None if closed is None else closed
        if len(add) and not is_closed:
            raise CampaignError("`add` is for a closed set of labels. This one is open: `closed` closes it.")
        allowed = {names.get(label, label) for label in self.closed or self.known} | {typed[label] for label in add}
        if is_closed and not allowed:
            raise CampaignError("`closed` needs labels, but there are none yet: pass some by `add`.")
        past = {old: names.get(new, new) for old, new in self.renamed.items()} | names
        past = {same.get(old, old): new for old, new in past.items()}  # files have the old ones as texts
        renamed = [(old, new) for old, new in past.items() if old not in {*past.values(), *map(typed.get, add)}]
        return allowed_labels(allowed, self.kind) if is_closed else None, names, renamed


def late_labels(
    said: Mapping[int, Any], ids: pd.Index, places: Sequence[int], state: State, ledger: Ledger, vocabulary: Vocabulary
) -> tuple[list[Event], list[str]]:
    """Events by which rows get the labels that a table, where they have ``places``, says by now; and lines on these."""
    known, own = ledger.ever_said(said), replace(vocabulary, closed=None)
    fresh = {row: label for row, label in said.items() if (row, label) not in known}
    rows = [row for row in fresh if not ledger.has_vote(row)]
    answers = [Answer(id, fresh[row]) for id, row in zip(ids[rows].tolist(), rows, strict=True)]
    try:
        events, told = events_of(answers, rows, ledger, vocabulary, unasked=True)
    except CampaignError as error:
        raise CampaignError(str(error), [places[rows[entry]] for entry in error.entries]) from None
    events = [event for event in events if (event.row, event.label) not in known]
    voted = {(row, own.label(fresh[row])) for row in fresh.keys() - set(rows)} - known - {*state.labels.items()}
    taken = {event.row: None for event in events}
    lost = [row for row in said if not ledger.has_vote(row) and row not in taken]
    new = f" (no row had {shown(told.new)} before)" if told.new else ""
    found = {
        f"new to the campaign, taken now{new}": [*taken],
        "against the campaign, which keeps its own (`tell` the right ones, or `withdraw`)": [row for row, _ in voted],
        "of withdrawn or skipped rows, ignored here (`tell` those that are right)": lost,
    }
    return events, [
        f"The table has {len(rows):,} label{'s' * (len(rows) > 1)} {what}: {said[min(rows)]!r} for "
        f"{ids[[min(rows)]].tolist()[0]!r}{', and others' * (len(rows) > 1)}."
        for what, rows in found.items()
        if rows
    ]


def in_kind(labels: Iterable[Any], kind: str, mark: str | None) -> dict[Any, Any]:
    """Labels as numbers or classes, by what they were; ``mark`` is the decimal mark of the table."""
    texts = pd.Series([label for label in labels if isinstance(label, str)], dtype=object)
    readings = [spelling_of(texts, mark), *([Reading("number", mark=mark, grouped=True)] if mark else [])]
    numbers = max((read(texts, one) for one in readings), key=pd.Series.count) if kind == "numbers" else texts
    if odd := texts[numbers.isna()].tolist():
        remedy = "tell numbers for these rows first, or `withdraw` them"
        raise CampaignError(f"`task` cannot be regression, which needs numbers as labels. Got {shown(odd)}: {remedy}.")
    known = dict(zip(texts, numbers.tolist(), strict=True))
    names = {label: converted(known.get(label, label), set(), kind) for label in labels}
    # No model has floats as classes.
    are_texts = kind == "classes" and any(isinstance(one, float) for one in names.values())
    return {label: str(one) for label, one in names.items()} if are_texts else names


def events_of(
    answers: Sequence[Answer], rows: Sequence[int], ledger: Ledger, vocabulary: Vocabulary, unasked: bool
) -> tuple[list[Event], Told]:
    """Turn answers into events; ``rows`` are their positions."""
    given = _checked(answers, rows, vocabulary)
    if not unasked:
        _check_asked(answers, rows, ledger)
    events, counts, corrections = [], Counter[str](), []
    answer_of = {
        (row, answer.annotator): answer for row, answer in zip(rows, answers, strict=True) if _is_given(answer)
    }
    for (row, annotator), label in given.items():
        before, (id, *_, when, remark) = ledger.vote(row, annotator), answer_of[row, annotator]
        tell = Event("tell", row, label=label, annotator=annotator, when=when, remark=remark)
        said = Event("skip", row, annotator=annotator, remark=remark) if label is None else tell
        if row in ledger.skipped if label is None else (type(before), before) == (type(label), label):
            counts["skipped" if label is None else "same"] += 1
            events += [said] * (remark not in ("", ledger.remarks.get((annotator, row))))
        elif _is_past(tell, ledger, vocabulary, unasked):
            counts["left_out"] += 1
        elif label is None:
            counts["skipped"] += 1
            events.append(said)
        else:
            counts["corrected" if before is not None else "labels"] += 1
            if before is not None:
                corrections.append((id, before, label))
            events.append(tell)
    is_open = vocabulary.kind == "classes" and vocabulary.closed is None and vocabulary.known
    new = {event.label for event in events if event.kind == "tell"}.difference(vocabulary.known) if is_open else set()
    return events, Told(
        n_labels=counts["labels"],
        n_corrected=counts["corrected"],
        n_same=counts["same"],
        n_skipped=counts["skipped"],
        n_open=sum(not _is_given(answer) for answer in answers),
        new=tuple(sorted(new, key=str)),
        corrections=tuple(corrections),
        n_left_out=counts["left_out"],
    )


def _is_past(answer: Event, ledger: Ledger, vocabulary: Vocabulary, unasked: bool) -> bool:
    """Whether an answer, None for a skip, was withdrawn, or its annotator has said something else since."""
    name, when = answer.annotator, answer.when
    withdrawn = {} if unasked else ledger.withdrawn.get(answer.row, {})
    gone, last = withdrawn.get(name if answer.label is not None else None), ledger.votes.get(name, {}).get(answer.row)
    if when is None:  # a file without times may be an old one that holds the same label
        return gone is not None and vocabulary.by_now(gone[-1]) == answer.label
    is_replaced = last is not None and when < last[0] and last[-1] != answer.label
    return is_replaced or (gone is not None and when <= gone[0])


def _check_asked(answers: Sequence[Answer], rows: Sequence[int], ledger: Ledger) -> None:
    is_known = [row in ledger.asked or ledger.has_vote(row) for row in rows]
    entries = [i for i, answer in enumerate(answers) if _is_given(answer) and not is_known[i]]
    if entries:
        raise CampaignError(
            f"{shown([answers[i].id for i in entries])} {'was' if len(entries) == 1 else 'were'} not asked for. If the "
            "label or skip is right, `tell` accepts it with `unasked=True`, in the shell --unasked.",
            entries,
        )


def _is_given(answer: Answer) -> bool:
    return answer.label is not None or answer.skipped


def _checked(answers: Sequence[Answer], rows: Sequence[int], vocabulary: Vocabulary) -> dict[tuple[int, str], Any]:
    """The label of each row by each annotator, None for skipped ones; gaps are left out."""
    given: dict[tuple[int, str], Any] = {}
    if not vocabulary.known and vocabulary.closed is None and vocabulary.kind == "classes":
        check_one_type((answer.label for answer in answers), "`labels`")
    for entry, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if not _is_given(answer):
            continue
        try:
            label = None if answer.skipped else vocabulary.label(answer.label)
        except CampaignError as error:
            raise CampaignError(f"{answer.id!r}: {error}", [entry]) from None
        first = given.setdefault((row, answer.annotator), label)
        if first != label:
            said = f"{first!r} and {label!r}"  # None of a mark to skip
            raise CampaignError(f"{answer.id!r} has two labels, {said}. Give only the right one.", [entry])
    return given
