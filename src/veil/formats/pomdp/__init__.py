"""Cassandra's `.pomdp` files, read and written."""
