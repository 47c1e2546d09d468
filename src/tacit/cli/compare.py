"""`tacit compare`: which method to use on a kind of data, measured, at equal budgets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tacit._progress import last_line
from tacit.cli.show import WIDE, Result, errors, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.comparing import Comparison, Row

LEVELS = "0.1,0.2,0.5,1,2,8"


def compare(
    *,
    data: str,
    out: Path,
    methods: str = "",
    epsilon: str = LEVELS,
    delta: float = 1e-5,
    seeds: int = 3,
    public: int | None = None,
    held_out: int | None = None,
    loader: Path | None = None,
    by: str = "accuracy",
    limit: float | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    retry_failed: bool = False,
) -> Result:
    r"""Run methods on the same rows and budget; say which to use when. Resumes when run again.

    NOT private: it reads the labels of all rows. For public data, or rows declared public.
    Methods: pate, knn, prototype, moments, ridge, mac, dpsgd, layerwise, gd.
    Numbers (target_range in the loader's options): knn, moments, ridge, by R^2.
    More methods, epsilons or seeds may be added to a folder later.
    Example: tacit compare --data digits --methods prototype,ridge --epsilon 1,8 --out compared

    data: digits, affairs, mnist:DIR, adult:DIR, npz:FILE or csv:FILE: public data.
    out: The folder of finished cells, tables and figures.
    methods: Names with commas between them; all by default.
    epsilon: Budgets, with commas between them.
    delta: Delta of every budget.
    seeds: How often each cell is repeated.
    public: Public inputs, if not by rule.
    held_out: Held-out rows, if not by rule.
    loader: TOML with \[data.options], as for `tacit train`: a CSV's roles.
    by: accuracy; for rare classes balanced, or of two classes auc. Numbers go by R^2.
    limit: Seconds after which a cell counts as failed.
    minutes: After so many no cell is begun any more; run it again for the rest.
    jobs: Cells at a time, one thread each.
    retry_failed: Run cells again that failed.
    """
    from tacit.comparing import NOT_PRIVATE
    from tacit.comparing import compare as run

    names = [name.strip() for name in methods.split(",") if name.strip()] or None
    sizes = {"public": public, "held_out": held_out, "limit": limit, "jobs": jobs, "seeds": seeds}
    asked = {"methods": names, "epsilon": _numbers(epsilon), "delta": delta, **sizes}
    settings: dict[str, Any] = {**asked, "by": by, "minutes": minutes}
    settings |= {"options": _loader_options(loader), "retry_failed": retry_failed}
    errors().print(f"[bold yellow]Note:[/] {NOT_PRIVATE}", soft_wrap=True, highlight=False)
    try:
        result = _with_progress(run, data, {**settings, "out": out})
    except InvalidArgument as error:
        if loader is None and ("target" in str(error) or "classes" in str(error)):
            raise InvalidArgument(
                f"{error} For a table, say what its columns are: --loader FILE, a TOML file with "
                "[data.options], as for tacit train."
            ) from None
        raise
    return Result(result.to_dict(), lambda: show(result, out))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidArgument(
            f"Expected --epsilon={text!r} to be numbers with commas between them."
        ) from None


def _loader_options(path: Path | None) -> dict[str, Any] | None:
    """Read [data.options] of a configuration."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))["data"]["options"]
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, KeyError, TypeError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument(f"Expected --loader={str(path)!r} to be TOML with [data.options].")
    return found


def _with_progress(run: Any, data: str, settings: dict[str, Any]) -> Comparison:
    """Run under a bar that counts cells, those of an earlier run included."""
    counted = (MofNCompleteColumn(), TimeElapsedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *counted)
    with last_line(), Progress(*columns, console=errors(), transient=True) as bar:
        task = bar.add_task("Comparing", total=None)

        def watch(label: str, done: int, total: int) -> None:
            bar.update(task, description=f"Done: {label}", completed=done, total=total)

        result: Comparison = run(data, watch=watch, **settings)
    return result


def show(result: Comparison, out: Path) -> None:
    """Print the table, the advice, and where the files are."""
    from tacit.comparing import advice, warnings_of

    levels, wide = result.epsilons, screen().width >= WIDE
    what = "mean (smallest)" if wide else "mean"
    title = f"{result.about.data}: {result.about.score} in %, {what}, by epsilon"
    title += f" at delta {result.about.delta:g}"
    lines, rows = [], {(row.method, row.epsilon): row for row in result.rows()}
    for name in [*result.methods, *result.about.references]:
        mine = [row for key, row in rows.items() if key[0] == name]
        cells = [_cell(rows.get((name, level), rows.get((name, None))), wide) for level in levels]
        lines.append([result.about.title(name), *cells, *_cost(mine)])
    print_table(title, ["method", *(f"{level:g}" for level in levels), "CPU-s", "MiB"], lines)
    for sentence in advice(result):
        screen().print(f"- {sentence}", highlight=False, soft_wrap=True)
    for text in warnings_of(result):
        screen().print(f"[yellow]Warning:[/] {escape(text)}", highlight=False, soft_wrap=True)
    screen().print(f"Page: {out / 'comparison.md'}, figure: {out / 'comparison.png'}")


def _cell(row: Row | None, wide: bool) -> str:
    if row is None:
        return "not run"
    if row.accuracy is None or row.least is None:
        return row.reasons[0].partition(":")[0] if row.reasons else "failed"
    smallest = f" ({100 * row.least:.1f})" if wide and row.runs > 1 else ""
    return f"{100 * row.accuracy:.1f}{smallest}"


def _cost(rows: list[Row]) -> tuple[str, str]:
    """Return the mean CPU-seconds of a cell and the highest peak of memory."""
    seconds = [row.cpu for row in rows if row.cpu is not None]
    memory = [row.memory for row in rows if row.memory is not None]
    if not seconds or not memory:
        return "-", "-"
    return f"{sum(seconds) / len(seconds):.1f}", f"{max(memory):,.0f}"
