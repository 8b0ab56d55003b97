"""ONNX files of fitted models, the encoding of their inputs included."""

from equipoise.storage.onnx.export import onnx_bytes as onnx_bytes
from equipoise.storage.onnx.graph import Graph as Graph
