"""The commands: `veil solve` and the others, a thin layer over the public names."""
