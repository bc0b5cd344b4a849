"""Kernels of the step operator for different forms of messages."""
