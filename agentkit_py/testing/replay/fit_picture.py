"""The picture of a fit, as SVG."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import TypeAlias

from agentkit_py.testing.replay.fitting import Candidate, Fit, kept

_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 460, 60, 30
_PLOT_WIDTH, _PLOT_HEIGHT = 540, 350
_RIGHT, _BOTTOM = _LEFT + _PLOT_WIDTH, _TOP + _PLOT_HEIGHT
_LONGEST_NAME = 42
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; }
.axis { stroke: #888; }
.goal { stroke: #c62828; stroke-dasharray: 4 3; }
.frontier { stroke: #1565c0; fill: none; }
.dot { fill: #fff; stroke: #888; }
.best { fill: #fff; stroke: #1565c0; }
.chosen { fill: #1565c0; stroke: #1565c0; }
"""

_Place: TypeAlias = Callable[[float, float], tuple[float, float]]
"""Gives the point of a share that is sent and a share that is kept."""


def picture(fit: Fit) -> str:
    """Return a picture as SVG: each candidate by the share that it sends and that it keeps.

    Candidates on the frontier are numbered, with their names on the right; the chosen
    candidate is filled.
    """
    points = [(figures.share_sent, kept(figures)) for figures in fit.figures.values()]
    left = min(0.9, *(sent for sent, _ in points))
    floor = min(0.95, fit.keep, *(share for _, share in points))

    def place(sent: float, share: float) -> tuple[float, float]:
        x = _LEFT + _PLOT_WIDTH * (sent - left) / max(1 - left, 1e-9)
        return round(x, 1), round(_TOP + _PLOT_HEIGHT * (1 - share) / max(1 - floor, 1e-9), 1)

    title = f"Across: characters sent. Up: calls and values kept. Dashed: {fit.keep:.1%}."
    drawn = [*_axes(place, left, floor, fit.keep), *_candidates(fit, place)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
        f"{_text(_LEFT, _HEIGHT - 20, title)}{''.join(drawn)}</svg>\n"
    )


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{html.escape(text)}</text>'


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    return f'<line class="{kind}" x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}"/>'


def _axes(place: _Place, left: float, floor: float, keep: float) -> Iterator[str]:
    yield _line("axis", (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM))
    yield _line("axis", (_LEFT, _TOP), (_LEFT, _BOTTOM))
    yield _line("goal", place(left, keep), place(1, keep))
    for part in (0.0, 0.5, 1.0):
        sent, share = left + (1 - left) * part, floor + (1 - floor) * part
        yield _text(place(sent, 1)[0], _BOTTOM + 18, f"{sent:.0%}", "text-anchor: middle")
        yield _text(_LEFT - 6, place(1, share)[1] + 4, f"{share:.1%}", "text-anchor: end")


def _candidates(fit: Fit, place: _Place) -> Iterator[str]:
    frontier = fit.frontier
    points = {c: place(one.share_sent, kept(one)) for c, one in fit.figures.items()}
    line = " ".join(f"{x},{y}" for x, y in (points[candidate] for candidate in frontier))
    yield f'<polyline class="frontier" points="{line}"/>'
    for candidate, (x, y) in points.items():
        kind = "best" if candidate in frontier else "dot"
        kind = "chosen" if candidate == fit.chosen else kind
        name = html.escape(candidate.line)
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"><title>{name}</title></circle>'
    for number, candidate in enumerate(frontier, 1):
        x, y = points[candidate]
        yield _text(x + 6, y - 6, str(number))
        style = "font-weight: bold" if candidate == fit.chosen else ""
        yield _text(_RIGHT + 16, _TOP + 16 * number, f"{number} {_short(candidate)}", style)


def _short(candidate: Candidate) -> str:
    line = candidate.line
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
