"""TypeScript's behaviour as a program, with a switch for each deliberate difference.

With all switches off it does what the recordings say; with all on, what our library must do. What
differs between the two is the only thing that a divergence may change in a recording.
"""
