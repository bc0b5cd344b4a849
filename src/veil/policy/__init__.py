"""Who acts: policies and what they remember."""
