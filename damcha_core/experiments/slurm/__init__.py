"""Studies on a Slurm cluster: a job is a plain command line, and its answer the run folder."""
