// One moment for page and daemon: what differs from run to run and from machine to machine is the same in each picture.
import { first, further } from "./people.mjs";

/** The moment of support/gateway/gallery_record.py. */
const NOW_MS = 1_788_258_600_000;

/** What differs from run to run and from machine to machine, as it is and as it is shown. */
function pairs() {
  const home = further[1].slice(0, -"/work/garden".length);
  return [[home, "/home/ada"], [new URL(further[0]).host, "127.0.0.1:9000"], [new URL(first).host, "127.0.0.1:8790"]];
}
const FIGURES = { uptime_seconds: 7830, pid: 4711, journal_seconds: 0.0004, lag_seconds: 0.0012, longest_seconds: 0.012, blocked: 0, seconds: 143.4, since_ms: NOW_MS, connections: 1, version: "1.0.0" };

/** What the daemon says, with the figures of one moment, and without what was opened before. */
function still(text, all) {
  if (text.includes('"uptime_seconds"')) {
    const answer = JSON.parse(text);
    answer.result.actors = answer.result.actors.filter((each) => !each.name.startsWith("session "));
    answer.result.work.sessions = answer.result.work.sessions.slice(0, 1);
    answer.result.work.storage_warning = "";
    Object.assign(answer.result, { sandbox: { strength: "full", reason: "" }, loop: { lag_seconds: 0, blocked: 0, longest_seconds: 0 }, journal_seconds: 0 });
    text = JSON.stringify(answer);
  }
  for (const [real, shown] of all) text = text.replaceAll(real, shown);
  for (const [name, value] of Object.entries(FIGURES)) text = text.replaceAll(new RegExp(`("${name}":)("[^"]*"|[0-9.e-]+)`, "g"), `$1${JSON.stringify(value)}`);
  return text;
}

/** Make ready a browser of a person who comes at that moment. */
export async function prepare(context) {
  const all = pairs();
  await context.clock.setFixedTime(NOW_MS);
  await context.routeWebSocket(/\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((message) => server.send(all.reduce((text, [real, shown]) => text.replaceAll(shown, real), message)));
    server.onMessage((message) => socket.send(still(message, all)));
  });
}
