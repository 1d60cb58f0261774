// Text that wants to be more than text, wherever a stranger may put it: the page shows it, and stays alive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { composer, opened, picture, say } from "./people.mjs";

const HOSTILE = `<script>window.pwned=1</script><img src=x onerror="window.pwned=2"><svg onload="window.pwned=3">[a](javascript:window.pwned=4) ![i](https://example.org/i.png) \u202etxt.exe\u202c \u001b[31mred <style>*{display:none}</style><iframe src="https://example.org"></iframe><form action="https://example.org"><input autofocus onfocus="window.pwned=5"></form>`;

test("in prompts, answers, titles and names of files it is text", async () => {
  const { page, close } = await opened({}, { mayBlock: true });
  await page.locator("form.composer input[type=file]").setInputFiles([{ name: '<img src=x onerror="window.pwned=6">.txt', mimeType: "text/plain", buffer: Buffer.from("hello") }]);
  await page.locator(".files").getByText("<img src=x").waitFor();
  await say(page, `repeat ${HOSTILE}\n\n- a list with ![a cat](https://example.org/cat.png) and code\n\n  \`\`\`\n  ${"wide ".repeat(600)}\n  \`\`\`\n`);
  await page.locator(".message.assistant").getByText("You said: repeat").waitFor();
  await page.locator(".sent-files").getByText('<img src=x onerror="window.pwned=6">.txt').waitFor();
  await page.locator(".sessions .title").first().getByText("<script>").waitFor();
  const text = await page.locator(".from-user").first().innerText();
  for (const each of ["<script>window.pwned=1</script>", "‹U+202E›txt.exe", "‹ESC›[31mred", "javascript:window.pwned=4"]) assert.ok(text.includes(each), each);
  assert.equal(await page.locator("article :is(img, script, style, iframe, form:not(.fields), svg:not(.icon)), article [onerror], article a[href^=javascript]").count(), 0);
  // A picture is a link, and code in a list is scrolled within its own box: nothing of it is out of reach, and no page is wider than the window.
  await page.locator(".message.assistant").getByRole("link", { name: "🖼 a cat" }).waitFor();
  const isInBox = (pre) => pre.tabIndex === 0 && pre.scrollWidth > pre.clientWidth && getComputedStyle(pre).overflowX === "auto" && pre.getBoundingClientRect().right <= innerWidth;
  assert.ok(await page.locator(".message.assistant li pre").evaluate(isInBox));
  // The same from the record, on one page, and found.
  await page.locator(".sessions li").first().getByRole("button").click();
  await page.getByRole("menuitem", { name: "As one page" }).click();
  await page.getByRole("button", { name: "Print" }).waitFor();
  await page.locator(".printed").nth(1).waitFor();
  assert.equal(await page.locator(".printed :is(img, script, style, iframe, form)").count(), 0);
  assert.ok(await page.locator(".printed li pre").evaluate(isInBox));
  await page.goBack();
  await page.locator("#main").focus();
  await page.keyboard.press("Control+f");
  await page.keyboard.type("(.*)+$ script");
  await page.getByRole("search", { name: "Find in this session" }).getByText(/1 of/).waitFor();
  await page.keyboard.press("Escape");
  await picture(page, "hostile");
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await close();
});

test("what readers of Markdown fail at is shown all the same, and the page goes on", async () => {
  const { page, close } = await opened();
  await say(page, "bomb please");
  await page.locator(".message.assistant").getByText("The end.").waitFor();
  await page.getByRole("button", { name: "Another answer" }).waitFor();
  await composer(page).fill("still here");
  await composer(page).press("Enter");
  await page.locator(".message.assistant").getByText("You said: still here").waitFor();
  await page.reload();
  await page.locator(".message.assistant").getByText("You said: still here").waitFor();
  await close();
});
