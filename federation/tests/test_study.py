"""The document: one text, checked field by field; and what a site's policy and pins refuse."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from network import CLASSES, INPUTS, QUERIES, make_coordinator
from scipy.optimize import brentq
from scipy.stats import norm

from tacit.errors import InvalidArgument, Refused
from tacit.ledger import Budget, Ledger, canonical
from tacit.mechanisms import GNMax, LNMax, NoisyVotes, Plan, SharedVotes
from tacit_federation import (
    Policy,
    ServerSettings,
    SigningKey,
    Study,
    StudySite,
    Window,
    inputs_file,
)
from tacit_federation.approval import check_study, sending_time
from tacit_federation.study import SIGNED_AS


@pytest.fixture
def document(sealed):
    return json.loads(sealed[0].text)


def places(value, path=()):
    """Every place in a document where there is an object."""
    if isinstance(value, dict):
        yield path
        for name, each in value.items():
            yield from places(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from places(each, (*path, number))


def at(document, path):
    for name in path:
        document = document[name]
    return document


def test_a_document_is_read_as_it_was_written_and_named_by_its_hash(sealed, document):
    study = sealed[0]
    assert canonical(document) == study.text
    assert Study.read(study.text) == study
    assert len(study.hash) == 64
    with pytest.raises(InvalidArgument, match="canonical"):
        Study.read(json.dumps(document))  # the same, written in another way
    with pytest.raises(InvalidArgument, match="1 MiB"):
        Study.read(canonical({**document, "title": "x" * (1 << 20)}))


def test_fields_that_are_unknown_or_missing_are_refused_wherever_they_are(sealed, document):
    found = [path for path in places(document) if path != ("plan", "parameters")]
    assert len(found) >= 9
    for path in found:
        changed = json.loads(sealed[0].text)
        at(changed, path)["more"] = 1
        with pytest.raises(InvalidArgument):
            Study.read(canonical(changed))
        for name in list(at(document, path)):
            changed = json.loads(sealed[0].text)
            del at(changed, path)[name]
            with pytest.raises(InvalidArgument):
                Study.read(canonical(changed))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "tacit-study/2"},
        {"mode": "two-aggregators"},
        {"absent": "zero"},
        {"title": ""},
        {"title": "two\nlines"},
        {"nonce": "ff"},
        {"overlap": 0},
        {"overlap": 2},  # the plan prices one
        {"unit": "site"},  # two teachers a site, and the plan prices one vote
        {"answers": {"kind": "votes", "classes": 1}},
        {"answers": {"kind": "codes", "classes": 3}},
        {"quorum": {"sites": 3, "teachers": 2}},
        {"quorum": {"sites": 2, "teachers": 5}},
        {"quorum": {"sites": True, "teachers": 2}},
        {"window": {"opens": 10, "closes": 10, "slot_seconds": 1, "extensions": []}},
        {"window": {"opens": 10, "closes": 20, "slot_seconds": 1, "extensions": [15]}},
        {"window": {"opens": 10, "closes": 20, "slot_seconds": 0, "extensions": []}},
        {"window": {"opens": 10, "closes": 1 << 53, "slot_seconds": 1, "extensions": []}},
        {"plan": Plan(NoisyVotes(4), QUERIES + 1).as_dict()},
        {"plan": Plan(NoisyVotes(4), QUERIES, n_teachers=4).as_dict()},
        {"plan": Plan(NoisyVotes(4), QUERIES, n_classes=CLASSES + 1).as_dict()},
        {"plan": Plan(NoisyVotes(4, votes_per_unit=2), QUERIES).as_dict()},
        {"plan": {**Plan(NoisyVotes(4), QUERIES).as_dict(), "mechanism": "sanitise"}},
        {"plan": {**Plan(NoisyVotes(4), QUERIES).as_dict(), "parameters": {"sigma": -4.0}}},
        {"plan": {**Plan(NoisyVotes(4), QUERIES).as_dict(), "parameters": {"code": "x"}}},
        {"servers": []},
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(document, change):
    with pytest.raises(InvalidArgument):
        Study.read(canonical({**document, **change}))


def test_sites_have_names_and_keys_of_their_own(document):
    first, second = document["sites"]
    for odd in ({**second, "id": first["id"]}, {**second, "key": first["key"]}):
        with pytest.raises(InvalidArgument, match="their own"):
            Study.read(canonical({**document, "sites": [first, odd]}))
    with pytest.raises(InvalidArgument, match="valid"):
        Study.read(canonical({**document, "sites": [first, {**second, "id": "../x"}]}))


def with_aggregators(servers):
    """A coordinator and two aggregators, each with all of its own."""
    more = [
        {
            **servers[0],
            "role": role,
            "url": f"https://{role}.example",
            "key": SigningKey.generate().public,
            "ca": digit * 64,
            "ledger": digit * 64,
        }
        for role, digit in (("first", "1"), ("second", "2"))
    ]
    return [*servers, *more]


def by_hand(queries, sigma, votes):
    """Epsilon at delta 1e-5 of mu^2 = 2 queries votes^2 / sigma^2, by the Gaussian's own curve."""
    mu = votes * math.sqrt(2 * queries) / sigma

    def beyond(epsilon):
        lost = norm.cdf(mu / 2 - epsilon / mu)
        return lost - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - 1e-5

    return brentq(beyond, 0, 50)


