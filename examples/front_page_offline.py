"""The front page's network without a key: a script in place of the model."""

# --8<-- [start:program]
from front_page import support

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(tool_call("get_invoice", {"number": 7}), "It is still open.", "Goodbye!")
print(support.run_sync("Is invoice 7 paid?", model=model))
# --8<-- [end:program]
