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
  folder: "M3.5 6.5h6l2 2.5h9v10h-17z",
  file: "M6 3h8l4 4v14H6z M14 3v4h4",
  options: "M4 7h9 M17 7h3 M15 5v4 M4 17h3 M11 17h9 M9 15v4",
  key: "M14.5 14a5 5 0 1 0-4.2-3.8L4 16.5V20h3.5v-2.5H10V15h2.3z M16.2 7.8h.01",
  back: "M19 12H5 M11 6l-6 6 6 6",
  menu: "M4 7h16 M4 12h16 M4 17h16",
  plus: "M12 5v14 M5 12h14",
  check: "M5 12.5l5 5L19 7.5",
  warn: "M12 4.5L21 20H3z M12 10.5v4 M12 17.2h.01",
  out: "M10 4H5v16h5 M15 8l4 4-4 4 M19 12H9.5",
  setup: "M6 21V4h12l-2.5 4L18 12H6",
  chat: "M4 5h16v11H9.5L4 20z",
  agents: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z M4 20.5c.8-3.5 4-5 8-5s7.2 1.5 8 5",
  providers: "M7 18.5a4 4 0 0 1-.6-8A6 6 0 0 1 18 9.8a4.4 4.4 0 0 1-.5 8.7z",
  tools: "M20.5 7.5l-3 3-3.5-.5-.5-3.5 3-3a5 5 0 0 0-6.2 6.5L4.5 15.8a2.6 2.6 0 0 0 3.7 3.7L14 13.7a5 5 0 0 0 6.5-6.2z",
  mcp: "M9 3v5 M15 3v5 M6 8h12v3a6 6 0 0 1-12 0z M12 17v4",
  memory: "M5 6c0-1.7 3-3 7-3s7 1.3 7 3-3 3-7 3-7-1.3-7-3z M5 6v12c0 1.7 3 3 7 3s7-1.3 7-3V6 M5 12c0 1.7 3 3 7 3s7-1.3 7-3",
  skills: "M12 6c-2-1.5-5-2-8-2v14c3 0 6 .5 8 2 2-1.5 5-2 8-2V4c-3 0-6 .5-8 2z M12 6v14",
  schedules: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z M12 7v5l3.5 2",
  usage: "M4 20h16 M7.5 20v-7 M12 20V5 M16.5 20v-10",
  logs: "M5 6h.01 M9 6h11 M5 12h.01 M9 12h11 M5 18h.01 M9 18h11",
  settings: "M10.3 5.2L10.6 2.9h2.8l.3 2.3 1.9.8 1.9-1.4 1.9 1.9-1.4 1.9.8 1.9 2.3.3v2.8l-2.3.3-.8 1.9 1.4 1.9-1.9 1.9-1.9-1.4-1.9.8-.3 2.3h-2.8l-.3-2.3-1.9-.8-1.9 1.4-1.9-1.9 1.4-1.9-.8-1.9-2.3-.3v-2.8l2.3-.3.8-1.9-1.4-1.9 1.9-1.9 1.9 1.4z M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
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
