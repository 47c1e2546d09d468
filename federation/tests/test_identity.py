"""Who may do what: certificates, roles, tokens, pins, replays. Each refusal changes nothing."""

from __future__ import annotations

import dataclasses
import datetime
import ssl

import httpx
import pytest
from network import (
    answers_of,
    draft,
    make_coordinator,
    make_site,
    opened,
    sealed_body,
    served,
    state_of,
)

from tacit import count_votes
from tacit.errors import InvalidArgument, Refused, Unreachable
from tacit_federation import SigningKey, Site, Study, certificates
from tacit_federation.certificates import Authority, client_context, new_request
from tacit_federation.client import Client
from tacit_federation.members import Invitation
from tacit_federation.messages import seal_answers
from tacit_federation.service import renew_server

HEADERS = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream"}


def client_of(site: Site) -> Client:
    (url,) = site.servers()
    return site.client(url)


def raw(coordinator, folder, method="GET", path="/studies", content=None, headers=HEADERS):
    """Ask as a member with the certificate in this folder, or with none."""
    context = client_context(coordinator.authority.pem, folder)
    with httpx.Client(verify=context, trust_env=False, timeout=10) as http:
        url = f"{coordinator.settings.url}/v1{path}"
        return http.request(method, url, content=content, headers=headers)


def other_certificate(folder, authority: Authority, name="hospital-a"):
    folder.mkdir()
    csr = new_request(folder, name)
    (folder / "tls.pem").write_bytes(authority.issue_client(csr, name))
    return folder


def test_without_a_certificate_nobody_comes_in(server):
    coordinator, _ = server
    with pytest.raises(httpx.HTTPError):
        raw(coordinator, None)


def test_a_foreign_authority_of_the_same_name_lets_nobody_in(server, tmp_path):
    coordinator, _ = server
    (tmp_path / "ca").mkdir()
    foreign = Authority.create(tmp_path / "ca", coordinator.settings.name)
    with pytest.raises(httpx.HTTPError):
        raw(coordinator, other_certificate(tmp_path / "x", foreign))


def test_an_expired_certificate_is_refused_and_the_site_says_why(server, tmp_path, monkeypatch):
    coordinator, site = server
    monkeypatch.setattr(certificates, "LEAF_DAYS", 0)
    monkeypatch.setattr(certificates, "_EARLY", datetime.timedelta(days=2))
    with monkeypatch.context() as patched:
        patched.setattr(certificates.datetime, "datetime", _Yesterday)
        folder = other_certificate(tmp_path / "old", coordinator.authority)
    with pytest.raises(httpx.HTTPError):
        raw(coordinator, folder)
    place = site.server_folder(coordinator.settings.url)
    (place / "tls.pem").write_bytes((folder / "tls.pem").read_bytes())
    with pytest.raises(Refused, match="valid now"):
        site.run_once()


class _Yesterday(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) - datetime.timedelta(days=1)


def test_a_servers_certificate_is_no_members(server, tmp_path):
    coordinator, _ = server
    folder = tmp_path / "server"
    folder.mkdir()
    for end in ("key", "pem"):
        text = (coordinator.folder / "keys" / f"server.{end}").read_bytes()
        (folder / f"tls.{end}").write_bytes(text)
    with pytest.raises(httpx.HTTPError):
        raw(coordinator, folder)


def test_a_certificate_that_no_row_names_is_refused(server, tmp_path):
    """Issued by the right authority, never enrolled: rights come from the table alone."""
    coordinator, _ = server
    folder = other_certificate(tmp_path / "x", coordinator.authority)
    assert raw(coordinator, folder).status_code == 403


def test_tls_1_2_is_refused(server):
    coordinator, site = server
    place = site.server_folder(coordinator.settings.url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=coordinator.authority.pem.decode())
    context.load_cert_chain(place / "tls.pem", place / "tls.key")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        httpx.Client(verify=context, trust_env=False) as http,
        pytest.raises(httpx.HTTPError),
    ):
        http.get(f"{coordinator.settings.url}/v1/studies", headers=HEADERS)


