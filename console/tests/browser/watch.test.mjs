// People's flows on the screens that show what happens: the timeline of a turn, usage, status and log.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import "./watched.mjs";
import { answerTo, axe, composer, first, opened, peer, picture, say } from "./people.mjs";
import { go, looks } from "./looks.mjs";

export async function allow(page) {
  await page.getByRole("button", { name: "Allow", exact: true }).click();
}

test("a turn is shown as it went, while it runs and afterwards, and what was delegated is opened", async () => {
  const { page, close } = await opened({ acceptDownloads: true });
  await say(page, "timeline please");
  await allow(page);
  await page.locator("main").getByText("All of it was done side by side.").waitFor();
  await page.locator(".message.assistant").last().getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Timeline of the turn" }).click();
  await page.getByText("6 calls,").waitFor();
  await page.locator(".tiles").waitFor();
  await looks(page, "turn");
  const table = page.getByRole("table");
  assert.equal(await table.getByRole("row").count(), 1 + 1 + 3 + 6 + 1);
  await page.getByRole("row", { name: /delegate/ }).getByRole("button", { name: "Show what was delegated" }).click();
  await page.getByRole("row", { name: /list_directory/ }).waitFor();
  const plot = page.getByRole("group", { name: "Timeline" }).first();
  await plot.focus();
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowRight");
  for (let count = 0; count < 4; count++) await page.keyboard.press("ArrowDown");
  await page.locator(".about-row").waitFor();
  await picture(page, "turn-open");
  await axe(page, "turn, opened and zoomed");
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "SVG" }).click();
  const svg = await readFile(await (await saved).path(), "utf8");
  assert.ok(svg.startsWith("<svg") && svg.includes("6 calls") && !svg.includes("var(--"), svg.slice(0, 200));
  const json = page.waitForEvent("download");
  await page.getByRole("button", { name: "JSON" }).click();
  assert.equal(JSON.parse(await readFile(await (await json).path(), "utf8")).is_over, true);
  await page.getByRole("link", { name: "In the chat" }).click();
  await composer(page).waitFor();
  await say(page, "long one");
  await page.locator(".call.is-running").waitFor();
  await page.evaluate(() => (location.hash = location.hash.replace(/#\/chat\/([^/]+).*/, "#/turn/$1")));
  await page.getByText("it runs").waitFor();
  await page.getByRole("row", { name: /pause.*runs/ }).waitFor();
  await picture(page, "turn-running");
  await page.getByRole("link", { name: "To the session" }).click();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".call.is-cancelled").waitFor();
  await page.goBack();
  await page.locator(".turn-state").getByText("cancelled").waitFor();
  await close();
});

test("usage is summed by day, model, agent and session, and is taken along as CSV", async () => {
  const { page, close } = await opened();
  await go(page, "#/usage");
  await page.getByText("rehearsed/steady-1").waitFor();
  await looks(page, "usage");
  assert.ok((await page.locator(".tiles").innerText()).includes("from the cache"));
  await page.getByLabel("Agent", { exact: true }).check();
  await page.getByRole("cell", { name: "researcher" }).waitFor();
  await page.getByLabel("Session", { exact: true }).check();
  await page.getByRole("link", { name: "Question 1 of that day" }).first().waitFor();
  // Also those are named that the list at the left has not.
  await page.getByRole("link", { name: /^session_/ }).first().waitFor({ state: "detached" });
  await page.locator("summary", { hasText: "Prices, in US dollars" }).click();
  await page.getByRole("row", { name: /rehearsed\/steady-1.*15/ }).last().waitFor();
  await page.locator("summary", { hasText: "Prices, in US dollars" }).click();
  await page.getByLabel("7 days").check();
  await page.getByLabel("Cost", { exact: true }).check();
  await page.getByLabel("Day", { exact: true }).check();
  await page.getByRole("table").getByRole("row").nth(9).waitFor({ state: "detached" }); // a head, seven days and the one that has begun
  await page.getByRole("table").getByRole("row").nth(1).waitFor();
  await picture(page, "usage-cost");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(first).origin });
  await page.getByRole("button", { name: "Copy as CSV" }).click();
  await page.getByText("Copied").waitFor();
  await close();
});

test("the status and the end of the log are live, for administrators", async () => {
  const { page, close } = await opened();
  const asked = [];
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => asked.push(JSON.parse(payload))));
  await page.reload();
  await go(page, "#/logs");
  await page.getByText("Running for").waitFor();
  await page.getByRole("cell", { name: "directory" }).waitFor();
  peer.stdin.write("log a bridge is out\n");
  await page.getByText("a bridge is out").waitFor();
  await page.getByLabel("Errors").check();
  await page.getByText("Nothing was logged at this level.").waitFor();
  await page.getByLabel("Warnings").check();
  await page.getByText("a bridge is out").waitFor();
  await looks(page, "logs");
  // Nothing is asked again and again: the page waits for the next record of this level, and is answered once for each.
  const waits = () => asked.filter((each) => each.method === "log/tail" && each.params.level === "warning");
  const before = waits().length;
  peer.stdin.write("log the bridge is back\n");
  await page.getByText("the bridge is back").waitFor();
  assert.deepEqual(waits().slice(before - 1).map((each) => each.params.wait), [true, true]);
  // A session that works is listed while it does, and no more afterwards.
  const other = await page.context().newPage();
  await other.goto(new URL("/#/chat/new", page.url()).href);
  await say(other, "long one");
  await page.getByRole("link", { name: /pause/ }).waitFor();
  await other.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Nothing runs now.").waitFor();
  await close();
});

