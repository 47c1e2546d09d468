"""The task and the methods of a comparison: same rows and same budget for all."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from compare_shared import blobs
from hypothesis import given
from hypothesis import strategies as st

from tacit.comparing import default_rule
from tacit.comparing.cells import settings_of
from tacit.comparing.data import ComparedData, SplitRule, compared_data
from tacit.errors import InvalidArgument
from tacit.methods import Facts, all_rules
from tacit.privacy import gaussian_mu

METHODS = all_rules()


class TestTask:
    def test_the_rule_of_a_set_with_a_test_part_holds_out_a_tenth_of_it(self):
        rule = default_rule(blobs(400, n_train=300))
        assert (rule.public, rule.held_out, rule.shuffled) == (90, 10, True)

    def test_adult_has_the_rows_of_every_page_of_results(self):
        data = replace(blobs(12_000, n_train=500), name="adult")
        rule = default_rule(data)
        assert (rule.public, rule.held_out, rule.shuffled) == (11_000, 500, False)

    @given(seed=st.integers(0, 2**31), own=st.booleans())
    def test_parts_are_disjoint_and_seeded(self, seed, own):
        task = compared_data(blobs(120, n_train=60 if own else None))
        parts = task.parts(seed)
        rows = [set(part.X[:, 2].astype(int)) for part in parts]
        assert not rows[0] & rows[1]
        assert not rows[0] & rows[2]
        assert not rows[1] & rows[2]
        again = task.parts(seed)
        assert all((a.X == b.X).all() for a, b in zip(parts, again, strict=True))

    def test_held_out_rows_count_each_row_once(self):
        task = compared_data(blobs(120))
        rows = [set(task.parts(seed).held_out.X[:, 2]) for seed in range(3)]
        assert task.held_out_rows(3) == len(set.union(*rows))

    def test_another_label_is_another_task(self):
        data = blobs()
        other = replace(data, y=1 - data.y)
        assert compared_data(data).fingerprint() == compared_data(blobs()).fingerprint()
        assert compared_data(data).fingerprint() != compared_data(other).fingerprint()
        assert compared_data(data, public=10).fingerprint() != compared_data(data).fingerprint()

    def test_a_table_is_loaded_by_its_declarations(self):
        draw = np.random.default_rng(0)
        rows = pa.table({"a": draw.normal(size=60), "label": np.arange(60) % 2})
        declared = {"target": "label", "classes": [0, 1], "numeric": ["a"]}
        for table in (rows, rows.to_pandas()):
            task = compared_data(table, options=declared)
            assert task.data.X[:, 0].tolist() == rows["a"].to_pylist()
            with pytest.raises(InvalidArgument, match="beside a table"):
                compared_data(table)
        with pytest.raises(InvalidArgument, match="Expected a table"):
            compared_data(7, options=declared)
        with pytest.warns(UserWarning, match="lie in one of the declared bins"):
            compared_data(rows, options={**declared, "numeric": {"a": [99.0]}})

    def test_people_are_divided_not_rows(self):
        data = replace(blobs(), groups=np.arange(400) // 4)
        task = compared_data(data)
        people = [set(part.groups.tolist()) for part in task.parts(3)]
        assert sum(map(len, people)) == len(set.union(*people)) == 100
        assert abs(len(task.parts(3).public) - task.rule.public) < 4
        assert task.facts().n_private == len({*task.parts(0).private.groups})
        assert task.fingerprint() != compared_data(blobs()).fingerprint()

    def test_people_keep_the_files_order_where_the_rule_does(self):
        """Person 9 has rows in the training part and in the test part."""
        whose = np.r_[np.arange(300) // 2, 9, 500 - np.arange(99) // 3]
        data = replace(blobs(400, n_train=300), groups=whose)
        task = ComparedData(data, SplitRule(60, 30, shuffled=False))
        private, public, held_out = (part.groups.tolist() for part in task.parts(5))
        assert private == [*whose[:300], 9]
        assert public == whose[301:361].tolist()
        assert held_out == whose[361:391].tolist()
        assert "about" in task.rule.words(data)

    def test_a_cell_belongs_to_all_its_people(self):
        """Beyond a thousand numbers the text of an array leaves out its middle."""
        whose = np.arange(1200) // 2
        others = whose.copy()
        others[400:800] = whose[400:800][::-1]
        hashes = {
            ComparedData(replace(blobs(1200), groups=each), SplitRule(60, 30, True)).fingerprint()
            for each in (whose, others)
        }
        assert len(hashes) == 2

    def test_rows_on_two_sides_are_said(self):
        data = blobs()
        assert compared_data(data).overlap() == ""
        twice = replace(data, X=np.tile(data.X[:200], (2, 1)), y=np.tile(data.y[:200], 2))
        assert "equal a private one" in compared_data(twice).overlap()

    def test_another_score_is_another_task(self):
        task = compared_data(blobs(), by="balanced")
        assert task.fingerprint() != compared_data(blobs()).fingerprint()
        with pytest.raises(InvalidArgument, match="by="):
            compared_data(blobs(), by="luck")

    def test_too_many_public_rows_are_refused(self):
        with pytest.raises(InvalidArgument, match="fewer than the rows"):
            compared_data(blobs(), public=399)


class TestMethods:
    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("kind", ["images", "table", "numbers"])
    def test_every_method_gets_exactly_the_budget(self, name, kind):
        from tacit.features import Numeric

        columns = (Numeric("age", [30, 60]),) if kind == "table" else None
        shape = (8, 8) if kind == "images" else None
        facts = Facts(kind, 5000, 900, 64 if shape else 1, ("a", "b"), shape, columns)
        model = METHODS[name].build(facts, 0.7, 1e-6, 3)
        params = model.get_params()
        assert (params["epsilon"], params["delta"], params["random_state"]) == (0.7, 1e-6, 3)
        assert params["classes"] == ("a", "b")
        assert params["noise"] is None
        assert METHODS[name].words

    def test_the_rules_reproduce_what_was_chosen_on_usps(self):
        """docs/results: 1,000 and 2,000 teachers at 0.5 and 0.1, k 1,200 and 2,400 at 0.2, 0.1."""
        mnist = Facts("images", 60_000, 9_000, 784, tuple(range(10)), (28, 28))
        pate = {e: METHODS["pate"].build(mnist, e, 1e-5, 0) for e in (0.5, 0.1)}
        assert {e: m.n_teachers for e, m in pate.items()} == {0.5: 1000, 0.1: 2000}
        assert all(model.queries == 100 for model in pate.values())
        k = {e: METHODS["knn"].build(mnist, e, 1e-5, 0).k for e in (0.2, 0.1)}
        assert abs(k[0.2] / 1200 - 1) < 0.1
        assert abs(k[0.1] / 2400 - 1) < 0.1
        prototypes = {
            e: METHODS["prototype"].build(mnist, e, 1e-5, 0).n_prototypes for e in (0.1, 0.02)
        }
        assert prototypes == {0.1: 300, 0.02: 100}

    @given(n=st.integers(200, 10**6), epsilon=st.floats(0.01, 10), classes=st.integers(2, 20))
    def test_votes_stay_clear_of_the_noise_or_queries_are_few(self, n, epsilon, classes):
        facts = Facts("numbers", n, 500, 4, tuple(range(classes)))
        model = METHODS["pate"].build(facts, epsilon, 1e-9, 0)
        noise = math.sqrt(2 * model.queries) / float(gaussian_mu(epsilon, 1e-9))
        assert model.n_teachers / noise >= 0.95 * 4.5 or model.queries == 2 * classes
        assert 2 <= model.n_teachers <= n

    def test_settings_do_not_depend_on_where_objects_live(self):
        assert settings_of(object()) == settings_of(object())
        mnist = Facts("images", 60_000, 9_000, 784, tuple(range(10)), (28, 28))
        a, b = (METHODS["pate"].build(mnist, e, 1e-5, 0) for e in (0.5, 0.5))
        assert settings_of(a) == settings_of(b)
        assert settings_of(a) != settings_of(b.set_params(queries=99))
