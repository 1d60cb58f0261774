// How a person gets about without a mouse, finds what was said, and what reaches one who does not look.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, composer, opened, picture, say, settled } from "./people.mjs";

const answer = (page, text) => page.locator(".message.assistant").filter({ hasText: text });

test("words are found in the session, marked where they stand, also in a call, and Escape gives the focus back", async () => {
  const { page, close } = await opened();
  await say(page, "giraffes first");
  await answer(page, "You said: giraffes first").waitFor();
  await say(page, "both of them");
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await say(page, "giraffes again");
  await answer(page, "You said: giraffes again").getByRole("button", { name: "Another answer" }).waitFor();
  await composer(page).focus();
  await page.keyboard.press("Control+f");
  const find = page.getByRole("search", { name: "Find in this session" });
  await page.keyboard.type("giraffes");
  await find.getByText("1 of 4").waitFor();
  await page.waitForFunction(() => CSS.highlights.get("found")?.size === 4);
  await picture(page, "find");
  await axe(page, "find");
  await page.keyboard.press("Enter");
  await find.getByText("2 of 4").waitFor();
  await page.keyboard.press("Shift+Enter");
  await find.getByText("1 of 4").waitFor();
  await find.getByRole("searchbox").fill("gone.md");
  await find.getByText("1 of 3").waitFor();
  // The answer said it last; before it stands the result of the call.
  await page.keyboard.press("Enter");
  await page.locator(".call details[open]").first().waitFor();
  await find.getByRole("searchbox").fill("elephants");
  await find.getByText("not found").waitFor();
  await page.keyboard.press("Escape");
  await find.waitFor({ state: "detached" });
  assert.equal(await composer(page).evaluate((element) => element === document.activeElement), true);
  assert.equal(await page.evaluate(() => CSS.highlights.has("found")), false);
  await close();
});

test("a hit of the search and a row of a timeline lead to their message, however far up it stands", async () => {
  const { page, close } = await opened();
  const isInSight = (of, selector) =>
    of.waitForFunction((wanted) => {
      const [own, view] = [document.querySelector(wanted), document.querySelector(".scroll")].map((each) => each?.getBoundingClientRect());
      return own !== undefined && own.bottom > view.top && own.top < view.bottom;
    }, selector);
  await say(page, "both far above");
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await answer(page, "Done. It says").getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Timeline of the turn" }).click();
  await page.getByRole("table").waitFor();
  const turn = page.url();
  await page.goBack();
  await say(page, "ostriches run");
  await answer(page, "You said: ostriches run").waitFor();
  for (let count = 1; count <= 24; count++) {
    await say(page, `further ${count}.`);
    await page.locator(".outgoing").waitFor({ state: "detached" });
    await page.locator(".scroll").press("End");
    await answer(page, `You said: further ${count}.`).waitFor();
  }
  const chat = page.url();
  const other = await opened();
  await other.page.goto(chat);
  await answer(other.page, "You said: further 24.").waitFor();
  assert.equal(await other.page.locator(".slot").filter({ hasText: "ostriches" }).count(), 0);
  await other.page.getByLabel("Search sessions").fill("ostriches");
  const hit = other.page.locator(".hit").first();
  const marked = ".slot[data-marked]";
  for (const isAgain of [false, true]) {
    await hit.click();
    await isInSight(other.page, marked);
    assert.match(await other.page.locator(marked).innerText(), /ostriches run/);
    await other.page.waitForFunction(() => CSS.highlights.get("found")?.size > 0);
    if (isAgain) continue;
    await picture(other.page, "hit");
    await axe(other.page, "hit");
    await other.page.locator(".to-end").click();
    await other.page.locator(marked).waitFor({ state: "detached" });
  }
  await other.close();
  // The timeline knows no places of the record: the daemon says where the message of a row stands.
  const third = await opened();
  await third.page.goto(turn);
  await third.page.getByRole("table").getByRole("link", { name: "read_file" }).click();
  const card = '.call details[data-marked][open]';
  await isInSight(third.page, card);
  assert.match(await third.page.locator(card).innerText(), /read_file[^]*gone\.md/);
  assert.equal(await third.page.locator(".call details[open]").count(), 1);
  await third.close();
  await close();
});