@pytest.mark.parametrize(
    ("unit", "overlap", "plan", "epsilon"),
    [
        ("patient", 1, Plan(NoisyVotes(40), 100), 1.36),
        ("patient", 2, Plan(NoisyVotes(40, votes_per_unit=2), 100), 2.94),
        ("site", 1, Plan(GNMax(40, votes_per_unit=3), 100), 4.69),
        ("patient", 1, Plan(SharedVotes(40), 100), 1.36),
        ("patient", 2, Plan(SharedVotes(40, votes_per_unit=2), 100), 2.94),
        ("site", 1, Plan(SharedVotes(40, votes_per_unit=3), 100), 4.69),
    ],
)
def test_a_plan_is_priced_for_what_unit_and_overlap_ask(document, unit, overlap, plan, epsilon):
    first, second = document["sites"]
    sites = [first, {**second, "teachers": 3}]
    shape = {**document["inputs"], "shape": [100, 2]}
    about = {"unit": unit, "overlap": overlap, "plan": plan.as_dict(), "sites": sites}
    if isinstance(plan.mechanism, SharedVotes):
        about |= {"mode": "two-aggregators", "servers": with_aggregators(document["servers"])}
    study = Study.read(canonical({**document, **about, "inputs": shape}))
    assert round(study.plan.epsilon(1e-5), 2) == epsilon
    assert by_hand(100, 40.0, study.plan.mechanism.votes_per_unit) == pytest.approx(
        epsilon, abs=5e-3
    )
    if study.mode == "two-aggregators":
        return
    lnmax = {"plan": Plan(LNMax(0.05), 100).as_dict(), "overlap": 2, "unit": "patient"}
    with pytest.raises(InvalidArgument, match="votes_per_unit"):
        Study.read(canonical({**document, **about, **lnmax, "inputs": shape}))


def test_sending_times_are_slots_of_the_second_half(sealed):
    window = Window(1000, 2000, 50)
    study = dataclasses.replace(sealed[0], window=window)
    drawn = {sending_time(study, 1000) for _ in range(500)}
    assert min(drawn) == 1500
    assert max(drawn) == 1950
    assert len(drawn) == 10
    late = {sending_time(study, 1849.5) for _ in range(200)}
    assert late == {1850, 1900, 1950}


