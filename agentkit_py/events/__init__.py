"""What happens in a run, and the chunks that streaming makes of it."""
