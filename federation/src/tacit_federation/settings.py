"""federation.toml of a server and policy.toml of a site, checked before anything is done.

Their keys are dataclass fields, from which docs/reference/federation.md is written.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

from tacit._checks import at_least, positive, refuse, set_checked, word
from tacit._files import toml_text, write_atomically
from tacit.errors import InvalidArgument
from tacit_federation.keys import is_key
from tacit_federation.study import MODES, is_address

_PORTS = (1, 65_535)


class _Table:
    """Base of TOML files of plain keys."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file; a missing or unknown key is named."""
        try:
            with path.open("rb") as file:
                given = tomllib.load(file)
        except FileNotFoundError:
            raise InvalidArgument(
                f"Expected a file {str(path)!r}; make it, or join first."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"Expected {str(path)!r} to be TOML: {error}.") from None
        made: Any = cls
        known = {each.name for each in fields(made)}
        if odd := sorted(set(given) - known):
            raise InvalidArgument(f"Expected no key {odd[0]!r} in {path.name}.")
        try:
            return cls(**given)
        except TypeError:
            raise InvalidArgument(f"Expected every required key in {path.name}.") from None

    def write(self, path: Path) -> None:
        """Write all keys."""
        made: Any = self
        lines = [f"{each.name} = {toml_text(getattr(self, each.name))}" for each in fields(made)]
        write_atomically(path, ("\n".join(lines) + "\n").encode())


@dataclass(frozen=True, slots=True)
class ServerSettings(_Table):
    """federation.toml: name and addresses of a coordinator.

    Parameters
    ----------
    name : str
        Name of this organisation for people, and in statements of sites.
    url : str
        Its address for sites: https:// and a host, with the port of `port` unless a proxy passes
        bytes on.
    host : str
        The address to listen on.
    port : int
        For members, who show a certificate.
    enrol_port : int
        For those who have an invitation and no certificate yet.
    console_host : str
        The address of the console for people; loopback unless you put something before it.
    console_port : int
        The console's port.
    most_connections : int
        More at a time are turned away.
    """

    name: str
    url: str
    host: str = "0.0.0.0"
    port: int = 8443
    enrol_port: int = 8442
    console_host: str = "127.0.0.1"
    console_port: int = 8444
    most_connections: int = 1000

    def __post_init__(self) -> None:
        set_checked(self, name=word, url=word, host=word, console_host=word)
        set_checked(self, most_connections=partial(at_least, 1))
        for key in ("port", "enrol_port", "console_port"):
            value = getattr(self, key)
            if type(value) is not int or not _PORTS[0] <= value <= _PORTS[1]:
                raise refuse(key, value, "a port, 1 to 65535")
        if not is_address(self.url):
            raise refuse("url", self.url, "https:// and a host, perhaps with a port")


@dataclass(frozen=True, slots=True)
class Policy(_Table):
    """policy.toml: what a site refuses before its steward is asked.

    Parameters
    ----------
    officers : list of str
        Public keys that may sign studies.
    modes : list of str
        Allowed modes of studies: "coordinator".
    most_epsilon : float
        The most that one study may cost, at the delta of the site's ledger.
    most_queries : int
        The most queries of one study.
    least_sites : int
        The least quorum of sites: in a smaller sum, the others' counts hide less from a curious
        coordinator.
    least_teachers : int
        The least quorum of teachers.
    teacher_seconds : int
        Processor seconds of each teacher; one that takes more answers class 0.
    teacher_megabytes : int
        Memory of each teacher.
    most_input_megabytes : int
        The most public inputs of one study that are fetched.
    """

    officers: list[str]
    modes: list[str]
    most_epsilon: float = 1.0
    most_queries: int = 20_000
    least_sites: int = 3
    least_teachers: int = 3
    teacher_seconds: int = 600
    teacher_megabytes: int = 4096
    most_input_megabytes: int = 1024

    def __post_init__(self) -> None:
        listed = isinstance(self.officers, list) and all(is_key(key) for key in self.officers)
        if not listed:
            raise refuse("officers", self.officers, "a list of public keys, 64 digits each")
        if not isinstance(self.modes, list) or not set(self.modes) <= set(MODES):
            raise refuse("modes", self.modes, f"a list of {', '.join(MODES)}")
        set_checked(self, most_epsilon=positive)
        for key in ("most_queries", "most_input_megabytes", "least_sites", "least_teachers"):
            set_checked(self, **{key: partial(at_least, 1)})
        set_checked(self, teacher_seconds=partial(at_least, 1))
        set_checked(self, teacher_megabytes=partial(at_least, 64))
