// Which stretch of time is in view. Pure.
import type { View } from "./picture";

/** Nobody reads less than that. */
export const LEAST_MS = 20;

/** Zoom about a place of the view, from 0 at its left to 1; `null` when all is in view. */
export function zoomed(view: View, all: View, factor: number, where: number): View | null {
  const size = Math.max(LEAST_MS, (view.to - view.from) * factor);
  if (size >= all.to - all.from) return null;
  const from = view.from + (view.to - view.from) * where - size * where;
  return within(from, size, all);
}

/** Move by a share of the view. */
export function moved(view: View, all: View, share: number): View | null {
  const size = view.to - view.from;
  if (size >= all.to - all.from) return null;
  return within(view.from + size * share, size, all);
}

function within(from: number, size: number, all: View): View {
  const begin = Math.max(all.from, Math.min(from, all.to - size));
  return { from: begin, to: begin + size };
}
