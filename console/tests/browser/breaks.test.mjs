// What a page shows when its daemon is killed, its login ends, or the record is another one: nothing is lost, and nothing is said twice.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, beginAgain, composer, kill, onItsData, opened, picture, say, token } from "./people.mjs?peer=kept";

const user = (page, text) => page.locator(".message.user").filter({ hasText: text });
/** What a browser says of its own accord when nobody answers. */
const isExpected = (text) => /503|401|WebSocket connection to|ERR_CONNECTION_REFUSED|Failed to load resource/.test(text);
const forgive = (bad) => bad.splice(0, bad.length, ...bad.filter((text) => !isExpected(text)));

test("a daemon that is killed while it writes and comes back has all that was said, and what waits goes out once", async () => {
  const { page, bad, close } = await opened();
  await say(page, "before it is killed");
  await page.locator("main").getByText("You said: before it is killed").waitFor();
  await say(page, "count on");
  await page.locator("main").getByText(/1 2 3 4 5 6 7 8/).waitFor();
  await kill();
  await page.getByText(/no connection: .*; tries again in/).waitFor();
  await picture(page, "killed");
  await axe(page, "killed");
  // The other screens came before somebody wanted them.
  const chat = await page.evaluate(() => location.hash);
  await page.evaluate(() => (location.hash = "#/usage"));
  await page.getByText("Tokens as providers counted them").waitFor();
  await page.evaluate((at) => (location.hash = at), chat);
  await say(page, "while nobody listens");
  await page.locator(".outgoing").getByText("while nobody listens").waitFor();
  await beginAgain();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.locator("main").getByText("You said: while nobody listens").waitFor();
  assert.equal(await page.locator(".outgoing").count(), 0);
  for (const text of ["before it is killed", "count on", "while nobody listens"]) assert.equal(await user(page, text).count(), 1, text);
  assert.equal(await page.locator("main").getByText("You said: before it is killed").count(), 1);
  // The record alone says the same.
  const shown = await page.locator("article.slot").allInnerTexts();
  await page.evaluate(() => sessionStorage.clear());
  await page.goto("about:blank");
  await page.goBack();
  await page.locator("main").getByText("You said: while nobody listens").waitFor();
  assert.deepEqual(await page.locator("article.slot").allInnerTexts(), shown);
  forgive(bad);
  await close();
});

test("a reload in the middle of an answer goes on in the middle, and another tab has the same", async () => {
  const { page, close } = await opened();
  await say(page, "count for two");
  await page.locator("main").getByText(/1 2 3 4 5/).waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator("main").getByText(/1 2 3 4 5/).waitFor();
  await page.reload();
  await page.locator("main").getByText(/1 2 3 4 5/).waitFor();
  for (const each of [page, other]) {
    await each.locator("main").getByText(/397 398 399/).waitFor();
    assert.equal(await each.locator("main").getByText(/1 2 3 4 5/).count(), 1);
    assert.equal(await user(each, "count for two").count(), 1);
  }
  await close();
});

test("another session and back shows what came meanwhile", async () => {
  const { page, close } = await opened();
  await say(page, "count and leave");
  await page.locator("main").getByText(/1 2 3/).waitFor();
  const left = page.url();
  await page.getByRole("link", { name: "New session" }).click();
  await page.getByText("What can I do for you?").waitFor();
  await say(page, "another one");
  await page.locator("main").getByText("You said: another one").waitFor();
  await page.goto(left);
  await page.locator("main").getByText(/397 398 399/).waitFor();
  assert.equal(await page.locator("main").getByText(/1 2 3 4 5/).count(), 1);
  await close();
});

test("a login that ends shows the way in again, and keeps nothing of what was said", async () => {
  const { page, bad, close } = await opened();
  await say(page, "said before the end");
  await page.locator("main").getByText("You said: said before the end").waitFor();
  await page.evaluate(() => localStorage.setItem("callboard.key", "wrong"));
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await picture(page, "ended");
  await axe(page, "ended");
  assert.equal(await page.evaluate(() => JSON.stringify(sessionStorage).includes("said before the end")), false);
  assert.equal(await page.getByText("said before the end").count(), 0);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await composer(page).waitFor();
  await page.locator("main").getByText("You said: said before the end").waitFor();
  forgive(bad);
  await close();
});

