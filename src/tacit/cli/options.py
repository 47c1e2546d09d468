"""What commands take: their options, and how these become a mechanism, a ledger, an output."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit._progress import spinner
from tacit._registry import MECHANISMS, mechanism_class
from tacit.cli.show import Result, errors
from tacit.errors import InvalidArgument

if TYPE_CHECKING:  # --help and tab completion wait for no numerical library
    from tacit.ledger import Budget, Ledger
    from tacit.mechanisms import Mechanism, Plan

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C stopped, as shells have it."""
ENTRY_DIGITS = 12
"""How much of an entry's hash stands beside the labels that it paid for."""
SHARED = {
    "votes": "Teacher votes: .npy, .npz or .csv.",
    "format": "histogram (queries, classes) or predictions (teachers, queries); needless for an "
    ".npz with the key votes or predictions.",
    "classes": "Number of classes; needed with predictions.",
    "threshold": "Votes that the check asks for.",
    "sigma_check": "Noise of the check.",
    "sigma_answer": "Noise of the answer.",
    "sigma": "Noise of gnmax and noisy-votes.",
    "gamma": "Inverse noise scale of lnmax.",
    "confidence": "How sure the student must be (interactive-gnmax).",
    "student": "The student's probabilities, .npy (interactive-gnmax).",
    "queries": "Ask only the first N rows.",
    "indices": "Ask only these rows: a file of row numbers.",
    "reserve_delta": "Part of delta kept for `tacit sanitise`; a tenth by default.",
    "report": "Write an HTML report here.",
    "overwrite": "Replace existing outputs.",
    "as_json": "Print JSON for machines.",
    "file": "The ledger file.",
}
"""What several commands take; a command's own docstring may say otherwise."""
_TRIED: dict[str, Any] = {"purpose": "try", "study": "0" * 64, "entrusted": ["nobody"]}
_AS_JSON = inspect.Parameter(
    "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool
)
_SAID = re.compile(r"^(\w+): (.+(?:\n    .+)*)", re.MULTILINE)


def add_commands(app: typer.Typer, *commands: Callable[..., Result | None]) -> None:
    """Add functions as commands: their keyword-only parameters are options, the others arguments.

    Lines "name: what it is" at the end of the docstring are the help of each. What returns a
    `Result` has the option --json.
    """
    for command in commands:
        signature, text = inspect.signature(command, eval_str=True), inspect.getdoc(command) or ""
        said = [line for line in _SAID.finditer(text) if line[1] in signature.parameters]
        about = {**SHARED, **{line[1]: " ".join(line[2].split()) for line in said}}
        has_result = signature.return_annotation is Result
        parameters = [*signature.parameters.values(), *([_AS_JSON] if has_result else [])]
        declared = [_declared(each, about) for each in parameters]
        shown = _printed(command, has_result)
        shown.__signature__ = signature.replace(parameters=declared)  # type: ignore[attr-defined]
        app.command(help=text[: said[0].start()] if said else text)(shown)


def add_group(
    app: typer.Typer, name: str, about: str, *commands: Callable[..., Result | None]
) -> None:
    """Add functions as commands under a name of their own, as `add_commands` does."""
    group = typer.Typer(help=about, no_args_is_help=True)
    add_commands(group, *commands)
    app.add_typer(group, name=name)


