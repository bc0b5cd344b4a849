"""Models of published case studies, and veil's figures for them beside the published ones."""
