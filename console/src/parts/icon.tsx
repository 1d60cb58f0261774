// Icons as lines: no font and no file is loaded for them. Each stands beside a name that is read aloud.

const PATHS = {
  copy: "M9 9h10v10H9z M15 9V5H5v10h4",
  again: "M20 11a8 8 0 1 0-2.3 6.3 M20 5v6h-6",
  edit: "M4 20h4L19 9l-4-4L4 16z M13 7l4 4",
  fork: "M6 4v6a4 4 0 0 0 4 4h8 M6 14v6 M14 10l4 4-4 4",
  more: "M5 12h.01 M12 12h.01 M19 12h.01",
  trash: "M4 7h16 M9 7V4h6v3 M6 7l1 13h10l1-13 M10 11v5 M14 11v5",
  undo: "M9 5L4 10l5 5 M4 10h10.5a4.7 4.7 0 0 1 0 9.4H11",
  save: "M12 4v11 M7 11l5 5 5-5 M4 20h16",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  close: "M6 6l12 12 M18 6L6 18",
  find: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13z M15.5 15.5L20 20",
  up: "M6 14l6-6 6 6",
  down: "M6 10l6 6 6-6",
  send: "M12 20V5 M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  file: "M6 3h8l4 4v14H6z M14 3v4h4",
  options: "M4 7h9 M17 7h3 M15 5v4 M4 17h3 M11 17h9 M9 15v4",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4 M12 18h.01 M12 22a10 10 0 1 0 0-20 10 10 0 0 0 0 20z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
