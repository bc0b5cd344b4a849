"""What the watcher knows: one hidden chain, messages, the observation tree, the filter."""
