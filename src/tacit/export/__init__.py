"""Students as ONNX models: whoever receives one runs it without tacit."""

from tacit.export.exporting import Exported, export_onnx
from tacit.export.graph import OPSET

__all__ = ["OPSET", "Exported", "export_onnx"]
