"""Drawing a scene with matplotlib: cells or nodes, walls, sensor ranges, marks, heat, arrows and moves."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .areas import Area, outline
from .behaviour import Behaviour
from .scene import Scene
from .style import BLUE, DARK, GREY, LIGHT, NORMAL, SMALL, WALL, colours, shortened, words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

NODE = 0.2  # radius of a node, where a step is about 1
_LEAST_ARROW = 0.02
_MOST_MARKED_CELLS = 900  # of a grid whose cells are large enough for letters
_MOST_ARROWED = 150  # cells that are large enough for all actions; of up to the next number, for the likelier ones
_MOST_SHARED, _LEAST_SHARED = 400, 0.15
_MOST_SIGNS = 8  # cells of an area that has a sign in each; a larger one has its border, as every area over heat


def draw_scene(
    axes: "Axes",
    scene: Scene,
    *,
    heat: Float[np.ndarray, " S"] | None = None,
    top: float | None = None,
    heat_colour: str = BLUE,
    ranges: bool = True,
    marks: bool = True,
) -> None:
    """The scene without the policy.

    **Arguments:** `heat`: a number for each state of the model, shown as depth of colour up to `top`; `ranges` and
    `marks`: whether to colour what sensors cover, and to mark starts and areas.
    """
    if scene.is_grid:
        _draw_cells(axes, scene)
    else:
        _draw_edges(axes, scene)
    if heat is not None:
        _draw_heat(axes, scene, heat, top, heat_colour)
    elif not scene.is_grid:
        _draw_nodes(axes, scene)
    if ranges:
        _draw_ranges(axes, scene, filled=heat is None)
    if marks:
        _draw_areas(axes, scene)
        _draw_signs(axes, scene, centred=not scene.is_grid)
    if not scene.is_grid:
        _draw_names(axes, scene)
    _frame(axes, scene)


def draw_policy(axes: "Axes", scene: Scene, behaviour: Behaviour, time: int | None) -> None:
    """Arrows by probability on a grid (a dot stays in place), moves by probability on a graph.

    Actions in states that are never visited are grey.
    """
    if scene.is_grid:
        _draw_arrows(axes, scene, behaviour, time)
    else:
        _draw_moves(axes, scene, behaviour, time)


def legend_entries(scene: Scene, *, ranges: bool = True) -> list[tuple[str, str, str]]:
    """The entries of the legend: (kind, text, colour); a kind is `range`, `border`, `hatch` or the sign of an area."""
    entries = []
    if ranges:
        tints = colours([one.name for one in scene.ranges])
        entries += [
            ("range", f"sensor {one.name} ({one.rate:.2g})", tint)
            for one, tint in zip(scene.ranges, tints, strict=True)
        ]
    if scene.starts.any():
        entries.append(("S", "start", BLUE))
    for area in scene.areas:
        kind = area.sign if has_signs(scene, area) else "hatch" if area.role == "avoid" else "border"
        entries.append((kind, area.name, area.colour))
    return entries


def has_signs(scene: Scene, area: Area) -> bool:
    """Whether an area has a sign in each of its cells or nodes, or a border."""
    return not scene.is_grid or len(scene.at(np.flatnonzero(area.states))) <= _MOST_SIGNS


def draw_legend(axes: "Axes", scene: Scene, *, ranges: bool = True) -> None:
    """A legend below the picture."""
    handles = [_handle(*entry) for entry in legend_entries(scene, ranges=ranges)]
    if handles:
        columns = 4 if len(handles) > 6 else 3 if len(handles) > 4 else max(1, len(handles))
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=min(columns, 3),
                    fontsize=SMALL - 0.5, frameon=False, columnspacing=1.0, handletextpad=0.4)  # fmt: skip


def legend_below(figure: "FigureBase", scene: Scene) -> None:
    """One legend for all maps of a figure, below them."""
    handles = [_handle(*entry) for entry in legend_entries(scene, ranges=False)]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), fontsize=SMALL,
                      frameon=False, columnspacing=1.2, handletextpad=0.4)  # fmt: skip


def _handle(kind: str, text: str, colour: str) -> "Artist":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if kind == "range":
        return Patch(facecolor=colour, alpha=0.45, label=words(text))
    if kind == "border":
        return Patch(facecolor="none", edgecolor=colour, linewidth=1.6, label=words(text))
    if kind == "hatch":
        return Patch(facecolor="none", edgecolor=colour, linewidth=0.8, hatch="/////", label=words(text))
    sign = rf"$\mathbf{{{kind}}}$"
    look = {"linestyle": "", "color": colour, "markersize": 5, "markeredgewidth": 0}
    return Line2D([], [], marker=sign, label=words(text), **look)


def _frame(axes: "Axes", scene: Scene) -> None:
    width, height = scene.size
    if scene.is_grid:
        axes.set(xlim=(-0.02, width + 0.02), ylim=(height + 0.02, -0.02))
    else:
        axes.set(xlim=(-0.75, width - 1 + 0.75), ylim=(height - 1 + 0.75, -0.6))
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_cells(axes: "Axes", scene: Scene) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    if len(scene.shown) <= _MOST_MARKED_CELLS:
        cells = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in scene.places.tolist()]
        axes.add_collection(PatchCollection(cells, facecolor="white", edgecolor="0.8", linewidth=0.5, zorder=0))
        # Once more over heat, so that it shows to which cell a sign belongs.
        axes.add_collection(PatchCollection(cells, facecolor="none", edgecolor="0.8", linewidth=0.3, zorder=0.62))
    closed = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in scene.places[scene.closed].tolist()]
    axes.add_collection(PatchCollection(closed, facecolor=LIGHT, linewidth=0, zorder=0.8, gid="closed"))
    walls = [Rectangle((column, row), 1, 1) for row, column in scene.walls]
    axes.add_collection(PatchCollection(walls, facecolor=WALL, edgecolor=WALL, linewidth=0.2, zorder=1, gid="walls"))
    axes.add_patch(Rectangle((0, 0), *scene.size, fill=False, edgecolor=GREY, linewidth=0.8, zorder=4))


def _draw_heat(axes: "Axes", scene: Scene, heat: np.ndarray, top: float | None, colour: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    # The root brings out what is thinly spread.
    scale = PowerNorm(0.5, 0.0, top or max(float(heat.max()), 1e-12))
    shades = LinearSegmentedColormap.from_list("veil", ["#FFFFFF", colour, darker(colour)])
    shown = scene.total(heat)
    if scene.cells is None:
        _draw_nodes(axes, scene, shades(scale(shown)))
        return
    picture = np.full((scene.cells.rows, scene.cells.columns), np.nan)
    picture[tuple(scene.places[:, ::-1].astype(int).T)] = shown
    axes.imshow(picture, extent=(0, scene.cells.columns, scene.cells.rows, 0), cmap=shades, norm=scale, zorder=0.5,
                interpolation="nearest", gid="heat")  # fmt: skip


def darker(colour: str) -> str:
    """The deep end of a scale of shades."""
    parts = [int(colour[i : i + 2], 16) * 55 // 100 for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02X}" for part in parts)


def _draw_ranges(axes: "Axes", scene: Scene, *, filled: bool) -> None:
    """Each covered cell in strips, one a sensor, deeper where it reports more often; over heat the borders; a node in rings."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle, Patch, Rectangle

    tints = colours([one.name for one in scene.ranges])
    shapes: list[list[Patch]] = [[] for _ in tints]
    depths: list[list[float]] = [[] for _ in tints]
    strengths = [scene.strengths(one) for one in scene.ranges]
    for (spot, (x, y)), sensors in zip(enumerate(scene.places.tolist()), covered_by(scene), strict=True):
        for number, sensor in enumerate(sensors):
            part, inset = 1 / len(sensors), 0.04 + 0.06 * number
            if not scene.is_grid:
                shape = Circle((x, y), NODE + 0.07 + 0.07 * number)
            elif filled:
                shape = Rectangle((x - 0.5 + number * part, y - 0.5), part, 1)
            else:
                shape = Rectangle((x - 0.5 + inset, y - 0.5 + inset), 1 - 2 * inset, 1 - 2 * inset)
            shapes[sensor].append(shape)
            depths[sensor].append(0.06 + 0.26 * strengths[sensor].get(spot, 1.0))
    for one, tint, patches, depth in zip(scene.ranges, tints, shapes, depths, strict=True):
        if scene.is_grid and filled:
            faces = [to_rgba(tint, share) for share in depth]
            drawn = PatchCollection(patches, facecolors=faces, linewidth=0, zorder=0.6)
        else:
            above = 2.9 if not scene.is_grid else 0.7
            drawn = PatchCollection(patches, facecolor="none", edgecolor=tint, linewidth=1.4, zorder=above)
        drawn.set_gid(words(f"sensor {one.name}"))
        axes.add_collection(drawn)


