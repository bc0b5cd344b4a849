"""Who acts: policies as tables of action probabilities."""
