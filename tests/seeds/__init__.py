"""Features of the systems that the library learned from: a module for each, a test for each."""
