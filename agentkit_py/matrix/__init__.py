"""ContextMatrix: the fate of each message of a conversation in each of its model calls."""

from agentkit_py.matrix.cells import CellFate, ContextMatrix, MatrixCall, MatrixCell, MatrixRow
from agentkit_py.matrix.page import matrix_page

__all__ = ["CellFate", "ContextMatrix", "MatrixCall", "MatrixCell", "MatrixRow", "matrix_page"]
