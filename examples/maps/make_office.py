"""Draw the map of an office floor, 40 m × 30 m, as a robot's map_server publishes it: office.png and office.yaml.

Run it from this folder: python make_office.py
"""

import numpy as np
from PIL import Image

RESOLUTION = 0.05  # metres per pixel
WIDTH, HEIGHT = 40.0, 30.0
FREE, UNKNOWN, OCCUPIED = 254, 205, 0


def main() -> None:
    """Walls as rectangles in metres, x to the right and y up; doors are cut into them."""
    rows, columns = round(HEIGHT / RESOLUTION), round(WIDTH / RESOLUTION)
    pixels = np.full((rows, columns), UNKNOWN, dtype=np.uint8)

    def paint(left: float, low: float, right: float, high: float, value: int) -> None:
        top, bottom = rows - round(high / RESOLUTION), rows - round(low / RESOLUTION)
        pixels[top:bottom, round(left / RESOLUTION) : round(right / RESOLUTION)] = value

    paint(0.5, 0.5, 39.5, 29.5, OCCUPIED)  # the building, of which the inside is free
    paint(1, 1, 39, 29, FREE)
    for x in (10, 20, 30):  # the walls between the rooms of the two rows
        paint(x, 1, x + 0.3, 11, OCCUPIED)
        paint(x, 19, x + 0.3, 29, OCCUPIED)
    for y in (11, 18.5):  # the walls along the corridors, with a door for each room
        paint(1, y, 39, y + 0.3, OCCUPIED)
        for x in (4.5, 14.5, 24.5, 34):
            paint(x, y, x + 1.5, y + 0.5, FREE)
    paint(8, 14, 16, 16, OCCUPIED)  # two blocks between the corridors
    paint(22, 14, 32, 16, OCCUPIED)
    for x, y in ((3, 25), (6, 25), (13, 4), (16, 4), (33, 24), (33, 4)):  # furniture
        paint(x, y, x + 1.5, y + 1, OCCUPIED)
    paint(27, 3, 28.5, 6, UNKNOWN)  # what the lidar has not seen
    Image.fromarray(pixels).save("office.png", optimize=True)
    with open("office.yaml", "w", encoding="utf-8") as file:
        file.write("image: office.png\nmode: trinary\nresolution: 0.05\norigin: [0.0, 0.0, 0.0]\n")
        file.write("negate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.196\n")


if __name__ == "__main__":
    main()
