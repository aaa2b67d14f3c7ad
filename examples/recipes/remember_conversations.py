"""The code of docs/recipes/remember-conversations.md. Offline: the model is scripted."""

# --8<-- [start:recipe]
from agentkit_py import Agent, SqliteHistory
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("Hello Ada.", "You are Ada.")  # in life: "openai:gpt-5"
host = Agent(name="host", system="You are polite.", model=model, history=SqliteHistory("chat.db"))

host.run_sync("I am Ada.", thread_id="ada-1")  # an id that your program chooses
result = host.run_sync("Who am I?", thread_id="ada-1")
print(result.text)  # You are Ada.
# --8<-- [end:recipe]
model.assert_saw("I am Ada.", "Hello Ada.", "Who am I?")