test("tools are listed by their source, and the history of calls is filtered", async () => {
  const { page, close } = await opened();
  await go(page, "#/tools");
  await page.getByText("Built in").waitFor();
  await page.getByLabel("Find a tool").fill("pause");
  await page.locator("summary", { hasText: "pause" }).click();
  await looks(page, "tools");
  await page.getByRole("link", { name: "Its calls" }).click();
  await page.getByText("waited", { exact: false }).first().waitFor();
  await page.getByLabel("State").selectOption("cancelled");
  await page.locator(".tool-rows summary", { hasText: "cancelled" }).first().click();
  await looks(page, "tools-history", true);
  await page.getByLabel("State").selectOption("");
  await page.getByLabel("Session", { exact: true }).selectOption({ label: "Question 1 of that day" });
  await page.getByText("No call is like that").waitFor();
  await page.getByLabel("Session", { exact: true }).selectOption({ label: "timeline please" });
  await page.locator(".tool-rows summary").first().waitFor();
  await page.getByLabel("State").selectOption("cancelled");
  await page.getByLabel("Tool", { exact: true }).selectOption("list_directory");
  await page.getByText("No call is like that").waitFor();
  await close();
});

test("an observer, in Chinese and in the dark, sees what there is and no action", async () => {
  const token = (await answerTo("token observer")).split(" ")[0];
  const { page, close } = await opened({ locale: "zh-CN", colorScheme: "dark" }, { isLoggedIn: false });
  await page.getByLabel("令牌").fill(token);
  await page.keyboard.press("Enter");
  await page.locator(".drawer .sessions a").first().waitFor();
  for (const [name, said] of [["tools", "内置"], ["mcp", "还没有服务器"], ["schedules", "没有任何计划"], ["usage", "rehearsed/steady-1"], ["logs", "已运行"]]) {
    await go(page, `#/${name}`);
    await page.getByText(said).first().waitFor();
    assert.equal(await page.locator("main").getByRole("button", { name: /新建|添加|立即运行|移除|删除/ }).count(), 0);
    assert.equal(await page.locator("main").getByRole("link", { name: /新建|添加/ }).count(), 0);
    await picture(page, `observer-${name}`);
    await axe(page, `observer ${name}`);
  }
  assert.equal(await page.getByRole("heading", { name: "日志", exact: true }).count(), 0);
  for (const name of ["memory", "skills"]) {
    await go(page, `#/${name}`);
    await page.getByText("此登录不可用").or(page.getByText("不适用于此登录")).or(page.locator(".nothing")).first().waitFor();
  }
  await page.getByText("timeline please").first().click();
  await page.locator(".message.assistant").last().waitFor();
  await go(page, (await page.evaluate(() => location.hash)).replace("#/chat/", "#/turn/"));
  await page.locator(".tiles").waitFor();
  await picture(page, "observer-turn");
  await axe(page, "observer turn");
  await close();
});

test("a turn of hundreds of rows draws those in view alone", async () => {
  const { page, close } = await opened();
  await say(page, "many calls");
  await page.locator("main").getByText("So many.").waitFor();
  await go(page, (await page.evaluate(() => location.hash)).replace("#/chat/", "#/turn/"));
  await page.getByText("answered", { exact: true }).waitFor();
  const drawn = () => page.locator(".plot-box [data-row]").count();
  const all = (await page.getByRole("table").getByRole("row").count()) - 1;
  assert.ok(all > 200, `${all} rows`);
  assert.ok((await drawn()) < 80, `${await drawn()} of ${all} are drawn`);
  await page.getByRole("group", { name: "Timeline" }).first().focus();
  await page.keyboard.press("End");
  await page.locator(`.plot-box [data-row$="model:now"], .plot-box [data-row]`).last().waitFor();
  assert.ok((await page.locator(".plot-box").evaluate((box) => box.scrollTop)) > 3000);
  assert.ok((await drawn()) < 80);
  await picture(page, "turn-many");
  await close();
});

test("the agent is changed in the top bar, by the mouse, by keys and by a finger", async () => {
  const { page, close } = await opened();
  await page.goto(`${new URL(page.url()).origin}/#/chat/new`);
  const name = page.getByRole("banner").getByRole("button", { name: /^Agent:/ });
  await name.click();
  const sheet = page.getByRole("menu", { name: "Agent" });
  await sheet.getByRole("menuitemradio", { name: /^general/, checked: true }).waitFor();
  await picture(page, "agents-in-bar");
  await axe(page, "agents in the bar");
  await sheet.getByRole("menuitemradio", { name: /^researcher/ }).click();
  await page.getByRole("button", { name: "Agent: researcher" }).waitFor();
  await say(page, "who are you");
  await page.locator(".message.assistant").last().waitFor();
  // A session that is there goes on with another one, which the list of sessions says as well.
  await name.focus();
  await page.keyboard.press("Enter");
  await sheet.getByRole("menuitemradio", { name: /^researcher/, checked: true }).waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-checked") === "true");
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Agent: general" }).waitFor();
  await page.waitForFunction(() => document.activeElement?.classList.contains("agent-name"));
  await page.setViewportSize({ width: 390, height: 844 });
  await name.click();
  await sheet.getByRole("menuitemradio", { name: /^general/, checked: true }).waitFor();
  const box = await sheet.boundingBox();
  assert.deepEqual([box.x, Math.round(box.width), Math.round(box.y + box.height)], [0, 390, 844]);
  await picture(page, "agents-sheet");
  await axe(page, "agents sheet");
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "hidden" });
  await close();
});
