"""Makes the built-in texts that the package ships as packed files (see build.py)."""
