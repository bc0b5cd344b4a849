"""Observers that choose where to look: their problem, bounds on what they learn, plans of queries, and walkers in return."""
