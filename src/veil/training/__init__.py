"""Agents that are trained by steps alone, against observers that learn."""
