// Discs and cones over a drawing: places are (down, right) from its upper left corner, in cells.

const LEAST = 0.5; // a shorter drag moves the centre alone

// The shape after a drag from one place to another: the centre of the cell where it began, and the reach and the
// direction that the drag gives.
export function dragged(shape, from, to) {
  const centre = from.map((at) => Math.floor(at) + 0.5);
  if (Math.hypot(to[0] - from[0], to[1] - from[1]) < LEAST) return { ...shape, centre };
  const [down, right] = [to[0] - centre[0], to[1] - centre[1]];
  const reach = Math.hypot(down, right);
  const degrees = (Math.atan2(-down, right) * 180) / Math.PI;
  const turned = shape.kind === "cone" ? { direction: (5 * Math.round(degrees / 5) + 360) % 360 } : {};
  return { ...shape, centre, radius: Math.round(2 * reach) / 2, ...turned };
}

// The outline of a shape as angles of a circle's arc, clockwise on the screen; null for the whole circle.
export function arcOf({ kind, direction, angle }) {
  if (kind !== "cone" || angle >= 360) return null;
  const radians = (degrees) => (degrees * Math.PI) / 180;
  return [radians(-direction - angle / 2), radians(-direction + angle / 2)];
}
