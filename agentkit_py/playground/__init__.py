"""The playground of `agentkit dev`: a local page that shows what each agent saw, and why.

`app` has the endpoints and says who may ask, `runs` starts and keeps runs, `recorder` records one,
`levels` shows what a call saw, `edits` makes edited calls. The page itself is in ``static``: HTML,
CSS and ES modules without a build step.
"""
