// Requests to the server of the studio.
import { authorization } from "./session.js";

const UNANSWERED = "the server does not answer: start veil studio again";
export const NOT_LET_IN =
  "This page has no access, or the studio was restarted. Open the newest link that veil studio printed in " +
  "the terminal; unsaved changes stay on this page.";

// A request that was refused; status 0: there is no server.
export class ApiError extends Error {
  constructor(status, answer) {
    super(answer.error || `the server answered ${status}`);
    this.status = status;
    this.answer = answer;
    this.defects = answer.defects || [];
  }
}

function options(method, body) {
  const headers = authorization();
  if (body === undefined) return { method, headers };
  headers["Content-Type"] = "application/json";
  return { method, headers, body: JSON.stringify(body) };
}

// The JSON of an answer; raises ApiError.
export async function api(method, path, body) {
  let response;
  try {
    response = await fetch(path, options(method, body));
  } catch {
    throw new ApiError(0, { error: UNANSWERED });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

// Send a request while the page is left, without waiting for its answer.
export function sendLast(method, path, body) {
  fetch(path, { ...options(method, body), keepalive: true });
}
