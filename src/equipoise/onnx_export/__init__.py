"""ONNX files of fitted models, the encoding of their inputs included."""

from equipoise.onnx_export.export import onnx_bytes as onnx_bytes
from equipoise.onnx_export.graph import Graph as Graph
