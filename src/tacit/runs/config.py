"""The configuration of a run: one TOML file, checked before anything is read or spent."""

from __future__ import annotations

import dataclasses
import filecmp
import inspect
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from tacit._checks import at_least, flag, one_of, refuse, set_checked, word
from tacit._files import toml_text
from tacit._registry import METHODS
from tacit.datasets import named_kind, ships
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.methods import RENAMED, method_named, only_known

Kind = TypeVar("Kind")
_ROUNDING = 1e-9  # what the sum of two shares may be above one


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Sources of the rows, and which of them are private, public and held out.

    Parameters
    ----------
    source : str
        The data set in a word, as `load_dataset` takes it: "digits", "csv:FILE". Private, but for
        rows that the next two declare otherwise.
    private, public : int or float
        How many rows of a set that ships with a package are private, and how many are public
        inputs; or which shares of a file, such as 0.6 and 0.2. 0 with several sources.
    public_source : str
        Public inputs without labels, in a word; "" where one source is split, or where a method
        needs none.
    held_out_source : str
        Rows declared public with their labels, for the metrics; "" if there are none.
    declare_public : bool
        Declares all rows of a file but the private share public. Needed to split one.
    allow_overlap : bool
        Skip the search for private rows that are also public or held out; the ledger then warns of
        it, permanently.
    split_rule : int
        Which rule splits one file: 2 declares that no run of tacit before 0.3 split it, 1 keeps the
        rule of those runs, so that rows which were private stay so. Needed to split one.
    name : str
        Name of the data in the ledger; by default the source, without its folder.
    options : dict
        The loader's arguments: the roles of a CSV file's columns, the classes of an archive.

    Notes
    -----
    A set that ships with a package: a seeded shuffle, then `private` private rows, `public` inputs
    with unused labels, and held-out rows, declared public, for the metrics. One file: shares; the
    hash of each person's id, or of the stored row, decides its side. Several sources: each is one
    part. Networks trained on the records (dpsgd, mac) need no public inputs.
    """

    source: str
    private: int | float = 0
    public: int | float = 0
    public_source: str = ""
    held_out_source: str = ""
    declare_public: bool = False
    allow_overlap: bool = False
    split_rule: int = 0
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_checked(self, source=word, public_source=word, held_out_source=word, name=word)
        # "patients.csv" is a file: whether a source is one decides what may be split, and how.
        for key in ("source", "public_source", "held_out_source"):
            object.__setattr__(self, key, named_kind(getattr(self, key)))
        if not isinstance(self.options, dict):
            raise refuse("options", self.options, "a table, [data.options]")
        set_checked(self, declare_public=flag, allow_overlap=flag)
        if self.split_rule not in (0, 1, 2) or isinstance(self.split_rule, bool):
            raise refuse("split_rule", self.split_rule, "1 or 2")
        self._check_sizes()
        if not (self.private or self.public):
            return
        if self.public_source:
            raise InvalidArgument("Expected public_source, or private and public; not both.")
        if self.held_out_source:
            raise InvalidArgument(
                "Expected public_source with held_out_source, or neither: of one source that is "
                "split, the rest is held out."
            )
        if not self.by_share:
            at_least(2, private=self.private)
            at_least(2 if self.public else 0, public=self.public)

    @property
    def title(self) -> str:
        """Name of the data; of a file its own, without its folder."""
        kind, colon, place = self.source.partition(":")
        return self.name or f"{kind}{colon}{Path(place).name}"

    @property
    def by_share(self) -> bool:
        """Whether one file is split, by the hashes of its rows."""
        return isinstance(self.private, float)

    @property
    def split_caveat(self) -> str:
        """The ledger's caveat about a file that was split; it depends on no row."""
        rule = " (split rule 2)" if self.split_rule == 2 else ""
        return (
            f"the other rows of {self.title} were declared public{rule}: the student may "
            "hold them, and metrics tell of them; no cost covers them"
        )

    def _check_sizes(self) -> None:
        """Refuse anything but two shares, or two numbers of rows."""
        if self.by_share or isinstance(self.public, float):
            for key, share in (("private", self.private), ("public", self.public)):
                if not (0 < share < 1 or (key == "public" and share == 0)):
                    raise refuse(key, share, "a share of the rows, such as 0.6, as the other is")
            if self.private + self.public > 1 + _ROUNDING:
                raise refuse("private + public", self.private + self.public, "at most 1")
        else:
            at_least(0, private=self.private)
            at_least(0, public=self.public)
        if self.declare_public and not self.by_share:
            raise InvalidArgument(
                "Expected declare_public = true only with shares of one file, such as "
                "private = 0.6 and public = 0.2."
            )

    def check_split(self) -> None:
        """Refuse a file split by numbers of rows, or without `declare_public`.

        Not in the constructor: configurations of earlier versions stay readable.
        """
        if not self.private:
            return
        shipped = ships(self.source)
        if shipped and self.by_share:
            raise refuse("private", self.private, f"a number of rows of {self.source!r}")
        if not shipped and not self.by_share:
            raise InvalidArgument(
                f"Expected private={self.private} and public={self.public} to be shares of a file, "
                "such as private = 0.6 and public = 0.2 with declare_public = true; or "
                "public_source, a file of its own."
            )
        if not shipped and not self.declare_public:
            raise InvalidArgument(
                f"Expected declare_public = true in [data] to split {self.source!r}: all its rows "
                "but the private ones are then public, and the statement says so. Or give "
                "public_source, a file of its own."
            )
        if not shipped and not self.split_rule:
            raise InvalidArgument(
                f"Expected split_rule in [data] to split {self.source!r}: 2 if no run of tacit "
                "before 0.3 split this file, 1 if one did; its private rows could be public by "
                "the other rule."
            )

    def keep_apart(self, **more: str) -> None:
        """Refuse to call a file public whose rows are private, by its name or by its content.

        A student may contain public inputs, and a score on private rows is theirs.

        Parameters
        ----------
        **more : str, further public sources, by their names in errors
        """
        public = {"public_source": self.public_source, "held_out_source": self.held_out_source}
        for key, other in (public | more).items():
            if other and _same_place(self.source, other):
                raise InvalidArgument(
                    f"Expected {key}={other!r} to be another file than source: all its rows are "
                    "private. Keep some rows apart, in a file of their own."
                )


