// The pane Play.
export function start(root, studio) {
  root.textContent = "";
}
