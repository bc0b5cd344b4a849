"""Studies: many runs of `veil.solve`, planned in one file, run on one machine or a cluster, read as one table."""
