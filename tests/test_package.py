"""What importing tacit loads, and what its top level offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys

import pytest

import tacit
import tacit.privacy

HEAVY = [
    "torch",
    "sklearn",
    "scipy.optimize",
    "scipy.stats",
    "scipy.integrate",
    "matplotlib",
    "dp_accounting",
    "pandas",
    "opacus",
    "monai",
    "nibabel",
    "dask",
    "distributed",
    "joblib",
    "jinja2",
    "typer",
    "rich",
    "mpmath",
]


def modules_after(statement: str) -> set[str]:
    """Which modules a fresh interpreter has loaded after `statement`."""
    script = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    return set(json.loads(run.stdout))


def test_help_and_tab_completion_wait_for_no_numerical_library():
    loaded = modules_after("from tacit.cli.app import full_app; full_app()")
    assert not loaded & {*HEAVY, "numpy", "scipy", "httpx", "starlette"} - {"typer", "rich"}


class TestLaziness:
    def test_the_probe_sees_what_is_loaded(self):
        assert "scipy.optimize" in modules_after("import scipy.optimize")

    def test_import_tacit_loads_nothing_but_itself(self):
        loaded = modules_after("import tacit")
        assert "tacit" in loaded
        assert loaded.isdisjoint([*HEAVY, "numpy", "scipy", "randomgen", "sqlite3"])

    @pytest.mark.parametrize(
        "statement",
        [
            "import tacit.privacy",
            "import tacit.noise",
            "import tacit.mechanisms",
            "import tacit.ledger",
            "import tacit; tacit.GNMax(sigma=40); tacit.Ledger; tacit.SecureNoise",
        ],
    )
    def test_lower_floors_load_nothing_heavy(self, statement):
        assert sorted(modules_after(statement).intersection(HEAVY)) == []

    def test_pricing_loads_nothing_heavy(self):
        """Nor do the prices themselves, once computed."""
        statement = (
            "from tacit import privacy as p\n"
            "p.calibrate_gaussian(1, 1, 1e-5)\n"
            "p.worst_case_epsilon(1e-5, 1.0, p.RdpCurve([8], p.lnmax_rdp_worst(0.1, [8])))\n"
            "p.poisson_gaussian_rdp(0.1, 1, [2, 2.5]); p.gnss_rdp(14, 0.01, 5)\n"
            "p.threshold_rdp_worst(4, 2, 0, 8, [2]); p.gnmax_rdp([[5, 1]], 2, [2])"
        )
        assert sorted(modules_after(statement).intersection(HEAVY)) == []


class TestTopLevel:
    def test_every_promised_name_resolves(self):
        for name in tacit.__all__:
            assert getattr(tacit, name) is not None

    def test_names_come_from_their_home(self):
        for name, home in tacit._HOME.items():
            assert getattr(tacit, name) is getattr(importlib.import_module(home), name)

    def test_dir_lists_them(self):
        assert dir(tacit) == sorted(tacit.__all__)
        assert {"GNMax", "Ledger", "Plan", "SecureNoise", "__version__"} <= set(dir(tacit))

    def test_unknown_names_are_attribute_errors(self):
        with pytest.raises(AttributeError, match="module 'tacit' has no attribute 'GNMacks'"):
            _ = tacit.GNMacks
        assert not hasattr(tacit, "_private")
        with pytest.raises(ImportError, match="GNMacks"):
            exec("from tacit import GNMacks")

    def test_a_star_import_brings_every_name(self):
        namespace: dict[str, object] = {}
        exec("from tacit import *", namespace)
        assert set(tacit.__all__) <= set(namespace)

    def test_type_checkers_see_the_same_names(self):
        """What is imported for type checkers only is what resolves when the program runs."""
        tree = ast.parse(inspect.getsource(tacit))
        blocks = [node for node in tree.body if isinstance(node, ast.If)]
        imports = [node for block in blocks for node in block.body]
        declared = {
            alias.name: node.module
            for node in imports
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert declared == tacit._HOME

    def test_version(self):
        assert tacit.__version__.split(".")[0].isdigit()


class TestPrivacyNamespace:
    def test_is_flat_sorted_and_complete(self):
        names = tacit.privacy.__all__
        assert len(set(names)) == len(names)
        assert names == sorted(names, key=lambda name: (name.lower() == name, name))
        for name in names:
            assert getattr(tacit.privacy, name) is not None

    @pytest.mark.parametrize("name", tacit.privacy.__all__)
    def test_every_function_shows_an_example(self, name):
        member = getattr(tacit.privacy, name)
        if inspect.isfunction(member):
            assert ">>> " in (member.__doc__ or "")
