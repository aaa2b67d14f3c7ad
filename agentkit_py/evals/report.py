"""Reports: a table, JSON, and the differences from an earlier report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.evals.cases import Outcome, Verdict

VERSION = 1
NO_ERROR = "runs without error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run of a case, judged."""

    case: str
    number: int
    """The number among the runs of the case, from 0."""

    text: str
    verdicts: Mapping[str, Verdict]
    seconds: float
    tokens: int
    inferences: int
    calls: Sequence[str]
    agents: Sequence[str]

    @classmethod
    def of(cls, outcome: Outcome, number: int, verdicts: Mapping[str, Verdict]) -> Row:
        """Return the row of a run."""
        ended = Verdict(not outcome.error, outcome.error)
        return cls(
            case=outcome.case.name,
            number=number,
            text=outcome.text,
            verdicts={NO_ERROR: ended, **verdicts},
            seconds=round(outcome.seconds, 3),
            tokens=outcome.usage.total_tokens,
            inferences=len(outcome.agents),
            calls=[call.name for call in outcome.calls],
            agents=list(outcome.agents),
        )

    @property
    def passed(self) -> bool:
        """True if all of it holds."""
        return all(verdict.passed for verdict in self.verdicts.values())

    @property
    def reasons(self) -> list[str]:
        """The verdicts that do not hold, each with its reason."""
        failed = ((name, v) for name, v in self.verdicts.items() if not v.passed)
        return [f"{name}: {v.reason}" if v.reason else name for name, v in failed]


@dataclass(frozen=True, slots=True)
class Change:
    """A case that passes more or less often than before."""

    case: str
    before: float | None
    """The share of runs that passed; None: the case is new."""

    after: float | None
    """None: the case is gone."""

    reasons: Sequence[str] = ()
    """The cases that fail now."""

    calls: tuple[Sequence[str], Sequence[str]] = ((), ())
    """The tools that were called before and now, where these differ."""

    def __str__(self) -> str:
        """Return a line, and a line for each reason."""
        shares = [f"{one:.0%}" if one is not None else "none" for one in (self.before, self.after)]
        lines = [f"{self.case}: {' → '.join(shares)}"]
        if self.calls[0] != self.calls[1]:
            both = [", ".join(one) or "none" for one in self.calls]
            lines.append(f"    tools called: {both[0]} → {both[1]}")
        return "\n".join([*lines, *(f"    {reason}" for reason in self.reasons)])


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between two reports."""

    worse: Sequence[Change]
    better: Sequence[Change]
    new: Sequence[Change]
    gone: Sequence[Change]
    tokens: tuple[float, float]
    """Mean tokens of a run before and now."""

    def __str__(self) -> str:
        """Return the diff as text."""
        lines: list[str] = []
        for title in ("worse", "better", "new", "gone"):
            changes: Sequence[Change] = getattr(self, title)
            if changes:
                lines += [f"{title} ({len(changes)})", *(f"  {change}" for change in changes)]
        before, after = self.tokens
        if before:
            lines.append(f"tokens of a run: {before:.0f} → {after:.0f} ({after / before - 1:+.0%})")
        return "\n".join(lines) or "no case differs"


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a suite."""

    suite: str
    rows: Sequence[Row] = field(repr=False)

    @property
    def passed(self) -> bool:
        """True if every run of every case passed."""
        return all(row.passed for row in self.rows)

    @property
    def by_case(self) -> dict[str, list[Row]]:
        """The rows by their case, in order."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.case, []).append(row)
        return found

    def table(self) -> str:
        """Return the report as text: a line for each case, and its failures below it."""
        width = max((len(row.case) for row in self.rows), default=4)
        head = f"{'case':{width}}  passed  tokens  model calls  seconds"
        lines = [head, "-" * len(head)]
        for case, rows in self.by_case.items():
            good = sum(row.passed for row in rows)
            calls = fmean(row.inferences for row in rows)
            lines.append(
                f"{case:{width}}  {f'{good}/{len(rows)}':>6}  {fmean(r.tokens for r in rows):6.0f}"
                f"  {calls:11.1f}  {fmean(r.seconds for r in rows):7.2f}"
            )
            lines += [f"    {reason}" for reason in _reasons(rows)]
        good = sum(all(row.passed for row in rows) for rows in self.by_case.values())
        return "\n".join([*lines, f"{good} of {len(self.by_case)} cases passed"])

    def diff(self, earlier: Report) -> Diff:
        """Return the differences from an earlier report of the same suite."""
        old, new = earlier.by_case, self.by_case
        both = [_change(case, old[case], new[case]) for case in new if case in old]
        return Diff(
            worse=[c for c in both if (c.after or 0) < (c.before or 0)],
            better=[c for c in both if (c.after or 0) > (c.before or 0)],
            new=[_change(case, [], new[case]) for case in new if case not in old],
            gone=[_change(case, old[case], []) for case in old if case not in new],
            tokens=(_mean_tokens(earlier.rows), _mean_tokens(self.rows)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        rows = [{**asdict(row), "passed": row.passed} for row in self.rows]
        return {"version": VERSION, "suite": self.suite, "passed": self.passed, "rows": rows}

    def save(self, path: str | Path) -> None:
        """Write the report to a file, for `Report.load`."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Return a report that was saved.

        Raises:
            InvalidRecordError: The file holds none.
            ConfigurationError: The file does not exist.
        """
        try:
            found = json.loads(Path(path).read_text("utf-8"))
            return cls(found["suite"], [_row(row) for row in found["rows"]])
        except FileNotFoundError:
            raise ConfigurationError(f"There is no file {str(path)!r}.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"it is not a report of a suite ({error})"
            raise InvalidRecordError(problem, where=str(path), field="(whole)") from error


def _row(found: dict[str, Any]) -> Row:
    known: dict[str, Any] = {name: value for name, value in found.items() if name != "passed"}
    known["verdicts"] = {name: Verdict(**verdict) for name, verdict in found["verdicts"].items()}
    return Row(**known)


def _reasons(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(reason for row in rows for reason in row.reasons))


def _share(rows: Sequence[Row]) -> float | None:
    return sum(row.passed for row in rows) / len(rows) if rows else None


def _change(case: str, old: Sequence[Row], new: Sequence[Row]) -> Change:
    calls = (old[0].calls if old else (), new[0].calls if new else ())
    return Change(case, _share(old), _share(new), _reasons(new), calls)


def _mean_tokens(rows: Sequence[Row]) -> float:
    return fmean(row.tokens for row in rows) if rows else 0.0