class TestPolicy:
    @pytest.fixture
    def asked(self, sealed, tmp_path):
        """Everything that a site checks, which holds; a test changes one thing."""
        study, officer = sealed[0], SigningKey.generate()
        server = study.servers[0]
        site = study.sites[0]
        return {
            "study": study,
            "signed": (officer.public, officer.sign(SIGNED_AS, study.hash)),
            "policy": Policy([officer.public], ["coordinator"], 1e6, 10, 2, 2),
            "agreed": {},
            "servers": {server.url: {"ca": server.ca, "key": server.key, "name": site.id}},
            "name": site.id,
            "key": site.key,
            "ledger": Ledger(tmp_path / "l", budget=Budget(1e6, 1e-6), unit="patient"),
        }

    def test_what_holds_is_approved(self, asked):
        assert isinstance(check_study(asked.pop("study"), asked.pop("signed"), **asked), StudySite)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"officers": []}, "officer"),
            ({"modes": []}, "mode"),
            ({"most_epsilon": 5.0}, "most_epsilon"),
            ({"most_queries": QUERIES - 1}, "most_queries"),
            ({"least_sites": 3}, "least_sites"),
            ({"least_teachers": 3}, "least_teachers"),
        ],
    )
    def test_policy_refuses_first(self, asked, change, why):
        policy = dataclasses.replace(asked.pop("policy"), **change)
        with pytest.raises(Refused, match=why):
            check_study(asked.pop("study"), asked.pop("signed"), policy=policy, **asked)
        assert len(asked["ledger"]) == 0

    def test_signatures_pins_names_and_units_are_compared(self, asked, tmp_path):
        study, signed = asked.pop("study"), asked.pop("signed")
        ((url, pins),) = asked["servers"].items()
        other = Ledger(tmp_path / "scans", budget=Budget(1e6, 1e-6), unit="scan")
        forged = (signed[0], SigningKey.generate().sign(SIGNED_AS, study.hash))
        as_other = (signed[0], signed[1][:-2] + ("00" if signed[1][-2:] != "00" else "11"))
        for change in (
            {"servers": {}},
            {"servers": {url: {**pins, "key": "0" * 64}}},
            {"servers": {url: {**pins, "ca": "0" * 64}}},
            {"name": "site-9"},
            {"key": "0" * 64},
            {"ledger": other},
        ):
            with pytest.raises(Refused):
                check_study(study, signed, **{**asked, **change})
        for wrong in (forged, as_other):
            with pytest.raises(Refused, match="signature"):
                check_study(study, wrong, **asked)


def test_files_of_settings_are_read_as_written_and_odd_keys_refused(tmp_path):
    policy = Policy(["ab" * 32], ["coordinator"], least_sites=4)
    policy.write(tmp_path / "policy.toml")
    assert Policy.read(tmp_path / "policy.toml") == policy
    settings = ServerSettings('a "university"', "https://127.0.0.1:1")
    settings.write(tmp_path / "federation.toml")
    assert ServerSettings.read(tmp_path / "federation.toml") == settings
    (tmp_path / "policy.toml").write_text("officers = []\nmodes = []\nmore = 1\n")
    with pytest.raises(InvalidArgument, match="'more'"):
        Policy.read(tmp_path / "policy.toml")
    for text in ("officers = []\n", "officers = 3\nmodes = []\n", "= ="):
        (tmp_path / "policy.toml").write_text(text)
        with pytest.raises(InvalidArgument):
            Policy.read(tmp_path / "policy.toml")


def test_a_coordinator_takes_no_study_of_another(tmp_path, sealed):
    place = make_coordinator(tmp_path / "other")
    with pytest.raises(InvalidArgument, match="this coordinator"):
        place.add(sealed[0], inputs_file(INPUTS))
    with pytest.raises(InvalidArgument, match="new or empty"):
        make_coordinator(tmp_path / "other")
    place.close()


def test_where_the_unit_is_a_site_all_teachers_of_the_largest_sites_are_priced(document):
    first, second = document["sites"]
    sites = [{**first, "teachers": 3}, {**second, "teachers": 2}]
    for overlap, asked in ((1, 3), (2, 5)):
        change = {"unit": "site", "overlap": overlap, "sites": sites}
        for votes in (asked - 1, asked + 1):
            plan = Plan(NoisyVotes(4, votes_per_unit=votes), QUERIES).as_dict()
            with pytest.raises(InvalidArgument, match=f"votes_per_unit={asked}"):
                Study.read(canonical({**document, **change, "plan": plan}))
        plan = Plan(NoisyVotes(4, votes_per_unit=asked), QUERIES).as_dict()
        assert Study.read(canonical({**document, **change, "plan": plan})).unit == "site"
