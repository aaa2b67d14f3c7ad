"""TEMP."""

from dataclasses import dataclass
import re
from pathlib import Path


@dataclass
class D:
    id: str
    where: str = "model"


IDS = set()
for p in (Path(__file__).parent / "reference").glob("*.py"):
    IDS |= set(re.findall(r'on\(\s*"([a-z0-9-]+)"\s*\)', p.read_text()))
    IDS |= set(re.findall(r'"((?:strict|schemas)-[a-z-]+)"', p.read_text()))
DIVERGENCES = [D(i) for i in sorted(IDS)]
