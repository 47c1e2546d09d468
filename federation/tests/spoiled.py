"""A teacher that its own records can spoil, in a module that is quick to import."""

from __future__ import annotations

import os

import numpy as np


class Spoiled:
    """Answers class 2, unless a record of its own says what to do instead."""

    def __init__(self, fails=False):
        self.fails = fails

    def get_params(self, deep=True):
        return {"fails": self.fails}

    def set_params(self, **_):
        return self

    def fit(self, X, y):
        for row in np.asarray(X):
            if row[0] == 666.0:
                raise ValueError("a record that cannot be read")
            if row[0] == 667.0:
                os._exit(3)
            if row[0] == 669.0:
                bytearray(1 << 40)
            print("a teacher that talks about its records", row)
        return self

    def predict(self, X):
        return np.full(len(X), 99 if self.fails else 2)
