"""What an agent or network that is a tool is given."""

from __future__ import annotations

from pydantic import BaseModel, Field


class NestedTask(BaseModel):  # without a docstring: models would read it
    task: str = Field(
        description="What is to be done, with all that is needed for it: nothing else of this "
        "conversation is known there."
    )
