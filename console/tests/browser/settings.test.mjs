// What people set up and change: a first model, providers and keys, agents, tokens, settings. The daemon has a configuration of its own.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KEY, openModelServer } from "./model_server.mjs";
import { atRest, axe, composer, opened, picture, say } from "./people.mjs?peer=configured";

let house;
before(async () => (house = await openModelServer()));
after(() => house.close());

/** Go to a screen by its address. */
const go = (page, ...parts) => page.evaluate((hash) => (location.hash = hash), `#/${parts.map(encodeURIComponent).join("/")}`);

test("who comes for the first time sets up a model in three steps, or goes on without a key", async () => {
  const { page, bad, close } = await opened({}, { isAtHome: false });
  await page.getByRole("heading", { name: "Welcome to callboard" }).waitFor();
  await page.getByText("Another server").waitFor();
  await picture(page, "setup-1");
  await axe(page, "setup 1");
  // Skipped as a whole: the rehearsal answers, and says what it is.
  await page.getByRole("button", { name: "Go on without a key" }).click();
  await composer(page).waitFor();
  await page.getByText("No model is set up").waitFor();
  await picture(page, "rehearsing");
  await say(page, "What time is it in Tokyo?");
  await page.locator(".message.assistant").first().waitFor();
  await page.locator(".call").first().waitFor();
  await page.reload();
  await composer(page).waitFor(); // it leads there once
  await go(page, "setup");
  await page.getByLabel("Another server").check();
  const name = page.getByLabel("Name *");
  await name.fill("a b");
  await page.getByLabel("Base URL *").fill(house.url);
  await page.getByRole("button", { name: "Add it" }).click();
  await page.locator(".field .problem").first().waitFor();
  assert.equal(await name.evaluate((each) => each === document.activeElement), true);
  await picture(page, "setup-refused");
  await axe(page, "setup refused");
  await page.reload(); // what was written is there yet
  await page.getByLabel("Name *").fill("house");
  await page.getByLabel("Key", { exact: true }).fill("sk-wrong-0123456789abcdef");
  await page.getByRole("button", { name: "Add it" }).click();
  await page.getByRole("button", { name: "Test the connection" }).click();
  await page.getByText("The key is missing or wrong").waitFor();
  await picture(page, "setup-wrong-key");
  await axe(page, "setup wrong key");
  await page.getByLabel("New key").fill(KEY);
  await page.getByRole("button", { name: "Store the key" }).click();
  await page.getByText("The key is stored").waitFor();
  assert.equal(await page.getByLabel("New key").inputValue(), "");
  await page.getByRole("button", { name: "Test the connection" }).click();
  await page.getByText(/^It answers/).waitFor();
  await picture(page, "setup-works");
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("button", { name: "Ask it for its models" }).click();
  const row = page.locator(".rows > li").filter({ hasText: "house-large" });
  await row.getByText("listed").waitFor();
  await picture(page, "setup-2");
  await axe(page, "setup 2");
  await row.getByRole("button", { name: "Make it the default" }).click();
  await page.getByText("house/house-large answers").waitFor();
  await picture(page, "setup-3");
  await axe(page, "setup 3");
  await page.getByRole("button", { name: "List the files here." }).click();
  await page.waitForFunction(() => document.querySelector("form.composer textarea")?.value === "List the files here.");
  await page.getByText("No model is set up").waitFor({ state: "detached" });
  await composer(page).press("Enter");
  await page.locator("main").getByText("Hello from the house.").waitFor();
  // What it lists can be chosen where somebody writes.
  await page.getByRole("button", { name: /^Agent, model and mode/ }).click();
  await page.locator(".options").getByLabel(/^Model/).selectOption("house/house-small");
  await page.keyboard.press("Escape");
  bad.splice(0, bad.length, ...bad.filter((text) => !text.includes("401")));
  await close();
});

