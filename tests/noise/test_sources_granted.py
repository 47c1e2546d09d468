"""GrantedNoise and admit: a mechanism draws only what an open grant pays for."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise, admit

DRAWS: dict[str, Callable[[GrantedNoise | InsecureNoise], np.ndarray]] = {
    "gaussian": lambda noise: noise.gaussian(2.0, (3, 2)),
    "laplace": lambda noise: noise.laplace(2.0, (3, 2)),
    "rounded_gaussian_steps": lambda noise: noise.rounded_gaussian_steps(2.0, 0.1, (3, 2)),
    "bernoulli": lambda noise: noise.bernoulli(0.3, (3, 2)),
    "poisson_mask": lambda noise: noise.poisson_mask(0.3, (3, 2)),
    "geometric": lambda noise: noise.geometric(0.3, (3, 2)),
}

every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


@every_draw
def test_draws_are_those_of_the_source(draw: Callable[..., np.ndarray]) -> None:
    granted = GrantedNoise(InsecureNoise(11), entry="abc")
    np.testing.assert_array_equal(draw(granted), draw(InsecureNoise(11)))


@every_draw
@pytest.mark.parametrize("source", [SecureNoise(), InsecureNoise(1)], ids=repr)
def test_a_closed_grant_never_draws(
    draw: Callable[..., np.ndarray], source: SecureNoise | InsecureNoise
) -> None:
    noise = GrantedNoise(source, entry="abc")
    draw(noise)
    noise.close()
    noise.close()
    with pytest.raises(GrantError, match=r"'abc' is closed; .*ledger\.release\(plan\)"):
        draw(noise)


def test_says_which_entry_paid_and_whether_it_is_secure() -> None:
    secure = GrantedNoise(SecureNoise(), entry="abc")
    insecure = GrantedNoise(InsecureNoise(1), entry="def")
    assert (secure.entry, secure.secure) == ("abc", True)
    assert (insecure.entry, insecure.secure) == ("def", False)
    secure.close()
    assert (secure.entry, secure.secure) == ("abc", True)
    assert repr(secure) == "GrantedNoise(entry='abc', secure=True, closed)"
    assert repr(insecure) == "GrantedNoise(entry='def', secure=False, open)"


@pytest.mark.parametrize("attribute", ["entry", "secure", "note"])
def test_nothing_can_be_relabelled(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(GrantedNoise(InsecureNoise(1), entry="abc"), attribute, "other")


class PretendedNoise(SecureNoise):  # type: ignore[misc]  # final: this is what must not pass
    def gaussian(self, sigma: object, size: object) -> np.ndarray:  # type: ignore[override]
        return np.zeros(3)


@pytest.mark.parametrize(
    "source", [None, 7, np.random.default_rng(1), PretendedNoise(), "SecureNoise"]
)
def test_only_the_two_sources_can_be_granted(source: SecureNoise) -> None:
    with pytest.raises(InvalidArgument, match=r"Expected source=.*SecureNoise"):
        GrantedNoise(source, entry="abc")


def test_a_grant_is_not_granted_again() -> None:
    with pytest.raises(InvalidArgument, match="Expected source="):
        GrantedNoise(GrantedNoise(SecureNoise(), entry="a"), entry="b")  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ["", None, 5, b"abc"])
def test_the_entry_must_be_a_hash(entry: str) -> None:
    with pytest.raises(InvalidArgument, match="Expected entry="):
        GrantedNoise(SecureNoise(), entry=entry)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("source", [SecureNoise(), InsecureNoise(1)], ids=repr)
def test_cannot_be_copied_or_pickled(
    duplicate: Callable[[object], object], source: SecureNoise | InsecureNoise
) -> None:
    with pytest.raises(TypeError, match="outlive its grant"):
        duplicate(GrantedNoise(source, entry="abc"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_open_grant_does_not_draw_in_a_child() -> None:
    noise = GrantedNoise(SecureNoise(), entry="abc")
    pid = os.fork()
    if pid == 0:
        verdict = 1
        try:
            admit(noise)
        except GrantError as error:
            verdict = 0 if "belongs to another process" in str(error) else 2
        finally:
            os._exit(verdict)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert noise.gaussian(1.0, 2).shape == (2,)


def test_admit_returns_the_entry_of_an_open_grant() -> None:
    assert admit(GrantedNoise(SecureNoise(), entry="abc")) == "abc"
    assert admit(GrantedNoise(InsecureNoise(1), entry="def")) == "def"


def test_admit_returns_none_for_insecure_noise() -> None:
    assert admit(InsecureNoise(1)) is None


def test_admit_refuses_a_closed_grant() -> None:
    noise = GrantedNoise(SecureNoise(), entry="abc")
    noise.close()
    with pytest.raises(GrantError, match="closed"):
        admit(noise)


class LookAlike:
    secure = True
    entry = "abc"


@pytest.mark.parametrize(
    "noise",
    [
        SecureNoise(),
        PretendedNoise(),
        LookAlike(),
        np.random.default_rng(1),
        None,
        0,
        GrantedNoise,
        InsecureNoise,
    ],
)
def test_admit_refuses_everything_else(noise: object) -> None:
    with pytest.raises(UnlicensedNoise, match=r"with ledger\.release\(plan\) as grant"):
        admit(noise)
