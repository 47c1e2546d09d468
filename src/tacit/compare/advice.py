"""Which method to use when, in words that follow from the figures by fixed rules.

1. At each epsilon the best mean, and every method within one standard error of it, count as equal.
2. Among equals the best mean is recommended; one that takes less than half its time is named, too.
3. A method that is not more than one standard error above the most frequent label learned nothing.
4. Nothing is said about data, epsilons or settings that were not run.
"""

from __future__ import annotations

import math

from tacit.compare.summary import Comparison, Row

RULES = (
    "At each epsilon, methods within one standard error of the best mean count as equal; the best "
    "mean is recommended, and an equal that takes less than half its CPU-seconds is named as "
    "quicker. The standard error is the larger of that of the repetitions and that of scoring on "
    "so many held-out rows (all methods are scored on the same rows, so this is cautious). A "
    "method that is not more than one standard error above the most frequent label is said to "
    "learn nothing."
)


def recommended(result: Comparison, epsilon: float) -> Row | None:
    """Return the best mean at an epsilon; None where nothing beat the most frequent label."""
    tied = [row for row in result.tied(epsilon) if not learned_nothing(result, row)]
    return tied[0] if tied else None


def quicker(result: Comparison, epsilon: float) -> Row | None:
    """Return the quickest equal of the best, if it takes less than half its time."""
    best = recommended(result, epsilon)
    if best is None or best.cpu is None:
        return None
    quick = min(result.tied(epsilon), key=lambda row: math.inf if row.cpu is None else row.cpu)
    return quick if quick.cpu is not None and quick.cpu < best.cpu / 2 else None


def learned_nothing(result: Comparison, row: Row) -> bool:
    """Tell whether a method is no better than the most frequent label."""
    floor = reference(result, "majority")
    if floor is None or row.accuracy is None:
        return False
    return row.accuracy - floor <= (row.error or 0.0)


def reference(result: Comparison, name: str) -> float | None:
    """Return a reference's accuracy, if it was run."""
    for row in result.rows():
        if row.method == name and row.epsilon is None:
            return row.accuracy
    return None


def advice(result: Comparison) -> list[str]:
    """Return sentences: one for each epsilon, then what holds over all of them, then the limits."""
    sentences = [_at(result, epsilon) for epsilon in result.epsilons]
    sentences += [_wins(result), *_gap(result), *_useless(result), *_troubled(result)]
    return [sentence for sentence in [*sentences, _limits(result)] if sentence]


def _at(result: Comparison, epsilon: float) -> str:
    best = recommended(result, epsilon)
    if best is None:
        return f"At epsilon {epsilon:g} no method was better than the most frequent label."
    name = result.about.title
    others = [row for row in result.tied(epsilon) if row.method != best.method]
    text = f"At epsilon {epsilon:g}: {name(best.method)}, {_percent(best.accuracy)}"
    if others:
        equal = ", ".join(f"{name(row.method)} {_percent(row.accuracy)}" for row in others)
        text += f" (not told apart from it: {equal})"
    quick = quicker(result, epsilon)
    if quick is not None:
        text += f"; {name(quick.method)} takes {quick.cpu:.1f} CPU-s instead of {best.cpu:.1f}"
    behind = [row for row in result.at(epsilon) if row not in (best, *others)]
    if behind:
        next_best = behind[0]
        text += f"; next is {name(next_best.method)}, {_percent(next_best.accuracy)}"
    return text + "."


def _wins(result: Comparison) -> str:
    """Say how often each method was best or not told apart from the best."""
    counts = dict.fromkeys(result.methods, 0)
    for epsilon in result.epsilons:
        for row in result.tied(epsilon):
            counts[row.method] += not learned_nothing(result, row)
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    run = {name: sum(r.method == name for r in result.rows()) for name in counts}
    parts = [f"{result.about.title(name)} at {won} of {run[name]}" for name, won in ordered if won]
    return f"Best, or not told apart from the best: {', '.join(parts)} epsilons." if parts else ""


def _gap(result: Comparison) -> list[str]:
    ceiling = reference(result, "non-private")
    if ceiling is None:
        return []
    reached = [
        epsilon
        for epsilon in result.epsilons
        for row in result.at(epsilon)[:1]
        if ceiling - (row.accuracy or 0.0) <= (row.error or 0.0)
    ]
    text = f"Without privacy the reference reaches {_percent(ceiling)}"
    if not reached:
        return [f"{text}; no method came within one standard error of it."]
    return [f"{text}; the best method is within one standard error of it from {min(reached):g} on."]


def _useless(result: Comparison) -> list[str]:
    """Name, for each method, the epsilons at which it learned nothing."""
    found = []
    for name in result.methods:
        rows = [r for r in result.rows() if r.method == name and r.accuracy is not None]
        levels = [f"{r.epsilon:g}" for r in rows if learned_nothing(result, r)]
        if levels:
            found.append(f"{result.about.title(name)} (epsilon {', '.join(levels)})")
    return [f"No better than the most frequent label: {'; '.join(found)}."] if found else []


def _troubled(result: Comparison) -> list[str]:
    rows = [row for row in result.rows() if row.reasons]
    if not rows:
        return []
    names = sorted({result.about.title(row.method) for row in rows})
    return [f"Refused or failed at some epsilon, with the reason below: {', '.join(names)}."]


def _limits(result: Comparison) -> str:
    runs = sorted({row.asked for row in result.rows() if row.epsilon is not None})
    times = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}" if runs else "no"
    once = "; one run alone does not show how much the noise moves it" if 1 in runs else ""
    return (
        f"This holds for {result.about.data}, these public inputs and these settings, measured "
        f"with {times} repetition{'' if runs == [1] else 's'} and {result.about.held_out_rows:,} "
        f"different held-out rows{once}; it says nothing about other data."
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
