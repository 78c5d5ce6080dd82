"""The figures of agreement equal those of the well-known libraries, on generated data and on real judgements."""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import krippendorff
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr
from sklearn.metrics import cohen_kappa_score, confusion_matrix
from statsmodels.stats.proportion import proportion_confint

from tests.conftest import ROOT
from touchstone import agreement
from touchstone.agreement import Interval, KnockOuts

Pairs = list[tuple[int, int]]

scores = st.integers(1, 5)
pairs = st.lists(st.tuples(scores, scores), max_size=60)


def same(ours: float | None, theirs: Any) -> bool:
    """Equal to 1e-12; what a library calls nan is None here."""
    value = float(theirs)
    return ours is None if math.isnan(value) else ours is not None and abs(ours - value) <= 1e-12


def quiet(figure: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The library's figure; its warnings about constant input are what we turn into None."""
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return figure(*args, **options)


def theirs_kappa(found: Sequence[tuple[int, int]]) -> float:
    if not found:
        return math.nan
    local, reference = zip(*found, strict=True)
    return float(quiet(cohen_kappa_score, local, reference, weights="quadratic", labels=[1, 2, 3, 4, 5]))


def theirs_alpha(units: Sequence[Sequence[int]]) -> float:
    rated = [unit for unit in units if len(unit) > 1]
    values = {value for unit in rated for value in unit}
    if len(values) < 2:
        return math.nan
    width = max(map(len, rated))
    table = [[unit[i] if i < len(unit) else numpy.nan for unit in rated] for i in range(width)]
    return float(krippendorff.alpha(reliability_data=table, level_of_measurement="ordinal"))


def theirs_order(figure: Callable[..., Any], found: Sequence[tuple[int, int]]) -> float:
    if len(found) < 2:
        return math.nan
    local, reference = zip(*found, strict=True)
    return float(quiet(figure, local, reference).statistic)


def agree(found: Pairs) -> None:
    """Every figure over `found` equals the library's."""
    assert same(agreement.quadratic_kappa(found), theirs_kappa(found))
    assert same(agreement.ordinal_alpha(found), theirs_alpha(found))
    assert same(agreement.spearman(found), theirs_order(spearmanr, found))
    assert same(agreement.kendall_tau_b(found), theirs_order(kendalltau, found))


@settings(deadline=None)
@given(pairs)
def test_kappa_alpha_and_rank_correlations_equal_the_libraries(found: Pairs) -> None:
    agree(found)


@settings(deadline=None)
@given(st.lists(st.lists(scores, max_size=5), max_size=25))
def test_alpha_takes_any_number_of_raters(units: list[list[int]]) -> None:
    assert same(agreement.ordinal_alpha(units), theirs_alpha(units))


@given(st.integers(0, 500), st.integers(0, 500))
def test_wilson_intervals_equal_statsmodels(k: int, more: int) -> None:
    n = k + more
    interval = agreement.wilson(k, n)
    if n == 0:
        assert interval is None
        return
    low, high = proportion_confint(k, n, method="wilson")
    assert interval is not None and same(interval.low, max(low, 0.0)) and same(interval.high, min(high, 1.0))
    assert 0 <= interval.low <= k / n <= interval.high <= 1


@pytest.mark.parametrize("k", [0, 10_000_000, 20_000_000])
def test_wilson_of_many(k: int) -> None:
    interval = agreement.wilson(k, 20_000_000)
    low, high = proportion_confint(k, 20_000_000, method="wilson")
    assert interval is not None and same(interval.low, low) and same(interval.high, high)


@given(pairs)
def test_distances_are_what_their_names_say(found: Pairs) -> None:
    gaps = [local - reference for local, reference in found]
    if not found:
        assert agreement.mean_abs_delta([]) is agreement.bias([]) is agreement.share_within([], 0) is None
        assert agreement.best_constant([]) is None and agreement.skill([]) is None and agreement.outliers([]) == 0
        return
    n = len(found)
    assert agreement.mean_abs_delta(found) == sum(map(abs, gaps)) / n
    assert agreement.bias(found) == sum(gaps) / n
    assert agreement.share_within(found, 0) == gaps.count(0) / n
    assert agreement.outliers(found) == sum(abs(gap) >= 2 for gap in gaps)
    constant = agreement.best_constant(found)
    assert constant is not None
    others = [sum(abs(k - reference) for _, reference in found) / n for k in range(1, 6)]
    assert constant.mean_abs_delta == min(others) and constant.score == others.index(min(others)) + 1
    skill = agreement.skill(found)
    if constant.mean_abs_delta == 0:
        assert skill is None
    else:
        assert skill is not None and skill <= 1
        assert same(skill, 1 - sum(map(abs, gaps)) / sum(abs(constant.score - reference) for _, reference in found))


@given(st.integers(1, 5), st.lists(scores, min_size=1, max_size=60))
def test_a_constant_judge_has_neither_skill_nor_agreement(constant: int, references: list[int]) -> None:
    found = [(constant, reference) for reference in references]
    skill, kappa = agreement.skill(found), agreement.quadratic_kappa(found)
    assert skill is None or skill <= 0
    assert kappa is None or kappa == 0
    assert agreement.spearman(found) is None and agreement.kendall_tau_b(found) is None


@given(pairs, st.randoms(use_true_random=False))
def test_no_figure_depends_on_the_order_of_the_pairs(found: Pairs, random: Any) -> None:
    shuffled = random.sample(found, len(found))
    for figure in (
        agreement.mean_abs_delta,
        agreement.bias,
        agreement.skill,
        agreement.quadratic_kappa,
        agreement.ordinal_alpha,
        agreement.spearman,
        agreement.kendall_tau_b,
    ):
        assert figure(found) == figure(shuffled)


# -- knock-outs


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.sampled_from([True, False, None])), max_size=30))
def test_knock_outs_are_a_confusion_matrix(cells: list[tuple[bool | None, bool | None]]) -> None:
    table = agreement.knock_outs(cells)
    known = [(local, reference) for local, reference in cells if local is not None and reference is not None]
    assert table.unknown == len(cells) - len(known)
    if known:
        local, reference = zip(*known, strict=True)
        (clear, missed), (alarms, hits) = confusion_matrix(local, reference, labels=[False, True])
        assert (table.hits, table.missed, table.false_alarms, table.clear) == (hits, missed, alarms, clear)
        assert table.concordance == (hits + clear) / len(known)
    else:
        assert table == KnockOuts(unknown=len(cells)) and table.concordance is None


