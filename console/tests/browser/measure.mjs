// What the page costs the browser; benchmarks/console.py starts it with a daemon that has what is measured on record.
import { writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { links, long, many, seconds, only } = JSON.parse(process.argv[2]);
const origin = new URL(links[0]).origin;
const PROFILE = process.env.CONSOLE_PROFILE ?? "";
const FRAMES = 240;
const STEP = 400;
/** As a wheel that is turned fast. */
const WHEEL = 100;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--enable-precise-memory-info"] });
const round = (value, digits = 0) => Number(value.toFixed(digits));
const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
const show = (name, figures) => console.log(`${name.padEnd(34)} ${Object.entries(figures).map(([key, value]) => `${key} ${value}`).join("  ")}`);

/** A page that is logged in, its CPU clock, and a watch for long tasks. */
async function opened(address = origin) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB" });
  const page = await context.newPage();
  await page.goto(links.pop());
  await page.locator("form.composer textarea").waitFor();
  await page.goto("about:blank");
  const client = await context.newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.setCacheDisabled", { cacheDisabled: true });
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.addInitScript(() => {
    window.seen = {};
    const look = () => {
      if (seen.composer === undefined && document.querySelector("form.composer textarea") !== null) seen.composer = performance.now();
      if (seen.last === undefined && document.querySelector("[data-id] .markdown > div > *") !== null) {
        seen.last = performance.now();
        requestAnimationFrame(() => requestAnimationFrame(() => (seen.painted = performance.now())));
      }
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
    window.longTasks = [];
    new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration))).observe({ entryTypes: ["longtask"] });
  });
  const figures = async () => {
    const { metrics } = await client.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((each) => [each.name, each.value]));
  };
  const cpu = async (work) => {
    const before = await figures();
    const result = await work();
    const after = await figures();
    const spent = (name) => round((after[name] - before[name]) * 1000);
    return { result, cpu: spent("TaskDuration"), script: spent("ScriptDuration"), layout: spent("LayoutDuration") + spent("RecalcStyleDuration") };
  };
  if (address !== "") await page.goto(address);
  return { context, page, client, cpu };
}

async function profiled(client, name, work) {
  if (PROFILE === "") return work();
  await client.send("Profiler.enable");
  await client.send("Profiler.setSamplingInterval", { interval: 200 });
  await client.send("Profiler.start");
  const result = await work();
  const { profile } = await client.send("Profiler.stop");
  writeFileSync(`${PROFILE}/${name}.cpuprofile`, JSON.stringify(profile));
  return result;
}

async function memory(client) {
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  return round(usedSize / 1024 / 1024, 1);
}

/** Scroll by so much a frame; return the times between frames. */
const scroll = (page, step, frames) =>
  page.evaluate(
    ([step, frames]) =>
      new Promise((resolve) => {
        const view = document.querySelector(".scroll");
        const times = [];
        let before = performance.now();
        const draw = () => {
          const now = performance.now();
          times.push(now - before);
          before = now;
          view.scrollTop += step;
          if (times.length < frames) requestAnimationFrame(draw);
          else resolve(times);
        };
        requestAnimationFrame(draw);
      }),
    [step, frames],
  );

async function scrolled(name, client, cpu, page, step) {
  const { result, ...spent } = await cpu(() => profiled(client, name.replaceAll(" ", "-"), () => scroll(page, step, FRAMES)));
  const times = result.slice(1).sort((a, b) => a - b);
  const tasks = await page.evaluate(() => longTasks.splice(0));
  show(name, {
    "median ms": round(at(times, 0.5), 1),
    "95 %": round(at(times, 0.95), 1),
    worst: round(times.at(-1), 1),
    "cpu ms a frame": round(spent.cpu / FRAMES, 2),
    script: round(spent.script / FRAMES, 2),
    layout: round(spent.layout / FRAMES, 2),
    "long tasks": tasks.length,
  });
}

const bottom = (page) => page.waitForFunction(() => document.querySelector("[data-id] .markdown > div > *") !== null);

