"""A grant works once, here and now, and tells nothing."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import traceback
import warnings
import weakref

import numpy as np
import pytest

from tacit.errors import GrantError
from tacit.ledger.grant import _bind
from tacit.mechanisms import GNMax, Plan

SECRET = 48_151_623


class Answers(np.ndarray):
    """An array that can be watched by a weak reference."""


def watched(rows: int) -> Answers:
    return np.tile([SECRET, 1, 2], (rows, 1)).view(Answers)


def everything_told(error: BaseException) -> str:
    """All that a log of this error would hold: messages of the whole chain of errors."""
    assert error.__cause__ is None
    assert error.__context__ is None
    return "".join(traceback.format_exception(error)) + repr(error)


def test_a_grant_releases_under_its_entry(ledger, plan, votes):
    with ledger.release(plan, purpose="test") as grant:
        release = grant.release(votes)
    assert release.entry == grant.entry.hash == ledger.head
    assert grant.entry == ledger.entries()[0]


def test_a_grant_works_once(ledger, plan, votes):
    with ledger.release(plan, purpose="test") as grant:
        grant.release(votes)
        with pytest.raises(GrantError, match="already used"):
            grant.release(votes)
    assert len(ledger) == 1


def test_a_grant_cannot_be_kept(ledger, plan, votes):
    with ledger.release(plan, purpose="test") as grant:
        pass
    with pytest.raises(GrantError, match="block has ended"):
        grant.release(votes)


def test_a_grant_ends_with_an_error_in_its_block(ledger, plan, votes):
    with pytest.raises(ZeroDivisionError), ledger.release(plan, purpose="test") as grant:
        raise ZeroDivisionError
    with pytest.raises(GrantError):
        grant.release(votes)


@pytest.mark.parametrize("rows", [99, 101])
def test_answers_that_the_plan_did_not_price_stay_charged(ledger, plan, rows):
    with ledger.release(plan, purpose="test") as grant:
        with pytest.raises(GrantError, match=f"100 queries of the plan, got {rows}") as refusal:
            grant.release(watched(rows))
        with pytest.raises(GrantError, match="already used"):
            grant.release(watched(100))
    assert str(SECRET) not in everything_told(refusal.value)
    assert len(ledger) == 1


@pytest.mark.parametrize("where", ["accept", "release"])
def test_a_foreign_error_is_not_quoted(ledger, fakes, where):
    plan = Plan(fakes.Telltale(where=where), queries=1)
    with ledger.release(plan, purpose="test") as grant, pytest.raises(GrantError) as refusal:
        grant.release([SECRET])
    assert "RuntimeError" in str(refusal.value)
    assert str(SECRET) not in everything_told(refusal.value)
    assert len(ledger) == 1


def test_an_error_of_the_mechanism_says_that_the_entry_stays(ledger, plan, votes, monkeypatch):
    """Its own InvalidArgument would claim that nothing was spent."""
    from tacit.errors import InvalidArgument

    def fail(self, answers, noise):
        raise InvalidArgument("Expected something public.")

    monkeypatch.setattr(GNMax, "release", fail)
    with (
        ledger.release(plan, purpose="test") as grant,
        pytest.raises(GrantError, match=r"something public\. The entry stays charged") as refusal,
    ):
        grant.release(votes)
    everything_told(refusal.value)


def test_a_release_that_nobody_paid_for_is_withheld(ledger, fakes):
    plan = Plan(fakes.Unpaid(), queries=1)
    with ledger.release(plan, purpose="test") as grant, pytest.raises(GrantError, match="unpaid"):
        grant.release([0])


def test_a_plan_cannot_change_after_it_was_paid_for(ledger, fakes):
    mechanism = fakes.Base(0.01)
    with ledger.release(Plan(mechanism, queries=1), purpose="test") as grant:
        object.__setattr__(mechanism, "square", 1.0)
        with pytest.raises(GrantError, match="changed"):
            grant.release([0])


class Lazy:
    """Makes its array when it is asked, each time another."""

    def __init__(self, *arrays, error=None):
        self.arrays, self.error = list(arrays), error

    def __array__(self, dtype=None, copy=None):
        if self.error is not None:
            raise self.error
        return np.asarray(self.arrays.pop(0) if len(self.arrays) > 1 else self.arrays[0])


def test_answers_are_read_once(ledger):
    """Read again they could be a thousand rows, of which one was paid for."""
    one, many = np.full((1, 3), 5), np.full((1000, 3), 5)
    plan = Plan(GNMax(40.0), queries=1)
    with ledger.release(plan, purpose="test") as grant:
        assert grant.release(Lazy(one, many)).labels.shape == (1,)


def test_answers_that_cannot_be_read_are_not_quoted(ledger, plan):
    with ledger.release(plan, purpose="test") as grant, pytest.raises(GrantError) as refusal:
        grant.release(Lazy(error=RuntimeError(str(SECRET))))
    assert "RuntimeError" in str(refusal.value)
    assert str(SECRET) not in everything_told(refusal.value)


def test_a_plan_that_changes_while_it_is_used_releases_nothing(ledger, fakes, monkeypatch):
    mechanism = fakes.Base(0.01)
    honest = type(mechanism).release

    def changing(self, answers, noise):
        released = honest(self, answers, noise)
        object.__setattr__(mechanism, "square", 1.0)
        return released

    monkeypatch.setattr(type(mechanism), "release", changing)
    plan = Plan(mechanism, queries=1)
    with ledger.release(plan, purpose="test") as grant, pytest.raises(GrantError, match="changed"):
        grant.release([0])


def test_a_selective_mechanism_gets_its_cap_and_public_arguments(ledger, fakes):
    for cap, expected in ((3, 3), (None, -7)):
        plan = Plan(fakes.Selective(0.001), queries=5, max_answers=cap)
        with ledger.release(plan, purpose="test") as grant:
            assert grant.release([0] * 5, student=9).labels.tolist() == [expected, 9]


@pytest.mark.parametrize("public", [{"max_answers": 5}, {"studnt": 9}])
def test_arguments_that_the_mechanism_does_not_take_are_named(ledger, fakes, public):
    plan = Plan(fakes.Selective(0.001), queries=5, max_answers=3)
    (named,) = public
    with ledger.release(plan, purpose="test") as grant, pytest.raises(GrantError, match=named):
        grant.release([0] * 5, **public)


def test_a_release_that_is_no_method_is_asked_for_its_own_arguments():
    _bind(lambda answers, noise: None, 1, 2)
    with pytest.raises(TypeError):
        _bind(lambda answers: None, 1, 2)


def test_a_grant_cannot_be_pickled_or_copied(ledger, plan):
    with ledger.release(plan, purpose="test") as grant:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                attempt(grant)


def test_a_grant_holds_no_answers_and_shows_none(ledger, plan):
    answers = watched(100)
    watch = weakref.ref(answers)
    with ledger.release(plan, purpose="test") as grant:
        grant.release(answers)
        del answers
        gc.collect()
        assert watch() is None
        assert repr(grant) == f"Grant(entry={grant.entry.hash!r})"


def test_a_forked_child_cannot_use_its_parent_s_grant(ledger, plan, votes, monkeypatch):
    """The child is simulated first, for the message, and then real."""
    with ledger.release(plan, purpose="test") as grant:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(GrantError, match="another process"):
                grant.release(votes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if child == 0:
            try:
                grant.release(votes)
                os._exit(0)
            except GrantError:
                os._exit(42)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        assert len(grant.release(votes)) == 100  # the parent's own is still good
