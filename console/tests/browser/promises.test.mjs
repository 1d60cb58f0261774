// What the page promises where it is easily forgotten: to who composes words, leaves, keeps no cookies, asks for contrast, or comes too late.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, composer, opened, peer, say, token } from "./people.mjs?peer=brief";

/** Have the answers and notifications of the daemon come as `changed` has them; it says which others the page gets in place of a request. */
async function between(context, changed, instead = () => null) {
  await context.routeWebSocket(/\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((text) => {
      const answer = instead(JSON.parse(text));
      if (answer === null) server.send(text);
      else socket.send(JSON.stringify(answer));
    });
    server.onMessage((text) => socket.send(JSON.stringify(changed(JSON.parse(text)))));
  });
}

test("Enter takes a word that is being composed, and sends nothing", async () => {
  const { page, close } = await opened();
  await composer(page).fill("你好");
  const press = (more) => composer(page).evaluate((field, its) => field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...its })), more);
  assert.equal(await press({ isComposing: true }), true);
  assert.equal(await press({ keyCode: 229 }), true);
  assert.equal(await composer(page).inputValue(), "你好");
  assert.equal(await press({}), false);
  await page.locator("main").getByText("You said: 你好").waitFor();
  assert.equal(await page.locator(".message.user").count(), 1);
  await close();
});

test("who leaves the page while an input waits is asked, and others are not", async () => {
  const { page, bad, close } = await opened();
  const asked = [];
  page.on("dialog", (dialog) => (asked.push(dialog.type()), dialog.dismiss()));
  await say(page, "hello");
  await page.locator("main").getByText("You said: hello").waitFor();
  await page.reload(); // the daemon has it: nothing asks
  await page.locator("main").getByText("You said: hello").waitFor();
  assert.deepEqual(asked, []);
  peer.stdin.write("away\n");
  await page.getByText(/tries again in/).waitFor();
  await say(page, "not yet");
  await page.getByText("not sent yet").waitFor();
  await page.close({ runBeforeUnload: true });
  await page.getByText("not sent yet").waitFor();
  assert.deepEqual(asked, ["beforeunload"]);
  peer.stdin.write("back\n");
  await page.locator("main").getByText("You said: not yet").first().waitFor();
  // Of the daemon that is away; and what is between may send it what comes late.
  bad.splice(0, bad.length, ...bad.filter((text) => !text.includes("503") && !text.includes("WebSocket")));
  await close();
});

test("a browser that keeps no cookies has a session in this tab alone, and says so", async () => {
  const { page, bad, close } = await opened({}, { isLoggedIn: false });
  await page.route("**/console/session", async (route) => {
    const answer = await route.fetch();
    const { "set-cookie": _, ...headers } = answer.headers();
    await page.context().clearCookies();
    await route.fulfill({ response: answer, headers });
    await page.context().clearCookies();
  });
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await composer(page).waitFor();
  await page.getByText("This browser keeps no cookies here").waitFor();
  await say(page, "still here");
  await page.locator("main").getByText("You said: still here").waitFor();
  assert.equal(await page.evaluate((secret) => JSON.stringify({ ...localStorage, ...sessionStorage }).includes(secret), token), false);
  await page.reload();
  await page.getByText("The login of this browser has ended.").waitFor();
  bad.splice(0, bad.length, ...bad.filter((text) => !text.includes("401") && !text.includes("WebSocket connection to")));
  await close();
});

test("a question that nobody answers counts down and is denied by the daemon; the page sends nothing", async () => {
  const { page, close } = await opened();
  const sent = [];
  await page.context().newCDPSession(page).then(async (client) => {
    await client.send("Network.enable");
    client.on("Network.webSocketFrameSent", ({ response }) => sent.push(JSON.parse(response.payloadData).method));
  });
  await say(page, "write and wait");
  const time = page.locator("section.ask .time");
  await time.getByText(/0:0[1-4] left; then it is denied/).waitFor();
  await page.locator("section.ask").waitFor({ state: "detached" });
  await page.locator(".call.is-denied").waitFor();
  await page.locator("main").getByText(/Done\. It says/).waitFor();
  assert.ok(sent.includes("approval/get"));
  assert.ok(!sent.includes("approval/resolve"));
  assert.equal(await page.locator(".toast").innerText(), ""); // nobody has answered
  await close();
});

