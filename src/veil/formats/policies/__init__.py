"""Policies as files: safetensors, and text in JSON and CSV that people and other programs can read."""
