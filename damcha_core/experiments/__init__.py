"""Studies: many runs planned in one file, worked off by any number of processes."""