test("what breaks the policy of the page, leaves it or fails in it fails a test", async () => {
  for (const breakIt of [
    () => document.body.append(Object.assign(document.createElement("script"), { textContent: "1" })),
    () => document.body.append(Object.assign(document.createElement("img"), { src: "https://example.org/track.png" })),
    () => setTimeout(() => { throw new Error("broken"); }),
    () => console.error("noted"),
  ]) {
    const { page, bad, close } = await opened();
    await page.evaluate(`(${breakIt})()`).catch(() => bad.push("refused"));
    for (let count = 0; bad.length === 0 && count < 200; count++) await page.waitForTimeout(50);
    assert.ok(bad.length > 0, String(breakIt));
    await assert.rejects(close());
  }
});

test("an input that waits for its turn is taken back in another tab", async () => {
  const { page, close } = await opened();
  await say(page, "slow one");
  await page.locator("main").getByText("I begin, and never end.").waitFor();
  await say(page, "second thought");
  await page.getByText("waits for its turn").waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByRole("button", { name: "Take back" }).click();
  for (const each of [page, other]) await each.getByText("waits for its turn").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  // The control: what is not taken back is answered.
  await say(page, "third thought");
  await other.locator("main").getByText("You said: third thought").waitFor();
  assert.equal(await page.locator("main").getByText("You said: second thought").count(), 0);
  await close();
});

test("a record that comes from a backup is another one, which is said and read from its beginning", async () => {
  const { page, bad, close } = await opened();
  await say(page, "kept in the backup");
  await page.locator("main").getByText("You said: kept in the backup").waitFor();
  await kill();
  onItsData("write_backup, data, data.parent / 'saved.db'");
  await beginAgain();
  await page.getByText("connected", { exact: true }).waitFor();
  await say(page, "after the backup");
  await page.locator("main").getByText("You said: after the backup").waitFor();
  await kill();
  onItsData("restore_backup, data, data.parent / 'saved.db'");
  await beginAgain();
  await page.getByText("The daemon's record is another one now").waitFor();
  await page.locator("main").getByText("You said: after the backup").waitFor({ state: "detached" }); // what the page had is shown until it has read the other
  await page.locator("main").getByText("You said: kept in the backup").waitFor();
  assert.equal(await page.getByText("after the backup").count(), 0);
  await say(page, "and it goes on");
  await page.locator("main").getByText("You said: and it goes on").waitFor();
  forgive(bad);
  await close();
});

test("a token that is replaced ends the logins that were made with it, and no others", async () => {
  const mine = await opened();
  const { page, bad, close } = await opened({}, { isLoggedIn: false });
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await composer(page).waitFor();
  await say(page, "before it is replaced");
  await page.locator("main").getByText("You said: before it is replaced").waitFor();
  await mine.page.goto(`${new URL(mine.page.url()).origin}/#/settings`);
  await mine.page.getByRole("button", { name: /test/ }).first().click();
  await mine.page.getByRole("menuitem", { name: "Replace by a new one" }).click();
  await mine.page.getByRole("dialog").getByRole("button", { name: "Replace by a new one" }).click();
  const fresh = mine.page.locator("pre[aria-label*=test]");
  await fresh.waitFor();
  const other = (await fresh.innerText()).trim();
  await page.getByText("The login of this browser has ended.").waitFor();
  assert.equal(await page.getByText("before it is replaced").count(), 0);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".problem, [role=alert]").first().waitFor();
  await page.getByLabel("Token").fill(other);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator("main").getByText("You said: before it is replaced").waitFor();
  forgive(bad);
  await close();
  forgive(mine.bad);
  await mine.close();
});
