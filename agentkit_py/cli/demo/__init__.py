"""`agentkit demo`: a support network for a travel company that does not exist.

`network` is the network itself, `tools` and `travel` what it can do, `script` the customer and the
stand-in for a model, `play` the command.
"""

from __future__ import annotations