def _printed(command: Callable[..., Result | None], has_result: bool) -> Callable[..., None]:
    """Print what a command did; an interrupt ends it with one line that says what to do next."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        as_json = has_result and options.pop("as_json")
        try:
            with spinner():
                result = command(*args, **options)
                if result is not None:
                    result.print(as_json=as_json)
        except KeyboardInterrupt:
            text = f"Interrupted: {_what_next(command.__name__, options)}"
            errors().print(text, soft_wrap=True, highlight=False, markup=False)
            raise typer.Exit(INTERRUPTED) from None

    return run


def _what_next(name: str, options: dict[str, Any]) -> str:
    """Say what an interrupt left, and what to do; `tacit train` knows more of itself.

    >>> _what_next("predict", {})
    'nothing is half written; the same command starts again.'
    """
    out, spent = options.get("out"), options.get("ledger")
    if name == "compare":
        return "finished cells are kept; the same command goes on."
    if name == "audit" and out is not None and out.exists():
        return f"{out} holds the ledger of what it may have spent; start again with another --out."
    if name == "segment" and out is not None and out.is_dir() and any(out.iterdir()):
        return f"the masks in {out} are whole, and not all there; start again with another folder."
    again = "nothing is half written; the same command starts again."
    return again if spent is None else f"{again} What was charged: tacit ledger show {spent}."


def _declared(parameter: inspect.Parameter, about: dict[str, str]) -> inspect.Parameter:
    if parameter.annotation is typer.Context:
        return parameter
    default = ... if parameter.default is parameter.empty else parameter.default
    said = about[parameter.name].replace("MECHANISMS", ", ".join(MECHANISMS))
    if parameter.kind is parameter.KEYWORD_ONLY:
        flag = parameter.name.removeprefix("as_").replace("_", "-")
        return parameter.replace(default=typer.Option(default, f"--{flag}", help=said))
    return parameter.replace(default=typer.Argument(default, help=said, show_default=False))


def given(**asked: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {key: value for key, value in asked.items() if value is not None}


def refuse_given(where: str, **others: Any) -> None:
    """Refuse options that belong elsewhere instead of ignoring them."""
    for key in given(**others):
        raise InvalidArgument(f"Expected no --{key.replace('_', '-')} with {where}.")


def parse_mechanism(text: str) -> Mechanism:
    """Make the mechanism that "name:key=value,..." describes, with what its class names.

    >>> parse_mechanism("gnmax:sigma=40")
    GNMax(sigma=40.0, votes_per_unit=1)
    >>> parse_mechanism("sampled-labels:sigma=20,k=300,clip=l1").clip
    'l1'
    """
    name, _, rest = text.partition(":")
    if name not in MECHANISMS:
        raise InvalidArgument(
            f"Expected --mechanism={name!r} to be one of {', '.join(MECHANISMS)}, with its "
            "parameters."
        )
    values = _values(rest, mechanism_class(name).parameters())
    takes = f"; {name} takes {', '.join(parameters_of(name))}"
    return _made(name, values, lambda key: f"{key} in --mechanism={name}:...{takes}")


def vote_mechanism(text: str, **asked: float | None) -> Mechanism:
    """Make a mechanism that turns votes into classes, of a name with options, or of a description.

    >>> vote_mechanism("gnmax", sigma=40, gamma=None)
    GNMax(sigma=40.0, votes_per_unit=1)
    >>> vote_mechanism("lnmax:gamma=0.05", sigma=None)
    LNMax(gamma=0.05)
    """
    from tacit.mechanisms import VoteMechanism

    if ":" in text or text not in MECHANISMS:
        made = parse_mechanism(text)
        refuse_given(text, **asked)
    else:
        made = _made(text, given(**asked), lambda key: f"--{key.replace('_', '-')} for {text}")
    if not isinstance(made, VoteMechanism):
        raise InvalidArgument(f"Expected a mechanism on teachers' votes, got {made.name}.")
    made.reading()  # refuses one whose releases are no classes
    return made


def parameters_of(name: str) -> list[str]:
    """Return the parameters of a mechanism; those that may be left out with what they are then.

    >>> parameters_of("sampled-mean")
    ['sigma', 'k', 'sampling_rate=1.0', 'low=0.0', 'high=1.0', 'votes_per_unit=1']
    """
    known = mechanism_class(name).parameters().items()
    return [key if default is MISSING else f"{key}={default}" for key, default in known]


def _made(name: str, values: dict[str, Any], where: Callable[[str], str]) -> Mechanism:
    """Refuse a parameter that is missing, and one that the mechanism does not have; make it."""
    kind = mechanism_class(name)
    known: dict[str, Any] = kind.parameters()
    for key, default in known.items():
        if default is MISSING and key not in values:
            raise InvalidArgument(f"Expected {where(key)}.")
    for key in values:
        if key not in known:
            raise InvalidArgument(f"Expected no {where(key)}.")
    made: Mechanism = kind.from_parameters(**values)
    return made


def _values(rest: str, known: dict[str, Any]) -> dict[str, Any]:
    """Read KEY=VALUE,...; each value as the key's default is written."""
    values: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = (each.strip() for each in part.partition("="))
        name = key.replace("-", "_")
        if name in values:
            raise InvalidArgument(f"Expected {key} once in --mechanism, got it twice.")
        values[name] = _value(value, known.get(name), part)
    return values


def _value(value: str, default: Any, part: str) -> Any:
    """Return a word, true or false, or a number, whole if it is."""
    if isinstance(default, str):
        return value
    if isinstance(default, bool) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    for read in (int, float):
        with suppress(ValueError):
            return read(value)
    raise InvalidArgument(f"Expected KEY=NUMBER in --mechanism, got {part!r}.")


