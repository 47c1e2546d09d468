"""A griffe extension that shows docstrings as they are written (see `tools.plain_text`)."""

from __future__ import annotations

from typing import Any

import griffe

from tools.plain_text import as_markdown


class PlainText(griffe.Extension):
    """Rewrites every docstring once, when its object has been read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
