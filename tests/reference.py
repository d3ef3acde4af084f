"""Slow oracles: loops written from the formulas, in exact fractions or 50-digit decimals, and exact tails of counts.

Scores take draws (n_draws, n_points, n_classes), regression draws (n_draws, n_points). Laws of ordered batches are
enumerated. Nothing here shares code with the package.
"""

from __future__ import annotations

import collections
import decimal
import functools
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from scipy import stats

DIGITS = 50


def _exact(draws):
    """The same numbers as nested lists of Decimal; a float is a finite binary fraction, so nothing is rounded."""
    array = draws.detach().cpu().double().numpy() if hasattr(draws, "detach") else np.asarray(draws, dtype=np.float64)
    return [[[Decimal(float(p)) for p in np.atleast_1d(point)] for point in draw] for draw in array]


def _xlogy(x, y):
    return x * y.ln() if x else Decimal(0)


def _per_point(formula):
    """A score of draws by its formula for a point, of ``members[k][c]``: the probability of class c under draw k."""

    def score(draws):
        with decimal.localcontext(prec=DIGITS):
            return np.array([float(formula(members)) for members in zip(*_exact(draws), strict=True)])

    return score


def _mean(members):
    return [sum(column) / len(members) for column in zip(*members, strict=True)]


@_per_point
def bald(members):
    """1/K Σ_k KL(p_k ‖ p̄): Houlsby 2011."""
    mean = _mean(members)
    terms = [_xlogy(p, p) - _xlogy(p, q) for member in members for p, q in zip(member, mean, strict=True)]
    return sum(terms) / len(members)


@_per_point
def entropy(members):
    """H[p̄]: Gal 2017."""
    return -sum(_xlogy(q, q) for q in _mean(members))


@_per_point
def variation_ratio(members):
    """1 − max_y p̄(y)."""
    return 1 - max(_mean(members))


@_per_point
def std_dev(members):
    """Σ_y sqrt(1/K Σ_k (p_k(y) − p̄(y))²); for regression draws the one standard deviation."""
    return sum(_population_variance(column).sqrt() for column in zip(*members, strict=True))


@_per_point
def margin(members):
    """1 − (p̄_(1) − p̄_(2)); one class has no second probability: 0 stands for it."""
    first, second = sorted([*_mean(members), Decimal(0)], reverse=True)[:2]
    return 1 - (first - second)


@_per_point
def variance(members):
    """1/K Σ_k (μ_k − μ̄)² of regression draws."""
    return _population_variance([mu for (mu,) in members])


def gaussian_bald(draws, noise_variance):
    """1/2 log[(Var_k μ_k + 1/K Σ_k σ_k²) / exp(1/K Σ_k log σ_k²)], which is 1/2 log(1 + Var_k μ_k / σ²) for one σ²."""
    result = []
    with decimal.localcontext(prec=DIGITS):
        for mus, noises in zip(np.transpose(draws), np.broadcast_to(noise_variance, np.shape(draws)).T, strict=True):
            noises = [Decimal(float(noise)) for noise in noises]
            spread = _population_variance([Decimal(float(mu)) for mu in mus])
            log_mean = sum(noise.ln() for noise in noises) / len(noises)
            result.append(float(((spread + sum(noises) / len(noises)).ln() - log_mean) / 2))
    return np.array(result)


def random_draws(rng, n_draws, n_points, n_classes, dtype=np.float64, concentration=0.5):
    """Dirichlet rows; in float64 they sum to 1 within rounding."""
    return rng.dirichlet(np.full(n_classes, concentration), size=(n_draws, n_points)).astype(dtype)


def power_weights(scores, beta):
    """s^β; at β = 0 every row counts, by definition."""
    return [Fraction(1 if beta == 0 else float(s) ** beta) for s in scores]


def softmax_weights(scores, beta):
    """exp(β (s − max)); at β = 0 every row counts."""
    highest = max(scores)
    if highest == -math.inf:
        return [Fraction(0)] * len(scores)
    return [Fraction(1 if beta == 0 else math.exp(beta * (s - highest))) for s in scores]


def softrank_weights(ranks, beta):
    """r^−β."""
    return [Fraction(float(r) ** -beta) for r in ranks]


