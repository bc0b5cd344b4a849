"""How to hide more: what return can be kept, and policies that keep it while they hide the secret."""
