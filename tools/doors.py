"""An import contract: a package is entered through its `__init__`, never past it."""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, fields, output


class DoorsContract(Contract):
    """No module imports a module that lies within another package of `container`."""

    type_name = "doors"
    container = fields.StringField()

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Look at every direct import."""
        past = sorted(
            f"{importer} -> {imported}"
            for imported in graph.modules
            if (package := self._package(imported)) not in (imported, str(self.container))
            for importer in graph.find_modules_that_directly_import(imported)
            if self._package(importer) != package
        )
        return ContractCheck(kept=not past, metadata={"past": past})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name each import that reaches past a door."""
        for line in check.metadata["past"]:
            output.print_error(line)

    def _package(self, module: str) -> str:
        """Return the package of the container that a module belongs to, or is."""
        depth = str(self.container).count(".") + 2
        return ".".join(module.split(".")[:depth])
