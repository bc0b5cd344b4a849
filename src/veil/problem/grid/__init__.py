"""Grid worlds: cells, moves, drawings and sensors."""