test("messages say where they stand, and more contrast is there for who asks for it", async () => {
  const { page, close } = await opened();
  await say(page, "markdown please");
  await page.locator("main").getByText("It is simpler than it looks").waitFor();
  const feed = page.getByRole("feed");
  const stand = () => feed.locator("article").evaluateAll((all) => all.map((each) => [each.ariaPosInSet, each.ariaSetSize]));
  assert.deepEqual(await stand(), [["1", "2"], ["2", "2"]]);
  const muted = () => page.locator(".is-last .under span").first().evaluate((each) => getComputedStyle(each).color);
  const text = await page.evaluate(() => getComputedStyle(document.body).color);
  assert.notEqual(await muted(), text);
  // Nothing moves for who asks for that: neither what fades in, nor the mark behind an answer that is being written.
  await page.locator(".message.assistant").evaluate((each) => each.classList.add("is-live"));
  const moving = () =>
    page.evaluate(() => {
      const all = [...document.querySelectorAll("*")].flatMap((each) => ["", "::before", "::after"].map((pseudo) => getComputedStyle(each, pseudo)));
      return [all.filter((its) => its.transitionDuration !== "0s").length, all.filter((its) => its.animationName !== "none").length];
    });
  assert.ok((await moving()).every((count) => count > 0));
  await page.emulateMedia({ reducedMotion: "reduce" });
  assert.deepEqual(await moving(), [0, 0]);
  await page.emulateMedia({ reducedMotion: null });
  await page.emulateMedia({ contrast: "more" });
  // Its colour fades to that.
  await page.waitForFunction((wanted) => getComputedStyle(document.querySelector(".is-last .under span")).color === wanted, text);
  await axe(page, "more contrast");
  await page.emulateMedia({ contrast: null });
  await page.evaluate(() => (location.hash = "#/settings"));
  await page.getByText("Medium contrast").click();
  await page.goBack();
  await page.locator("main").getByText("It is simpler than it looks").waitFor();
  assert.equal(await muted(), text);
  await axe(page, "medium contrast");
  await page.emulateMedia({ colorScheme: "dark" });
  await axe(page, "medium contrast in the dark");
  await page.emulateMedia({ forcedColors: "active" });
  const outlined = await page.locator(".message.user").evaluate((each) => getComputedStyle(each).borderTopWidth);
  assert.equal(outlined, "1px"); // what has no colour of its own has a line around it
  await page.getByRole("link", { name: "the handbook" }).click();
  assert.equal(await page.getByRole("dialog").getByRole("link", { name: "Open" }).getAttribute("rel"), "noopener noreferrer");
  await close();
});

test("a daemon of another version asks for a reload and keeps what is written, and one without room says what failed", async () => {
  let version = "";
  let isFull = true;
  const { page, bad, close } = await opened({}, {
    prepare: (context) =>
      between(
        context,
        (frame) => (version !== "" && frame.result?.server !== undefined ? { ...frame, result: { ...frame.result, server: { ...frame.result.server, version } } } : frame),
        ({ id, method }) => (isFull && method === "session/prompt" ? { jsonrpc: "2.0", id, error: { code: -32000, message: "the disk is full", data: { type: "storage" } } } : null),
      ),
  });
  await say(page, "too much");
  const outgoing = page.locator(".outgoing");
  await outgoing.getByText("the disk is full").waitFor();
  await axe(page, "no room");
  isFull = false;
  await outgoing.getByRole("button", { name: "Send again" }).click();
  await page.locator("main").getByText("You said: too much").waitFor();
  await outgoing.waitFor({ state: "detached" });
  await composer(page).fill("half a sentence");
  version = "99.0";
  peer.stdin.write("away\n");
  await page.getByText(/tries again in/).waitFor();
  peer.stdin.write("back\n");
  await page.getByText("The daemon is of another version now.").waitFor();
  await page.getByRole("button", { name: "Reload" }).click();
  await page.waitForFunction(() => document.querySelector("form.composer textarea")?.value === "half a sentence");
  await page.getByText("connected", { exact: true }).waitFor();
  assert.equal(await page.getByText("The daemon is of another version now.").count(), 0);
  // Of the daemon that is away; and what is between may send it what comes late.
  bad.splice(0, bad.length, ...bad.filter((text) => !text.includes("503") && !text.includes("WebSocket")));
  await close();
});
