"""The figures of Tables 1 and 2 of the 2018 PATE paper, recomputed from its published votes.

The paper's own formulas (Theorem 6, Theorem 5, Theorem 23) beside the tight bound, the exact
check, the worst case, the correct theorem and the two-stage release; docs/theory/tables.md explains
each. The votes are public research data. On private votes every line but the worst case and the
two-stage statement would be secret.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from papers.items import Floats, Integers, Workplace
from tacit.datasets import read_votes
from tacit.mechanisms import ConfidentGNMax, InteractiveGNMax, Plan
from tacit.privacy import (
    RdpCurve,
    conversion_term,
    gaussian_rdp,
    gnmax_rdp_total,
    gnmax_smooth_sensitivity,
    gnss_rdp,
    sanitise_cost,
    worst_case_epsilon,
)


class Printed(NamedTuple):
    """The paper's own figures: Table 1 first, then Table 2."""

    answered: int
    epsilon: float
    expected_epsilon: float
    smooth: str
    beta: float
    sigma_ss: float
    sanitised: float


class Run(NamedTuple):
    """One row of the tables: a vote file and the parameters of Confident-GNMax."""

    name: str
    file: str
    mechanism: ConfidentGNMax
    queries: int
    order: float
    printed: Printed
    delta: float = 1e-5


RUNS = (
    Run(
        "MNIST",
        "pate_votes/mnist_250_teachers.npz",
        ConfidentGNMax(threshold=200, sigma_check=150, sigma_answer=40),
        queries=640,
        order=14.0,
        printed=Printed(286, 1.97, 2.00, "0.06175", 0.0329, 6.23, 2.52),
    ),
    Run(
        "Adult",
        "pate_votes/adult_250_teachers.npz",
        ConfidentGNMax(threshold=300, sigma_check=200, sigma_answer=40),
        queries=1500,
        order=15.5,
        printed=Printed(524, 1.90, 1.68, "0.03326", 0.0310, 7.92, 2.09),
    ),
)

FILES = tuple(run.file for run in RUNS)
SCRIPT_ORDERS = np.arange(2, 100.5, 0.5)

# What `tacit sanitise` takes by default: nothing here looks at the votes.
BETA_TIMES_ORDER, SIGMA, SIGMA_LOG_PER_BETA, RESERVED_SHARE = 0.2, 6.0, 5.0, 0.1


def figures(run: Run, every_row: Integers) -> dict[str, float]:
    """Return every figure of one run, unrounded."""
    votes = every_row[: run.queries]
    return (
        _averages(run, every_row)
        | _data_dependent(run, votes)
        | _worst_cases(run, votes)
        | _sanitised_by_one_release(run, votes)
        | _sanitised_by_two_stages(run, votes)
    )


def chances(mechanism: ConfidentGNMax | InteractiveGNMax, votes: Integers | Floats) -> Floats:
    """Return the probability that each query passes the check."""
    top = np.floor(votes.max(axis=1) + 0.5)
    return np.asarray(ndtr((top - mechanism.threshold) / mechanism.sigma_check))


def _answers_rdp(run: Run, votes: Integers, bound: str) -> float:
    """Return the RDP of the answers, each times its probability of being given."""
    sigma, weights = run.mechanism.sigma_answer, chances(run.mechanism, votes)
    return float(gnmax_rdp_total(votes, sigma, [run.order], bound, weights=weights)[0])


def _paper_checks_rdp(run: Run) -> float:
    return run.queries * float(gaussian_rdp(run.mechanism.sigma_check, [run.order])[0])


def _exact_checks_rdp(run: Run, votes: Integers) -> float:
    check = run.mechanism.check
    one = check.cost([run.order], n_teachers=int(votes[0].sum()), n_classes=votes.shape[1])
    return run.queries * float(one.values[0])


def _epsilon(run: Run, rdp: float, conversion: str) -> float:
    """Convert at the order of the run, which is fixed."""
    return float(RdpCurve([run.order], [rdp]).epsilon(run.delta, conversion))


def _averages(run: Run, every_row: Integers) -> dict[str, float]:
    """Return averages over all rows of the file, times the queries: Table 1."""
    share = run.queries / len(every_row)
    rdp = {bound: share * _answers_rdp(run, every_row, bound) for bound in ("theorem6", "tight")}
    paper = _paper_checks_rdp(run) + rdp["theorem6"]
    tight = _exact_checks_rdp(run, every_row) + rdp["tight"]
    return {
        "answered_all_rows": share * float(chances(run.mechanism, every_row).sum()),
        "epsilon_all_rows_theorem6": _epsilon(run, paper, "classic"),
        "epsilon_all_rows_tight": _epsilon(run, tight, "improved"),
    }


