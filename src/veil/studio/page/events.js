// The events of the server: one tab of the browser reads them and tells the others, since a browser has six connections
// for a server.
import { authorization, onSession } from "./session.js";

const NAME = "veil-events"; // of the lock that the reading tab holds, and of the channel to the others
const AGAIN_MS = 2000;

// then.opened() when the server answers, then.closed(status) when it does not, then.event(kind, data) for each event.
export function follow(then) {
  const channel = new BroadcastChannel(NAME);
  const deliver = ({ kind, value }) =>
    kind === "open" ? then.opened() : kind === "closed" ? then.closed(value) : then.event(kind, value);
  const tell = (message) => {
    deliver(message);
    channel.postMessage(message);
  };
  channel.addEventListener("message", (event) => deliver(event.data));
  let wake = () => {};
  onSession(() => wake());
  navigator.locks.request(NAME, async () => {
    for (;;) {
      tell({ kind: "closed", value: await read(tell) });
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, AGAIN_MS);
      });
    }
  });
}

// Read events until the connection ends; returns the status of the answer, 0 for none.
async function read(tell) {
  try {
    const response = await fetch("/api/events", { headers: authorization() });
    if (!response.ok) return response.status;
    tell({ kind: "open" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return 0;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const found = /^event: (.*)\ndata: (.*)$/.exec(part);
        if (found) tell({ kind: found[1], value: JSON.parse(found[2]) });
      }
    }
  } catch {
    return 0;
  }
}
