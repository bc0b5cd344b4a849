"""The commands: `veil solve` and its companions, a thin layer over the public names."""
