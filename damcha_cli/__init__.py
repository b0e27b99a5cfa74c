"""The command line of DAMCHA."""
