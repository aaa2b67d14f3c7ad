"""A finished chat page for customers. Start it with `uvicorn with_chat_page:app --port 8000`."""

from __future__ import annotations

# --8<-- [start:app]
from shop import shop_network

from agentkit_py.server import ChatPage, create_app

page = ChatPage(
    name="Hat shop",
    greeting="Hello! How can we **help** you?",
    suggestions=["Where is my order?", "I want my money back"],
    color="#7c2d12",
)
app = create_app(networks=[shop_network()], auth="local", page=page)
# --8<-- [end:app]
