"""What is concluded from samples: all of them made up, so that the right answer is known."""

import numpy as np
import pytest

from tritium.tools.bench.comparing import changes, latest_pair
from tritium.tools.bench.spread import CLEAR, Ratio, between_runs, ratio, summary


def noisy(centre, spread, n=60, seed=0):
    return list(centre * np.exp(np.random.default_rng(seed).normal(0, spread, n)))


def test_a_summary_has_the_quantiles():
    found = summary([5.0, 1.0, 2.0, 3.0, 4.0])
    assert found == (3.0, 2.0, 4.0, 1.0, 5) and found.spread == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no samples"):
        summary([])


@pytest.mark.parametrize("true", [0.5, 1.0, 1.3, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_interval_holds_the_true_ratio(true, seed):
    found = ratio(noisy(1e-3, 0.05, seed=seed), noisy(true * 1e-3, 0.05, seed=100 + seed))
    assert found.low <= found.value <= found.high and found.is_clear
    assert found.low / 1.05 <= true <= found.high * 1.05


def test_a_slow_moment_of_the_machine_hits_both_and_cancels_out():
    slow = np.where(np.arange(60) < 25, 6.0, 1.0)  # the machine was six times slower for a while
    ours, theirs = np.array(noisy(1.0, 0.01)) * slow, np.array(noisy(2.0, 0.01, seed=1)) * slow
    assert ratio(ours, theirs).is_clear and ratio(ours, theirs).value == pytest.approx(2.0, rel=0.03)
    assert ratio(ours, theirs, paired=False).high > 1.5 * ratio(ours, theirs).high


def test_a_rival_that_was_disturbed_half_of_the_time_gives_no_clear_ratio():
    theirs = [1.0] * 10 + [17.0] * 11
    found = ratio([1.0] * 21, theirs)
    assert found.value == 17.0 and not found.is_clear and found.low == 1.0
    assert "17x" in found.range_text and found.range_text.startswith("1x")


def test_neighbours_count_as_one_event():
    """Samples in two long runs say less than the same samples mixed."""
    apart = np.repeat([1.0, 1.2], 30)
    mixed = np.tile([1.0, 1.2], 30)
    ones = np.ones(60)
    width = lambda r: r.high / r.low
    assert width(ratio(ones, apart)) >= width(ratio(ones, mixed))


def test_few_samples_are_enough_to_say_something():
    assert ratio([2.0], [1.0]) == Ratio(0.5, 0.5, 0.5)
    assert ratio([1.0, 1.0, 1.0], [2.0, 2.0]) == Ratio(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="no samples"):
        ratio([], [1.0])


def test_clear_is_what_the_constant_says():
    assert Ratio(1.0, 1.0, CLEAR).is_clear and not Ratio(1.0, 1.0, CLEAR * 1.01).is_clear


@pytest.mark.parametrize("factor, verdict", [(1.0, "same"), (1.03, "same"), (0.98, "same"), (1.3, "slower"),
                                             (0.7, "faster")])
def test_changes_beyond_noise(factor, verdict):
    assert between_runs(noisy(1.0, 0.03), noisy(factor, 0.03, seed=5))[0] == verdict


def test_a_wide_interval_is_unclear():
    assert between_runs(noisy(1.0, 1.5, 11), noisy(1.2, 1.5, 11, seed=9))[0] == "unclear"


def test_what_the_machine_explains_is_no_change():
    assert between_runs([1.0] * 9, [1.4] * 9, drift=1.4)[0] == "same"
    assert between_runs([1.4] * 9, [1.0] * 9, drift=1 / 1.4)[0] == "same"
    assert between_runs([1.0] * 9, [2.0] * 9, drift=1.4)[0] == "slower"


# ---------------------------------------------------------------------------------------------------------------------
# Runs

QUIET, BUSY = [0.0, 2, 0.01, 1e-4], [1.6, 2, 0.5, 1e-4]


def row(name="softmax", ours=1.0, theirs=2.0, noise=QUIET, **more):
    return {"name": name, "size": 64, "dtype": "float32", "device": "cpu", "threads": 2, "noise": noise,
            "samples": {"tritium": [ours] * 9, "torch": [theirs] * 9}, "correct": True, **more}


def run(*rows, id="a", name="here", torch="2.13"):
    machine = {"name": name, "device": "a CPU", "processors": 2, "versions": {"torch": torch}}
    return {"id": id, "machine": machine, "rows": list(rows)}


def verdict(before, after):
    (found,) = changes(before, after)
    return found.verdict


def test_a_regression_is_flagged():
    (found,) = changes(run(row(ours=1.0)), run(row(ours=1.2)))
    assert found.verdict == "slower" and found.is_regression and found.ratio.value == pytest.approx(1.2)
    assert (found.before, found.after) == (1.0, 1.2)


def test_an_improvement_is_told_and_is_no_regression():
    (found,) = changes(run(row(ours=1.2)), run(row(ours=1.0)))
    assert found.verdict == "faster" and not found.is_regression


def test_what_slowed_a_rival_of_the_same_version_slowed_us():
    assert verdict(run(row(1, 1.0, 2.0)), run(row(1, 1.4, 2.8))) == "same"
    assert verdict(run(row(1, 1.0, 2.0)), run(row(1, 1.4, 2.8), torch="2.14")) == "slower"
    assert verdict(run(row(1, 1.0, 2.0)), run(row(1, 1.4, 1.4))) == "slower"


def test_what_slowed_fixed_work_slowed_us():
    assert verdict(run(row(ours=1.0)), run(row(ours=1.4, noise=[0.0, 2, 0.01, 1.5e-4]))) == "same"


def test_a_busy_machine_gives_no_verdict():
    (found,) = changes(run(row(ours=1.0)), run(row(ours=9.0, noise=BUSY)))
    assert found.verdict == "noisy" and not found.is_regression
    assert "after: other programs used 1.6 of 2 processors" in found.why


def test_another_machine_gives_no_verdict():
    (found,) = changes(run(row(ours=1.0)), run(row(ours=9.0), name="there"))
    assert found.verdict == "noisy" and "measured on here" in found.why


def test_a_wrong_result_is_a_regression_whatever_its_time():
    (found,) = changes(run(row()), run(row(correct=False, problem="off by 1")))
    assert found.verdict == "wrong" and found.is_regression and found.why == "off by 1"


def test_rows_that_only_one_run_has():
    found = changes(run(row("a"), row("b")), run(row("b"), row("c")))
    assert [(c.name, c.verdict) for c in found] == [("b 64 float32", "same"), ("c 64 float32", "only after"),
                                                    ("a 64 float32", "only before")]


def test_other_sizes_are_other_benchmarks():
    assert {c.verdict for c in changes(run(row(size=1)), run(row(size=2)))} == {"only after", "only before"}


def test_the_latest_pair_is_of_one_machine_and_has_something_in_common():
    first, other, last = run(row(), id="1"), run(row(), id="2", name="there"), run(row(), id="3")
    assert [r["id"] for r in latest_pair([first, other, last])] == ["1", "3"]
    assert latest_pair([first, run(row("b"), id="4")]) is None and latest_pair([]) is None
