"""The studio: a local web page on which a scenario is drawn, planned, looked at and played."""
