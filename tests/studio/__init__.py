"""Tests of the room `studio`."""
