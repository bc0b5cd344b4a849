"""What the observer knows: one hidden chain, messages, the observation tree, the filter, returns."""
