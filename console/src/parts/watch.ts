// Looking again while somebody looks: for what no list and no topic tells of.
import { useEffect, useRef } from "preact/hooks";
import * as app from "../store/app";

const EVERY_MS = 2000;

/** One at a time: a daemon that is slow is not asked again before it has answered. */
export function useWatch(run: () => unknown, deps: readonly unknown[] = []): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    let isBusy = false;
    const timer = setInterval(async () => {
      if (isBusy || document.hidden || app.link.state.peek().kind !== "open") return;
      isBusy = true;
      try {
        await latest.current();
      } finally {
        isBusy = false;
      }
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