def _same_place(one: str, other: str) -> bool:
    """Whether two sources are the same word, the same path, or files of the same bytes."""
    if one == other:
        return True
    first, second = (Path(source.partition(":")[2] or source) for source in (one, other))
    try:
        if first.samefile(second):
            return True
        files = first.is_file() and second.is_file()
        return files and filecmp.cmp(first, second, shallow=False)
    except (OSError, ValueError):  # whoever reads it will say what is wrong
        return False


@dataclass(frozen=True, slots=True)
class PrivacyConfig:
    """The budget of the run's ledger.

    Parameters
    ----------
    epsilon : float
        Above 0: the most that the run may spend.
    delta : float
        Above 0 and below 1.
    allow_large_delta : bool
        Accept any delta, without comparing it with the number of records or people; the statement
        then warns of that.
    ledger : str
        The path of a ledger that all runs on these data share: `epsilon` is then what this run may
        spend, the ledger's budget what all may, and there is one statement for all. "" for a ledger
        of this run's own, whose statement covers this run alone.
    """

    epsilon: float
    delta: float
    allow_large_delta: bool = False
    ledger: str = ""

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        flag(allow_large_delta=self.allow_large_delta)
        word(ledger=self.ledger)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run: `RunConfig.read("run.toml")`.

    Parameters
    ----------
    data : DataConfig
        Sources of the rows, and their use.
    privacy : PrivacyConfig
        The budget.
    method : str
        The name of a method: "pate", "knn", "dpsgd".
    settings : dict
        The method's own table: arguments of its estimator, with objects named by their words.
    executor : str
        Where teachers are trained or sums are added up: "serial", "local" (processes of this
        machine) or the address of a Dask scheduler. Methods that have neither take "serial" only.
    seed : int
        At least 0: splits a set that ships, and seeds training. Never the noise.
    """

    data: DataConfig
    privacy: PrivacyConfig
    method: str = "pate"
    settings: dict[str, Any] = field(default_factory=dict)
    executor: str = "serial"
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(0, seed=self.seed)
        one_of(*METHODS, method=self.method)
        method = self.learner
        # What is None stands for nothing in a file, so that a written configuration reads the same.
        table = self.settings
        given = isinstance(table, dict) and {k: v for k, v in table.items() if v is not None}
        object.__setattr__(self, "settings", method.read(given))
        if self.learns_numbers and self.settings.get("student") is not None:
            raise refuse("student", self.settings["student"], "left out where numbers are learned")
        streams = method.streams and not self.data.private
        if self.executor != "serial" and not (method.takes("executor") or streams):
            expected = f"'serial' where method = {self.method!r}: nothing in it can be spread"
            raise refuse("executor", self.executor, expected)
        if method.needs_public and not (self.data.public_source or self.data.public):
            raise InvalidArgument(
                "Expected public inputs: public_source, or how many rows of source are private "
                f"and how many public. Networks on the records do without, not {self.method}."
            )

    @property
    def learns_numbers(self) -> bool:
        """Whether the target is numeric: the data declare its bounds, and no classes."""
        return "target_range" in self.data.options

    @property
    def spreads_anything(self) -> bool:
        """Whether the executor is this process, or the method uses it."""
        return self.executor == "serial" or self.learner.takes("executor")

    @property
    def learner(self) -> Any:
        """The method for this run's labels or numbers."""
        return method_named(self.method).for_targets(self.learns_numbers)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file, without any data; a missing or unknown key is named.

        Parameters
        ----------
        path : path

        Returns
        -------
        RunConfig
        """
        return cls.parse(_read_toml(Path(path)))

    @classmethod
    def of_finished(cls, folder: Path) -> Self:
        """Read the configuration of a finished run, also of an earlier version.

        Parameters
        ----------
        folder : path

        Returns
        -------
        RunConfig, in today's names
        """
        raw = _as_named_now(_read_toml(folder / "config.toml"))
        data = raw.get("data")
        if isinstance(data, dict) and isinstance(data.get("private"), float):
            data.setdefault("split_rule", 1)  # of a run of 0.2
        return cls.parse(raw)

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """Build the configuration from plain tables, without reading any data.

        Parameters
        ----------
        raw : dict
            A parsed TOML file: `data`, `privacy`, `method`, and a table of the method's name.

        Returns
        -------
        RunConfig
        """
        parts = dict(raw)
        for name, kind in (("data", DataConfig), ("privacy", PrivacyConfig)):
            parts[name] = section_of(kind, parts.get(name), name)
        method = one_of(*METHODS, method=parts.pop("method", "pate"))
        if strange := [name for name in METHODS if name in parts and name != method]:
            raise InvalidArgument(f"Expected no [{strange[0]}] where method = {method!r}.")
        if "settings" in parts:
            raise InvalidArgument(f"Expected no [settings]: method = {method!r} has [{method}].")
        parts |= {"method": method, "settings": parts.pop(method, {})}
        return section_of(cls, parts, "the configuration")

    def to_toml(self) -> str:
        """Return the resolved configuration, defaults included, as TOML.

        Returns
        -------
        str, from which `read` makes the same configuration
        """
        top = {"method": self.method, "executor": self.executor, "seed": self.seed}
        lines = [f"{key} = {toml_text(value)}" for key, value in top.items()]
        parts = {"data": dataclasses.asdict(self.data), "privacy": dataclasses.asdict(self.privacy)}
        for name, table in (parts | {self.method: self.settings}).items():
            lines += ["", f"[{name}]"]
            lines += [
                f"{key} = {toml_text(each)}" for key, each in table.items() if each is not None
            ]
        return "\n".join(lines) + "\n"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        why = "that is a directory" if path.is_dir() else "there is none that can be read"
        raise InvalidArgument(
            f"Expected a configuration, a TOML file, at {str(path)!r}; {why}."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise InvalidArgument(f"Expected {path.name!r} to be TOML: {error}.") from None


def _as_named_now(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a run of 0.1 in today's names: 0 and some words meant no value."""
    method = str(raw.get("method", "pate"))
    table = raw.get(method)
    if not isinstance(table, dict):
        return raw
    named = {RENAMED.get(str(key), str(key)): value for key, value in table.items()}
    none: dict[str, tuple[Any, ...]] = {"student": ("auto", "itself"), "patch": ([],)}
    none |= {"n_records": (0,), "queries": (0,)}
    return {**raw, method: {k: each for k, each in named.items() if each not in none.get(k, ())}}


def section_of(kind: type[Kind], table: Any, name: str) -> Kind:
    """Return a section of the configuration; an unknown or missing key is named."""
    takes = inspect.signature(kind).parameters
    only_known(table, takes, name)
    required = [key for key, item in takes.items() if item.default is item.empty]
    if missing := [key for key in required if key not in table]:
        raise InvalidArgument(f"Expected {', '.join(missing)} in {name}.")
    try:
        return kind(**table)
    except TypeError as error:
        raise InvalidArgument(f"Expected other types in {name}: {error}.") from None
