// The tabs of the page: one is reached by Tab, the others by the arrow keys, Home and End.

// shown(pane) is called whenever another pane is shown.
export function makeTabs(shown) {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const paneOf = (tab) => tab.id.slice("tab-".length);

  function show(pane, focus) {
    const chosen = tabs.find((tab) => paneOf(tab) === pane) || tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", tab === chosen);
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
    if (focus) chosen.focus();
    history.replaceState(null, "", `#${paneOf(chosen)}`);
    shown(paneOf(chosen));
  }
  for (const [number, tab] of tabs.entries()) {
    tab.addEventListener("click", () => show(paneOf(tab)));
    tab.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: tabs.length - 1 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(paneOf(tabs[(moves[event.key] + tabs.length) % tabs.length]), true);
    });
  }
  const chosen = () => tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
  return { show, pane: () => (chosen() ? paneOf(chosen()) : undefined) };
}
