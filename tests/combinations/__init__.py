"""Combinations of features with every call, each answer compared with a brute force over all runs."""
