"""The figures of each model call's context as log lines; made only for who reads them."""

from __future__ import annotations

import logging

from agentkit_py.processors.report import ContextReport

logger: logging.Logger = logging.getLogger("agentkit_py.context")


def log_context(report: ContextReport) -> None:
    """One line for the call and one for each processor that changed something, at INFO."""
    if not logger.isEnabledFor(logging.INFO):
        return  # counting tokens costs time
    logger.info(
        "%s: %d messages, %d tokens sent; history %d messages, %d tokens; prompt %d tokens",
        report.agent,
        len(report.sent),
        report.tokens_after,
        len(report.history),
        report.tokens_before,
        report.prompt_tokens,
    )
    for entry in report.entries:
        if entry.changed:
            logger.info(
                "%s: %s %s: messages %d -> %d, tokens %d -> %d (%s)",
                report.agent,
                entry.level,
                entry.name,
                entry.messages_before,
                entry.messages_after,
                entry.tokens_before,
                entry.tokens_after,
                entry.reason or "changed",
            )
