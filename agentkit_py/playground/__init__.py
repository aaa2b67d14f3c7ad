"""The playground of `agentkit dev`: a local page that shows which messages each agent saw, and why.

`app` has the endpoints and their access rules, `runs` starts and keeps runs, `recorder` records a
run, `levels` shows the messages of a call, `edits` makes edited calls. The page itself is in
``static``: HTML, CSS and ES modules without a build step.
"""
