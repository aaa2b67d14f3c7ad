"""Pictures as SVG, readable on a light and on a dark page, drawn by hand: no library needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from works import FLOOR, LENGTHS, OURS, SCALES, WORKS

BARS = (
    "import",
    "create",
    "memory",
    "text",
    "tool1_async",
    "tool10_async",
    "two_agents",
    "concurrent",
)
COLOURS = {
    OURS: "#d9480f",
    FLOOR: "#868e96",
    "agno": "#1971c2",
    "openai-agents": "#2f9e44",
    "langgraph": "#9c36b5",
    "google-adk": "#c2920a",
}
STYLE = """<style>
text{font-family:system-ui,sans-serif;font-size:12px;fill:#212529}
.small{font-size:10px;fill:#495057}.line{stroke:#ced4da}
.bar{fill:#74a5d6}.ours{fill:#d9480f}.bold{font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e9ecef}.small{fill:#adb5bd}.line{stroke:#495057}
.bar{fill:#4b79a8}.ours{fill:#f76707}}
</style>"""
LABEL, WIDTH, ROW = 130, 720, 18


def pictures(whole: dict[str, Any]) -> dict[str, str]:
    """Each file's name and content."""
    return {"benchmarks-ratios.svg": ratios(whole), "benchmarks-threads.svg": lengths(whole)}


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis between two powers of ten."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> Axis:
        """One that holds all values."""
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        """Where a value is."""
        share = (log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def ratios(whole: dict[str, Any]) -> str:
    """How many times as long as ours each takes, as bars, on a logarithmic axis."""
    parts: list[str] = []
    groups = [
        (work, _bars(whole, work.key, waits=work.waits)) for work in WORKS if work.key in BARS
    ]
    groups = [(work, bars) for work, bars in groups if bars]
    values = [value for _, bars in groups for _, value in bars] or [1.0]
    axis = Axis.around([*values, 1.0], LABEL, WIDTH - 60)
    top = 40
    for work, bars in groups:
        parts.append(f'<text x="8" y="{top}" class="bold">{_escaped(work.name)}</text>')
        top += 8
        for name, value in bars:
            parts.append(_bar(axis, name, value, top))
            top += ROW
        top += 26
    lines = "".join(_tick(axis, tick, top - 20) for tick in axis.ticks)
    title = "As a multiple of ours (CPU time or memory; to the right: more than ours)"
    return _svg(title, top, [lines, *parts])


def _bars(whole: dict[str, Any], key: str, *, waits: bool) -> list[tuple[str, float]]:
    figures: dict[str, Any] = whole["rows"].get(key, {}).get("figures", {})
    found: list[tuple[str, float]] = []
    for name, one in figures.items():
        ratio = (not waits and one["ours_cpu"]) or one["ours"]
        if name != FLOOR and ratio and ratio[0]:
            found.append((name, 1 / ratio[0]))
    return sorted(found, key=lambda pair: (pair[0] != OURS, pair[1]))


def _bar(axis: Axis, name: str, value: float, top: float) -> str:
    one, end = axis.at(1.0), axis.at(value)
    left, width = min(one, end), max(abs(end - one), 2.0)
    kind = "ours" if name == OURS else "bar"
    figure = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    at = f'x="{LABEL - 8}" y="{top + 12}"'
    return (
        f'<text {at} text-anchor="end" class="small">{_escaped(name)}</text>'
        f'<rect x="{left:.1f}" y="{top + 3}" width="{width:.1f}" height="11" class="{kind}"/>'
        f'<text x="{left + width + 5:.1f}" y="{top + 12}" class="small">{figure}</text>'
    )


def _tick(axis: Axis, tick: float, bottom: float) -> str:
    x = axis.at(tick)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="30" y2="{bottom}" class="line"/>'
        f'<text x="{x:.1f}" y="26" text-anchor="middle" class="small">{tick:g}</text>'
    )


def lengths(whole: dict[str, Any]) -> str:
    """What a run costs on threads of 100 to 1,000,000 messages, both axes logarithmic."""
    series: dict[str, list[tuple[int, float]]] = {}
    for key, length in LENGTHS.items():
        for name, one in whole["rows"].get(key, {}).get("figures", {}).items():
            series.setdefault(name, []).append((length, one["cpu"][0] * SCALES["ms"]))
    values = [value for points in series.values() for _, value in points] or [1.0]
    height = 400
    across = Axis.around([100, 1_000_000], 70, WIDTH - 130)
    up = Axis.around(values, height - 40, 40)
    parts = [_tick_across(across, tick, height) for tick in across.ticks]
    parts += [_tick_up(up, tick) for tick in up.ticks]
    ends: list[tuple[float, str]] = []
    for name, points in series.items():
        parts.append(_line(name, [(across.at(x), up.at(y)) for x, y in points]))
        ends.append((up.at(points[-1][1]), name))
    parts += _names(ends, {name: across.at(points[-1][0]) for name, points in series.items()})
    return _svg(
        "CPU milliseconds of a run, by the stored thread's number of messages", height, parts
    )


def _tick_across(axis: Axis, tick: float, height: float) -> str:
    x = axis.at(tick)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="40" y2="{height - 40}" class="line"/>'
        f'<text x="{x:.1f}" y="{height - 22}" text-anchor="middle" class="small">{tick:,.0f}</text>'
    )


def _tick_up(axis: Axis, tick: float) -> str:
    y = axis.at(tick)
    return (
        f'<line x1="70" x2="{WIDTH - 130}" y1="{y:.1f}" y2="{y:.1f}" class="line"/>'
        f'<text x="62" y="{y + 3:.1f}" text-anchor="end" class="small">{tick:g}</text>'
    )


def _line(name: str, points: Sequence[tuple[float, float]]) -> str:
    colour = COLOURS.get(name, "#0b7285")
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    width = 3 if name == OURS else 1.5
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>{dots}'


def _names(ends: Sequence[tuple[float, str]], x: dict[str, float]) -> list[str]:
    """Names at the ends of the lines, moved apart where they would lie on each other."""
    found: list[str] = []
    last: dict[float, float] = {}
    for y, name in sorted(ends):
        at = max(y + 4, last.get(x[name], -100.0) + 13)
        last[x[name]] = at
        colour = COLOURS.get(name, "#0b7285")
        where = f'x="{x[name] + 8:.1f}" y="{at:.1f}"'
        found.append(f'<text {where} style="fill:{colour}">{_escaped(name)}</text>')
    return found


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">\n'
        f"<title>{_escaped(title)}</title>\n{STYLE}\n"
        f'<text x="8" y="14" class="small">{_escaped(title)}</text>\n{inside}\n</svg>\n'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
