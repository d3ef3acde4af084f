"""Sources of draws of the user's own: what they are asked for, what they may answer, what is refused by name."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skactive import ACSFWQuery, BatchBALDQuery, StochasticBatchQuery, sample_posterior
from skactive.posterior import check_posterior
from skactive.query import score_pool

X = np.random.default_rng(0).normal(size=(60, 4))
QUERIES = [StochasticBatchQuery("bald", beta=1.0), BatchBALDQuery(), ACSFWQuery()]


def rng():
    return np.random.default_rng(0)


def softmax_draws(n_draws, rng, change=lambda p: p):
    weights = torch.from_numpy(rng.normal(size=(n_draws, 4, 3))).requires_grad_()
    return lambda X: change((torch.as_tensor(X) @ weights).softmax(-1))


class Own:
    """A model with the method; ``drawn`` is how many functions it has."""

    def __init__(self, change=lambda p: p, drawn=None):
        self.change, self.drawn, self.asked = change, drawn, []

    def sample_posterior(self, n_draws, rng):
        self.asked.append(n_draws)
        return softmax_draws(self.drawn or n_draws, rng, self.change)


class Theirs:
    """A model of another package, for which ``source`` is registered."""

    def __init__(self, source):
        self.source = source


asked = []


@sample_posterior.register(Theirs)
def _source(theirs, n_draws, rng):
    asked.append(n_draws)
    return theirs.source(n_draws, rng)


def test_a_method_is_asked_for_100_draws_and_a_registered_source_for_none_where_no_number_is_set():
    own = Own()
    assert sample_posterior(own, None, rng())(X).shape == (100, 60, 3)
    assert own.asked == [100]
    asked.clear()
    sample_posterior(Theirs(lambda n, rng: softmax_draws(n or 7, rng)), None, rng())
    sample_posterior(make_pipeline(FunctionTransformer(), Own(drawn=3)), None, rng())
    assert asked == [None]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_a_source_that_has_fewer_draws_gives_all_of_them_unless_a_number_is_asked_for(query):
    query = clone(query).set_params(random_state=0)
    assert len(query.select(Own(drawn=5), X, 3)) == 3
    for n_draws in (20, 3):
        with pytest.raises(ValueError, match=rf"`n_draws`={n_draws} must be .* this Own drew 5.*`n_draws` at None"):
            query.set_params(n_draws=n_draws).select(Own(drawn=5), X, 3)


def votes(p):
    return torch.nn.functional.one_hot(p.argmax(-1), 3)


KINDS = {
    "with gradients": lambda p: p,
    "numpy": lambda p: p.detach().numpy(),
    "bfloat16": lambda p: p.detach().bfloat16(),
    "true and false": lambda p: votes(p).bool(),
    "read-only": lambda p: np.broadcast_to(p.detach().numpy(), p.shape),
}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_any_kind_of_number_pass_the_check_and_give_a_batch(kind):
    model, exact = Own(KINDS[kind]), Own(votes if kind == "true and false" else KINDS["numpy"])
    check_posterior(model, X[:10], n_draws=20)
    scores = [score_pool(one, X, ["bald"], n_draws=20, random_state=0)["bald"] for one in (model, exact)]
    # 8 bits of bfloat16 in each p are off by 2^-9 of it; -p log p of the three then by some 2^-8.
    np.testing.assert_allclose(*scores, rtol=0, atol=2.0**-7)
    for query in QUERIES[1:]:
        assert len(clone(query).set_params(n_draws=20, random_state=0).select(model, X, 3)) == 3


def test_what_a_query_refuses_does_not_pass_the_check():
    for change, match in (
        (lambda p: p.tolist(), "Got a list instead"),
        (lambda p: np.ma.masked_less(p.detach().numpy(), 0.01), "masked array"),
        (lambda p: p.detach().log(), "must hold probabilities"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            check_posterior(Own(change), X[:10])
        with pytest.raises((TypeError, ValueError), match=match):
            QUERIES[0].select(Own(change), X, 3)
