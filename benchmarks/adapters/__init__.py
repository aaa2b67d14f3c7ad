"""One module for each framework: ``FRAMEWORK`` says how it is run."""
