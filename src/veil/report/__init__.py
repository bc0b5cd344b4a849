"""What people look at: plots of the public objects, and the report, one HTML file that needs nothing else."""
