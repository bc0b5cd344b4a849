"""Learning from logs: recorded runs, estimates with intervals, and the opacity of what was estimated."""
