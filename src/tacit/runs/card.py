"""The model card of a run, in Markdown: the model, its use, quality and assumptions."""

from __future__ import annotations

from collections.abc import Sequence

from tacit import __version__
from tacit.ledger import Statement, epsilon_text, meaning
from tacit.report import Learned, Measure
from tacit.runs.config import RunConfig


def model_card(config: RunConfig, learned: Learned, statement: Statement, *, onnx: bool) -> str:
    """Return the model card of a run; everything in it is public. `onnx` if ONNX was published."""
    sections = {
        "What it predicts": learned.predicts,
        "From what": learned.inputs,
        "For whom": _whom(statement),
        "How it was learned": f"{learned.method} (method `{config.method}` of tacit {__version__})",
        "How good it is": _quality(learned.measures),
        "What the number means": _meaning(statement),
        "What the statement presumes": _list(statement.assumes, "- [ ] ") or "Nothing.",
        "Warnings": _list(statement.warnings) or "None.",
        "The statement": "\n".join(f"> {line}" for line in str(statement).splitlines()),
        "How to use it": _usage(onnx=onnx),
        "How to check it": f"The run's head is\n\n    {statement.head}\n\nIt is the hash of the "
        "ledger's entry that lists every file, this card included (with zeros for those digits). "
        "`tacit verify RUN --head` or, in an archive, `python verify.py --head` compares; both "
        "want a head that reached you in another way.",
    }
    title = f"# Model card: learned privately from {config.data.name or config.data.source}\n"
    return title + "".join(f"\n## {name}\n\n{text}\n" for name, text in sections.items())


def _whom(statement: Statement) -> str:
    return (
        f"For whoever meets inputs like the public ones that it learned on; on others it was not "
        f"measured. It protects each {statement.unit} of the private records "
        f"({statement.dataset or 'no name was given'}), and nobody else: not those whose rows were "
        "public, nor what is true of a group as a whole."
    )


def _usage(*, onnx: bool) -> str:
    sentence = "`tacit predict` reads `student.tacit` in the run's folder."
    if onnx:
        sentence += (
            " `model.onnx` is the same model, features and labels included, for onnxruntime or any "
            "other program that reads ONNX; it needs no tacit."
        )
    return sentence


def _quality(measures: Sequence[Measure]) -> str:
    said = []
    for one in measures:
        how = f" ({one.by_chance})" if one.by_chance else ""
        beside = f" Chance alone{how} reaches {one.chance_text}." if one.chance_text else ""
        worse = "" if one.beats_chance else f" **{one.beside_chance}.**"
        said.append(f"{one.text} {one.what}, on {one.on}.{beside}{worse}")
    return "\n\n".join(said) or (
        "Not measured: nothing labelled was declared public, and no evaluation was paid for. "
        "Measure before you use it."
    )


def _meaning(statement: Statement) -> str:
    said = meaning(statement.epsilon, statement.delta, statement.unit)
    return f"epsilon = {epsilon_text(statement.epsilon)} at delta = {statement.delta:g}. {said}"


def _list(sentences: tuple[str, ...], mark: str = "- ") -> str:
    return "\n".join(f"{mark}{sentence}" for sentence in sentences)