def _data_dependent(run: Run, votes: Integers) -> dict[str, float]:
    """Return expected values on the first rows of the file: Table 2."""
    theorem6, tight = (_answers_rdp(run, votes, bound) for bound in ("theorem6", "tight"))
    paper_checks, exact_checks = _paper_checks_rdp(run), _exact_checks_rdp(run, votes)
    return {
        "answered": float(chances(run.mechanism, votes).sum()),
        "best_order_theorem6": _best_order(run, votes),
        "rdp_answers_theorem6": theorem6,
        "rdp_answers_tight": tight,
        "rdp_checks_exact": exact_checks,
        "epsilon_theorem6": _epsilon(run, paper_checks + theorem6, "classic"),
        "epsilon_tight_answers": _epsilon(run, paper_checks + tight, "classic"),
        "epsilon_tight_classic": _epsilon(run, exact_checks + tight, "classic"),
        "epsilon_tight": _epsilon(run, exact_checks + tight, "improved"),
    }


def _plan(run: Run, votes: Integers, cap: int | None = None) -> Plan:
    size = {"n_teachers": int(votes[0].sum()), "n_classes": votes.shape[1]}
    return Plan(run.mechanism, run.queries, max_answers=cap, **size)


def _best_order(run: Run, votes: Integers) -> float:
    """Return the order that the authors' script would choose: on the votes."""
    sigma, weights = run.mechanism.sigma_answer, chances(run.mechanism, votes)
    answers = gnmax_rdp_total(votes, sigma, SCRIPT_ORDERS, "theorem6", weights=weights)
    checks = run.queries * gaussian_rdp(run.mechanism.sigma_check, SCRIPT_ORDERS)
    return float(RdpCurve(SCRIPT_ORDERS, answers + checks).best_order(run.delta, "classic"))


def _worst_cases(run: Run, votes: Integers) -> dict[str, float]:
    """Return data-independent prices, known before the run."""
    caps = {"worst_capped": run.printed.answered, "worst_uncapped": None}
    return {name: _plan(run, votes, cap).epsilon(run.delta) for name, cap in caps.items()}


def printed_theorem23(order: float, beta: float, sigma: float) -> float:
    """Theorem 23 of the paper as printed: too small where order*beta is well above 1/4.

    a e^(2 beta)/sigma^2 + (beta a - log(1 - 2 a beta)/2)/(a - 1), for a < 1/(2 beta).
    """
    spread = beta * order - 0.5 * math.log1p(-2 * order * beta)
    return order * math.exp(2 * beta) / sigma**2 + spread / (order - 1)


def _smooth(run: Run, votes: Integers, beta: float, **how: str) -> float:
    sigma, weights = run.mechanism.sigma_answer, chances(run.mechanism, votes)
    return gnmax_smooth_sensitivity(votes, sigma, run.order, beta, weights=weights, **how)


def tuned_on_votes(run: Run, votes: Integers) -> tuple[float, float, float]:
    """Return beta, smooth sensitivity and sigma_SS as the authors' public script chooses them.

    It minimises Theorem 23 plus two deviations of the noise over beta = 0.30/order, 0.31/order,
    ... 0.49/order, with sigma_SS = (order e^(2 beta)/SS)^(1/3): on the very votes that are to be
    protected, which no theorem pays for.
    """
    found = []
    for hundredths in range(30, 50):
        beta = hundredths / 100 / run.order
        smooth = _smooth(run, votes, beta, bound="theorem6", algorithm="paper")
        sigma = (run.order * math.exp(2 * beta) / smooth) ** (1 / 3)
        objective = printed_theorem23(run.order, beta, sigma) + 2 * smooth * sigma
        found.append((objective, beta, smooth, sigma))
    return min(found)[1:]


def _sanitised_by_one_release(run: Run, votes: Integers) -> dict[str, float]:
    """Price the paper's release: the cost plus noise of scale SS * sigma_SS."""
    beta, smooth, sigma_ss = tuned_on_votes(run, votes)
    epsilon = _data_dependent(run, votes)["epsilon_theorem6"]
    false = printed_theorem23(run.order, beta, sigma_ss)
    correct = gnss_rdp(run.order, beta, sigma_ss)
    rounded = _smooth(run, votes, round(beta, 4), bound="theorem6", algorithm="paper")
    return {
        "beta": beta,
        "sigma_ss": sigma_ss,
        "smooth_theorem6": smooth,
        "smooth_theorem6_at_printed_beta": rounded,
        "smooth_tight_at_that_beta": _smooth(run, votes, beta),
        "noise_of_release": smooth * sigma_ss,
        "cost_theorem23": false,
        "cost_correct": correct,
        "sanitised_theorem23": epsilon + false,
        "sanitised_correct": epsilon + correct,
    }


