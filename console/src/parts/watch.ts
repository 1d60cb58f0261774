// Looking again while somebody looks: for what no list and no topic tells of.
import { useEffect, useRef } from "preact/hooks";
import * as app from "../store/app";

const EVERY_MS = 2000;

export function useWatch(run: () => void, deps: readonly unknown[] = []): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && app.link.state.peek().kind === "open") latest.current();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, deps);
}

/** Do something whose refusal is said in a line; return whether it was done. */
export async function done(run: () => Promise<unknown>): Promise<boolean> {
  try {
    await run();
    return true;
  } catch (error) {
    app.say(error);
    return false;
  }
}
