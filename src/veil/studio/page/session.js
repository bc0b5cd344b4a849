// The secret that the server gave to this browser. It is kept for this address and port alone, as cookies are not, and
// sent as a header.
const KEPT = "veil-session";

export function authorization() {
  return { Authorization: `Bearer ${localStorage.getItem(KEPT) || ""}` };
}

// Exchange the token of the link, which is used once, for the secret.
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/api/enter", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (response.ok) localStorage.setItem(KEPT, (await response.json()).session);
}

// Call back when another tab was let in.
export function onSession(callback) {
  window.addEventListener("storage", (event) => {
    if (event.key === KEPT && event.newValue) callback();
  });
}
