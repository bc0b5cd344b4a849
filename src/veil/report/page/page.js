// The report's page: every figure that has a place in it.
import { figures } from "./figures.js";

const page = figures(JSON.parse(document.getElementById("data").textContent), document);
page.drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (page.isPicture) location.reload();
});
