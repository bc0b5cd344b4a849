// The pane Draw.
export function start(root, studio) {
  root.textContent = "";
}
