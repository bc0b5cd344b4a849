"""Storm's explicit DRN files, read and written."""
