// What somebody has opened stays open while it is scrolled away and back: a list keeps nothing of what it does not draw.
import { useState } from "preact/hooks";

/** Of more, the one that was opened first is forgotten. */
const MOST = 500;
const opened = new Set<string>();

/** Whether what has this name is open, as a state; another thing of the same name is open, too. */
export function useOpened(name: string): [isOpen: boolean, open: (isOpen: boolean) => void] {
  const [isOpen, setOpen] = useState(() => opened.has(name));
  const open = (now: boolean) => {
    opened.delete(name);
    if (now) opened.add(name);
    const [first] = opened;
    if (opened.size > MOST && first !== undefined) opened.delete(first);
    setOpen(now);
  };
  return [isOpen, open];
}
