"""`make check-dist`: the wheels must work where nothing else of tacit is.

Looks into wheels and source archives, installs tacit with its dependencies into an environment of
its own, far from the sources, and runs the command from there: version, demo, a price. Then
tacit-federation, which adds its commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

WHEEL_HOLDS = ("tacit/py.typed", "tacit/cli/app.py", "/licenses/LICENSE")
SOURCES_HOLD = ("/LICENSE", "/SECURITY.md", "/CHANGELOG.md", "/README.md", "/src/tacit/py.typed",
                "/conftest.py", "/papers/__main__.py", "/docs/theory.md")  # fmt: skip
FEDERATION_HOLDS = ("tacit_federation/commands/__init__.py", "tacit_federation/py.typed",
                    "tacit_federation/tables/site.sql", "tacit_federation/templates/study.html",
                    "/LICENSE")  # fmt: skip
FORBIDDEN = ("__pycache__", ".ledger", ".venv", "/site/")


def check_names(kind: str, names: list[str], wanted: tuple[str, ...]) -> None:
    """Stop unless every wanted file is there, and nothing that should not be."""
    missing = [end for end in wanted if not any(name.endswith(end) for name in names)]
    strange = [name for name in names if any(part in name for part in FORBIDDEN)]
    if missing or strange:
        raise SystemExit(f"{kind}: missing {missing}, not wanted {strange[:5]}")
    print(f"{kind}: {len(names)} files, licence included")


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of that kind."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]


def run(command: list[str], folder: Path) -> str:
    """Run a command without the sources in sight; stop if it fails."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Check the files in the folder that is named."""
    folder = Path(sys.argv[1]).resolve()
    wheel, sources = only(folder, "tacit-*.whl"), only(folder, "tacit-*.tar.gz")
    federation = only(folder, "tacit_federation-*.whl")
    check_names("wheel", zipfile.ZipFile(wheel).namelist(), WHEEL_HOLDS)
    with tarfile.open(sources) as archive:
        check_names("source archive", archive.getnames(), SOURCES_HOLD)
    check_names("federation's wheel", zipfile.ZipFile(federation).namelist(), FEDERATION_HOLDS)
    with tarfile.open(only(folder, "tacit_federation-*.tar.gz")) as archive:
        check_names("federation's source archive", archive.getnames(), FEDERATION_HOLDS)
    with tempfile.TemporaryDirectory(prefix="tacit-dist-") as place:
        empty = Path(place)
        venv.create(empty / "env", with_pip=True)
        scripts = empty / "env" / ("Scripts" if os.name == "nt" else "bin")
        pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run([*pip, "install", str(wheel)], empty)
        print(run([str(scripts / "tacit"), "--version"], empty).strip())
        result = json.loads(run([str(scripts / "tacit"), "demo", "--json"], empty))
        spent, right = result["statement"]["epsilon"], result["accuracy"]
        print(f"tacit demo: {right:.1%} right at epsilon {spent:.3f}")
        if not (0 < spent <= 2.0 and right > 0.5 and (empty / "tacit-demo").is_dir()):
            raise SystemExit("the demo of the wheel is not what it should be")
        run([str(scripts / "tacit"), "audit", "--mechanism", "gnmax:sigma=40"], empty)
        run([*pip, "install", str(federation)], empty)
        budget = ["--name", "U", "--url", "https://u.example:8443", "--epsilon", "4"]
        run([str(scripts / "tacit"), "study", "init", *budget, "--delta", "1e-6"], empty)
    print("The wheels install into an empty environment and work.")


if __name__ == "__main__":
    main()
