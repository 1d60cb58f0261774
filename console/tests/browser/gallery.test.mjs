// What the screens look like and whom they reach: golden pictures in both languages, themes and widths, and axe on all of them.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import "./still.mjs";
import { axe, browser, opened, picture, settled } from "./people.mjs";
import { obstacle, openGallery } from "./golden.mjs";
import { prepare } from "./moment.mjs";
import { scenes } from "./scenes.mjs";

const WIDTHS = { wide: { viewport: { width: 1280, height: 800 } }, narrow: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } };
const LANGUAGES = { en: "en-GB", zh: "zh-CN" };

let gallery = null;
after(async () => gallery?.close());

/** What somebody sees who is there: in both themes, as its golden picture, and for axe. */
async function look(page, scene, width, language, wrong) {
  if ((await page.locator("section.ask").count()) > 0) await settled(page); // its buttons look otherwise until a press counts
  await page.mouse.move(300, 2); // away from what would look hovered
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.evaluate(() => document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))));
    const name = `${scene.name}-${width}-${theme}-${language}`;
    if (scene.isGolden) await gallery?.compare(name, await page.screenshot({ animations: "disabled" }));
    // Other words, the same elements: one language is enough.
    if (language === "en") await axe(page, name, theme === "dark").catch((error) => wrong.push(error.message));
    if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) wrong.push(`${name} is wider than the page`);
    const beside = await page.evaluate(poking);
    if (beside.length > 0) wrong.push(`${name} has what stands out of its frame: ${beside}`);
  }
}

/** Runs in the page: fields that are wider than what they are in. */
function poking() {
  const all = [...document.querySelectorAll(".sheet, .ask, .dialog, .card, .composer")].filter((each) => each.checkVisibility());
  return all.flatMap((frame) => {
    const { left, right } = frame.getBoundingClientRect();
    const within = [...frame.querySelectorAll("input, select, textarea, button")].filter((each) => each.checkVisibility() && each.type !== "file" && each.closest("pre, .scroller, .options, .choices, [popover]") === null);
    return within.filter((each) => each.getBoundingClientRect().right > right + 1 || each.getBoundingClientRect().left < left - 1).map((each) => `${each.tagName} ${each.name || each.className || each.textContent}`);
  });
}

for (const [language, locale] of Object.entries(LANGUAGES)) {
  for (const [width, options] of Object.entries(WIDTHS)) {
    test(`every screen, ${width}, ${language}`, { timeout: 300_000 }, async () => {
      if (obstacle() === "") gallery ??= await openGallery(browser);
      const { page, close } = await opened({ locale, timezoneId: "UTC", reducedMotion: "reduce", ...options }, { prepare });
      await page.locator("#drawer .sessions li").nth(5).waitFor({ state: "attached" });
      await page.locator(".badge").waitFor();
      const wrong = [];
      page.setDefaultTimeout(Number(process.env.SCENE_MS ?? 20000));
      for (const scene of scenes) {
        try {
          await scene.open(page, { width, language });
        } catch (error) {
          wrong.push(`${scene.name}: ${error.message}`);
          await picture(page, `failed-${scene.name}-${width}-${language}`);
          continue;
        }
        await look(page, scene, width, language, wrong);
        await scene.leave?.(page, { width, language });
      }
      await close();
      const stranger = await opened({ locale, timezoneId: "UTC", reducedMotion: "reduce", ...options }, { prepare, isLoggedIn: false });
      await stranger.page.locator(".login").waitFor();
      await look(stranger.page, { name: "login", isGolden: true }, width, language, wrong);
      await stranger.close();
      assert.deepEqual(wrong, []);
    });
  }
}

test("every screen looks as its golden picture does", async (context) => {
  assert.ok(gallery !== null || !("CI" in process.env), obstacle());
  if (gallery === null) return context.skip(obstacle());
  const problem = gallery.problem();
  assert.equal(problem, "", problem);
});
