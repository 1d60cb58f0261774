// Where in the console somebody is: the part of the address behind `#/`, so that back, forward and bookmarks work.
import { signal } from "@preact/signals";

export type Route =
  /** `position` is where in the record the message stands; 0 where the address does not say it. */
  | { screen: "chat"; id: string | null; messageId?: string; position?: number }
  | { screen: "sessions" }
  | { screen: "approvals" }
  /** One of the screens of `screens/routes.ts`, or none that there is. */
  | { screen: "page"; name: string; parts: readonly string[] };

export const route = signal<Route>(routeOf(globalThis.location?.hash ?? ""));

export function routeOf(hash: string): Route {
  const [name = "", ...parts] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (name === "" || name.startsWith("ticket=")) return { screen: "chat", id: null };
  if (name === "sessions" || name === "approvals") return { screen: name };
  if (name !== "chat") return { screen: "page", name, parts: parts.filter((each) => each !== "") };
  const [id = "", messageId = "", position = 0] = parts;
  if (id === "" || id === "new") return { screen: "chat", id: null };
  return messageId === "" ? { screen: "chat", id } : { screen: "chat", id, messageId, position: Number(position) || 0 };
}

/** The address of a screen, or of something on it. */
export function hrefOf(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** What somebody typed by hand may be no encoded text: it is taken as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
