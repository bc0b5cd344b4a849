"""Tests of the files that veil reads and writes."""
