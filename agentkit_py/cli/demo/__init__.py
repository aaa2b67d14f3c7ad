"""`agentkit demo`: a support network for a travel company that does not exist.

`network` is the network with its tools, `travel` the data, `script` the customer and the stand-in
for a model, `play` the command.
"""
