"""Formulas of linear temporal logic on finite runs: their syntax, their meaning on a run, their automata."""