def covered_by(scene: Scene) -> list[list[int]]:
    """For each spot the sensors that cover it."""
    found: list[list[int]] = [[] for _ in scene.shown]
    for number, one in enumerate(scene.ranges):
        for spot in scene.at(one.states).tolist():
            found[spot].append(number)
    return found


def _draw_areas(axes: "Axes", scene: Scene) -> None:
    """The borders of areas on a grid, which leave what is inside to see; what is to be avoided is hatched as well."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    if not scene.is_grid:
        return
    large = len(scene.shown) > _MOST_MARKED_CELLS
    for area in scene.areas:
        places = scene.places[scene.at(np.flatnonzero(area.states))]
        if area.role == "avoid":
            cells = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in places.tolist()]
            hatched = PatchCollection(
                cells, facecolor="none", edgecolor=area.colour, linewidth=0, alpha=0.55, zorder=1.5
            )
            hatched.set_hatch("/////" if not large else "///////")
            axes.add_collection(hatched)
        if not has_signs(scene, area):
            cells = np.floor(places[:, ::-1]).astype(int)
            lines = outline(cells, 0.07 if not large else 0.0)
            axes.add_collection(
                LineCollection(list(lines), colors=area.colour, linewidths=1.6 if not large else 1.2, zorder=4.5,
                               capstyle="projecting", gid=words(f"area {area.name}")))  # fmt: skip


def _draw_signs(axes: "Axes", scene: Scene, *, centred: bool) -> None:
    """The signs of starts and small areas: in the corner of a cell, so that they cover neither arrows nor much of the heat."""
    from matplotlib.patheffects import withStroke

    size = SMALL if len(scene.shown) <= _MOST_ARROWED else 5.0 if len(scene.shown) <= _MOST_MARKED_CELLS else 4.0
    signed = [("S", BLUE, scene.starts)] if scene.at(np.flatnonzero(scene.starts)).size <= 4 * _MOST_SIGNS else []
    signed += [(area.sign, area.colour, area.states) for area in scene.areas if has_signs(scene, area)]
    masks = [(sign, colour, set(scene.at(np.flatnonzero(mask)).tolist())) for sign, colour, mask in signed]
    halo = [withStroke(linewidth=1.2, foreground="white")]
    for spot, (x, y) in enumerate(scene.places.tolist()):
        found = [(sign, colour) for sign, colour, spots in masks if spot in spots]
        for number, (sign, colour) in enumerate(found):
            if centred:
                left, high = x + (number - (len(found) - 1) / 2) * 0.2, y
            else:
                left, high = x - 0.36 + 0.24 * number, y - 0.34
            axes.text(left, high, sign, color=colour, fontsize=size, weight="bold", ha="center", va="center", zorder=5,
                      path_effects=halo)  # fmt: skip


def _draw_nodes(axes: "Axes", scene: Scene, fills: "str | list[str] | np.ndarray" = "white") -> None:
    """The nodes as circles of one size in steps, so that rings and arrows meet them at every size of the figure."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    circles = [Circle((x, y), NODE) for x, y in scene.places.tolist()]
    axes.add_collection(
        PatchCollection(circles, facecolor=fills, edgecolor=GREY, linewidth=0.7, zorder=3, gid="nodes"), autolim=False
    )


