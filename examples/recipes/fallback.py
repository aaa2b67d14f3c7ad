"""Another provider goes on when the first one fails."""

# --8<-- [start:recipe]
from agentkit_py import Agent
from agentkit_py.models import FallbackModel, model_named

model = FallbackModel([model_named("openai:gpt-4.1"), model_named("anthropic:claude-sonnet-4-5")])
agent = Agent(name="clerk", system="You sell hats.", model=model)
# --8<-- [end:recipe]
print(agent.name, [one.model for one in model.models])
