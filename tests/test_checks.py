"""Rules of parameters: each refuses any other object with one sentence, and none fails on odd ones."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pandas as pd
import pytest

from skactive._utils.validation import (
    FLAG,
    ParameterError,
    check_parameters,
    integer,
    name_or_callable,
    number,
    one_of,
    shown,
)

ODD = [
    None,
    "x",
    b"x",
    [],
    {},
    1j,
    True,
    np.bool_(True),
    np.array([1.0, 2.0]),
    np.array(1j),
    pd.DataFrame([[1]]),
    object,
]
NUMBERS = [0, 1, 0.5, -1, np.float32(0.25), np.int64(3), math.inf, -math.inf, math.nan, decimal.Decimal("0.5")]


@pytest.mark.parametrize("value", [*ODD, math.nan, math.inf, -0.1, 1.1], ids=repr)
@pytest.mark.parametrize("rule", [number(0, 1), number(0, 1, ends="()"), number(0, 1, ends="(]")], ids=lambda r: r.text)
def test_a_rule_of_numbers_refuses_all_else(rule, value):
    with pytest.raises(ParameterError, match=r"^`part` must be a number .* Got .* instead\.$"):
        rule.check("part", value)


@pytest.mark.parametrize(
    ("ends", "taken", "text"),
    [
        ("[]", [0, 0.5, 1], "a number from 0 to 1"),
        ("()", [0.5], "a number between 0 and 1"),
        ("(]", [0.5, 1], "a number from 0 up to 1, without 0"),
        ("[)", [0, 0.5], "a number from 0 up to 1, without 1"),
    ],
)
def test_bounds_are_taken_in_or_left_out(ends, taken, text):
    rule = number(0, 1, ends=ends)
    assert [value for value in (-1, 0, 0.5, 1, 2) if rule.holds(value)] == taken
    assert rule.text == text


@pytest.mark.parametrize("value", [*ODD, 0, -3, 2.5, 2.0, math.nan], ids=repr)
def test_a_rule_of_integers_refuses_all_else(value):
    with pytest.raises(ParameterError, match=r"^`n` must be an integer, 1 or larger\. Got .* instead\.$"):
        integer().check("n", value)


@pytest.mark.parametrize("value", [*ODD[:-1], *NUMBERS], ids=repr)
def test_names_and_callables_are_looked_up_by_text_alone(value):
    for rule in (one_of(["a", "b"]), name_or_callable({"a": 1})):
        with pytest.raises(ParameterError, match=r"one of \['a'"):
            rule.check("score", value)


def test_flags_are_booleans():
    assert FLAG.check("flag", np.bool_(False)) == np.bool_(False)
    with pytest.raises(ParameterError, match=r"`flag` must be True or False\. Got 1 instead"):
        FLAG.check("flag", 1)


def test_none_and_words_are_taken_where_a_rule_says_so():
    rule = number(0).or_word("auto").or_none()
    assert [rule.check("beta", value) for value in (None, "auto", 2.5)] == [None, "auto", 2.5]
    with pytest.raises(ParameterError, match=r'`beta` must be None or "auto" or a finite number, 0 or larger\. Got -1'):
        rule.check("beta", -1)


def test_an_error_of_a_parameter_is_of_both_kinds():
    with pytest.raises(ValueError, match="`k`"):
        check_parameters({"k": integer()}, {"k": "x", "other": object()})
    with pytest.raises(TypeError, match="`k`"):
        check_parameters({"k": integer()}, {"k": -1})


def test_the_remedy_closes_the_message():
    with pytest.raises(ParameterError, match=r"instead\. Try 0\.9\.$"):
        number(0, 1, remedy="Try 0.9.").check("hold", 2)


def test_large_values_are_shown_in_one_line():
    assert shown(np.zeros((300, 4))) == "a ndarray of shape (300, 4)"
    assert shown(dict) == "the class dict"
    assert len(shown("x" * 1000)) == 100