def _draw_names(axes: "Axes", scene: Scene) -> None:
    size = NORMAL - 1 if len(scene.shown) <= 15 else 5.5
    longest = 18 if len(scene.shown) <= 15 else 10
    for name, (x, y) in zip(scene.names, scene.places.tolist(), strict=True):
        axes.text(x, y + NODE + 0.12, words(shortened(name, longest)), fontsize=size, color=DARK, ha="center", va="top",
                  zorder=6, bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none",
                                  "alpha": 0.75})  # fmt: skip


def _draw_edges(axes: "Axes", scene: Scene) -> None:
    """Every possible transition, faint."""
    from matplotlib.collections import LineCollection

    pairs = np.unique(np.sort(scene.edges, axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    axes.add_collection(LineCollection(list(scene.places[pairs]), colors=LIGHT, linewidths=0.8, zorder=1, gid="edges"))


def _draw_arrows(axes: "Axes", scene: Scene, behaviour: Behaviour, time: int | None) -> None:
    """All actions by the roots of their probabilities; of larger grids the likelier ones, of large ones the likeliest alone.

    The likeliest alone is an arrow through its cell, the fainter the less likely; states that are never visited have none.
    """
    weight = behaviour.visits if time is None else behaviour.occupancy[time]
    law, visited = scene.mean(behaviour.actions(time), weight), scene.total(weight) > 1e-12
    count = len(scene.shown)
    alone = count > _MOST_SHARED
    least = _LEAST_ARROW if count <= _MOST_ARROWED else _LEAST_SHARED
    for action, way in enumerate(scene.directions):
        if way is None:
            continue
        chance = law[:, action]
        drawn = (law.argmax(axis=1) == action) & (chance > 0) if alone else chance > least
        groups = [(drawn & visited, DARK)]
        groups += [(drawn & ~visited, "0.78")] if count <= _MOST_ARROWED else []
        for mask, colour in groups:
            places, share = scene.places[mask], chance[mask]
            shade = colour if not alone else [(0.13, 0.13, 0.13, 0.25 + 0.75 * one) for one in share.tolist()]
            if way == (0, 0):
                size = 20.0 if count <= _MOST_ARROWED else 6.0 if count <= _MOST_MARKED_CELLS else 1.5
                axes.scatter(*places.T, s=size * share, color=shade, linewidths=0, zorder=3, gid=f"stay {action}")
            elif len(places):
                step = np.array(way) / np.linalg.norm(way)
                length = np.full(len(share), 0.78) if alone else 0.42 * np.sqrt(share)
                wide = 0.13 if alone else 0.035 if count <= _MOST_ARROWED else 0.05
                axes.quiver(*places.T, step[0] * length, step[1] * length, color=shade, angles="xy", scale_units="xy",
                            scale=1, width=wide, units="xy", headwidth=3.4 if alone else 3.6, headlength=3.2,
                            headaxislength=2.9, minlength=0.1, zorder=3, gid=f"arrows {action}",
                            pivot="mid" if alone else "tail")  # fmt: skip


def _draw_moves(axes: "Axes", scene: Scene, behaviour: Behaviour, time: int | None) -> None:
    """Transitions under the policy, as curved arrows whose width is their probability; staying is a loop."""
    from matplotlib.patches import Arc, FancyArrowPatch

    moves = behaviour.moves(time)[scene.shown][:, scene.shown].tocoo()
    for here, there, chance in zip(moves.row.tolist(), moves.col.tolist(), moves.data.tolist(), strict=True):
        if chance < _LEAST_ARROW:
            continue
        look = {
            "linewidth": 0.4 + 1.8 * chance,
            "color": DARK,
            "alpha": 0.75,
            "zorder": 2,
            "gid": f"move {here} {there}",
        }
        start, end = scene.places[here], scene.places[there]
        if here == there:
            axes.add_patch(Arc((start[0], start[1] - NODE), 0.26, 0.3, theta1=150, theta2=390, **look))
            continue
        inward = (end - start) / np.linalg.norm(end - start) * (NODE + 0.03)
        head = f"-|>,head_length={2.5 + 2.5 * chance},head_width={1 + 1.4 * chance}"
        axes.add_patch(
            FancyArrowPatch(tuple(start + inward), tuple(end - inward), arrowstyle=head, shrinkA=0, shrinkB=0,
                            connectionstyle="arc3,rad=0.14", **look))  # fmt: skip