const rows = {
  /** The same scrolling of plain boxes: what a frame of this browser on this machine takes by itself. */
  async floor() {
    const { context, page, client, cpu } = await opened("about:blank");
    await page.evaluate(() => {
      const view = document.createElement("div");
      view.className = "scroll";
      view.style.cssText = "height: 100vh; overflow: auto";
      for (let count = 0; count < 1000; count++) view.append(Object.assign(document.createElement("p"), { textContent: `Box ${count}` }));
      document.body.append(view);
    });
    await scrolled("scrolling plain boxes", client, cpu, page, STEP);
    await context.close();
  },

  async load() {
    const { context, page, cpu } = await opened("");
    for (let count = 0; count < 3; count++) {
      const { cpu: spent } = await cpu(async () => {
        await page.goto(`${origin}/`);
        await page.waitForFunction(() => window.seen.composer !== undefined && document.querySelector(".connection.is-open") !== null);
      });
      show("load, cold", { "composer ms": round(await page.evaluate(() => seen.composer)), "cpu ms": spent });
      await page.goto("about:blank");
    }
    await context.close();
  },

  async long() {
    const { context, page, client, cpu } = await opened("");
    const address = `${origin}/#/chat/${long}`;
    for (let count = 0; count < 3; count++) {
      const { cpu: spent, script, layout } = await cpu(async () => {
        await page.goto(address);
        await page.waitForFunction(() => window.seen.painted !== undefined);
      });
      const seen = await page.evaluate(() => window.seen);
      show("long session, opened", { "composer ms": round(seen.composer), "last page ms": round(seen.last), painted: round(seen.painted), "cpu ms": spent, script, layout });
      await page.goto("about:blank");
    }
    await profiled(client, "open", async () => {
      await page.goto(address);
      await bottom(page);
      await page.waitForTimeout(300);
    });
    show("  memory at the end", { MB: await memory(client) });
    await page.locator(".scroll").focus();
    await page.evaluate(() => longTasks.splice(0));
    await scrolled("scrolling up 100 px a frame", client, cpu, page, -WHEEL);
    await page.evaluate(() => longTasks.splice(0));
    await scrolled("scrolling up 400 px a frame", client, cpu, page, -STEP);
    const { cpu: jump } = await cpu(async () => {
      const begun = Date.now();
      await page.locator(".scroll").focus();
      await page.keyboard.press("Home");
      await page.getByText("Write the report 0.", { exact: true }).waitFor({ timeout: 60_000 });
      show("jump to the beginning", { ms: Date.now() - begun });
    });
    show("  its cpu", { ms: jump });
    await page.evaluate(() => longTasks.splice(0));
    await scrolled("scrolling down 400 px a frame", client, cpu, page, STEP);
    await page.evaluate(async () => {
      // All of it, as fast as it is read.
      const view = document.querySelector(".scroll");
      for (let turn = 0; turn < 3000 && view.scrollTop + view.clientHeight < view.scrollHeight - 4; turn++) {
        view.scrollTop += 4000;
        await new Promise((resolve) => setTimeout(resolve, 16));
      }
    });
    await page.waitForTimeout(500);
    show("  memory with all of it read", { MB: await memory(client), nodes: await page.evaluate(() => document.querySelectorAll("*").length) });
    await page.evaluate(() => longTasks.splice(0));
    await scrolled("scrolling up, all of it read", client, cpu, page, -STEP);
    // As a row of a timeline leads there: nothing but the id of the message is known.
    const other = await context.newPage();
    await other.goto(address);
    await bottom(other);
    const asked = [];
    other.on("websocket", (socket) => socket.on("framesent", ({ payload }) => asked.push(payload)));
    await other.reload();
    await bottom(other);
    asked.length = 0;
    const begun = Date.now();
    await other.evaluate((id) => (location.hash = `#/chat/${id}/input_3`), long);
    await other.locator("[data-marked]").filter({ hasText: "Write the report 3." }).waitFor();
    show("to a message by its id alone", { ms: Date.now() - begun, pages: asked.filter((each) => each.includes('"session/messages"')).length });
    await context.close();
  },

  async stream() {
    const { context, page, client, cpu } = await opened(`${origin}/#/chat/${long}`);
    await bottom(page);
    await page.waitForTimeout(500);
    let frames = 0;
    page.on("websocket", () => undefined);
    client.on("Network.webSocketFrameReceived", () => frames++);
    await page.locator("form.composer textarea").fill("stream");
    await page.evaluate(() => longTasks.splice(0));
    const begun = Date.now();
    const { cpu: spent, script, layout } = await cpu(() =>
      profiled(client, "stream", async () => {
        await page.locator("form.composer textarea").press("Enter");
        await page.locator(".is-live").waitFor();
        await page.locator(".is-live").waitFor({ state: "detached", timeout: 60_000 });
      }),
    );
    const took = Date.now() - begun;
    const tasks = (await page.evaluate(() => longTasks)).sort((a, b) => b - a);
    show("fast answer, long session open", { "% of a core": round((spent / took) * 100), script, layout, "frames/s": round(frames / (took / 1000)), "long tasks": tasks.length, worst: round(tasks[0] ?? 0) });
    await context.close();
  },

  async many() {
    const { context, page, client, cpu } = await opened(`${origin}/`);
    await page.locator(".sessions li").first().waitFor();
    for (;;) {
      const more = page.getByRole("button", { name: "More sessions" });
      if (!(await more.isVisible())) break;
      await more.click();
      await page.waitForTimeout(400);
    }
    const listed = await page.locator(".sessions li").count();
    await page.evaluate(() => longTasks.splice(0));
    // Of another tab: so many sessions run at once.
    const other = await context.newPage();
    await other.goto(`${origin}/`);
    await other.locator("form.composer textarea").waitFor();
    const begun = Date.now();
    const { cpu: spent, script, layout } = await cpu(() =>
      profiled(client, "many", async () => {
        for (const id of many) {
          await other.goto(`${origin}/#/chat/${id}`);
          await other.locator(".message").first().waitFor();
          await other.locator("form.composer textarea").fill("stream");
          await other.locator("form.composer textarea").press("Enter");
        }
        await page.waitForTimeout(seconds * 1000);
      }),
    );
    const tasks = (await page.evaluate(() => longTasks)).sort((a, b) => b - a);
    show("many sessions, 20 begin and end", { listed, "% of a core": round((spent / (Date.now() - begun)) * 100), script, layout, "long tasks": tasks.length, worst: round(tasks[0] ?? 0), MB: await memory(client) });
    await context.close();
  },
};

for (const [name, run] of Object.entries(rows)) if (only.includes(name)) await run();
await browser.close();
