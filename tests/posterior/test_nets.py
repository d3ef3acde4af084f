"""Nets that others made: how skorch nets and bare modules are asked, and what their answers are taken for."""

import functools
import random

import numpy as np
import pytest
import scipy.stats
import skorch
import torch
from skorch.helper import SliceDict
from torch import nn
from torch.nn import functional as F

from skactive import BADGEQuery, BatchBALDQuery, MCDropoutClassifier, StochasticBatchQuery, sample_posterior

X = np.random.default_rng(0).uniform(0, 240, (300, 4)).astype(np.float32)
y = (X[:, 0] > 120).astype(np.int64)
OWN_LOSS = {"max_epochs": 3, "verbose": 0, "train_split": None}
QUIET = {"criterion": nn.CrossEntropyLoss, "lr": 0.1, **OWN_LOSS}


def rng(seed=0):
    return np.random.default_rng(seed)


def mlp(p=0.3, n_outputs=2, *last):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(p), nn.Linear(32, n_outputs), *last)


class Around(nn.Module):
    """A net that answers ``answer(self, x)``, with another net inside."""

    def __init__(self, answer, p=0.3, n_outputs=2):
        super().__init__()
        self.answer, self.net = answer, mlp(p, n_outputs)

    def forward(self, *rows, **by_name):
        return self.answer(self, *rows, **by_name)


def draws_of(net, rows, n_draws=5, seed=0):
    return torch.as_tensor(sample_posterior(net, n_draws, rng(seed))(rows))


class Hostile(nn.Module):
    """Answers by the size of the block and the place in it, as no net should, but rounding does."""

    def __init__(self, n_outputs=3):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.drop, self.b = nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, n_outputs)

    def forward(self, x):
        place = torch.arange(len(x), dtype=x.dtype)[:, None] * torch.arange(16)
        return self.b(self.drop(torch.relu(self.a(x / 240))) + 1e-5 * torch.sin(place + len(x)))


HOSTILE = {
    "module": lambda: Hostile().eval(),
    "skorch net": lambda: skorch.NeuralNetClassifier(Hostile, batch_size=48, **QUIET).fit(X, y),
    "ours": lambda: MCDropoutClassifier(module=Hostile, max_epochs=1, predict_batch_size=48, random_state=0).fit(X, y),
}
POOL = np.random.default_rng(1).uniform(0, 240, (700, 4)).astype(np.float32)


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    ("name", "score", "limited"),
    [("module", "bald", True), ("module", "entropy", False), ("skorch net", "bald", False), ("ours", "bald", True)],
)
def test_scores_have_the_same_bits_for_every_chunk_size_whatever_a_net_makes_of_blocks(name, score, limited):
    net = HOSTILE[name]()
    candidates = rng(2).random(700) < 0.7 if limited else None
    scores, batches = [], []
    for size in (1, 100, None):
        query = StochasticBatchQuery(score, n_draws=4, chunk_size=size, random_state=0)
        batches.append(query.select(net, POOL, 9, candidates=candidates))
        scores.append(query.scores_)
    np.testing.assert_array_equal(scores, scores[:1] * 3)
    np.testing.assert_array_equal(batches, batches[:1] * 3)


@pytest.mark.arithmetic
@pytest.mark.parametrize("query", [BatchBALDQuery(n_draws=4, random_state=0), BADGEQuery(random_state=0)])
def test_batch_methods_choose_the_same_rows_for_every_chunk_size(query):
    net = Hostile().eval()
    batches = [query.set_params(random_state=0, chunk_size=size).select(net, POOL, 4) for size in (1, 100, None)]
    np.testing.assert_array_equal(batches, batches[:1] * 3)


def test_a_net_sees_its_own_batch_size_or_the_one_that_the_query_asks_for():
    seen = []

    def remembering(module, x):
        seen.append(len(x))
        return module.net(x)

    for own, asked, most in ((1, None, 1), (100, 30, 30), (-1, None, 60)):
        options = {"iterator_valid__batch_size": own, **QUIET}
        net = skorch.NeuralNetClassifier(Around(remembering), **options).fit(X, y)
        seen.clear()
        StochasticBatchQuery(n_draws=3, predict_batch_size=asked, random_state=0).select(net, X[:60], 2)
        assert max(seen) == most


