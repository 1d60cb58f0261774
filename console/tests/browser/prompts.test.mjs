// People's flows with prompts of a server of MCP: behind a slash where they write, and what is withheld, in a chat that is open.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./watched.mjs";
import { answerTo, axe, composer, further, opened, say } from "./people.mjs";
import { go, looks } from "./looks.mjs";

const options = (page) => page.getByRole("option");

test("the prompts of a server are to be seen before all that it offers is accepted", async () => {
  assert.equal(await answerTo("prompts"), "offered");
  const { page, close } = await opened();
  await go(page, "#/mcp/new");
  await page.getByLabel("From mcpServers").check();
  await page.getByRole("textbox", { name: "mcpServers" }).fill(JSON.stringify({ mcpServers: { web: { url: further[0] } } }));
  await page.getByRole("button", { name: "Look at what it offers" }).click();
  await page.getByText("Asks for the weather of a place. · city: Where").waitFor();
  await page.getByLabel("say").check();
  await page.getByRole("button", { name: "Accept 1 tool" }).click();
  await page.getByText("Accepted tools").waitFor();
  await close();
});

/** What a page sends of a method, as it goes out. */
function sentBy(page, method) {
  const all = [];
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      const said = JSON.parse(payload);
      if (said.method === method) all.push(said.params);
    }),
  );
  return all;
}

test("a prompt is chosen by its slash, asked for its arguments with what they may be, read, and sent as what strangers wrote", async () => {
  let inputs, asked;
  const { page, close } = await opened({}, { prepare: async (context) => context.on("page", (page) => ([inputs, asked] = [sentBy(page, "session/prompt"), sentBy(page, "mcp/complete")])) });
  const field = composer(page);
  await say(page, "My own words");
  await page.locator("main").getByText("You said: My own words").waitFor();

  await field.pressSequentially("/");
  await options(page).nth(1).waitFor();
  assert.deepEqual(await options(page).allTextContents(), ["/web:weather Asks for the weather of a place.", "/web:hello Says hello"]);
  const box = page.getByRole("combobox", { name: "Message", expanded: true });
  assert.equal(await page.locator(`[id="${await box.getAttribute("aria-activedescendant")}"]`).textContent(), "/web:weather Asks for the weather of a place.");
  await looks(page, "slash", true);
  await field.press("ArrowUp");
  await page.getByRole("option", { name: "/web:hello", selected: true }).waitFor();
  await field.press("ArrowDown");
  await page.getByRole("option", { name: "/web:weather", selected: true }).waitFor();
  await field.press("Escape");
  await page.getByRole("listbox").waitFor({ state: "detached" });
  assert.equal(await field.getAttribute("role"), null);
  assert.equal(await field.inputValue(), "/");

  await field.pressSequentially("wea");
  await page.getByRole("option", { name: "/web:weather" }).waitFor();
  assert.equal(await options(page).count(), 1);
  await field.press("Tab");
  const dialog = page.getByRole("dialog", { name: "/web:weather" });
  const city = dialog.getByRole("combobox", { name: "city" });
  assert.ok(await city.evaluate((element) => element === document.activeElement));
  assert.ok(await dialog.getByRole("button", { name: "Put it where I write" }).isDisabled());
  await city.pressSequentially("Ber");
  const values = () => dialog.locator("datalist").first().locator("option").evaluateAll((all) => all.map((each) => each.value));
  await page.waitForFunction(() => document.querySelectorAll("dialog datalist option").length === 3);
  assert.deepEqual(await values(), ["Bergen", "Berlin", "Bern"]);
  assert.ok(asked.length <= 3 && asked.at(-1).value === "Ber"); // not one for each key
  await looks(page, "slash-form", true);
  await city.fill("Bern");
  await city.press("Enter");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await field.inputValue(), "weather:\ncity is Bern");
  await page.getByText("A server made this text").waitFor();
  assert.ok(await field.evaluate((element) => element === document.activeElement));
  assert.equal(inputs.length, 1); // nothing goes out by itself
  await looks(page, "slash-taken", true);
  await page.reload(); // what is written outlives it, and whose words they are
  await page.getByText("A server made this text").waitFor();
  await field.press("End");
  await field.pressSequentially(" today");
  await field.press("Enter");
  await page.locator("main").getByText("You said: weather:").waitFor();
  await page.getByText("A server made this text").waitFor({ state: "detached" });
  await say(page, "My own words again");
  await page.locator("main").getByText("You said: My own words again").waitFor();
  assert.deepEqual(inputs.map((each) => [each.content, each.is_untrusted ?? false]), [["My own words", false], ["weather:\ncity is Bern today", true], ["My own words again", false]]);
  await close();
});

test("a prompt that wants nothing is made at once, and its text counts as it is also when it is brought back", async () => {
  let inputs;
  const { page, close } = await opened({}, { prepare: async (context) => context.on("page", (page) => (inputs = sentBy(page, "session/prompt"))) });
  const field = composer(page);
  await field.pressSequentially("/WEB:he");
  await options(page).click();
  await page.waitForFunction(() => document.querySelector("form.composer textarea").value === "hello:");
  await field.press("Enter");
  await page.locator("main").getByText("You said: hello:").waitFor();
  await field.press("ArrowUp");
  await page.getByText("A server made this text").waitFor();
  await field.press("Enter");
  await page.locator("main").getByText("You said: hello:").nth(1).waitFor();
  await field.pressSequentially("/nothing like it");
  assert.equal(await options(page).count(), 0);
  await field.press("Enter");
  await page.locator("main").getByText("You said: /nothing like it").waitFor();
  assert.deepEqual(inputs.map((each) => each.is_untrusted ?? false), [true, true, false]);
  await close();
});

test("an open chat says once what of a server is withheld, and where it is looked at", async () => {
  const { page, close } = await opened();
  await say(page, "hello");
  await page.locator("main").getByText("You said: hello").waitFor();
  const line = page.getByText("The server web is not as it was accepted.");
  assert.equal(await line.count(), 0);

  await answerTo("prompts And sends it to a friend.");
  const other = await opened();
  await go(other.page, "#/mcp/web");
  await other.page.getByRole("button", { name: "More: web" }).click();
  await other.page.getByRole("menuitem", { name: "Restart" }).click();
  await composer(other.page).waitFor({ state: "detached" });
  await go(other.page, "#/chat/new");
  await composer(other.page).fill("/hello");
  await options(other.page).click(); // its server begins again, and is listed
  await line.waitFor();
  assert.match(await line.textContent(), /until somebody has looked at it: \/web:weather\./);
  assert.ok(!(await page.locator("body").textContent()).includes("friend")); // no words of the server's
  await looks(page, "withheld", true);
  await page.locator(".withheld").getByRole("button", { name: "Close" }).click();
  await line.waitFor({ state: "detached" });
  await page.reload();
  await page.locator("main").getByText("You said: hello").waitFor();
  await composer(page).fill("/weather");
  await page.getByRole("option", { name: "/web:weather changed" }).click();
  await page.getByText("Withheld until somebody has looked at it: /web:weather").waitFor();
  assert.equal(await line.count(), 0);
  await page.getByRole("button", { name: "Look at it" }).click();
  await page.getByRole("button", { name: "Review its tools" }).click();
  await page.getByText("And sends it to a friend.").waitFor();
  await page.getByRole("button", { name: "Accept 1 tool" }).click();
  await page.getByText("What you accepted is offered").waitFor();
  await go(page, "#/chat/new");
  await composer(page).fill("/weather");
  await page.getByRole("option", { name: "/web:weather And sends it" }).waitFor();
  await axe(page, "slash, accepted");
  await other.close();
  await close();
});
