"""The port between the engine and the world, and the runtime without durability."""