def test_concordance_alone_hides_what_was_missed() -> None:
    table = agreement.knock_outs([(False, False)] * 73 + [(False, True)] * 7)
    assert table.concordance == 73 / 80
    assert (table.recall.k, table.recall.n, table.recall.rate) == (0, 7, 0.0)
    assert table.false_alarm.rate == 0.0


# -- intervals


def clustered(models: int, each: int, rater: Callable[[int, int], tuple[int, int]]) -> dict[str, Pairs]:
    return {f"m{model:02}": [rater(model, i) for i in range(each)] for model in range(models)}


def noisy(model: int, i: int) -> tuple[int, int]:
    reference = (model + i) % 5 + 1
    return min(5, max(1, reference + (model * 7 + i * 3) % 3 - 1)), reference


@pytest.mark.parametrize(
    ("models", "each", "given"),
    [
        pytest.param(8, 4, True, id="eight models, thirty-two pairs"),
        pytest.param(7, 20, False, id="too few models"),
        pytest.param(9, 3, False, id="too few pairs"),
    ],
)
def test_an_interval_needs_models_and_pairs(models: int, each: int, given: bool) -> None:
    clusters = clustered(models, each, noisy)
    differences = {model: [local - reference for local, reference in found] for model, found in clusters.items()}
    assert (agreement.quadratic_kappa_interval(clusters) is not None) is given
    assert (agreement.mean_interval(differences) is not None) is given


def test_the_interval_comes_from_the_data_alone() -> None:
    clusters = clustered(12, 6, noisy)
    backwards = {model: found[::-1] for model, found in reversed(clusters.items())}
    interval = agreement.quadratic_kappa_interval(clusters)
    assert interval == agreement.quadratic_kappa_interval(backwards)
    kappa = agreement.quadratic_kappa([pair for found in clusters.values() for pair in found])
    assert interval is not None and kappa is not None and interval.low < kappa < interval.high
    # As many digits as a change of the way to draw would touch: nobody redraws until it pleases.
    assert tuple(round(end, 6) for end in interval) == PINNED


PINNED = (0.811242, 0.919823)


def test_the_interval_is_that_of_resampled_models() -> None:
    clusters = clustered(40, 5, noisy)
    interval = agreement.quadratic_kappa_interval(clusters)
    generator = numpy.random.default_rng(1)
    models = list(clusters.values())
    values = []
    for _ in range(2000):
        drawn = generator.integers(0, len(models), len(models))
        local, reference = zip(*(pair for index in drawn for pair in models[index]), strict=True)
        values.append(1 - _apart(local, reference))
    low, high = numpy.quantile(values, [0.025, 0.975])
    assert interval is not None and interval.low == pytest.approx(low, abs=0.02)
    assert interval.high == pytest.approx(high, abs=0.02)


def _apart(local: Sequence[int], reference: Sequence[int]) -> float:
    one, other = numpy.array(local, float), numpy.array(reference, float)
    observed = ((one - other) ** 2).mean()
    return float(observed / ((one[:, None] - other[None, :]) ** 2).mean())


def test_a_perfect_judge_has_a_perfect_interval() -> None:
    clusters = clustered(10, 5, lambda model, i: ((model + i) % 5 + 1, (model + i) % 5 + 1))
    assert agreement.quadratic_kappa_interval(clusters) == Interval(1.0, 1.0)


def test_one_score_throughout_has_no_interval() -> None:
    assert agreement.quadratic_kappa_interval(clustered(10, 5, lambda model, i: (3, 3))) is None


# -- real judgements


def real_pairs() -> list[Pairs]:
    """The scores of two real judges for the same answers, of each sample run that two of them judged."""
    families: dict[str, list[dict[tuple[Any, ...], int]]] = defaultdict(list)
    for path in sorted((ROOT / "runs").glob("*/judgements.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        families["_".join(path.parent.name.split("_")[:4])].append(
            {(line["model"], line["variant"], line["prompt_id"], line["repeat"]): line["score"] for line in lines}
        )
    return [
        [(one[key], other[key]) for key in one if one[key] and other.get(key)]
        for one, other in (found for found in families.values() if len(found) == 2)
    ]


def test_real_judgements_give_the_figures_of_the_libraries() -> None:
    families = real_pairs()
    assert len(families) == 2 and all(len(found) > 20 for found in families)
    for found in families:
        agree(found)
        assert agreement.mean_abs_delta(found) == float(Fraction(sum(abs(a - b) for a, b in found), len(found)))
