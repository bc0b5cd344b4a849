"""Maps of ROS's map_server: an image of what is free, and a small file with its resolution and thresholds."""

from ..registry import Format, later

FORMAT = Format(
    (".yaml", ".yml"),
    "maps of ROS's map_server (.pgm or .png beside it)",
    read_model=later("veil.formats.maps.files:read_map"),
    reads_beside=True,
    options={
        "cell_size": "side of a cell in metres",
        "starts": "points `x,y` in metres, or zones, separated by blanks",
        "goals": "points or zones, each with its reward, `12,8=0.5 dock`",
        "secrets": "points or zones",
        "absorbing": "points or zones",
        "zones": "polygons, `vault: 1,1 4,1 4,3; lab: red`, or an image with colours",
        "zone_image": "an image whose colours zones name",
        "min_free": "least share of a cell's pixels that are free",
        "max_occupied": "largest share of a cell's pixels that are occupied",
        "slip": "probability of slipping to each side",
        "goals_pay_last": "whether the last state pays too",
        "stay": "whether there is an action that stays in place",
    },
)
