"""`agentkit demo`: a support network for a travel company that does not exist.

`network` is the network with its tools, `travel` the data, `script` the customer and the fake
of a model, `play` the command.
"""
