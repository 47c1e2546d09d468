"""The configuration of a run: one TOML file, checked before anything is read or spent."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from tacit._checks import at_least, one_of, refuse, sampling_rate
from tacit.errors import InvalidArgument
from tacit.estimators.knn_planning import MECHANISMS as NEIGHBOUR_MECHANISMS
from tacit.ledger import Budget

Kind = TypeVar("Kind")

METHODS = ("pate", "knn")
FEATURES = ("none", "digits", "bins")
TEACHERS = ("logistic", "kernel-ridge")
STUDENTS = ("label-spreading", "logistic", "cnn", "vat")
MECHANISMS = ("noisy-votes", "gnmax", "confident-gnmax")


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where the rows come from, and which of them are private, public and held out.

    One source: the first `private` rows of a seeded shuffle are private, the next `public` ones are
    inputs whose labels nobody uses, and the rest are held out: declared public, for the metrics.
    Several: all rows of `source` are private, those of `public_source` are inputs without labels,
    and those of `held_out_source`, if there is one, are declared public with their labels.
    `options` go to the loader: the roles of a CSV file's columns, the classes of an archive.
    """

    source: str
    private: int = 0
    public: int = 0
    public_source: str = ""
    held_out_source: str = ""
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("source", "public_source", "held_out_source", "name"):
            if not isinstance(getattr(self, key), str):
                raise refuse(key, getattr(self, key), "a word")
        if not isinstance(self.options, dict):
            raise refuse("options", self.options, "a table, [data.options]")
        if self.public_source:
            if self.private or self.public:
                raise InvalidArgument("Expected public_source, or private and public; not both.")
            return
        if self.held_out_source or not (self.private or self.public):
            raise InvalidArgument(
                "Expected public inputs: public_source, or how many rows of source are private "
                "and how many public."
            )
        at_least(2, private=self.private)
        at_least(2, public=self.public)


@dataclass(frozen=True, slots=True)
class PrivacyConfig:
    """The budget of the run's ledger."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class PateConfig:
    """Teachers, queries and student."""

    teachers: int = 100
    queries: int = 100
    strategy: str = "medoids"
    mechanism: str = "noisy-votes"
    rounds: int = 1
    features: str = "none"
    teacher: str = "kernel-ridge"
    student: str = "label-spreading"

    def __post_init__(self) -> None:
        at_least(1, teachers=self.teachers)
        at_least(1, queries=self.queries)
        at_least(1, rounds=self.rounds)
        one_of("medoids", "random", strategy=self.strategy)
        one_of(*MECHANISMS, mechanism=self.mechanism)
        one_of(*FEATURES, features=self.features)
        one_of(*TEACHERS, teacher=self.teacher)
        one_of(*STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class KnnConfig:
    """Neighbours, queries and student."""

    k: int = 100
    sampling_rate: float = 1.0
    queries: int = 100
    strategy: str = "medoids"
    mechanism: str = "sampled-votes"
    rounds: int = 1
    features: str = "none"
    student: str = "label-spreading"

    def __post_init__(self) -> None:
        at_least(1, k=self.k)
        sampling_rate(sampling_rate=self.sampling_rate)
        at_least(1, queries=self.queries)
        at_least(1, rounds=self.rounds)
        one_of("medoids", "random", strategy=self.strategy)
        one_of(*NEIGHBOUR_MECHANISMS, mechanism=self.mechanism)
        one_of(*FEATURES, features=self.features)
        one_of(*STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run: `RunConfig.read("run.toml")`."""

    data: DataConfig
    privacy: PrivacyConfig
    pate: PateConfig = field(default_factory=PateConfig)
    knn: KnnConfig = field(default_factory=KnnConfig)
    method: str = "pate"
    executor: str = "serial"
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(*METHODS, method=self.method)
        at_least(0, seed=self.seed)
        if self.method == "knn" and self.executor != "serial":
            raise refuse("executor", self.executor, "'serial' where method = 'knn': no teachers")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file; a missing or unknown key is named."""
        path = Path(path)
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise InvalidArgument(f"Expected a configuration at {str(path)!r}.") from None
        except (tomllib.TOMLDecodeError, UnicodeError) as error:
            raise InvalidArgument(f"Expected {path.name!r} to be TOML: {error}.") from None
        return cls.parse(raw)

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """Build the configuration from plain tables."""
        parts = dict(raw)
        sections: dict[str, type] = {
            "data": DataConfig,
            "privacy": PrivacyConfig,
            "pate": PateConfig,
            "knn": KnnConfig,
        }
        for name, kind in sections.items():
            if name in parts or name not in METHODS:
                parts[name] = _section(kind, parts.get(name), name)
        config = _section(cls, parts, "the configuration")
        if strange := [name for name in METHODS if name in parts and name != config.method]:
            raise InvalidArgument(f"Expected no [{strange[0]}] where method = {config.method!r}.")
        return config

    def to_toml(self) -> str:
        """Return the resolved configuration, defaults included, as TOML."""
        tables = dataclasses.asdict(self)
        top = {key: value for key, value in tables.items() if not isinstance(value, dict)}
        lines = [f"{key} = {_toml(value)}" for key, value in top.items()]
        for name in ("data", "privacy", self.method):
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in tables[name].items()]
        return "\n".join(lines) + "\n"


def _section(kind: type[Kind], table: Any, name: str) -> Kind:
    if not isinstance(table, dict):
        raise InvalidArgument(f"Expected a table [{name}] in the configuration.")
    fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(table) - set(fields))
    if unknown:
        raise InvalidArgument(
            f"Expected no {', '.join(unknown)} in {name}; known are {', '.join(fields)}."
        )
    missing = [
        key
        for key, item in fields.items()
        if key not in table
        and item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InvalidArgument(f"Expected {', '.join(missing)} in {name}.")
    try:
        return kind(**table)
    except TypeError as error:
        raise InvalidArgument(f"Expected other types in {name}: {error}.") from None


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_quoted(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _quoted(text: str) -> str:
    """Return a string of TOML: JSON's, except that TOML wants DEL escaped, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
