"""What is asked: models, watchers, secrets, problems, grids and a gallery of them."""
