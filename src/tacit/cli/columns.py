"""`tacit columns`: what a public file tells about its columns, as a table of run.toml to edit."""

from __future__ import annotations

from pathlib import Path

from tacit._files import write_atomically
from tacit.cli.options import writable
from tacit.cli.show import screen


def columns(
    file: Path,
    *,
    out: Path | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
) -> None:
    """Propose bins and categories from a PUBLIC file, as a table of run.toml to edit.

    Example: tacit columns survey.csv --out columns.toml

    file: A CSV or Parquet file whose rows anybody may see; what is proposed tells of them.
    out: A new file for the table; otherwise it is printed.
    delimiter: What stands between the cells of a CSV file.
    decimal: What stands before the fraction of a number there: "." or ",".
    encoding: How that file is encoded, e.g. latin-1.
    """
    from tacit.datasets import proposed_columns

    if out is not None:
        writable(out)
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
    usual = {"delimiter": ",", "decimal": ".", "encoding": "utf-8"}
    text = proposed_columns(file, **{key: given[key] for key in given if given[key] != usual[key]})
    if out is None:
        screen().print(text, markup=False, highlight=False, soft_wrap=True)
        return
    write_atomically(out, text.encode())
    screen().print(f"Columns: {out}. Check every line, and say which column is the target.")
