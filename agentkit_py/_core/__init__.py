"""Standard-library-only helpers that every layer may use."""
