"""ContextMatrix: the fate of each message of a conversation in each of its model calls."""

from agentkit_py.matrix.cells import CellFate, ContextMatrix, MatrixCall, MatrixCell, MatrixRow
from agentkit_py.matrix.page import AS_NOW, VIEWER, matrix_json, matrix_page

__all__ = [
    "AS_NOW",
    "VIEWER",
    "CellFate",
    "ContextMatrix",
    "MatrixCall",
    "MatrixCell",
    "MatrixRow",
    "matrix_json",
    "matrix_page",
]