test("keys lead everywhere, and do nothing where somebody writes", async () => {
  const { page, close } = await opened();
  const focused = (selector) => page.waitForFunction((wanted) => document.activeElement?.matches(wanted), selector);
  await say(page, "both by keys");
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await composer(page).focus();
  await page.keyboard.type("?njo");
  assert.equal(await composer(page).inputValue(), "?njo");
  await composer(page).fill("");
  await page.locator("#main").focus();
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keys" });
  await help.waitFor();
  await picture(page, "keys");
  await axe(page, "keys");
  await page.keyboard.press("Escape");
  await help.waitFor({ state: "detached" });
  const chat = page.url();
  await page.locator("#main").focus();
  await page.keyboard.press("k");
  await focused("article.slot");
  const last = await page.evaluate(() => document.activeElement.dataset.id);
  await page.keyboard.press("k");
  await page.waitForFunction((before) => document.activeElement.dataset.id !== before, last);
  await page.keyboard.press("j");
  await page.waitForFunction((before) => document.activeElement.dataset.id === before, last);
  await page.keyboard.press("k");
  await page.waitForFunction((before) => document.activeElement.dataset.id !== before, last);
  await page.locator(".call").first().waitFor();
  await page.keyboard.press("o");
  await page.locator(".call details[open]").waitFor();
  await page.keyboard.press("o");
  await page.locator(".call details[open]").waitFor({ state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await page.waitForURL(/#\/approvals/);
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.waitForURL(chat);
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await page.locator("#main").focus();
  await page.keyboard.press("/");
  await focused("#drawer input[type=search]");
  await page.locator("#main").focus();
  await page.keyboard.press("n");
  await page.waitForURL(/#\/chat\/new/);
  await say(page, "write with keys again");
  const ask = page.locator("section.ask");
  await ask.waitFor();
  assert.equal(await ask.getAttribute("role"), "alertdialog");
  await page.locator("#main").focus();
  await page.keyboard.press("a");
  await focused("section.ask");
  await page.keyboard.press("e");
  await ask.getByLabel("content").waitFor();
  await ask.getByLabel("content").focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Written by keys.");
  await ask.locator(".judged").getByText("+Written by keys.").waitFor();
  // The same key again goes on with the change.
  await page.locator("#main").focus();
  await page.keyboard.press("e");
  await page.waitForFunction(() => document.activeElement.tagName === "TEXTAREA" && document.activeElement.closest("section.ask") !== null);
  assert.equal(await ask.getByLabel("content").inputValue(), "Written by keys.");
  await settled(page);
  for (let count = 0; count < 40 && !(await page.evaluate(() => document.activeElement.textContent === "Allow the change")); count++) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("main").getByText(/Done\. It says: .*notes\.md/).waitFor();
  await close();
});

test("a session stands on one page, what the model reads is said, and questions are counted where nobody looks", async () => {
  const { page, close } = await opened({ permissions: ["clipboard-write"] }, { isAloud: true });
  await say(page, "on one page");
  await answer(page, "You said: on one page").waitFor();
  await page.getByRole("button", { name: /^What the model reads: / }).click();
  await page.getByRole("group", { name: "What the model reads" }).getByText("Last request").waitFor();
  await page.getByText("Requests in this session").waitFor();
  await picture(page, "meter");
  await axe(page, "meter");
  await page.keyboard.press("Escape");
  // Sentences that have ended are read aloud, without the marks of what is written large.
  await say(page, "markdown please");
  await page.locator("[aria-live=polite].unseen").filter({ hasText: "The workspace has three modules." }).waitFor({ state: "attached" });
  await page.locator(".sessions li").first().getByRole("button").click();
  await page.getByRole("menuitem", { name: "As one page" }).click();
  await page.getByRole("heading", { name: "on one page", level: 2 }).waitFor();
  await page.getByRole("button", { name: "Print" }).waitFor();
  await page.locator(".printed .markdown table").waitFor();
  await picture(page, "one-page");
  await axe(page, "one page");
  await page.goBack();
  await say(page, "write it, please");
  await page.locator("section.ask").waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1)"));
  assert.ok(await page.evaluate(() => decodeURIComponent(document.querySelector("link[rel=icon]").href).includes(">1</text>")));
  await page.getByRole("button", { name: "Deny" }).click();
  await page.waitForFunction(() => document.querySelector("link[rel=icon]").href.endsWith("/console/icon.svg"));
  await close();
});