def tied_ranks(scores):
    """Every descending ranking that agrees with the scores: rows with equal scores in every order."""
    n = len(scores)
    for order in itertools.permutations(range(n)):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            ranks = [0] * n
            for rank, row in enumerate(order, start=1):
                ranks[row] = rank
            yield ranks


def all_batches(step, k):
    """The probability of every ordered batch of k rows, where ``step(batch)`` are those of rows to be the next."""
    law = {(): 1}
    for _ in range(k):
        law = {(*batch, i): before * p for batch, before in law.items() for i, p in step(batch).items() if p}
    return law


def in_proportion(weights, epsilon=0):
    """Probabilities of rows by their weights, uniform with probability epsilon or where no row has a weight."""
    total, epsilon = sum(weights.values()), Fraction(epsilon)
    by_law = {i: Fraction(w) / total if total else Fraction(1, len(weights)) for i, w in weights.items()}
    return {i: (1 - epsilon) * p + epsilon / len(weights) for i, p in by_law.items()}


def step_of_weights(weights, epsilon=0):
    """Steps by the weights of the rows allowed."""
    return lambda batch, allowed: in_proportion({i: weights[i] for i in allowed}, epsilon)


def ordered_batches(weights, k, epsilon=0):
    """Plackett–Luce: the probability of every ordered batch of k rows, drawn in proportion to the weights left.

    Rows of weight 0 are drawn only when nothing else is left, and then uniformly; by chance with probability epsilon.
    """
    step, rows = step_of_weights(weights, epsilon), range(len(weights))
    return all_batches(lambda batch: step(batch, [i for i in rows if i not in batch]), k)


def mixture(laws):
    """The law that is one of these, each as likely."""
    laws, mixed = list(laws), collections.defaultdict(Fraction)
    for law in laws:
        for batch, probability in law.items():
            mixed[batch] += probability / len(laws)
    return mixed


def batch_law(sampler, scores, k, beta):
    """The law of the ordered batch of a sampler, by its name."""
    if sampler == "power":
        return ordered_batches(power_weights(scores, beta), k)
    if sampler == "softmax":
        return ordered_batches(softmax_weights(scores, beta), k)
    if sampler == "softrank":
        possible = [s > -math.inf for s in scores]
        # Rows of score −inf come last in every ranking and have no mass.
        laws = [
            [w * p for w, p in zip(softrank_weights(ranks, beta), possible, strict=True)]
            for ranks in tied_ranks(scores)
        ]
        return mixture(ordered_batches(law, k) for law in laws)
    if sampler == "topk":
        return mixture(
            {tuple(sorted(range(len(scores)), key=ranks.__getitem__)[:k]): Fraction(1)} for ranks in tied_ranks(scores)
        )
    if sampler == "uniform":
        return ordered_batches([1] * len(scores), k)
    raise KeyError(sampler)


def prefixes(law, length):
    """The law of the first picks."""
    marginal = collections.Counter()
    for batch, probability in law.items():
        marginal[batch[:length]] += probability
    return marginal


