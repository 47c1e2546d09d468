"""The commands, from keys to a checked release, with their exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from network import CLASSES, INPUTS, QUERIES, make_coordinator, own_ports, served

from tacit import Budget, Ledger
from tacit_federation import Coordinator, Policy
from tacit_federation.commands.site import LONGEST, _pause

NOT_YET, UNREACHABLE, REFUSED = 6, 7, 8
RUN_TOML = """
[data]
source = "csv:patients.csv"
[data.options]
target = "illness"
classes = ["no", "some", "much"]
groups = "patient"
numeric = ["a", "b"]
[pate]
teacher = "logistic"
"""


def write_patients(folder):
    rng = np.random.default_rng(0)
    names = ("no", "some", "much")
    lines = ["patient,a,b,illness"]
    for number in range(40):
        a, b = rng.normal(size=2)
        lines.append(f"p{number},{a:.3f},{b:.3f},{names[number % 3]}")
    (folder / "patients.csv").write_text("\n".join(lines) + "\n")
    (folder / "run.toml").write_text(RUN_TOML)


@pytest.mark.long
def test_a_study_by_commands_alone(tacit, tmp_path, clock):
    port, enrol, console = own_ports(3)
    ports = ("--port", port, "--enrol-port", enrol, "--console-port", console)
    url = f"https://127.0.0.1:{port}"
    tacit("study", "show", code=2)
    about = ("--name", "University", "--url", url, "--listen", "127.0.0.1")
    budget = ("--epsilon", 100, "--delta", 1e-6)
    tacit("study", "init", *about, *budget, *ports)
    tacit("study", "init", *about, *budget, *ports, code=2)
    for name in ("a", "b"):
        tacit("coordinator", "invite", name, "--out", f"{name}.invitation")
    tacit("site", "join", "a.invitation", *budget, "--folder", "a", code=UNREACHABLE)
    np.save("public.npy", INPUTS)
    write_patients(tmp_path)
    coordinator = Coordinator(tmp_path / "coordinator")
    with served(coordinator):
        the_whole_way(tacit, tmp_path, budget, clock)
    coordinator.close()
    tacit("site", "run", "--once", "--folder", "a", code=UNREACHABLE)


def the_whole_way(tacit, tmp_path, budget, clock):
    tacit("site", "join", "a.invitation", "--folder", "x", code=2)  # a new site needs its budget
    for name in ("a", "b"):
        tacit("site", "join", f"{name}.invitation", *budget, "--folder", name)
    tacit("site", "join", "b.invitation", *budget, "--folder", "thief", code=REFUSED)
    draft = ("study", "new", "--title", "Scans", "--purpose", "labels", "--inputs", "public.npy")
    draft += ("--classes", CLASSES, "--mechanism", "noisy-votes:sigma=4", "--teachers", "a=2,b=1")
    draft += ("--quorum-sites", 2, "--slot-seconds", 1, "--hours", 1, "--json")
    study = json.loads(tacit(*draft))["study"]
    tacit("study", "open", study[:8], code=NOT_YET)
    tacit("study", "sign", study[:8])
    tacit("study", "open", study[:8])
    tacit("study", "release", study[:8], code=NOT_YET)
    tacit("study", "close", study[:8], code=NOT_YET)
    for name in ("a", "b"):
        assert study[:8] in tacit("site", "run", "--once", "--folder", name)
        here = ("--folder", name)
        err = tacit("site", "approve", study[:8], "--confirm", study[:8], *here, code=REFUSED)
        assert "least_sites" in err
        policy = Policy.read(tmp_path / name / "policy.toml")
        kept = (policy.officers, policy.modes)
        Policy(*kept, most_epsilon=50, least_sites=2, least_teachers=2, teacher_seconds=60).write(
            tmp_path / name / "policy.toml"
        )
        tacit("site", "answer", study[:8], "--answers", "public.npy", *here, code=NOT_YET)
        shown = tacit("site", "show", study[:8], "--html", f"{name}.html", *here)
        assert "what leaves" in shown
        assert "No record" in (tmp_path / f"{name}.html").read_text()
        tacit("site", "approve", study[:8], "--confirm", "00000000", *here, code=REFUSED)
        tacit("site", "approve", study[:8], "--confirm", study[:8], *here)
        tacit("site", "status", study[:8], *here, code=NOT_YET)
    np.save("answers.npy", np.ones((2, QUERIES), dtype=np.int64))
    tacit("site", "answer", study[:8], "--folder", "a", code=2)
    tacit("site", "answer", study[:8], "--answers", "answers.npy", "--folder", "a")
    again = tacit("site", "answer", study[:8], "--config", "none.toml", "--folder", "a")
    assert "Sealed before" in again
    tacit("site", "answer", study[:8], "--config", "run.toml", "--folder", "b")
    clock.ahead += 3599
    for name in ("a", "b"):
        tacit("site", "run", "--once", "--folder", name)
    clock.ahead += 10
    tacit("study", "close", study[:8])
    check_release(tacit, tmp_path, study)
    tacit("coordinator", "revoke", "b")
    tacit("site", "run", "--once", "--folder", "b", code=REFUSED)


def check_release(tacit, tmp_path, study):
    out = tacit("study", "release", study[:8], "--csv", "labels.csv", "--report", "report.html")
    assert "differentially private" in out
    assert (tmp_path / "labels.csv").read_text().startswith("query,class_0,class_1,class_2\n0,")
    tacit("study", "release", study[:8], "--out", "release.tacit")
    assert "audit log" in tacit("study", "verify", study[:8])
    row = Coordinator(tmp_path / "coordinator").find(study[:8])
    (tmp_path / "study.json").write_text(row["text"])
    public = ("--document", "study.json", "--file", "release.tacit")
    tacit("study", "verify", study[:8], *public)
    damaged = (tmp_path / "release.tacit").read_bytes()
    (tmp_path / "release.tacit").write_bytes(damaged[:-1] + bytes([damaged[-1] ^ 1]))
    tacit("study", "verify", study[:8], *public, code=REFUSED)
    tacit("site", "run", "--once", "--folder", "a")
    tacit("site", "status", study[:8], "--folder", "a")
    assert "presumes" in tacit("site", "status", "--folder", "a")
    tacit("site", "withdraw", study[:8], "--folder", "a", code=REFUSED)
    (tmp_path / "password").write_text("a long enough password\n")
    tacit("coordinator", "officer", "ada", "--password-file", "password")


def test_a_server_that_is_away_for_weeks_is_asked_again():
    assert all(60 <= _pause(60.0, failures) <= LONGEST for failures in (1, 10, 5000))


JOIN = ("site", "join", "a.invitation", "--epsilon", 2, "--delta", 1e-6)


@pytest.fixture
def invitation(tmp_path):
    """An invitation of a coordinator that does not answer."""
    place = make_coordinator(tmp_path / "coordinator")
    (tmp_path / "a.invitation").write_text(place.invite("a"))
    place.close()


def test_a_join_that_fails_says_what_stays_and_compares_every_term(tacit, tmp_path, invitation):
    said = tacit(*JOIN, code=UNREACHABLE)
    assert "site was made, with keys and a ledger of epsilon = 2" in said
    assert not (tmp_path / "site" / "policy.toml").exists()
    terms = {"--epsilon": 8, "--delta": 1e-5, "--unit": "person", "--dataset": "scans"}
    for name, other in terms.items():
        said = tacit("site", "join", "a.invitation", name, other, code=4)
        assert str(other) in said
        assert "as fixed when the ledger was created" in said
    assert "site was made" not in tacit(*JOIN, code=UNREACHABLE)
    assert Ledger(tmp_path / "site" / "site.ledger").budget == Budget(2.0, 1e-6)


def test_a_join_without_an_invitation_leaves_nothing(tacit, tmp_path):
    (tmp_path / "a.invitation").write_text("tacit-invitation-1:no")
    assert "invitation" in tacit(*JOIN, code=2)
    assert not (tmp_path / "site").exists()


def test_a_new_password_leaves_the_role_as_it_was(tacit, tmp_path, invitation):
    (tmp_path / "password").write_text("a long enough password")
    officer = ("coordinator", "officer", "--password-file", "password")
    assert "as officer" in tacit(*officer, "ada")
    assert "as analyst" in tacit(*officer, "ben", "--role", "analyst")
    assert "as analyst" in tacit(*officer, "ben")