def test_another_protocol_is_told_so(server):
    coordinator, site = server
    place = site.server_folder(coordinator.settings.url)
    assert raw(coordinator, place, headers={"Tacit-Protocol": "2"}).status_code == 426


def test_revocation_is_immediate_on_an_open_connection(server):
    place, site = server
    client = client_of(site)
    assert client.ask("GET", "/studies").status == 200
    place.revoke("hospital-a")
    with pytest.raises(Refused, match="revoked"):  # the connection is still open
        client.ask("GET", "/studies")


def test_revocation_is_immediate_on_an_open_connection_and_drops_the_answer(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_body(sites[0], study)
    reply = client_of(sites[0]).ask("PUT", f"/studies/{study.hash}/answers", body)
    assert reply.status == 201
    coordinator.revoke("hospital-a")
    with pytest.raises(Refused, match="revoked"):  # the connection is still open
        client_of(sites[0]).ask("GET", "/studies")
    row = coordinator.presence(study.hash)["hospital-a"]
    assert (row["answered"], row["dropped"]) == (False, "revoked")
    assert not list((coordinator.folder / "answers").iterdir())
    with pytest.raises(InvalidArgument, match="member"):
        coordinator.revoke("hospital-a")


def test_an_analyst_reads_and_sends_nothing(network, tmp_path):
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_body(sites[0], study)
    analyst = Site.create(tmp_path / "analyst", budget=sites[0].ledger.budget, unit="patient")
    analyst.join(coordinator.invite("somebody", "analyst"))
    before = state_of(coordinator)
    client = client_of(analyst)
    assert client.ask("GET", f"/studies/{study.hash}/document").status == 200
    for method, path in (("PUT", "answers"), ("PUT", "approval"), ("DELETE", "answers")):
        with pytest.raises(Refused, match="site"):
            client.ask(method, f"/studies/{study.hash}/{path}", body)
    assert state_of(coordinator) == before
    analyst.close()


def test_a_token_works_once_and_again_only_for_the_same_key(server, tmp_path, clock):
    coordinator, member = server
    line = coordinator.invite("hospital-d")
    budget = member.ledger.budget
    site = Site.create(tmp_path / "d", budget=budget, unit="patient", clock=clock)
    site.join(line)
    place = site.server_folder(coordinator.settings.url)
    first = (place / "tls.pem").read_bytes()
    site.join(line)  # as after a crash before the certificate was stored
    assert (place / "tls.pem").read_bytes() == first
    thief = Site.create(tmp_path / "thief", budget=budget, unit="patient")
    with pytest.raises(Refused, match="not used"):
        thief.join(line)
    clock.ahead += 2 * 86_400
    with pytest.raises(Refused, match="not used"):
        site.join(line)
    site.close()
    thief.close()


def test_wrong_and_old_tokens_are_refused_and_soon_slowed_down(server, tmp_path, clock):
    coordinator, member = server
    budget = member.ledger.budget
    site = Site.create(tmp_path / "d", budget=budget, unit="patient")
    line = coordinator.invite("hospital-d")
    invited = Invitation.read(line)
    clock.ahead += 8 * 86_400
    with pytest.raises(Refused, match="expired"):
        site.join(line)
    before = state_of(coordinator)
    for number in range(9):
        wrong = Invitation(**{**{k: getattr(invited, k) for k in invited.__slots__}, "token": "x"})
        with pytest.raises(Refused, match="given out"):
            site.join(wrong.text())
        assert number < 9
    with pytest.raises(Refused, match="429"):
        site.join(line)
    assert state_of(coordinator) == before
    site.close()


def test_a_name_is_invited_once_it_is_free(network):
    coordinator, _ = network
    for wrong in ("hospital-a", "Hospital", "a b", "", "../x"):
        with pytest.raises(InvalidArgument):
            coordinator.invite(wrong)
    with pytest.raises(InvalidArgument, match="role"):
        coordinator.invite("somebody", "officer")


def test_an_invitation_to_a_line_that_anybody_can_read_is_none(coordinator):
    invited = Invitation.read(coordinator.invite("hospital-a"))
    for address in ("http://127.0.0.1:1", "https://a@b", "https://a/b", "https://", "ftp://a", "a"):
        for field in ("url", "enrol"):
            other = dataclasses.replace(invited, **{field: address})
            with pytest.raises(InvalidArgument, match="Expected an invitation"):
                Invitation.read(other.text())


def test_an_invitation_under_another_name_than_was_joined_is_refused(network):
    coordinator, sites = network
    with pytest.raises(Refused, match="'hospital-a', as which it was joined, not 'other'"):
        sites[0].join(coordinator.invite("other"))


def test_officers_that_the_policy_does_not_name_stay_so(network, tmp_path):
    """Another server's invitation names its own; a person adds them, or does not."""
    _, sites = network
    before = sites[0].policy.officers
    other = make_coordinator(tmp_path / "other")
    with served(other):
        sites[0].join(other.invite("hospital-a"))
    assert sites[0].policy.officers == before
    other.close()


def test_a_study_is_signed_by_one_officer(network):
    coordinator, _ = network
    study, other = draft(coordinator), SigningKey.generate()
    with (coordinator.folder / "officers").open("a") as file:
        file.write(f"{other.public}\n")
    mine = SigningKey.open(coordinator.folder / "officer.key")
    for _ in range(2):
        coordinator.sign(study.hash, mine)
    with pytest.raises(Refused, match="nobody else has signed"):
        coordinator.sign(study.hash, other)


def test_an_impostor_of_the_server_is_not_talked_to(server, tmp_path):
    """Another coordinator at the same address: its authority is not the one that was pinned."""
    coordinator, site = server
    other = make_coordinator(tmp_path / "other")
    with served(other):
        url = coordinator.settings.url
        pin = site.servers()[url]["ca"]
        client = Client(site.server_folder(url), other.settings.url, pin=pin)
        with pytest.raises(Unreachable):
            client.ask("GET", "/studies")
        client.close()
    other.close()


def test_answers_are_not_taken_for_another_site_or_another_study(network):
    coordinator, sites = network
    first, second = opened(coordinator), opened(coordinator, title="another study")
    body = sealed_body(sites[0], first)
    for site in sites[:2]:
        site.run_once()
        site.approve(second.hash, hash=second.hash)
        site.run_once()
    before = state_of(coordinator)
    for site, study in ((sites[1], first), (sites[0], second), (sites[1], second)):
        reply = client_of(site).ask("PUT", f"/studies/{study.hash}/answers", body)
        assert reply.status == 422
    assert state_of(coordinator) == before


def test_the_first_answer_wins_and_the_same_again_gets_the_same_receipt(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    bodies = [sealed_body(site, study, number) for number, site in enumerate(sites)]
    path = f"/studies/{study.hash}/answers"
    replies = [
        client_of(site).ask("PUT", path, body) for site, body in zip(sites, bodies, strict=True)
    ]
    assert [reply.status for reply in replies] == [201, 201, 201]
    again = client_of(sites[0]).ask("PUT", path, bodies[0])
    assert (again.status, again.body) == (200, replies[0].body)
    site = sites[0]
    other = seal_answers(study, study.site("hospital-a"), _counts(5), site.key, "1" * 32)
    assert client_of(site).ask("PUT", path, other).status == 409
    clock.ahead += 4000
    coordinator.tick()
    assert coordinator.find(study.hash)["state"] == "closed"
    late = client_of(sites[0]).ask("PUT", path, bodies[0])
    assert (late.status, late.body) == (200, replies[0].body)
    assert b"digest" not in replies[0].body


def _counts(number):
    return count_votes(answers_of(number), 3)


def test_too_late_is_too_late(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_body(sites[0], study)
    clock.ahead += 4000
    path = f"/studies/{study.hash}/answers"
    assert client_of(sites[0]).ask("PUT", path, body).status == 410
    coordinator.tick()
    assert client_of(sites[0]).ask("PUT", path, body).status == 410
    sites[0].run_once()
    assert sites[0].find(study.hash).state == "absent"
    assert not list((sites[0].folder / "sealed").iterdir())


def test_without_an_approval_no_answer_is_taken(network):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    body = seal_answers(study, study.site("hospital-a"), _counts(0), site.key, "1" * 32)
    reply = client_of(site).ask("PUT", f"/studies/{study.hash}/answers", body)
    assert reply.status == 409
    assert not coordinator.presence(study.hash)["hospital-a"]["answered"]


def test_a_site_outside_of_a_study_is_refused(network, tmp_path):
    coordinator, sites = network
    study = opened(coordinator, teachers={"hospital-a": 2, "hospital-b": 2})
    assert isinstance(study, Study)
    sites[2].run_once()
    assert sites[2].studies() == []
    with pytest.raises(Refused, match="names"):
        client_of(sites[2]).ask("PUT", f"/studies/{study.hash}/answers", b"x" * 10)


def test_a_certificate_is_renewed_from_day_60_on(network, clock):
    coordinator, sites = network
    place = sites[0].server_folder(coordinator.settings.url)
    first = (place / "tls.pem").read_bytes()
    sites[0].run_once()
    assert (place / "tls.pem").read_bytes() == first
    clock.ahead += 61 * 86_400
    sites[0].run_once()
    second = (place / "tls.pem").read_bytes()
    assert second != first
    clock.ahead = 0
    sites[0].run_once()
    assert (place / "tls.pem").stat().st_mode & 0o777 in (0o600, 0o644)
    assert (place / "tls.key").stat().st_mode & 0o777 == 0o600


def test_keys_are_for_their_owner_alone(network, tmp_path):
    coordinator, sites = network
    secret = [
        *(coordinator.folder / "keys").glob("*.key"),
        coordinator.folder / "officer.key",
        coordinator.folder / "state.sqlite",
        *(sites[0].folder / "keys").iterdir(),
        sites[0].folder / "state.sqlite",
    ]
    assert {path.stat().st_mode & 0o077 for path in secret} == {0}
    make_site(tmp_path / "e", coordinator, "hospital-e").close()


def test_a_servers_own_certificate_is_renewed_for_the_same_names(network, clock):
    coordinator, sites = network
    path = coordinator.folder / "keys" / "server.pem"
    first = path.read_bytes()
    assert not renew_server(coordinator)
    clock.ahead += 61 * 86_400
    assert renew_server(coordinator)
    assert path.read_bytes() != first
    assert certificates.hosts_of(path.read_bytes()) == ["127.0.0.1", "localhost"]
    clock.ahead = 0
    sites[0].run_once()


def test_a_server_gets_no_answers_to_the_study_of_another(network, tmp_path, clock):
    """One that this site joined as well, under the same name, shows a study that it copied."""
    coordinator, sites = network
    study = draft(coordinator)
    coordinator.sign(study.hash, SigningKey.open(coordinator.folder / "officer.key"))
    signed = coordinator.find(study.hash)
    other = make_coordinator(tmp_path / "other", clock)
    with served(other):
        sites[0].join(other.invite("hospital-a"))
        with other.database.writing() as rows:
            query = "INSERT INTO studies VALUES (?, ?, 'open', ?, ?, ?, NULL, NULL, NULL)"
            keys = ("hash", "text", "officer", "signature", "closes")
            rows.execute(query, tuple(signed[key] for key in keys))
        assert any("left alone" in line for line in sites[0].run_once())
        assert sites[0].studies() == []
        coordinator.open(study.hash)
        sites[0].run_once()
        assert sites[0].asked(study.hash).study == study
        with sites[0].database.writing() as rows:
            rows.execute("UPDATE studies SET server = ?", (other.settings.url,))
        with pytest.raises(Refused, match="server that showed it"):
            sites[0].approve(study.hash, hash=study.hash)
        assert len(sites[0].ledger) == 0
    other.close()