class Scaled(skorch.dataset.Dataset):
    def transform(self, X, y):
        return super().transform(torch.as_tensor(X).float() / 240, y)


class ScaledSteps(skorch.NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(x / 240, **fit_params)


ASKED = {
    "dataset": lambda p: skorch.NeuralNetClassifier(mlp(p), dataset=Scaled, **QUIET),
    "infer": lambda p: ScaledSteps(mlp(p), **QUIET),
    "nonlinearity of its own": lambda p: skorch.NeuralNetClassifier(
        mlp(p), dataset=Scaled, predict_nonlinearity=lambda h: (h / 3).softmax(-1), **QUIET
    ),
    "binary": lambda p: skorch.NeuralNetBinaryClassifier(mlp(p, 1), dataset=Scaled, **OWN_LOSS),
    "probabilities": lambda p: skorch.NeuralNetClassifier(mlp(p, 2, nn.Softmax(-1)), dataset=Scaled, **OWN_LOSS),
}


@pytest.mark.parametrize("name", ASKED)
def test_draws_without_anything_dropped_are_what_the_net_predicts(name):
    net = ASKED[name](1e-9).fit(X, y.astype(np.float32) if name == "binary" else y)
    # float32 throughout: ten units in the last place of numbers up to 1
    np.testing.assert_allclose(draws_of(net, X[:50])[2], net.predict_proba(X[:50]), rtol=0, atol=1e-6)


def test_rows_by_name_go_to_a_skorch_net_by_name_and_to_no_bare_module():
    rows = {"left": X[:, :2], "right": X[:, 2:]}
    module = Around(lambda module, left, right: module.net(torch.cat([left, right], 1) / 240), 1e-9)
    net = skorch.NeuralNetClassifier(module, **QUIET).fit(SliceDict(**rows), y)
    np.testing.assert_allclose(draws_of(net, rows)[0], net.predict_proba(SliceDict(**rows)), rtol=0, atol=1e-6)
    with pytest.raises(TypeError):
        draws_of(mlp().eval(), rows)


class Colder:
    @functools.wraps(skorch.NeuralNetClassifier.predict_proba)  # which says that it is skorch's
    def predict_proba(self, X):
        p = torch.as_tensor(np.asarray(self.logits(X))).softmax(-1).numpy() ** 4
        return p / p.sum(1, keepdims=True)


class ColderNet(Colder, skorch.NeuralNetClassifier):
    logits = skorch.NeuralNetClassifier.forward


class ColderModule(Colder, nn.Sequential):
    def logits(self, X):
        return self(torch.as_tensor(X)).detach()


class Drawn(ColderNet):
    def sample_posterior(self, n_draws, rng):
        p = torch.from_numpy(rng.dirichlet([1, 1], (n_draws, 240)))
        return lambda X: p[:, X[:, 0].astype(int)]


@pytest.mark.parametrize("make", [ColderNet, Drawn, lambda net, **_: ColderModule(*net).eval()])
def test_a_net_whose_class_predicts_by_itself_is_scored_by_that_and_drawn_from_by_its_own_draws_alone(make):
    net, query = make(mlp(), **QUIET), StochasticBatchQuery("entropy", random_state=0)
    net = net if isinstance(net, nn.Module) else net.initialize()
    query.select(net, X, 3)
    p = net.predict_proba(X).astype(float)
    np.testing.assert_allclose(query.scores_, scipy.stats.entropy(p, axis=1), atol=1e-6)
    if isinstance(net, Drawn):
        assert len(StochasticBatchQuery("bald").select(net, X, 3)) == 3
    else:
        with pytest.raises(ValueError, match="has a `predict_proba` of its own"):
            StochasticBatchQuery("bald").select(net, X, 3)


@pytest.mark.filterwarnings("ignore:You set iterator_valid__shuffle=True")
@pytest.mark.parametrize("options", [{"shuffle": True}, {"drop_last": True}, {"num_workers": 2, "prefetch_factor": 3}])
def test_batches_hold_all_rows_in_their_order_whatever_the_iterator_is_told(options):
    options = {f"iterator_valid__{name}": value for name, value in options.items()}
    net = skorch.NeuralNetClassifier(mlp(), batch_size=64, **options, **QUIET).initialize()
    np.testing.assert_array_equal(draws_of(net, X / 240), draws_of(net.module_.eval(), X / 240))


class ByEachOther(skorch.dataset.Dataset):
    """Scales rows by the largest number that it is given."""

    def __init__(self, X, y=None, length=None):
        super().__init__(X / np.abs(np.asarray(X)).max(), y, length)


def test_a_data_set_that_scales_rows_by_each_other_is_refused_by_every_query():
    net = skorch.NeuralNetClassifier(mlp(), dataset=ByEachOther, **QUIET).fit(X, y)
    for query in (BADGEQuery(), StochasticBatchQuery(n_draws=4), BatchBALDQuery(n_draws=4)):
        with pytest.raises(ValueError, match="scales rows by each other"):
            query.select(net, X, 3)


def test_outputs_of_several_parts_go_to_the_nonlinearity_as_skorch_hands_them_over():
    module = Around(lambda module, x: {"logits": module.net(x / 240), "hidden": x}, 1e-9)
    options = {"predict_nonlinearity": lambda outputs: outputs["logits"].softmax(-1), **QUIET}
    net = skorch.NeuralNetClassifier(module, **options).initialize()
    expected = net.module_.net(torch.from_numpy(X / 240)).softmax(-1).detach()
    np.testing.assert_allclose(draws_of(net, X)[0], expected, rtol=0, atol=1e-5)


def test_a_pool_of_whole_numbers_for_a_net_of_floats_is_refused_with_the_conversion():
    with pytest.raises(ValueError, match=r"\.astype\(numpy\.float32\)"):
        draws_of(mlp().eval(), np.ones((4, 4), dtype=np.int64))


def test_what_a_module_returns_is_decided_once_on_a_real_row():
    # Rows by their norms, which a row of zeros has none of.
    rooted = Around(lambda module, x: module.net(3 * x / x.norm(dim=1, keepdim=True)).softmax(-1), n_outputs=3)
    functions = sample_posterior(rooted.eval(), 20, rng())
    draws = functions(X)
    np.testing.assert_allclose(draws[:, 256:], functions(X[256:]), rtol=0, atol=1e-6)
    assert float(draws.max()) > 0.58  # a second softmax would bring all below e/(e+2) = 0.576


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision_are_no_logits(dtype):
    assert draws_of(skorch.NeuralNetClassifier(mlp().to(dtype), **QUIET).initialize(), X / 240).dtype is dtype
    expected = mlp(1e-9, 3).to(dtype).double()(torch.from_numpy(X / 240).to(dtype).double()).softmax(-1)
    for last in (nn.Softmax(-1), nn.LogSoftmax(-1)):
        module = mlp(1e-9, 3, last).to(dtype).eval()
        # 8 or 11 bits, through three layers of 32 units at most
        atol = 8 * torch.finfo(dtype).eps
        np.testing.assert_allclose(draws_of(module, X / 240, 3).double()[0], expected.detach(), rtol=0, atol=atol)


def test_logits_that_happen_to_lie_between_0_and_1_are_logits():
    module = mlp(0.3, 3)
    with torch.no_grad():
        module[-1].weight.mul_(1e-3)
        module[-1].bias.copy_(torch.tensor([0.2, 0.5, 0.7]))
    expected = torch.tensor([0.2, 0.5, 0.7]).softmax(-1)
    np.testing.assert_allclose(draws_of(module.eval(), X / 240)[0, 0], expected, rtol=0, atol=0.01)


def across_rows(module, x):
    return module.net((x - x.mean(0)) / 100)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore:Lazy modules")
def test_modules_that_draws_cannot_be_had_of_are_refused_with_the_way_out():
    for module, message in (
        (Around(lambda module, x: (module.net(x), x)), "returned a tuple.*returns the logits alone"),
        (Around(lambda module, x: {"out": module.net(x)}), "or an output with `logits`. This Around returned a dict"),
        (Around(lambda module, x: module.net(x) * float("nan")), "returns NaN for the first row"),
        (Around(lambda module, x: module.net(x).squeeze()), "one column for each class"),
        (Around(lambda m, x: F.gumbel_softmax(m.net(x)) if m.training else m.net(x)), "torch's gumbel_softmax"),
        (Around(lambda module, x: module.net(x + torch.rand_like(x))), "outside of training too.*concrete dropout"),
        (Around(across_rows), "compute each row by itself"),
        (mlp(0.3, 1), "one column for each class"),
        (torch.jit.script(mlp()), "by torch's global generator"),
        (nn.Sequential(nn.LazyLinear(4), nn.Dropout(), nn.LazyLinear(3)), "`estimator` must have all its parameters"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            StochasticBatchQuery(n_draws=5, random_state=0).select(module.eval(), X, 3)


@pytest.mark.slow
def test_a_module_of_torch_export_is_refused_for_the_one_it_was_made_from():
    exported = torch.export.export(mlp(), (torch.ones(2, 4),)).module()
    with pytest.raises(ValueError, match="Give the module that it was exported from"):
        draws_of(exported, X)


class Skips(nn.Module):
    """Leaves layers out in training, rarely, where ``coin()`` says so; a value leaves torch."""

    def __init__(self, coin):
        super().__init__()
        self.coin, self.a, self.drop, self.o = coin, nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 3)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        h = self.drop(self.a(x / 240).relu())
        if float(h.detach().abs().max()) > 1e6:
            raise ValueError
        for layer in self.layers:
            h = h if self.training and self.coin() else h + 2 * layer(h).relu()
        return self.o(h)


STATES = {
    "Python's random": (random.getstate, lambda: random.random() < 0.05),
    "NumPy's global generator": (lambda: np.random.get_state()[2], lambda: np.random.rand() < 0.05),  # noqa: NPY002
    "torch's global generator": (
        lambda: torch.get_rng_state().tolist(),
        lambda: float(torch.ops.aten.dropout(torch.ones(1), 0.05, True)) == 0,
    ),
}


@pytest.mark.parametrize("generator", STATES)
def test_layers_left_out_by_other_generators_are_refused_by_their_name_and_these_stay_as_they_were(generator):
    state, coin = STATES[generator]
    for seed in range(20):  # the coins of a seed may all fall alike
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        module = Skips(coin)
        before = state()
        with pytest.raises(ValueError, match=f"this Skips draws some by {generator} "):
            draws_of(module, X)
        assert state() == before


def of(generator, number):
    """A coin that falls on one side rarely, by a generator that is copied with it."""
    return functools.partial(lambda own: float(number(*own)) < 0.05, [generator])


def by_name(generator, number):
    global shared
    shared = generator
    return lambda: float(number(shared)) < 0.05


HELD = {
    "in a list": of,
    "in a closure": lambda generator, number: lambda: float(number(generator)) < 0.05,
    "by a name of the program": by_name,
    "by its method": lambda generator, number: functools.partial(lambda own: own() < 0.05, generator.random),
}


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
@pytest.mark.parametrize("held", HELD)
def test_layers_left_out_by_a_generator_that_the_module_uses_are_refused_and_it_stays_as_it_was(held, make):
    for seed in range(10):  # the coins of a seed may all fall alike
        torch.manual_seed(seed)
        generator = make(seed)
        with pytest.raises(ValueError, match=r"some by a generator of its own "):
            draws_of(Skips(HELD[held](generator, lambda own: own.random())), X)
        assert generator.random() == make(seed).random()


def test_generators_are_looked_for_beside_objects_that_fail_for_names_that_they_lack():
    settings = type("Settings", (dict,), {"__getattr__": dict.__getitem__})()  # a KeyError, as in many programs
    assert draws_of(Skips(lambda: settings is None), X).std(0).max() > 0


@pytest.mark.parametrize("held", [of, HELD["in a closure"], by_name])
def test_numbers_of_a_generator_of_torch_are_drawn_wherever_it_is_held(held):
    coin = held(torch.Generator().manual_seed(0), lambda own: torch.rand((), generator=own))
    assert draws_of(Skips(coin), X).std(0).max() > 0
    coin = held(torch.Generator(), lambda own: torch.randint(100, (1,), generator=own) / 100)
    with pytest.raises(ValueError, match="by torch's randint in training"):
        draws_of(Skips(coin), X)


def seeded(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.5


def test_numbers_that_are_seeded_at_every_call_are_fixed():
    kept = seeded(1, 4)
    nets = (Around(lambda m, x, f=f: m.net(x / 240 * f())).eval() for f in (lambda: seeded(1, 4), lambda: kept))
    torch.testing.assert_close(*(draws_of(net, X) for net in nets))
    in_training = Around(lambda m, x: m.net(x / 240 * (seeded(*x.shape) if m.training else 1)))
    with pytest.raises(ValueError, match="differ between training and evaluation only by its dropout"):
        draws_of(in_training.eval(), X)


def hooked(m):
    adapter = m.net[2]
    m.net[0].register_forward_hook(lambda layer, given, returned: adapter(returned))


def in_an_object(m):
    class Step:
        layers = (m.net[2].forward,)  # of dropout alone, which has no weights

    m.net[2].forward = lambda x: Step.layers[0](x)


HOLD = [
    hooked,
    in_an_object,
    lambda m: vars(m.net).update(forward=functools.lru_cache(1)(m.net.forward)),
    lambda m: vars(m.net[2]).update(forward=lambda x: F.dropout(x, 0.5, m.training)),
]


@pytest.mark.parametrize("change", HOLD)
def test_a_module_whose_functions_hold_on_to_it_is_refused(change):
    module = Around(lambda m, x: m.net(x / 240)).eval()
    change(module)
    with pytest.raises(ValueError, match="holds on to the module itself or a part of it"):
        draws_of(module, X)


def test_functions_that_a_copy_takes_along_are_no_hindrance():
    module = Around(lambda m, x: m.net(x / 240)).eval()
    expected, seen = draws_of(module, X), []
    module.net.forward = functools.partial(type(module.net).forward, module.net)
    module.net[2].forward = module.net[2].forward  # a bound method
    module.net[0].register_forward_hook(lambda layer, given, returned: seen.append(layer))
    module(torch.from_numpy(X))
    torch.testing.assert_close(draws_of(module, X), expected)


COMPILED = {
    "in place": lambda net: net.compile(backend="eager"),
    "method": lambda net: vars(net).update(forward=torch.compile(net.forward, backend="eager")),
    "child": lambda net: net.__setitem__(1, torch.compile(net[1], backend="eager")),
    "script": lambda net: net.__setitem__(1, torch.jit.script(net[1])),
}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("change", COMPILED)
def test_compiled_parts_are_drawn_from_as_they_were(change):
    expected, net = draws_of(mlp().eval(), X), mlp().eval()
    COMPILED[change](net)
    torch.testing.assert_close(draws_of(net, X), expected)


def leaves_early(m, x):
    h = m.net[:3](x / 240)
    return m.net[3](h) if bool((x[:, 0] > 168).all()) else m.net[3](h.tanh())  # all rows are sure


def test_a_net_that_leaves_early_only_if_all_rows_are_sure_is_refused_whatever_the_first_row_is():
    for seed in range(20):  # of 32 rows, of which 30 % are sure, none is: 1e-5
        unsure_first = np.concatenate([X[X[:, 0] < 120][:1], rng(seed).permutation(X)])
        with pytest.raises(ValueError, match="compute each row by itself"):
            draws_of(Around(leaves_early).eval(), unsure_first)


def last_masked(x):
    return x.masked_fill(torch.tensor([False, False, True]), -1e4)


WRONG = {  # functions of (module, logits) that no draw can answer for, none of them large beside 1000
    "other rows": lambda m, x: x - 0.3 * x.mean(0) * (len(x) > 1),
    "training": lambda m, x: x * (3 if m.training else 1),
    "noise": lambda m, x: x + torch.from_numpy(np.random.default_rng().normal(size=(1, 3))).to(x),
}


@pytest.mark.parametrize("last", [last_masked, lambda x: x + 1000, torch.Tensor.bfloat16], ids=["mask", "add", "half"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_class_that_is_masked_an_offset_and_half_precision_hide_nothing(wrong, last):
    refused = "compute each row by itself|only by its dropout|the same at every call"
    net = Around(lambda m, x: last(WRONG[wrong](m, m.net(x / 240))), n_outputs=3).eval()
    with pytest.raises(ValueError, match=refused):
        draws_of(net.bfloat16() if last is torch.Tensor.bfloat16 else net, X)


def test_parts_of_rows_go_to_their_rows_beside_a_class_that_is_masked():
    def of_tokens(m, x):  # tokens come first, folded into one axis with the rows
        tokens = (x / 240).T.reshape(-1, 1).expand(-1, 4)
        return last_masked(m.net[3](m.net[:3](tokens).view(4, len(x), 32).mean(0)))

    draws = draws_of(Around(of_tokens, n_outputs=3).eval(), np.concatenate([X[:39], X[:1]]))
    torch.testing.assert_close(draws[:, 39], draws[:, 0])


@pytest.mark.parametrize("ask", [draws_of, lambda net, rows: BADGEQuery().select(net, rows, 3)])
def test_one_row_of_each_block_is_looked_at_by_itself(ask):
    def scaled(m, x):
        return m.net(x / max(240, float(x.detach().abs().max())))

    outlier = np.concatenate([X[:256], X[:256]])
    outlier[400] = 1000
    with pytest.raises(ValueError, match="compute each row by itself"):
        ask(Around(scaled).eval(), outlier)


def test_rows_that_are_alike_at_first_hide_no_dependence_on_other_rows():
    net, two_blocks = Around(across_rows).eval(), np.concatenate([np.repeat(X[:1], 256, 0), X[:256]])
    for ask in (draws_of, lambda net, rows: BADGEQuery().select(net, rows, 3)):
        with pytest.raises(ValueError, match="compute each row by itself"):
            ask(net, two_blocks)


def always_on(module, x):
    return module.net[3](F.dropout(torch.relu(module.net[0](x / 240)), 0.5, training=True))


def test_embeddings_switch_off_dropout_that_is_always_on():
    net = MCDropoutClassifier(module=Around(always_on), max_epochs=1, random_state=0).fit(X, y)
    state = torch.get_rng_state()
    expected = torch.relu(net.net_.module_.net[0](torch.from_numpy(X / 240))).detach()
    np.testing.assert_allclose(net.embed(X), expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(net.embed(X), net.embed(X))
    np.testing.assert_array_equal(*(BADGEQuery(random_state=0).select(net.net_.module_, X, 5) for _ in range(2)))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.arithmetic
def test_an_array_s_own_order_does_not_matter():
    read_only = X.copy()
    read_only.flags.writeable = False
    orders = (X.astype(">f4"), read_only, X[::-1].copy()[::-1], np.asfortranarray(X), torch.from_numpy(X.T.copy()).T)
    for net in (mlp().eval(), skorch.NeuralNetClassifier(mlp(), **QUIET).initialize()):
        expected = draws_of(net, X)
        for i, rows in enumerate(orders):
            np.testing.assert_array_equal(draws_of(net, rows), expected, err_msg=str(i))
