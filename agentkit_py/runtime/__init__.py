"""The port between the engine and the world, and the runtime that is simply here and now."""