def text_of(file: Path, *, stdin: bool = False) -> str:
    """Read a text file, or standard input where it is called "-"."""
    if stdin and str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidArgument(f"Expected {str(file)!r} to be a text file (UTF-8).") from None


def existing(file: Path) -> Ledger:
    """Open a ledger that must exist."""
    from tacit.ledger import Ledger

    if file.is_file():
        return Ledger(file)
    instead = "that is a directory." if file.is_dir() else "there is none."
    if (file / "run.ledger").is_file():
        instead = f"that is a run's directory: did you mean {str(file / 'run.ledger')!r}?"
    raise InvalidArgument(f"Expected a ledger at {str(file)!r}; {instead}")


def same_ledger(path: Path, *, epsilon: float | None, delta: float | None, **asked: Any) -> Ledger:
    """Open a ledger that is there, and refuse every term that was given and is not its own."""
    from tacit.ledger import Budget, Ledger

    own = Ledger(path).budget
    budget = Budget(
        own.epsilon if epsilon is None else epsilon, own.delta if delta is None else delta
    )
    return Ledger(path, budget=budget, **given(**asked))


def open_ledger(path: Path, plan: Plan, asked: dict[str, Any]) -> Ledger:
    """Open the ledger, which must have the terms that were given, or create it with them.

    No ledger is made that could not pay for the plan. A new ledger's accountant, if left to us, is
    the one that prices this plan lower: the plan is public, so the choice is too. A tenth of delta
    is reserved so that a sanitised statement can be bought later.
    """
    from tacit.ledger import Budget, Ledger

    epsilon, delta, reserve = (asked.pop(name) for name in ("epsilon", "delta", "reserve_delta"))
    asked |= {name: asked[name] or None for name in ("unit", "allow_large_delta")}
    if path.exists():
        if asked["accountant"] == "auto":
            del asked["accountant"]
        return same_ledger(path, epsilon=epsilon, delta=delta, reserved_delta=reserve, **asked)
    if epsilon is None or delta is None:
        raise InvalidArgument(
            f"Expected --epsilon and --delta: {str(path)!r} does not exist yet, and a new ledger "
            "needs its budget."
        )
    kept = reserved(delta, reserve)
    if asked["accountant"] == "auto":
        within = Budget(epsilon, delta - kept)
        asked["accountant"] = _cheaper_accountant(plan, within)
    terms = {**asked, "budget": Budget(epsilon, delta), "reserved_delta": kept}
    with tempfile.TemporaryDirectory() as folder:  # what this one refuses, the new one would
        Ledger(Path(folder) / "tried", **terms).charge(plan, **_TRIED)
    return Ledger(path, **terms)


def reserved(delta: float, reserve: float | None) -> float:
    """Return the part of delta that is kept for confidence bounds."""
    kept = float(f"{delta / 10:.6g}") if reserve is None else reserve
    if not 0 <= kept < delta:
        raise InvalidArgument(f"Expected --reserve-delta={kept} to be at least 0 and below delta.")
    return kept


def _cheaper_accountant(plan: Plan, budget: Budget) -> str:
    """Return "gaussian" or "rdp": which of them lets this plan use less of the budget."""
    from tacit.ledger import GaussianAccountant, RdpAccountant, best_order

    if plan.mu_squared() is None:
        return "rdp"
    gaussian = GaussianAccountant.within(budget, budget.delta)
    try:
        rdp = RdpAccountant.within(budget, budget.delta, best_order(budget, budget.delta))
    except InvalidArgument:
        return "gaussian"
    shares = (each.cost(plan, 0) / each.capacity for each in (gaussian, rdp))
    return "gaussian" if next(shares) <= next(shares) else "rdp"


def writable(*paths: Path | None, overwrite: bool | None = None) -> None:
    """Refuse, before anything is spent, an output that could not be written afterwards."""
    for path in paths:
        if path is None:
            continue
        if path.exists() and not overwrite:
            raise InvalidArgument(
                f"Expected {str(path)!r} to be new: nothing is overwritten."
                if overwrite is None
                else f"Expected {str(path)!r} not to exist; choose another or --overwrite."
            )
        if not path.parent.is_dir():
            raise InvalidArgument(f"Expected the directory {str(path.parent)!r} to exist; make it.")
        probe = path.parent / f".{path.name}.probe"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InvalidArgument(
                f"Expected {str(path)!r} to be writable: {error.strerror or error}."
            ) from None