def _sanitised_by_two_stages(run: Run, votes: Integers) -> dict[str, float]:
    """Return what `Sanitise` says on average by default; its grids of 2^-20 are left out."""
    beta = BETA_TIMES_ORDER / run.order
    sigma_log, reserved = SIGMA_LOG_PER_BETA * beta, RESERVED_SHARE * run.delta
    price = sanitise_cost(run.order, beta, SIGMA, sigma_log, reserved / 2, reserved / 2)
    smooth = _smooth(run, votes, beta)
    upper = smooth * math.exp(price.scale_quantile * sigma_log + sigma_log**2 / 2)
    margin = price.value_quantile * SIGMA * upper
    cost = _exact_checks_rdp(run, votes) + _answers_rdp(run, votes, "tight")
    conversion = float(conversion_term([run.order], run.delta - reserved)[0])
    plan = _plan(run, votes, run.printed.answered)
    everything = price.mu_squared + (plan.mu_squared() or math.nan)
    return {
        "smooth_tight": smooth,
        "two_stage_margin": margin,
        "sanitised_two_stage": cost + margin + price.rdp + conversion,
        "worst_beside_two_stage": worst_case_epsilon(run.delta - reserved, everything).epsilon,
    }


def table_1(place: Workplace) -> None:
    """Show averages over all rows beside Table 1's rows of Confident-GNMax."""
    rows = []
    for run in RUNS:
        found, said = figures(run, read_votes(place.path(run.file))), run.printed
        answered, epsilon = found["answered_all_rows"], found["epsilon_all_rows_theorem6"]
        tight = found["epsilon_all_rows_tight"]
        numbers = (f"{answered:.2f}", f"{said.epsilon:.2f}", f"{epsilon:.6f}", f"{tight:.4f}")
        rows.append((run.name, run.queries, said.answered, *numbers))
    columns = ["data", "queries", "answered, paper", "ours", "epsilon, paper", "theorem6", "tight"]
    place.table("Table 1: Confident-GNMax, averages over every row of the file", columns, rows)


def table_2(place: Workplace) -> None:
    """Show each row of Table 2, and what may be said instead."""
    for run in RUNS:
        found = figures(run, read_votes(place.path(run.file)))
        title = f"Table 2: {run.name}, the first {run.queries} rows, delta {run.delta:g}"
        place.table(title, ["what", "paper", "ours", "status"], _lines(run, found))


Line = tuple[str, str, str, str]


def _lines(run: Run, found: dict[str, float]) -> list[Line]:
    printed = run.printed
    said, tuned = f"{printed.expected_epsilon:.2f}", "tuned on the votes"

    def line(what: str, key: str, digits: int, status: str, paper: str = "") -> Line:
        return what, paper, f"{found[key]:.{digits}f}", status

    def noisy(theorem: str) -> str:
        return f"{found[f'sanitised_{theorem}']:.4f} ± {found['noise_of_release']:.3f}"

    return [
        line("expected answers", "answered", 2, "secret"),
        line("order", "best_order_theorem6", 1, tuned, f"{run.order:.1f}"),
        line("epsilon by theorem6", "epsilon_theorem6", 6, "secret", said),
        line("  with tight answers", "epsilon_tight_answers", 4, "secret"),
        line("  and exact checks", "epsilon_tight_classic", 4, "secret"),
        line("  and improved conversion", "epsilon_tight", 4, "secret"),
        line(f"worst case, {printed.answered} answers", "worst_capped", 4, "known before"),
        line("worst case, no cap", "worst_uncapped", 4, "known before"),
        line("beta", "beta", 7, tuned, f"{printed.beta:.4f}"),
        line("sigma_SS", "sigma_ss", 4, tuned, f"{printed.sigma_ss:.2f}"),
        line("SS by theorem6", "smooth_theorem6", 5, "secret", printed.smooth),
        line("  at the printed beta", "smooth_theorem6_at_printed_beta", 5, "secret"),
        line("SS, tight, same beta", "smooth_tight_at_that_beta", 5, "secret"),
        ("sanitised, Theorem 23", f"{printed.sanitised:.2f}", noisy("theorem23"), "false"),
        ("sanitised, correct theorem", "", noisy("correct"), tuned),
        line("sanitised, two stages", "sanitised_two_stage", 4, "may be published"),
        line("  worst case beside it", "worst_beside_two_stage", 4, "may be published"),
    ]
