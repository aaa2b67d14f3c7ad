"""The playground of `agentkit dev`: a local page that shows what each agent saw, and why.

`app` has the endpoints, `runs` starts and keeps runs, `recorder` writes down what happens in one,
`levels` lays out what a call saw, `edits` makes edited calls, `security` says who may ask. The page
itself is in ``static``: HTML, CSS and ES modules without a build step.
"""

from __future__ import annotations
