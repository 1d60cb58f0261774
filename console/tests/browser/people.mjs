// A real daemon whose model follows a script, and browsers of people who come to it. Who imports this has both until its tests end.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before } from "node:test";
import { chromium } from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Long enough for a busy machine, and short enough to say in time what was missed. */
const PATIENCE_MS = Number(process.env.CONSOLE_PATIENCE_MS ?? 20_000);
const PICTURES = process.env.CONSOLE_PICTURES ?? "";
/** As on another machine: pages that compute so many times as slowly, a daemon whose messages come so much later, and one that looks at nothing. */
const [SLOWER, LATER_MS, isBlind] = [Number(process.env.CONSOLE_SLOWER ?? 1), Number(process.env.CONSOLE_LATER_MS ?? 0), process.env.CONSOLE_AXE === "no"];
const [python, folder] = [process.env.CONSOLE_PYTHON, process.env.CONSOLE_TESTS];
/** `people.mjs?peer=configured` has a daemon with a configuration that may be changed. */
const peerWords = new URL(import.meta.url).searchParams.getAll("peer");
export let peer, token, first, further, browser;
let lines;

/** A daemon of `?peer=kept` keeps its record here, and its port when it begins again. */
const kept = peerWords[0] === "kept" ? [mkdtempSync(join(tmpdir(), "console-")), "0"] : [];

async function begin() {
  peer = spawn(python, ["-W", "ignore", "-m", `support.gateway.${process.env.CONSOLE_PEER ?? "console_peer"}`, ...peerWords, ...kept], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  lines = createInterface({ input: peer.stdout })[Symbol.asyncIterator]();
  [first, token, ...further] = (await lines.next()).value.split(" ");
}

/** Kill the daemon with what it does; `beginAgain` has another one at its address. */
export async function kill() {
  const ended = once(peer, "exit");
  peer.kill("SIGKILL");
  await ended;
}
/** Back the `data` of a daemon of `?peer=kept` up, or restore it, while none runs: a function with its arguments. */
export function onItsData(call) {
  const code = `import trio\nfrom pathlib import Path\nfrom callboard.runtime.backup.backup import restore_backup, write_backup\ndata = Path(${JSON.stringify(join(kept[0], "data"))})\ntrio.run(trio.to_thread.run_sync, ${call})`;
  const { status, stderr } = spawnSync(python, ["-c", code], { cwd: folder, encoding: "utf8" });
  assert.equal(status, 0, stderr);
}
export async function beginAgain() {
  kept.splice(1, 2, new URL(first).port, token);
  await begin();
}

before(async () => {
  await begin();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  peer.kill("SIGINT");
  if (kept.length > 0) {
    await once(peer, "exit");
    rmSync(kept[0], { recursive: true, force: true });
  }
});
/** What a person would see when a test failed, beside the other pictures. */
afterEach(async (context) => {
  if (context.passed || PICTURES === "") return;
  const pages = browser.contexts().flatMap((each) => each.pages());
  await Promise.all(pages.map((page, at) => page.screenshot({ path: `${PICTURES}/failed-${context.name.slice(0, 40).replace(/\W+/g, "-")}-${at}.png`, fullPage: true }).catch(() => undefined)));
});

export async function link() {
  return (await answerTo("link")).split(" ")[0];
}

/** What the daemon's process prints to a line on its stdin. */
export async function answerTo(line) {
  peer.stdin.write(`${line}\n`);
  return (await lines.next()).value;
}

/** Have the pages of a browser be those of another machine. */
async function asElsewhere(context) {
  if (SLOWER > 1) {
    context.on("page", async (page) => {
      const client = await context.newCDPSession(page);
      await client.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
    });
  }
  if (LATER_MS > 0) {
    await context.routeWebSocket(/\/ws$/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((message) => setTimeout(() => socket.send(message), LATER_MS));
    });
  }
}

/** A browser of its own, logged in by a ticket; what it must not do is noted. */
export async function opened(options = {}, { isLoggedIn = true, isAtHome = true, mayBlock = false, isAloud = false, prepare = async () => undefined } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB", ...options });
  // What is read aloud is in the page a second time, where a test would find it.
  if (!isAloud) await context.addInitScript(() => location.protocol.startsWith("http") && localStorage.setItem("callboard.aloud", "no"));
  await asElsewhere(context);
  await prepare(context);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const bad = [];
  page.on("console", (message) => message.type() === "error" && bad.push(message.text()));
  page.on("pageerror", (error) => bad.push(error.stack ?? String(error)));
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    if (origin !== new URL(first).origin && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) bad.push(`left: ${request.url()}`);
  });
  if (isLoggedIn) {
    await page.goto(await link());
    if (isAtHome) await composer(page).waitFor();
  } else await page.goto(new URL("/", first).href);
  return {
    page,
    bad,
    async close() {
      await context.close();
      // DOMPurify parses hostile text in a document of its own, where the policy blocks it once more.
      assert.deepEqual(bad.filter((text) => !(mayBlock && text.includes("Content Security Policy"))), []);
    },
  };
}

/** Wait until nothing moves any more that moves for a while, as what slides in. */
export const atRest = (page) =>
  page.evaluate(() => Promise.all(document.getAnimations().filter((each) => each.effect.getComputedTiming().endTime !== Infinity).map((each) => each.finished.catch(() => undefined))));

export const composer = (page) => page.locator("form.composer textarea");
export async function say(page, text) {
  await composer(page).fill(text);
  await composer(page).press("Enter");
}
/** A press counts: nothing came or moved lately that it could have been meant for. A click waits for that by itself. */
export const settled = (page) => page.locator("section.ask .buttons:not(:has([aria-disabled=true]))").first().waitFor();
export async function picture(page, name) {
  if (PICTURES !== "") await page.screenshot({ path: `${PICTURES}/${name}.png` });
}
const RULES = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
/** What of the rules another theme can break: it has the same elements in other colours. */
const COLOUR_RULES = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
export async function axe(page, where, isOtherTheme = false) {
  if (isBlind) return;
  // Evaluated by the debugger's protocol, which the page's policy does not concern.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource + ";0");
  const { violations } = await page.evaluate((runOnly) => window.axe.run(document, { runOnly, resultTypes: ["violations"] }), isOtherTheme ? COLOUR_RULES : RULES);
  const found = violations.map((each) => `${where}: ${each.id}: ${each.nodes.map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
  assert.deepEqual(found, []);
}
