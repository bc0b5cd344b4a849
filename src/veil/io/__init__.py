"""Files in and out: scenarios, models from elsewhere, results."""
