// Whether a model is set up: who comes for the first time and has none is led to the set-up, once.
import { signal } from "@preact/signals";
import * as app from "./app";
import { hrefOf, routeOf } from "./route";
import { store, stored } from "./settings";

/** Whether the rehearsal model answers, for nothing else is there. */
export const isRehearsing = signal(false);

export async function lookForModel(): Promise<void> {
  if (!app.may("model/default")) return;
  try {
    const { model } = await app.link.request("model/default", {});
    isRehearsing.value = model === "" || model.startsWith("rehearsal/");
  } catch {
    // It is a hint: what does not work is said where somebody asks for it.
  }
}

/** Note that the set-up was seen, whether it was done or skipped. */
export function setUpSeen(): void {
  store("setup", "seen");
}

/** Lead to the set-up, unless somebody came for something else or has seen it. */
export async function firstVisit(): Promise<void> {
  await lookForModel();
  const at = routeOf(location.hash); // where somebody goes already counts, too
  const isHome = at.screen === "chat" && at.id === null;
  if (!isRehearsing.value || !isHome || stored("setup") !== null || !app.may("provider/create") || app.sessions.value.length > 0) return;
  setUpSeen();
  location.replace(hrefOf("setup"));
}
