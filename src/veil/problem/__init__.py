"""What is asked: models, observers, secrets, problems and grids."""