test("providers are changed, switched off and removed, and another tab shows it at once", async () => {
  const { page, close } = await opened();
  const other = await opened();
  await go(other.page, "providers");
  await go(page, "providers");
  const row = (at, name) => at.locator(".rows > li").filter({ has: at.getByRole("link", { name, exact: true }) });
  await row(page, "house").getByText("key stored").waitFor();
  await row(page, "house").getByText("default", { exact: true }).waitFor();
  await picture(page, "providers");
  await axe(page, "providers");
  await row(page, "mistral").getByRole("button").click();
  await page.getByRole("menuitem", { name: "Switch off" }).click();
  await row(page, "mistral").getByText("off", { exact: true }).waitFor();
  await row(other.page, "mistral").getByText("off", { exact: true }).waitFor();
  await page.locator(".toast").getByRole("button", { name: "Undo" }).click();
  await row(other.page, "mistral").getByText("no key").waitFor();
  await go(page, "providers", "groq");
  await page.getByLabel("Base URL").fill(house.url);
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".page-head").getByText("changed here").waitFor();
  await page.getByRole("button", { name: "What to do with groq" }).click();
  await page.getByRole("menuitem", { name: "Undo the changes" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undo the changes" }).click();
  await page.waitForFunction(() => document.querySelector("input[type=url]")?.value === "https://api.groq.com/openai/v1");
  await go(page, "providers");
  // By the keyboard alone.
  await page.getByRole("link", { name: "house", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "house", level: 2 }).waitFor();
  await page.getByLabel("Name of a model that it does not list").fill("house-secret");
  await page.keyboard.press("Enter");
  await page.locator(".rows > li").filter({ hasText: "house-secret" }).getByText("by hand").waitFor();
  await page.getByLabel("Base URL").fill("ftp://nowhere");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".field .problem").getByText("begins with http").waitFor();
  await picture(page, "provider");
  await axe(page, "provider");
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.getByLabel("Base URL").inputValue(), house.url);
  assert.equal((await page.content()).includes(KEY), false);
  await page.getByRole("button", { name: "Remove the key" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove the key" }).click();
  await page.locator(".page-head").getByText(/no key/).waitFor();
  await page.getByRole("button", { name: "What to do with house", exact: true }).click();
  await page.getByRole("menuitem", { name: "Remove", exact: true }).click();
  await picture(page, "remove-provider");
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByRole("link", { name: "Add a provider" }).waitFor();
  await row(other.page, "house").waitFor({ state: "detached" });
  await other.close();
  await close();
});

test("an agent is made, changed in two tabs, copied and deleted", async () => {
  const { page, close } = await opened();
  const other = await opened();
  await go(page, "agents");
  await go(other.page, "agents");
  await page.getByRole("link", { name: "New agent" }).click();
  await page.getByLabel("Name *").fill("reader");
  await page.getByLabel("Description").fill("Reads, and writes nothing.");
  await page.getByLabel("Prompt").fill("You read files.\nYou never write.");
  await page.getByLabel("These alone").check();
  await page.getByLabel("Find a tool").fill("read_file");
  await page.getByLabel(/^read_file/).check();
  await page.getByRole("group", { name: "Budget of a turn" }).getByLabel("Tokens").fill("many");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByText("This is not a number that fits.").waitFor();
  await picture(page, "agent-refused");
  await axe(page, "agent refused");
  await page.reload(); // what was written is there yet
  assert.equal(await page.getByLabel("Description").inputValue(), "Reads, and writes nothing.");
  await page.getByRole("group", { name: "Budget of a turn" }).getByLabel("Tokens").fill("5000");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByRole("heading", { name: "reader", level: 2 }).waitFor();
  await page.getByText("Tokens: 5,000").waitFor();
  await page.getByText("The agent's prompt ·").waitFor();
  await page.getByText("The tools as the model gets them").click();
  await page.getByText('"name": "read_file"').waitFor();
  await picture(page, "agent");
  await axe(page, "agent");
  // The other tab has it at once, and changes it while it is being changed here.
  await other.page.getByRole("link", { name: "reader", exact: true }).click();
  await other.page.getByRole("link", { name: "Change", exact: true }).click();
  await page.getByRole("link", { name: "Change", exact: true }).click();
  await page.getByLabel("Description").fill("Mine");
  await other.page.getByLabel("Description").fill("Theirs");
  await other.page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Somebody has changed this agent meanwhile.").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator("form .problem").waitFor();
  assert.equal(await page.getByLabel("Description").inputValue(), "Mine");
  await picture(page, "agent-conflict");
  await axe(page, "agent conflict");
  await page.getByRole("button", { name: "Give up what is written here" }).click();
  assert.equal(await page.getByLabel("Description").inputValue(), "Theirs");
  await go(page, "agents");
  await picture(page, "agents");
  await axe(page, "agents");
  await page.getByRole("button", { name: "What to do with reader" }).click();
  await page.getByRole("menuitem", { name: "Copy" }).click();
  await page.getByRole("dialog").getByLabel("Name of the copy").fill("writer");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Change: writer" }).waitFor();
  await go(page, "agents");
  await page.getByRole("button", { name: "What to do with writer" }).click();
  await page.getByRole("menuitem", { name: "Begin a session" }).click();
  await page.getByRole("button", { name: /Agent, model and mode: writer/ }).waitFor();
  await say(page, "What time is it?");
  await page.locator(".message.assistant").first().waitFor();
  await go(page, "agents");
  await page.getByRole("button", { name: "What to do with writer" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await picture(page, "delete-agent");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("General Assistant has its sessions now: 1.").waitFor();
  await other.close();
  await close();
});

test("a token is made and shown once, a setting is set and taken back, and an observer sees no actions", async () => {
  const { page, close } = await opened();
  await go(page, "settings");
  await page.getByRole("button", { name: "New token" }).click();
  await page.getByLabel("Name *").fill("looker");
  await page.getByLabel("Role").selectOption("observer");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByText("Copy it now").waitFor();
  const token = (await page.locator(".sheet pre").innerText()).trim();
  await picture(page, "token-once");
  await axe(page, "token once");
  await page.getByRole("button", { name: "I have it" }).click();
  assert.equal((await page.content()).includes(token), false);
  await page.getByRole("button", { name: "What to do with looker" }).click();
  await page.getByRole("menuitem", { name: "Replace by a new one" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Replace by a new one" }).click();
  const second = (await page.locator(".sheet pre").innerText()).trim();
  assert.notEqual(second, token);
  await page.getByLabel("Find a setting").fill("max_repeats");
  await page.getByRole("button", { name: "Change limits.max_repeats" }).click();
  await page.getByLabel("Value").fill("0");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".settings-of .problem").waitFor();
  await picture(page, "setting-refused");
  await axe(page, "setting refused");
  await page.getByLabel("Value").fill("7");
  await page.keyboard.press("Enter");
  await page.getByText(/managed\.toml, line \d+/).waitFor();
  await page.getByRole("button", { name: "Change limits.max_repeats" }).click();
  await page.getByRole("button", { name: "Back to the default" }).click();
  await page.locator(".setting").filter({ hasText: "max_repeats" }).getByText("25").waitFor();
  await page.getByRole("button", { name: "Read the files again" }).click();
  await page.getByText("nothing has changed").waitFor();
  await page.getByRole("button", { name: "Back up the store" }).click();
  await page.getByText(/The store was copied to/).waitFor();
  const looker = await opened({}, { isLoggedIn: false });
  await looker.page.getByLabel("Token").fill(second);
  await looker.page.keyboard.press("Enter");
  await looker.page.getByRole("button", { name: "Settings and more" }).waitFor();
  await go(looker.page, "agents", "reader");
  await looker.page.getByRole("heading", { name: "reader", level: 2 }).waitFor();
  await looker.page.getByText("You read files.").waitFor();
  for (const name of ["Change", "New agent"]) assert.equal(await looker.page.getByRole("link", { name, exact: true }).count(), 0);
  assert.equal(await looker.page.locator(".side").getByRole("link", { name: "Providers" }).count(), 0);
  await picture(looker.page, "observer-agent");
  await go(looker.page, "providers");
  await looker.page.getByText("Not for this login").waitFor();
  await picture(looker.page, "observer-providers");
  await axe(looker.page, "refused");
  await go(looker.page, "settings");
  await looker.page.getByText("This browser", { exact: true }).waitFor();
  for (const name of ["New token", "Shut down", "Back up the store"]) assert.equal(await looker.page.getByRole("button", { name }).count(), 0);
  // Revoked: its browser is logged out at once.
  await page.getByRole("button", { name: "What to do with looker" }).click();
  await page.getByRole("menuitem", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await looker.page.getByRole("button", { name: "Log in" }).waitFor();
  await picture(page, "settings");
  await axe(page, "settings");
  looker.bad.length = 0; // the browser notes each 401
  await looker.close();
  await close();
});

for (const [name, options] of [
  ["dark", { colorScheme: "dark" }],
  ["chinese-narrow", { locale: "zh-CN", viewport: { width: 390, height: 844 }, hasTouch: true }],
]) {
  test(`what is set up can be read and used: ${name}`, async () => {
    const { page, close } = await opened(options);
    for (const [at, ...parts] of [
      ["setup", "setup"],
      ["providers", "providers"],
      ["provider", "providers", "openai"],
      ["agents", "agents"],
      ["agent", "agents", "reader"],
      ["agent-edit", "agents", "reader", "edit"],
      ["settings", "settings"],
    ]) {
      await go(page, ...parts);
      await page.locator(`.screen :is(.rows, .agent, .cards, .settings-of)`).first().waitFor();
      if (at === "agent-edit") await page.locator(".tool, .segments").first().waitFor();
      if (at === "agents") await page.getByText(name.startsWith("chinese") ? "通用助手：回答问题，可用全部工具。" : "General Assistant: answers, and acts with every tool there is.").waitFor();
      await picture(page, `${name}-${at}`);
      await axe(page, `${name} ${at}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${at} is wider than the page`);
      if (name.includes("narrow")) {
        const small = await page
          .locator(".screen button:visible, .screen .button:visible, .screen select:visible, .segments label:visible")
          .evaluateAll((all) => all.filter((each) => each.getBoundingClientRect().height < 44).map((each) => each.outerHTML));
        assert.deepEqual(small, [], at);
      }
    }
    if (name.includes("narrow")) {
      await page.locator("button.menu").click();
      await page.locator("#drawer summary.way").click();
      await page.locator("#drawer .ways").first().waitFor();
      await atRest(page); // it slides in
      await picture(page, `${name}-ways`);
      await axe(page, `${name} ways`);
      await page.locator("#drawer .ways a").first().click();
      await page.locator("#drawer:not(.is-open)").waitFor({ state: "attached" });
    }
    await close();
  });
}

test("the daemon is shut down, which is asked about before and said after", async () => {
  const { page, bad, close } = await opened();
  await go(page, "settings");
  await page.getByRole("button", { name: "Shut down" }).click();
  await page.getByRole("dialog").getByText("Shut the daemon down?").waitFor();
  await picture(page, "shut-down");
  await axe(page, "shut down");
  await page.keyboard.press("Escape");
  await page.getByText("connected", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Shut down" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Shut down" }).click();
  await page.getByText(/the daemon stops|no connection/).waitFor();
  await picture(page, "shutting-down");
  bad.length = 0; // the browser notes each connection that it can't make
  await close();
});
