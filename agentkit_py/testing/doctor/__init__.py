"""The doctor: runs a network as an Inngest function and reports failures."""

from agentkit_py.testing.doctor.examination import examine
from agentkit_py.testing.doctor.report import (
    Callback,
    DoctorReport,
    Finding,
    RunFigures,
    Unexamined,
)

__all__ = ["Callback", "DoctorReport", "Finding", "RunFigures", "Unexamined", "examine"]