def log_proba(log_weights, positions):
    """Log-probability of each pick given those before it, in decimals; `None` stands for a weight of 0."""
    with decimal.localcontext(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        left = dict(enumerate(log_weights))
        picks = []
        for position in positions:
            possible = [w for w in left.values() if w is not None]
            if not possible:
                picks.append(-Decimal(len(left)).ln())
            elif left[position] is None:
                picks.append(Decimal("-Infinity"))
            else:
                highest = max(possible)
                total = sum((w - highest).exp() for w in possible)
                picks.append(left[position] - highest - total.ln())
            del left[position]
        return np.array([float(pick) for pick in picks])


def exact_log_weights(sampler, scores, beta, ranks=None):
    """Logs of the weights in decimals, for `log_proba`."""
    with decimal.localcontext(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        beta = Decimal(float(beta))
        scores = [float(s) for s in scores]
        if beta == 0 or sampler == "uniform":
            return [Decimal(0)] * len(scores)
        if sampler == "power":
            return [beta * Decimal(s).ln() if s > 0 else None for s in scores]
        if sampler == "softmax":
            return [beta * Decimal(s) if s > -math.inf else None for s in scores]
        if sampler == "softrank":
            return [-beta * Decimal(int(r)).ln() if s > -math.inf else None for s, r in zip(scores, ranks, strict=True)]
    raise KeyError(sampler)


def tail(count, n_trials, probability):
    """The smaller exact binomial tail that holds the count: small where the count does not fit."""
    probability = min(1.0, float(probability))
    return min(stats.binom.cdf(count, n_trials, probability), stats.binom.sf(count - 1, n_trials, probability))


def assert_counts_fit(counts, law, n_trials, level=1e-6):
    """Every cell's count lies within exact binomial tails of `level`; impossible cells were never seen."""
    assert sum(counts.values()) == n_trials
    impossible = [cell for cell in counts if not law.get(cell)]
    assert not impossible, f"seen, but impossible: {impossible[:3]}"
    tails = {cell: tail(counts.get(cell, 0), n_trials, probability) for cell, probability in law.items()}
    worst = min(tails, key=tails.get)
    assert tails[worst] > level, (
        f"{worst}: {counts.get(worst, 0)} of {n_trials}, expected {n_trials * float(law[worst]):.1f}"
    )


def assert_batches_fit(counts, law):
    """Ordered batches, and each of their prefixes, fit a law: each cell, and by chi-square those of five or more."""
    n_trials = sum(counts.values())
    for length in range(1, max(map(len, law)) + 1):
        expected, seen = prefixes(law, length), collections.Counter()
        for batch, n in counts.items():
            seen[batch[:length]] += n
        assert_counts_fit(seen, expected, n_trials)
        large = {batch: n_trials * float(p) for batch, p in expected.items() if n_trials * p >= 5}
        rest = max(n_trials - math.fsum(large.values()), 1e-9)
        observed = [*(seen[batch] for batch in large), n_trials - sum(seen[batch] for batch in large)]
        statistic = sum((n - e) ** 2 / e for n, e in zip(observed, [*large.values(), rest], strict=True) if e >= 1)
        assert stats.chi2.sf(statistic, len(large)) > 1e-6


def martingale_bound(variance, level=1e-6):
    """Freedman's inequality solved for the excess: P(sum of bounded differences >= bound) <= level.

    Differences are at most 1 and their conditional variances sum to `variance`.
    """
    log_level = math.log(1 / level)
    return log_level / 3 + math.sqrt(log_level**2 / 9 + 2 * variance * log_level)


def holm(p_values):
    """Holm (1979): the smallest level at which the step-down rule rejects a hypothesis; NaN are no hypotheses."""
    tested = [p for p in p_values if p == p]
    not_rejected_before = {q: sum(other >= q for other in tested) for q in tested}
    return [max([p, *(min(1.0, n * q) for q, n in not_rejected_before.items() if q <= p)]) for p in p_values]


def joint_information(draws, batch):
    """I(y_1 … y_B; θ) = H[y_1 … y_B] − 1/K Σ_k Σ_b H[p_k(y_b)], all outcomes listed (Kirsch 2019, eqs 7 and 8)."""
    members = np.asarray(draws, dtype=np.float64).tolist()
    members = [[[p / math.fsum(point) for p in point] for point in draw] for draw in members]
    terms = []
    for outcome in itertools.product(*(range(len(members[0][x])) for x in batch)):
        likelihoods = [math.prod(draw[x][y] for x, y in zip(batch, outcome, strict=True)) for draw in members]
        probability = math.fsum(likelihoods) / len(members)
        terms.append(-probability * math.log(probability) if probability else 0.0)
    noise = [p * math.log(p) / len(members) for draw in members for x in batch for p in draw[x] if p]
    return math.fsum(terms + noise)


def next_gains(draws, batch):
    """What each row adds to the joint information of a batch; None for its own rows."""
    before = joint_information(draws, batch)
    rows = range(np.shape(draws)[1])
    return [None if x in batch else joint_information(draws, [*batch, x]) - before for x in rows]


def gradient_embeddings(probabilities, embeddings):
    """g_i = (p_i − e_ŷ) ⊗ h_i written out, class by class, in fractions; ŷ is the first most probable class."""
    vectors = []
    for p, h in zip(probabilities, embeddings, strict=True):
        p, h = [Fraction(float(x)) for x in p], [Fraction(float(x)) for x in h]
        label = p.index(max(p))
        residual = [x - (c == label) for c, x in enumerate(p)]
        vectors.append([r * x for r in residual for x in h])
    return vectors


def squared_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def next_centre(vectors, chosen, allowed):
    """k-means++: the probability of each row allowed to be the next centre (Arthur and Vassilvitskii 2007).

    The first one is the longest vector (BADGE: Ash 2020). Where all distances are 0, all are as probable.
    """
    if chosen:
        return in_proportion({i: min(squared_distance(vectors[i], vectors[c]) for c in chosen) for i in allowed})
    lengths = {i: inner(vectors[i], vectors[i]) for i in allowed}
    return in_proportion({i: length == max(lengths.values()) for i, length in lengths.items()})


def next_centre_law(vectors, chosen):
    """The probability of each row, where all that are left are allowed."""
    law = next_centre(vectors, chosen, [i for i in range(len(vectors)) if i not in chosen])
    return [law.get(i, Fraction(0)) for i in range(len(vectors))]


def badge_law(vectors, k):
    """The probability of every ordered batch of k centres."""
    return all_batches(lambda batch: dict(enumerate(next_centre_law(vectors, batch))), k)


def expected_log_likelihoods(draws):
    """L_n(θ_j) = Σ_y p̄(y) log max(p_j(y), 1e-12) + H[p̄], rows n and columns j, in decimals (Pinsler 2019)."""
    floor = Decimal("1e-12")
    with decimal.localcontext(prec=DIGITS):
        rows = []
        for members in zip(*_exact(draws), strict=True):
            mean = _mean(members)
            entropy_of_mean = -sum(_xlogy(q, q) for q in mean)
            rows.append(
                [sum(q * max(p, floor).ln() for q, p in zip(mean, m, strict=True)) + entropy_of_mean for m in members]
            )
        return np.array([[float(x) for x in row] for row in rows])


def frank_wolfe(vectors, n_steps):
    """ACS-FW step by step: the vertex taken and the weights of all rows after each step (Pinsler 2019, alg. 1)."""
    n, n_draws = len(vectors), len(vectors[0])
    sigma = [math.sqrt(sum(x * x for x in v)) for v in vectors]
    total = sum(sigma)
    v = [sum(row[j] for row in vectors) for j in range(n_draws)]
    w = [0.0] * n
    steps = []
    for _ in range(n_steps):
        v_w = [sum(w[i] * vectors[i][j] for i in range(n)) for j in range(n_draws)]
        residual = [a - b for a, b in zip(v, v_w, strict=True)]
        score = [
            sum(r * x for r, x in zip(residual, vectors[i], strict=True)) / sigma[i] if sigma[i] else -math.inf
            for i in range(n)
        ]
        f = score.index(max(score))
        d = [total / sigma[f] * x - y for x, y in zip(vectors[f], v_w, strict=True)]
        gamma = sum(a * b for a, b in zip(d, residual, strict=True)) / sum(a * a for a in d)
        w = [(1 - gamma) * x for x in w]
        w[f] += gamma * total / sigma[f]
        steps.append((f, list(w)))
    return steps


def exactly(rows):
    """Numbers of some rows in fractions."""
    return [[Fraction(float(x)) for x in np.atleast_1d(row)] for row in rows]


def inner(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def shared_leaves(a, b):
    """The share of the trees in which two rows fall into one leaf."""
    return Fraction(sum(bool(x == y) for x, y in zip(a, b, strict=True)), len(a))


def leaf_distance(a, b):
    """1 − (number of trees in which i and j share a leaf) / T."""
    return 1 - shared_leaves(a, b)


def gradient_distance(kernel):
    """‖a_i‖² k_ii + ‖a_j‖² k_jj − 2 (a_i·a_j) k_ij between points (a, h), with a kernel k of the h."""

    def distance(i, j):
        (a, h), (b, g) = i, j
        return inner(a, a) * kernel(h, h) + inner(b, b) * kernel(g, g) - 2 * inner(a, b) * kernel(h, g)

    return distance


def residuals(probabilities):
    """a = p̄ − e_ŷ, which is the gradient of a layer with the one input 1."""
    return gradient_embeddings(probabilities, [[1]] * len(probabilities))


def _endless_digits():
    return decimal.localcontext(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _decimal_power(x, power):
    """x^power in decimals; at the power 0 every row counts, by definition."""
    if power == 0:
        return Decimal(1)
    x = x if isinstance(x, Fraction | int) else Fraction(float(x))
    x = Decimal(x.numerator) / Decimal(x.denominator)
    return (Decimal(float(power)) * x.ln()).exp() if x else Decimal(0)


class Repulsion:
    """Pick b_1 ∝ s_i^β, every further one ∝ s_i^β d_i^γ, d_i the squared distance to the nearest row picked.

    Rows in flight, `pending` points, count as picks before the first. Weights that are all 0 make the pick uniform over
    what is left, and so does chance, with probability epsilon. Where all points are equal, γ = 0. In decimals of 50
    digits with exponents without end. Points are whatever `distance` takes.
    """

    def __init__(self, scores, points, beta, gamma, epsilon=0, pending=(), distance=squared_distance):
        everything, n = [*points, *pending], len(points)
        pairs = [(a, b) for a in range(len(everything)) for b in range(min(a, n))]
        between = {(a, b): distance(everything[a], everything[b]) for a, b in pairs}
        gamma = gamma if any(between.values()) else 0
        self.epsilon = Fraction(epsilon)
        self.n, self.in_flight = n, range(n, len(everything))
        with _endless_digits():
            self.of_scores = [_decimal_power(s, beta) for s in scores]
            self.apart = {pair: _decimal_power(d, gamma) for pair, d in between.items()}

    def weights(self, batch):
        """Of the rows left after some picks, by row."""
        centres = [*self.in_flight, *batch]
        return {
            i: self.of_scores[i] * min((self.apart[max(i, c), min(i, c)] for c in centres), default=1)
            for i in range(self.n)
            if i not in batch
        }

    def next(self, batch, allowed=None):
        """The probability of each row left, or allowed, to be the next pick."""
        with _endless_digits():
            weights = self.weights(batch)
            weights = weights if allowed is None else {i: weights[i] for i in allowed}
            total, by_chance = sum(weights.values()), 1 / Decimal(len(weights))
            chance = Decimal(self.epsilon.numerator) / Decimal(self.epsilon.denominator)
            return {
                i: (1 - chance) * (weight / total if total else by_chance) + chance * by_chance
                for i, weight in weights.items()
            }

    def log_proba(self, batch):
        """Log-probability of each pick given those before it."""
        with _endless_digits():
            steps = [self.next(tuple(batch[:t]))[pick] for t, pick in enumerate(batch)]
            return np.array([float(step.ln()) if step else -math.inf for step in steps])


def repulsive_law(scores, points, k, beta, gamma, epsilon=0, pending=(), distance=squared_distance):
    """The probability of every ordered batch of k rows that keep apart, as `Repulsion` says."""
    rule = Repulsion(scores, points, beta, gamma, epsilon, pending, distance)
    with _endless_digits():
        return all_batches(rule.next, k)


def lure(losses, q, n_pool):
    """1/M Σ_m v_m L_m with v_m = 1 + (N − M)/(N − m) · (1/((N − m + 1) q_m) − 1): Farquhar 2021."""
    n_labelled = len(losses)
    if n_labelled == n_pool:
        return sum(losses) / Fraction(n_labelled)
    total = Fraction(0)
    for m, (loss, q_m) in enumerate(zip(losses, q, strict=True), start=1):
        v = 1 + Fraction(n_pool - n_labelled, n_pool - m) * (1 / ((n_pool - m + 1) * Fraction(q_m)) - 1)
        total += v * loss
    return total / n_labelled


def lure_standard_error(losses, q, n_pool):
    """Root of 1/(M (M − 1)) Σ_m [c_m (a_m − R)]², c_m = N (N − M)/((N − m)(N − m + 1)), R the mean of the c_m a_m."""
    n_labelled = len(losses)
    parts = []
    for m, (loss, q_m) in enumerate(zip(losses, q, strict=True), start=1):
        a = loss / (n_pool * Fraction(q_m)) + Fraction(sum(losses[: m - 1])) / n_pool
        parts.append((Fraction(n_pool * (n_pool - n_labelled), (n_pool - m) * (n_pool - m + 1)), a))
    value = sum(c * a for c, a in parts) / n_labelled
    return math.sqrt(sum((c * (a - value)) ** 2 for c, a in parts) / (n_labelled * (n_labelled - 1)))


def epig(draws, target_draws, target_weights=None):
    """Σ_t w_t KL(1/K Σ_k p_k(y|x) p_k(y*|x*_t) ‖ p̄(y|x) p̄(y*|x*_t)), weights summing to 1: Bickford Smith 2023."""
    with decimal.localcontext(prec=DIGITS):
        targets = list(zip(*_exact(target_draws), strict=True))
        weights = [Decimal(1)] * len(targets) if target_weights is None else [Decimal(float(w)) for w in target_weights]
        total = sum(weights)

        def information(members, others):
            mean, other_mean = _mean(members), _mean(others)
            result = Decimal(0)
            for y, p_bar in enumerate(mean):
                for z, q_bar in enumerate(other_mean):
                    joint = sum(p[y] * q[z] for p, q in zip(members, others, strict=True)) / len(members)
                    result += _xlogy(joint, joint) - (_xlogy(joint, p_bar * q_bar) if joint else 0)
            return result

    @_per_point
    def score(members):
        return sum(w * information(members, t) for w, t in zip(weights, targets, strict=True)) / total

    return score(draws)


def _population_variance(values):
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def causal_score(name, draws, treatment, propensity=None):
    """mu Var_k[μ_k(t)], tau Var_k[μ_k(1) − μ_k(0)], rho tau / Var_k[μ_k(1 − t)], mu_rho, mu_pi: Jesson 2021.

    In exact fractions. 0/0 is 0; a ratio is no more than 2^52, the reciprocal of the distance from 1 to the next float.
    """
    result = []
    for i, outcomes in enumerate(np.asarray(draws, dtype=np.float64).swapaxes(0, 1).tolist()):
        untreated, treated = ([Fraction(outcome[arm]) for outcome in outcomes] for arm in (0, 1))
        observed, other = (treated, untreated) if treatment[i] else (untreated, treated)
        mu, blind = _population_variance(observed), _population_variance(other)
        tau = _population_variance([b - a for a, b in zip(untreated, treated, strict=True)])
        rho = Fraction(0) if tau == 0 else Fraction(2**52) if blind * 2**52 <= tau else tau / blind
        values = {"mu": mu, "tau": tau, "rho": rho, "mu_rho": mu * rho}
        if propensity is not None:
            p = Fraction(float(propensity[i]))
            values["mu_pi"] = mu * (1 - p if treatment[i] else p)
        result.append(float(values[name]))
    return np.array(result)


SCORES = {
    "bald": bald,
    "entropy": entropy,
    "epig": epig,
    "gaussian_bald": gaussian_bald,
    "margin": margin,
    "mu": functools.partial(causal_score, "mu"),
    "mu_pi": functools.partial(causal_score, "mu_pi"),
    "mu_rho": functools.partial(causal_score, "mu_rho"),
    "rho": functools.partial(causal_score, "rho"),
    "std_dev": std_dev,
    "tau": lambda draws: causal_score("tau", draws, np.zeros(np.shape(draws)[1])),
    "variance": variance,
    "variation_ratio": variation_ratio,
}


def sqrt_pehe(true_effects, effects):
    """Root of 1/N Σ_i (τ̂_i − τ_i)²: Hill 2011."""
    return math.sqrt(sum((b - a) ** 2 for a, b in zip(true_effects, effects, strict=True)) / len(effects))


def fall_in_variance(covariance, weights, rows, targets):
    """Mean over targets and classes of g² k² / (k(x, x) + 1 / s): MacKay 1992; Schein and Ungar 2007.

    Of the log-odds of a class, as the contrast of its logit with the mean of the others. Weights are (C, p), a single
    one those of the second of two classes; their covariance is class by class.
    """
    n_classes = len(weights)
    others = np.full((n_classes, n_classes), -1 / max(1, n_classes - 1))
    np.fill_diagonal(others, 1.0)

    def k(c, x, x2):
        first, second = np.kron(others[c], x), np.kron(others[c], x2)
        return first @ covariance @ second

    def log_odds(c, x):
        logits = weights @ x if n_classes > 1 else np.array([(weights @ x)[0], 0.0])
        return logits[c] - math.log(sum(math.exp(z) for d, z in enumerate(logits) if d != c))

    def bernoulli(m):
        return 1 / (1 + math.exp(-m)) / (1 + math.exp(m))

    scores = np.zeros(len(rows))
    for (i, x), t, c in itertools.product(enumerate(rows), targets, range(n_classes)):
        shrinkage = 1 / math.sqrt(1 + math.pi * k(c, t, t) / 8)
        slope = shrinkage * bernoulli(shrinkage * log_odds(c, t))
        scores[i] += slope**2 * k(c, x, t) ** 2 / (k(c, x, x) + 1 / bernoulli(log_odds(c, x)))
    return scores / len(targets) / n_classes


class UnitNoise:
    """Stands in for a generator: its noise is, draw by draw, one unit vector of all the noise that is asked for.

    Draws are linear in their noise, so that these draws D are a square root of the covariance D D', without sampling.
    """

    def __init__(self, size):
        self.size, self.used = size, 0

    def standard_normal(self, shape):
        n = int(np.prod(shape)) // self.size
        noise = np.zeros((n, self.size))
        noise[np.arange(n), self.used + np.arange(n)] = 1
        self.used += n
        return noise.reshape(shape)


def laplace_covariance(X, probabilities):
    """Inverse of Σ S ⊗ x x' + 1 for weights in the order class by class, a loop over the rows."""
    precision = np.eye(X.shape[1] * probabilities.shape[1])
    for x, p in zip(X, probabilities, strict=True):
        precision += np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    return np.linalg.inv(precision)


class Limited:
    """Which rows a limited batch may take next, by trying every set of rows that it could become.

    Costs and the budget are the decimals that they are written as. With a budget a batch has up to k rows, else k.
    """

    def __init__(self, n, k, groups=None, most=None, least=None, costs=None, budget=None, must=()):
        self.n, self.k, self.must = n, k, tuple(must)
        self.groups = [None] * n if groups is None else list(groups)
        self.most, self.least = most, least or {}
        self.costs = [Fraction(0 if costs is None else str(costs[i])) for i in range(n)]
        self.budget = None if budget is None else Fraction(str(budget))

    def keeps(self, rows):
        """Whether a whole batch keeps to the limits, but for rows that it could have besides."""
        count = collections.Counter(self.groups[i] for i in rows)
        most = (
            {} if self.most is None else self.most if isinstance(self.most, dict) else dict.fromkeys(count, self.most)
        )
        return (
            set(self.must) <= set(rows)
            and (len(rows) == self.k if self.budget is None else len(rows) <= self.k)
            and all(count[g] <= most.get(g, self.n) for g in count)
            and all(count[g] >= n for g, n in self.least.items())
            and (self.budget is None or sum(self.costs[i] for i in rows) <= self.budget)
        )

    def can_be_completed(self, batch):
        others = [i for i in range(self.n) if i not in batch]
        sizes = range(max(self.k - len(batch), 0) + 1)
        return any(self.keeps((*batch, *more)) for size in sizes for more in itertools.combinations(others, size))

    def next(self, batch):
        """The rows that may follow, in increasing order."""
        if len(batch) >= self.k:
            return []
        return [i for i in range(self.n) if i not in batch and self.can_be_completed((*batch, i))]

    def law(self, step):
        """The probability of every ordered batch, where ``step(batch, allowed)`` are those of rows to be the next."""
        done, begun = {}, {self.must: 1}
        while begun:
            longer = {}
            for batch, probability in begun.items():
                allowed = self.next(batch)
                if not allowed:
                    done[batch] = probability
                for row, p in step(batch, allowed).items() if allowed else ():
                    if p:
                        longer[(*batch, row)] = probability * p
            begun = longer
        return done
