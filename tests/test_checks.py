"""Rules of parameters: each refuses any other object with one sentence, and none fails on odd ones."""

import decimal
import math

import numpy as np
import pandas as pd
import pytest

from skactive._utils.validation import FLAG, ParameterError, check_parameters, integer, number, one_of

ODD = [None, "x", b"x", [], {}, 1j, True, np.bool_(True), np.array([1.0, 2.0]), np.array(1j), pd.DataFrame([[1]])]
NO_NUMBERS = [*ODD, object, math.nan, math.inf, 10**400]


@pytest.mark.parametrize(
    ("rule", "values", "message"),
    [
        (number(0, 1), [*NO_NUMBERS, -0.1, 1.1], "a number from 0 to 1"),
        (number(0, 1, ends="()"), [*NO_NUMBERS, 0, 1], "a number between 0 and 1"),
        (integer(), [*ODD, object, math.nan, math.inf, 0, -3, 2.0], "an integer, 1 or larger"),
        (one_of(["a", "b"]), [*NO_NUMBERS, 0, np.float32(0.25), decimal.Decimal("0.5")], r"one of \['a'"),
        (FLAG, [None, "x", 0, 1, np.array(True)], "True or False"),
    ],
)
def test_a_rule_refuses_all_else_in_one_sentence(rule, values, message):
    for value in values:
        with pytest.raises(ParameterError, match=rf"^`part` must be {message}.* Got .* instead\.$"):
            rule.check("part", value)


def test_none_and_words_are_taken_where_a_rule_says_so():
    rule = number(0, 1, ends="[)").or_word("auto").or_none()
    assert [rule.check("beta", value) for value in (None, "auto", 0, 0.5)] == [None, "auto", 0, 0.5]
    with pytest.raises(ParameterError, match='`beta` must be None or "auto" or a number from 0 up to 1, without 1'):
        rule.check("beta", 1)


def test_an_error_of_a_parameter_is_of_both_kinds_and_closes_with_the_remedy():
    with pytest.raises(ValueError, match="`k`"):
        check_parameters({"k": integer()}, {"k": "x", "other": object()})
    with pytest.raises(TypeError, match=r"instead\. Try 0\.9\.$"):
        number(0, 1, remedy="Try 0.9.").check("hold", 2)
