"""Files in and out: scenarios, models in other formats, results."""
