// Without a mouse: from the login to a call that is changed and allowed, and what each screen is for. Only keys are pressed, also to come somewhere.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./still.mjs";
import { opened, settled, token } from "./people.mjs";
import { prepare } from "./moment.mjs";

/** More presses than this, and nobody would come there. */
const MOST_PRESSES = 80;

/** Press Tab until what has the focus is it. */
async function tabTo(page, selector, key = "Tab") {
  for (let count = 0; count < MOST_PRESSES; count++) {
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) {
      const isSeen = await page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        const box = document.activeElement.closest(".composer, .segments > label, .cards > label") ?? document.activeElement;
        return outlineStyle !== "none" && outlineWidth !== "0px" || getComputedStyle(box).outlineStyle !== "none" || getComputedStyle(box).boxShadow !== "none" || box !== document.activeElement;
      });
      assert.ok(isSeen, `${selector} has the focus, and nobody sees it`);
      return;
    }
    await page.keyboard.press(key);
  }
  assert.fail(`${selector} is not come to by ${key}`);
}

test("who has no mouse logs in, asks, changes a call and allows it", async () => {
  const { page, close } = await opened({}, { isLoggedIn: false, prepare });
  await page.getByLabel("Token").waitFor();
  await tabTo(page, "input[type=password], input[autocomplete], input:not([type=checkbox])");
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await page.locator("form.composer").waitFor();
  // The first thing that Tab comes to leads past the list of sessions.
  await tabTo(page, "a.skip", "Shift+Tab");
  assert.ok(await page.locator("a.skip").evaluate((each) => each.getBoundingClientRect().top >= 0 && each.checkVisibility()));
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await tabTo(page, "form.composer textarea");
  await page.keyboard.type("write it down");
  await page.keyboard.press("Enter");
  const ask = page.locator("section.ask");
  await ask.locator(".preview").waitFor();
  await tabTo(page, "section.ask [data-key=change]", "Shift+Tab");
  await page.keyboard.press("Enter");
  await ask.getByLabel("content").waitFor();
  await tabTo(page, "section.ask .fields > :nth-child(2) textarea", "Shift+Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Only keys.");
  await ask.locator(".judged").getByText("+Only keys.").waitFor();
  await tabTo(page, "section.ask .buttons .primary");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Allow the change");
  await settled(page);
  await page.keyboard.press("Enter");
  await page.locator("main").getByText(/Done\. It says: .*monday\.md/).waitFor();
  await close();
});

/** Of each screen: what it is for, how that is come to, the keys that do it, and what is there then. */
const ACTIONS = [
  ["setup", ".cards input", ["ArrowDown"], ".sheet"],
  ["sessions", "#drawer input[type=search]", ["z", "e"], "#drawer .sessions .empty, #drawer .sessions li"],
  ["turn/session_00000000000000000002", "main [role=group][tabindex='0']", ["ArrowDown", "ArrowDown"], ".about-row"],
  ["agents", "main a[href='#/agents/%2B']", ["Enter"], "form textarea"],
  ["providers", "main a[href='#/providers/%2B']", ["Enter"], "form input[inputmode=url]"],
  ["tools", ".tool-rows summary", ["Enter"], ".tool-rows details[open]"],
  ["mcp", "main a[href='#/mcp/new']", ["Enter"], "form"],
  ["mcp/garden", ".page-head button.primary", ["Enter"], ".review input"],
  ["memory", ".page-head button.primary", ["Enter"], "form textarea"],
  ["skills", "main select", ["End"], "main input"],
  ["schedules", "main a[href='#/schedules/new']", ["Enter"], "form textarea"],
  ["usage", ".segments input", ["ArrowRight"], ".tiles"],
  ["logs", ".log", ["End"], ".log"],
  ["settings", ".segments input", ["ArrowRight"], "html[lang=zh-CN]"],
];

test("what each screen is for is done by keys alone", { timeout: 120_000 }, async () => {
  const { page, close } = await opened({}, { prepare });
  const wrong = [];
  for (const [at, selector, keys, then] of ACTIONS) {
    try {
      await page.evaluate((hash) => (location.hash = hash), `#/${at}`);
      await page.locator(selector).first().waitFor();
      await tabTo(page, selector);
      for (const key of keys) await page.keyboard.press(key);
      await page.locator(then).first().waitFor();
    } catch (error) {
      wrong.push(`${at}: ${error.message}`);
    }
  }
  assert.deepEqual(wrong, []);
  await close();
});
