"""State, results, and the threads they are kept in."""
