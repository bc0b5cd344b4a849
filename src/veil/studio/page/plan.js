// The pane Plan.
export function start(root, studio) {
  root.textContent = "";
}
