"""Result folders: a policy, its history, its certificate and one document about them."""
