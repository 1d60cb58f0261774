// People's flows in the system's Chromium, against a real daemon whose model follows a script.
// Any violation of the page's policy, any error in the browser's console and any request to elsewhere fails a flow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { atRest, axe, composer, first, link, opened, peer, picture, say, settled, token } from "./people.mjs";

test("a link logs in once, and leaves no ticket in the address", async () => {
  const { page, close } = await opened({}, { isLoggedIn: false });
  const its = await link();
  await page.goto(its);
  await composer(page).waitFor();
  assert.equal(page.url(), new URL("/", first).href);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.reload();
  await composer(page).waitFor();
  const other = await opened({}, { isLoggedIn: false });
  await other.page.goto(its);
  await other.page.getByRole("alert").filter({ hasText: "used already" }).waitFor();
  other.bad.length = 0; // the browser notes each 401
  await other.close();
  await close();
});

test("a token logs in by the keyboard alone, and a question is answered without a mouse", async () => {
  const { page, close } = await opened({}, { isLoggedIn: false });
  await page.getByLabel("Token").waitFor();
  await axe(page, "login");
  await picture(page, "login");
  await page.getByLabel("Token").focus();
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await composer(page).waitFor();
  await composer(page).focus();
  await page.keyboard.type("write with keys");
  await page.keyboard.press("Enter");
  const allow = page.getByRole("button", { name: "Allow", exact: true });
  await allow.waitFor();
  await settled(page);
  for (let count = 0; count < 40 && !(await allow.evaluate((element) => element === document.activeElement)); count++) {
    await page.keyboard.press("Shift+Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await page.getByText("done ·").waitFor();
  await close();
});

test("an answer streams as Markdown, is stopped, and goes on behind a reload", async () => {
  const { page, close } = await opened();
  await say(page, "markdown please");
  await page.locator("main").getByText("It is simpler than it looks").waitFor();
  await page.locator(".code .of-keyword").first().waitFor();
  assert.equal(await page.locator("table").count(), 1);
  assert.deepEqual(await page.locator("tbody tr").first().locator("td").evaluateAll((all) => all.map((each) => getComputedStyle(each).textAlign)), ["left", "right", "left"]);
  // No address is gone to before it was shown whole, with whichever button.
  for (const button of ["left", "middle"]) {
    await page.getByRole("link", { name: "the handbook" }).click({ button });
    await page.getByRole("dialog").getByText("https://example.org/handbook").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  assert.equal(page.context().pages().length, 1);
  await picture(page, "chat");
  await say(page, "slow now");
  await page.locator("main").getByText("I begin, and never end.").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("broken off").waitFor();
  await say(page, "count up");
  await page.locator("main").getByText(/1 2 3 4 5/).waitFor();
  await composer(page).fill("not sent yet");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("form.composer textarea")?.value === "not sent yet");
  await page.locator("main").getByText(/398 399/).waitFor();
  assert.equal(await page.locator("main").getByText(/1 2 3 4 5/).count(), 1);
  await close();
});

test("calls run together, and a question can be denied with a reason", async () => {
  const { page, close } = await opened();
  await say(page, "both at once");
  await page.getByText("3 calls together").waitFor();
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await say(page, "write it down");
  const ask = page.locator("section.ask");
  await ask.getByText("+Buy milk.").waitFor();
  // Who writes goes on to write: the question takes no focus, and Enter in one of its fields answers nothing.
  assert.equal(await composer(page).evaluate((element) => element === document.activeElement), true);
  await axe(page, "question");
  await picture(page, "question");
  await settled(page);
  await ask.getByRole("textbox").fill("Not today.");
  await ask.getByRole("textbox").press("Enter");
  await page.getByRole("button", { name: "Deny" }).click();
  await ask.waitFor({ state: "detached" });
  await page.getByText("denied", { exact: false }).first().waitFor();
  // A click at the very moment when a question appears was meant for what was there before.
  const hasty = page.evaluate(
    () =>
      new Promise((resolve) => {
        new MutationObserver((_, observer) => {
          const button = document.querySelector("section.ask .buttons button");
          if (button === null) return;
          observer.disconnect();
          button.click();
          resolve(true);
        }).observe(document.body, { childList: true, subtree: true });
      }),
  );
  await say(page, "write again");
  await hasty;
  await ask.getByRole("button", { name: "Deny" }).click();
  await ask.waitFor({ state: "detached" });
  await page.locator(".call.is-denied").nth(1).waitFor();
  await say(page, "ask me");
  await page.getByRole("button", { name: "Coffee" }).click();
  await page.locator("main").getByText(/Done\. It says: .*Coffee/).waitFor();
  // What a model asks elsewhere is counted here, and answered where all that waits is listed.
  await say(page, "ask me again");
  await page.getByRole("button", { name: "Tea" }).waitFor();
  const asked = page.url();
  await page.evaluate(() => (location.hash = "#/chat/new"));
  await page.getByRole("link", { name: "1 question waits" }).click();
  await page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
  const question = page.locator("section.question");
  await question.getByText("Tea or coffee?").waitFor();
  const way = await question.getByRole("link", { name: "both at once" }).getAttribute("href");
  assert.ok(asked.endsWith(way), way);
  await question.getByRole("button", { name: "Tea" }).click();
  await page.getByText("Nothing waits for you").waitFor();
  await page.locator(".badge").waitFor({ state: "detached" });
  await page.goto(asked);
  await page.locator("main").getByText(/Done\. It says: .*Tea/).waitFor();
  await close();
});

test("two tabs show the same, and a question that one answers is gone in the other", async () => {
  const { page, close } = await opened();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await composer(other).waitFor();
  await say(page, "write for both");
  await page.getByRole("button", { name: "Allow", exact: true }).waitFor();
  await other.getByRole("link", { name: "1 question waits" }).click();
  await other.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
  await axe(other, "approvals");
  await picture(other, "approvals");
  await other.getByRole("button", { name: "Allow", exact: true }).click();
  await other.getByText("Nothing waits for you").waitFor();
  // Who looked at it elsewhere is told whose answer it was; who gave it is not.
  await page.locator(".toast").getByText(/\w has answered: allowed\./).waitFor();
  assert.equal(await other.locator(".toast").innerText(), "");
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await other.getByRole("link", { name: "write for both" }).first().click();
  await other.locator("main").getByText(/Done\. It says/).waitFor();
  await close();
});

test("a connection that breaks is said, and what is written meanwhile goes out once", async () => {
  const { page, bad, close } = await opened();
  await say(page, "before the break");
  await page.locator("main").getByText("You said: before the break").waitFor();
  peer.stdin.write("away\n");
  await page.getByText(/no connection: .*; tries again in/).waitFor();
  await say(page, "while it is away");
  await page.locator(".outgoing").getByText("while it is away").waitFor();
  await page.getByText("not sent yet").waitFor();
  peer.stdin.write("back\n");
  // What is on its way is no more when its answer has been, and not the moment before: that came by another event.
  await page.locator("main").getByText("You said: while it is away").first().waitFor();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Another answer" }).waitFor();
  await page.locator(".outgoing").waitFor({ state: "detached" });
  assert.equal(await page.locator(".message.user").count(), 2);
  for (const each of ["before the break", "while it is away"]) assert.equal(await page.locator("main").getByText(`You said: ${each}`).count(), 1);
  bad.splice(0, bad.length, ...bad.filter((text) => !text.includes("503") && !text.includes("WebSocket connection to")));
  await close();
});

test("hostile text is text", async () => {
  const { page, close } = await opened({}, { mayBlock: true });
  await say(page, "hostile now");
  await page.getByRole("button", { name: "Deny" }).waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("article img, article script, article style").count(), 0);
  // A picture is not loaded: it is a link, which asks first. An address that is a program is none.
  const links = await page.locator("article a").evaluateAll((all) => all.map((each) => [each.innerText, each.getAttribute("href")]));
  assert.deepEqual(links, [["🖼 a", "https://example.org/track.png"]]);
  assert.ok((await page.locator("section.ask").innerText()).includes("<script>window.pwned = 1</script>"));
  assert.ok((await page.locator("section.ask").innerText()).includes("‹U+202E›"));
  await page.getByRole("button", { name: "Deny" }).click();
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  await close();
});

for (const [name, options] of [
  ["dark", { colorScheme: "dark" }],
  ["narrow", { viewport: { width: 390, height: 844 }, hasTouch: true }],
  ["chinese", { locale: "zh-CN" }],
  ["chinese-narrow-dark", { locale: "zh-CN", colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true }],
]) {
  test(`it can be read and used: ${name}`, async () => {
    const { page, close } = await opened(options);
    await picture(page, `${name}-empty`);
    await axe(page, `${name} empty`);
    await say(page, "markdown");
    await page.locator("main").getByText("It is simpler than it looks").waitFor();
    await page.locator(".code .of-keyword").first().waitFor();
    await say(page, "中文");
    await page.locator("main").getByText("128 项").waitFor();
    await picture(page, `${name}-chat`);
    await axe(page, `${name} chat`);
    await say(page, "write");
    await page.locator("section.ask button.primary").waitFor();
    await picture(page, `${name}-question`);
    await axe(page, `${name} question`);
    // What the daemon says is in the language of the page.
    const [why, preview] = [await page.locator("section.ask .why").innerText(), await page.locator("section.ask .preview").innerText()];
    assert.match(why, name.startsWith("chinese") ? /策略为“每次改动”，“修改工作区”的调用都要询问/ : /strict asks for every workspace call/);
    assert.match(preview, name.startsWith("chinese") ? /^新文件 \S+（\d+ 字节）/ : /^new file \S+ \(\d+ bytes\)/);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.locator("section.ask button.primary").click();
    await page.locator("main").getByText(/Done\. It says/).waitFor();
    if (name.includes("narrow")) {
      // By keys alone: the list has the focus while it lies over the page, Tab leaves it for nothing of the page, and Escape leads back.
      await page.locator("button.menu").focus();
      await page.keyboard.press("Enter");
      await page.locator("#drawer.is-open").waitFor();
      const isWithin = (where) => page.evaluate((each) => document.activeElement.closest(each) !== null, where);
      assert.ok(await isWithin("#drawer"));
      for (let count = 0; count < 12; count++) {
        await page.keyboard.press("Tab");
        assert.ok(!(await isWithin(".body, .skip")), "Tab went under the veil");
      }
      await page.keyboard.press("Escape");
      await page.locator("#drawer.is-open").waitFor({ state: "detached" });
      assert.ok(await isWithin("button.menu"));
      await page.locator("button.menu").click();
      await page.locator("#drawer.is-open").waitFor();
      await atRest(page);
      await picture(page, `${name}-drawer`);
      await axe(page, `${name} drawer`);
      const small = await page.locator("button:visible, .button:visible").evaluateAll((all) =>
        // The agent's name is pressed wherever the title is.
        all.filter((each) => (each.closest(".titles") ?? each).getBoundingClientRect().height < 44).map((each) => each.outerHTML),
      );
      assert.deepEqual(small, []);
      await page.keyboard.press("Escape");
    }
    await page.evaluate(() => (location.hash = "#/settings"));
    await page.locator(".segments label").nth(6).click(); // high contrast, behind two languages and four themes
    await picture(page, `${name}-contrast-settings`);
    await axe(page, `${name} contrast settings`);
    await page.goBack();
    await page.locator("main").getByText("128 项").waitFor();
    await picture(page, `${name}-contrast`);
    await axe(page, `${name} contrast`);
    if (name.includes("narrow")) {
      await page.locator("button.menu").click();
      await page.locator("#drawer summary.way").click();
    } else await page.locator(".settings > button").click();
    await page.locator("button.way:visible").click();
    await page.getByRole("button", { name: /^(Log in|登录)$/ }).waitFor();
    await close();
  });
}
