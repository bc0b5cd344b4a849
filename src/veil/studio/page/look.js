// The pane Look.
export function start(root, studio) {
  root.textContent = "";
}
