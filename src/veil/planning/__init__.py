"""How to hide more: options, methods and the search for policies that meet the constraints."""
