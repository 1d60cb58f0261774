// What a person does with a session beyond talking: again, in a copy, taken back.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { axe, composer, opened, picture, say, settled } from "./people.mjs";

const answer = (page, text) => page.locator(".message.assistant").filter({ hasText: text });
const user = (page, text) => page.locator(".from-user").filter({ hasText: text });

test("an answer is asked for again, a message is edited in a copy, and deleted", async () => {
  const { page, close } = await opened({ permissions: ["clipboard-write"] });
  await say(page, "one thing");
  await answer(page, "You said: one thing").waitFor();
  await answer(page, "You said: one thing").getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied").waitFor();
  // The page's own policy lets it read no clipboard: a person pastes.
  await composer(page).press("Control+V");
  assert.equal(await composer(page).inputValue(), "You said: one thing");
  await page.getByRole("button", { name: "Another answer" }).click();
  await page.getByText("replaced by a later run").waitFor();
  await answer(page, "You said: one thing").nth(1).waitFor();
  await say(page, "second thing");
  await answer(page, "You said: second thing").waitFor();
  const before = page.url();
  await user(page, "second thing").hover();
  await user(page, "second thing").getByRole("button", { name: "Edit in a copy of the session" }).click();
  await page.waitForURL((url) => url.href !== before);
  await page.getByText("This is a copy of the session").waitFor();
  await page.waitForFunction(() => document.querySelector("form.composer textarea").value === "second thing");
  await user(page, "one thing").waitFor();
  assert.equal(await user(page, "second thing").count(), 0);
  await say(page, "another thing");
  await answer(page, "You said: another thing").waitFor();
  // By the keyboard alone: the menu takes the focus, the dialog too, and both give it back.
  const last = answer(page, "You said: another thing");
  await last.getByRole("button", { name: "More" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menu").waitFor();
  await picture(page, "turn-menu");
  await axe(page, "turn menu");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("Delete this message?").waitFor();
  await picture(page, "delete-message");
  await axe(page, "delete message");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await last.count(), 1);
  await last.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete the message" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await last.waitFor({ state: "detached" });
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await user(page, "another thing").getByRole("button", { name: "More" }).waitFor({ state: "attached" });
  await close();
});

test("a turn that failed is tried again, and a change of a file is undone", async () => {
  const { page, close } = await opened();
  await say(page, "fail once");
  await page.getByRole("alert").filter({ hasText: "The turn failed" }).waitFor();
  await picture(page, "failed-turn");
  await page.getByRole("button", { name: "Try again" }).click();
  await answer(page, "You said: fail once").waitFor();
  await say(page, "write a note");
  await page.locator("section.ask button.primary").click();
  await answer(page, "Done. It says").waitFor();
  await page.locator(".call summary").click();
  await page.getByText("1 file changed").waitFor();
  await picture(page, "changed-file");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await page.getByRole("dialog").getByText("notes.md").waitFor();
  await picture(page, "undo");
  await axe(page, "undo");
  await page.getByRole("dialog").getByRole("button", { name: "Undo" }).click();
  await page.getByText("The files are as before the call.").waitFor();
  await page.locator(".call .end").getByText("undone").waitFor();
  await page.reload();
  await page.locator(".call .end").getByText("undone").waitFor();
  await close();
});

test("sessions are found by what was said, renamed, saved, deleted and had back", async () => {
  const { page, close } = await opened();
  const row = (title) => page.locator(".sessions li").filter({ has: page.locator("a > .title", { hasText: title }) });
  const choose = async (title, name) => {
    await row(title).first().hover();
    await row(title).first().getByRole("button").click();
    await page.getByRole("menuitem", { name }).click();
  };
  await say(page, "zebras have stripes");
  await answer(page, "You said: zebras have stripes").waitFor();
  await page.getByLabel("Search sessions").fill("stripes");
  await page.getByRole("heading", { name: "In messages" }).waitFor();
  await page.locator(".hit mark").first().waitFor();
  await picture(page, "search");
  await axe(page, "search");
  await page.locator(".hit").first().click();
  await page.getByLabel("Search sessions").fill("");
  await choose("zebras have stripes", "Rename");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Title").fill("Animals");
  await picture(page, "rename");
  await page.keyboard.press("Enter");
  await row("Animals").waitFor();
  await page.getByRole("heading", { name: "Animals", level: 1 }).waitFor();
  const saved = page.waitForEvent("download");
  await choose("Animals", "Export");
  const file = await (await saved).path();
  assert.equal((await saved).suggestedFilename(), "Animals.jsonl");
  const [head, ...events] = readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.equal(head.events, events.length);
  assert.equal(events[0].event.type, "session_created");
  await choose("Animals", "Delete");
  await picture(page, "delete-session");
  await axe(page, "delete session");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await row("Animals").waitFor();
  await choose("Animals", "Delete");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await row("Animals").waitFor({ state: "detached" });
  await page.locator(".toast").getByText("The session was deleted.").waitFor();
  await page.locator(".toast").getByRole("button", { name: "Undo" }).click();
  await row("Animals").waitFor();
  await choose("Animals", "Delete");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Deleted sessions" }).click();
  await row("Animals").waitFor();
  await picture(page, "trash");
  await axe(page, "trash");
  await choose("Animals", "Remove for good");
  await dialog.getByRole("button", { name: "Remove for good" }).click();
  await page.getByText("No session is deleted.").waitFor();
  await page.getByRole("button", { name: "All sessions" }).click();
  await row("zebras").waitFor({ state: "detached" });
  await close();
});

const row = (page, title) => page.locator(".sessions li").filter({ has: page.locator(".title", { hasText: title }) });
async function chooseSeveral(page, ...titles) {
  await page.getByRole("button", { name: "More", exact: true }).first().click();
  await page.getByRole("menuitem", { name: "Choose several" }).click();
  for (const title of titles) await page.getByRole("checkbox", { name: `Choose ${title}` }).check();
}

test("sessions are listed by agent and kind, and several are deleted and had back", async () => {
  const { page, close } = await opened();
  for (const title of ["one of several", "two of several"]) {
    await page.getByRole("link", { name: "New session" }).click();
    await say(page, title);
    await answer(page, `You said: ${title}`).waitFor();
  }
  // A filter that nothing passes, and one that all do.
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByLabel("Which").selectOption("worker");
  await page.getByText("No session is like that.").waitFor();
  await picture(page, "sift");
  await axe(page, "sift");
  // What was said is found among the sessions of the filter alone.
  const search = page.getByRole("searchbox", { name: "Search sessions" });
  const said = page.getByRole("region", { name: "In messages" }).getByRole("link").filter({ hasText: "two of several" });
  await search.fill("of several");
  await page.getByText("No session has that.").waitFor();
  await page.getByLabel("Which").selectOption("people");
  await said.first().waitFor();
  await page.getByLabel("Which").selectOption("worker");
  await said.first().waitFor({ state: "detached" });
  await search.fill("");
  await page.getByText("No session is like that.").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await row(page, "two of several").waitFor();
  await page.getByRole("combobox", { name: "Agent" }).first().selectOption("general");
  await row(page, "two of several").waitFor();
  await page.getByRole("button", { name: "Filter" }).click();
  // Several at once, which one press has back.
  await chooseSeveral(page, "one of several", "two of several");
  await page.getByText("2 chosen").waitFor();
  await picture(page, "several");
  await axe(page, "several");
  await page.locator(".several").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByText("Delete 2 sessions?").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("2 sessions were deleted.").waitFor();
  await row(page, "two of several").waitFor({ state: "detached" });
  await page.locator(".toast").getByRole("button", { name: "Undo" }).click();
  await page.getByText("2 sessions are back.").waitFor();
  await row(page, "one of several").waitFor();
  await close();
});

test("a session comes back from its file when it is removed for good", async () => {
  const { page, close } = await opened();
  await say(page, "it was here");
  await answer(page, "You said: it was here").waitFor();
  const saved = page.waitForEvent("download");
  await row(page, "it was here").hover();
  await row(page, "it was here").getByRole("button").click();
  await page.getByRole("menuitem", { name: "Export" }).click();
  const file = await (await saved).path();
  await chooseSeveral(page, "it was here");
  await page.locator(".several").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Deleted sessions" }).click();
  await row(page, "it was here").waitFor();
  await chooseSeveral(page, "it was here");
  await page.locator(".several").getByRole("button", { name: "Remove for good" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove for good" }).click();
  await row(page, "it was here").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "All sessions" }).click();
  const picker = page.locator(".find-sessions input[type=file]");
  await picker.setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("no session") });
  await page.locator(".toast p").waitFor();
  assert.equal(await row(page, "it was here").count(), 0);
  await picker.setInputFiles(file);
  await answer(page, "You said: it was here").waitFor();
  await row(page, "it was here").waitFor();
  await close();
});

test("files go along, agent and model are chosen, and what is sent while a turn runs goes where it is meant", async () => {
  const { page, close } = await opened();
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==", "base64");
  await page.locator("form.composer input[type=file]").setInputFiles([
    { name: "red.png", mimeType: "image/png", buffer: png },
    { name: "notes.py", mimeType: "", buffer: Buffer.from("print('hello')\n") },
  ]);
  await page.locator(".files").getByText("notes.py").waitFor();
  // One more, as from the clipboard.
  await composer(page).evaluate((element) => {
    const data = new DataTransfer();
    data.items.add(new File(["pasted"], "pasted.txt", { type: "text/plain" }));
    element.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await page.locator(".files").getByText("pasted.txt").waitFor();
  await page.getByRole("button", { name: "Take out pasted.txt" }).click();
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
    for (const type of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.locator(".files").getByText("dropped.txt").waitFor();
  assert.equal(await page.locator(".files li").count(), 3);
  await page.getByRole("button", { name: /^Agent, model and mode/ }).click();
  const panel = page.locator(".options");
  await panel.getByLabel(/^Agent/).selectOption("general");
  await panel.getByLabel(/^Thinking/).selectOption("high");
  await picture(page, "composer");
  await axe(page, "composer");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /Thinking: high/ }).waitFor();
  await say(page, "files come along");
  await answer(page, "You said: files come along").waitFor();
  await page.locator("main").getByText("It came with: red.png image/png, notes.py text/plain, dropped.txt text/plain").waitFor();
  const came = async (from) => {
    const message = user(from, "files come along");
    const picture_ = message.getByRole("button", { name: "Show red.png large" });
    await picture_.locator("img").waitFor();
    assert.equal(await picture_.locator("img").evaluate(async (image) => (await image.decode(), image.naturalWidth)), 1);
    assert.equal(await message.getByRole("button", { name: /^Save (notes.py|dropped.txt)/ }).count(), 2);
    const saved = from.waitForEvent("download");
    await message.getByRole("button", { name: "Save notes.py" }).click();
    assert.equal(readFileSync(await (await saved).path(), "utf8"), "print('hello')\n");
    return picture_;
  };
  await came(page);
  assert.equal(await page.locator(".files").count(), 0);
  // In another browser, which has seen no event of it, and behind a reload.
  const address = page.url().replace(/^[^#]*/, "");
  const other = await opened();
  await other.page.evaluate((hash) => (location.hash = hash), address);
  await (await came(other.page)).click();
  await other.page.getByRole("dialog", { name: "red.png" }).getByRole("button", { name: "Save red.png" }).waitFor();
  await picture(other.page, "picture-large");
  await axe(other.page, "picture-large");
  await other.page.getByRole("button", { name: "Close", exact: true }).click();
  await picture(other.page, "came-with-files");
  await other.page.reload();
  await came(other.page);
  await axe(other.page, "came-with-files");
  // What the session may use is set behind the line with its agent, and read there again.
  await other.page.getByRole("button", { name: /^Agent, model and mode/ }).click();
  const options = other.page.locator(".options details").filter({ hasText: "Budget of this session" });
  await options.getByText("Budget of this session").click();
  await options.getByLabel("Calls of tools").fill("20");
  await options.getByLabel("Tokens").fill("50000");
  await picture(other.page, "budget");
  await axe(other.page, "budget");
  await options.getByRole("button", { name: "Set the budget" }).click();
  await other.page.getByText("It holds from the next turn on.").waitFor();
  await other.page.reload();
  await other.page.getByRole("button", { name: /^Agent, model and mode/ }).click();
  await options.getByText("Budget of this session").click();
  await options.getByLabel("Calls of tools").waitFor();
  assert.equal(await options.getByLabel("Calls of tools").inputValue(), "20");
  assert.equal(await options.getByLabel("Tokens").inputValue(), "50000");
  assert.equal(await options.getByLabel("US dollars").inputValue(), "");
  await other.close();
  await say(page, "slow now");
  await page.locator("main").getByText("I begin, and never end.").waitFor();
  await say(page, "waits behind");
  await user(page, "waits behind").getByText("waits for its turn").waitFor();
  await page.getByRole("heading", { name: "files come along", level: 1 }).waitFor();
  await picture(page, "queued");
  await axe(page, "queued");
  await user(page, "waits behind").getByRole("button", { name: "Take back" }).click();
  await user(page, "waits behind").getByText("waits for its turn").waitFor({ state: "detached" });
  await composer(page).fill("instead of it");
  await page.getByLabel("While a turn runs").selectOption("interrupt");
  await composer(page).press("Enter");
  await answer(page, "You said: instead of it").waitFor();
  await composer(page).press("ArrowUp");
  assert.equal(await composer(page).inputValue(), "instead of it");
  await composer(page).fill("slow again");
  await composer(page).press("Enter");
  await page.locator("main").getByText("I begin, and never end.").nth(1).waitFor();
  await composer(page).press("Escape");
  await composer(page).press("Escape");
  await page.getByText("broken off").nth(1).waitFor();
  await close();
});

test("a form is filled in, and a call is changed and judged again before it is allowed", async () => {
  const { page, close } = await opened();
  await say(page, "form please");
  const form = page.locator("section.question");
  await form.getByLabel("Your name *").waitFor();
  await form.locator(".quoted", { hasText: "Which table?" }).waitFor(); // what others say is framed
  await form.getByRole("button", { name: "Answer" }).click();
  await form.getByText("This must be filled in.").waitFor();
  await form.getByLabel("Your name *").fill("Ada");
  await form.getByLabel("How many").fill("13");
  await form.getByRole("button", { name: "Answer" }).click();
  await form.getByText("At most 12.").waitFor();
  await picture(page, "form");
  await axe(page, "form");
  await form.getByLabel("How many").fill("3");
  await form.getByLabel(/^–|Inside|place/).first().selectOption({ label: "Outside" });
  await form.getByLabel("milk").check();
  await form.getByRole("button", { name: "Answer" }).click();
  await page.locator("main").getByText(/It says: .*Ada/).waitFor();
  await page.locator(".call summary").click();
  const said = (await page.locator(".call .long").last().innerText()).replaceAll("\\", "");
  assert.ok(said.includes('{"name":"Ada","people":3,"place":"out","food":["milk"],"quiet":false}'), said);
  await page.locator(".call summary").click();
  await say(page, "write it down");
  const ask = page.locator("section.ask");
  await ask.getByRole("button", { name: "Change" }).click();
  await ask.getByLabel("content").fill("Buy bread.\n");
  await ask.getByText("+Buy bread.").waitFor();
  // An argument that the call left out is added, with what the tool makes of it by itself, and taken out again.
  await ask.getByRole("button", { name: "Add create_dirs" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.type), "checkbox");
  await ask.getByRole("button", { name: "Add mode" }).click();
  await ask.getByRole("combobox", { name: "mode" }).selectOption("append");
  await ask.getByText("+Buy bread.").waitFor();
  await picture(page, "changed-call");
  await axe(page, "changed call");
  await ask.getByLabel("path").fill("bread.md");
  // What was judged is not what is written now.
  assert.equal(await ask.getByRole("button", { name: "Allow the change" }).isDisabled(), true);
  await ask.locator(".judged").getByText("+++ bread.md").waitFor();
  await ask.getByRole("button", { name: "Leave out create_dirs" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Add create_dirs");
  assert.equal(await ask.getByRole("button", { name: "Allow the change" }).isDisabled(), true);
  await ask.locator(".judged").getByText("+++ bread.md").waitFor();
  await ask.getByRole("button", { name: "Allow the change" }).click();
  await page.locator("main").getByText(/Done\. It says: .*bread\.md/).waitFor();
  await close();
});

test("lists of a call are changed by what may be chosen and line by line, and an object by its fields", async () => {
  const { page, close } = await opened();
  const ask = page.locator("section.ask");
  await say(page, "sow it");
  await ask.getByRole("button", { name: "Change" }).click();
  assert.equal(await ask.getByRole("checkbox", { name: "march" }).isChecked(), true);
  await ask.getByRole("checkbox", { name: "may" }).check();
  await ask.getByLabel("seeds").fill("peas\nleeks\n");
  const bed = ask.getByRole("group", { name: "bed" });
  await bed.getByRole("button", { name: "Add shade" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.type), "checkbox");
  await bed.getByRole("checkbox").check();
  await bed.getByLabel("row").fill("two");
  await bed.getByText("This is not a number that fits.").waitFor();
  await picture(page, "changed-fields");
  await axe(page, "changed fields");
  await bed.getByLabel("row").fill("2");
  await ask.locator(".judged").getByText("Changed like this").waitFor();
  await settled(page);
  await ask.getByRole("button", { name: "Allow the change" }).click();
  await page.locator("main").getByText('"result":[["march","may"],["peas","leeks"],2,true]').waitFor();
  await close();
});

test("what a call would change stands side by side where there is room, and each word of a command in a box", async () => {
  const { page, close } = await opened();
  const allow = page.locator("section.ask button.primary");
  await say(page, "draft a poem");
  await page.locator("section.ask details summary").click();
  await page.locator("section.ask").getByText("30 lines, 620 characters").waitFor();
  await allow.click();
  await page.locator("main").getByText("Done. It says").waitFor();
  await say(page, "rewrite it");
  const diff = page.locator("table.diff");
  await diff.first().waitFor();
  assert.equal(await diff.count(), 2);
  const cells = await diff.first().locator("tr", { hasText: "The third line" }).locator("td").allInnerTexts();
  assert.deepEqual(cells.map((each) => each.trim()), ["3", "-Line 3 of the poem.", "3", "+The third line of the poem."]);
  await picture(page, "diff-wide");
  await axe(page, "diff, wide");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("table.diff:not(.is-wide)").first().waitFor();
  assert.equal(await diff.first().locator("tr", { hasText: "The third line" }).locator("td").count(), 2);
  await picture(page, "diff-narrow");
  await axe(page, "diff, narrow");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("button", { name: "Deny" }).click();
  await page.locator("section.ask").waitFor({ state: "detached" });
  await say(page, "command it");
  await page.locator(".preview .command code").first().waitFor();
  assert.deepEqual(await page.locator(".preview .command code").allInnerTexts(), ["rm", "-rf", "'my notes'", "echo", "done"]);
  await picture(page, "command");
  await axe(page, "command");
  await close();
});

test("an answer that is remembered asks no more, until it is taken back; and one call that runs is stopped", async () => {
  const { page, close } = await opened();
  const ask = page.locator("section.ask");
  await say(page, "command it");
  await ask.getByRole("button", { name: "Allow and remember" }).waitFor();
  await ask.getByLabel("Remember for").selectOption("session");
  await ask.getByRole("button", { name: "Allow and remember" }).click();
  await page.locator("main").getByText("Done. It says").waitFor();
  await page.locator(".call summary").click();
  await page.locator(".call").getByText("reaches beyond the workspace").waitFor(); // its tier
  await page.goto(`${new URL(page.url()).origin}/#/approvals`);
  const grants = page.getByRole("list", { name: "Answers that are remembered" });
  await grants.getByText("run_line").waitFor();
  await picture(page, "grants");
  await axe(page, "grants");
  await grants.getByRole("button", { name: "Take back" }).click();
  await page.getByText("It is asked about again.").waitFor();
  await grants.waitFor({ state: "detached" });
  // A call that is tried is judged, and does not run.
  await page.getByText("Try a call").click();
  const tried = page.locator("form.policy-check");
  await tried.getByLabel("Tool").fill("read_file");
  await tried.getByLabel("Arguments (JSON)").fill('{"path": "notes.md"}');
  await tried.getByRole("button", { name: "Check" }).click();
  await tried.getByText("runs without a question").waitFor();
  await tried.getByLabel("Tool").fill("run_line");
  await tried.getByText("runs without a question").waitFor({ state: "detached" });
  await tried.getByLabel("Arguments (JSON)").fill('{"command": "ls"}');
  await tried.getByRole("button", { name: "Check" }).click();
  await tried.getByText("asks a person").waitFor();
  await picture(page, "policy-check");
  await axe(page, "policy-check");
  await tried.getByLabel("Tool").fill("no_such_tool");
  await tried.getByRole("button", { name: "Check" }).click();
  await tried.getByText("No tool of the daemon is called so.").waitFor();
  await page.getByRole("link", { name: "New session" }).click();
  await say(page, "form please");
  await page.locator("section.question").waitFor();
  await page.locator(".call summary").click();
  await page.getByRole("button", { name: "Stop this call" }).click();
  await page.locator(".call.is-cancelled").waitFor();
  await page.locator("main").getByText("Done. It says").waitFor();
  await close();
});

test("a new session is given its budget before its first message, and each turn one of its own", async () => {
  const { page, close } = await opened();
  const sent = [];
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => sent.push(JSON.parse(payload))));
  await page.reload();
  await page.goto(`${new URL(page.url()).origin}/#/chat/new`);
  const open = page.getByRole("button", { name: /^Agent, model and mode/ });
  const panel = page.locator(".options");
  const of = (title) => panel.getByRole("group", { name: title });
  await open.click();
  await panel.getByText("Budget of this session").click();
  await of("Budget of this session").getByLabel("Tokens").fill("75");
  await panel.getByText("Budget of each turn").click();
  await of("Budget of each turn").getByLabel("Calls of tools").fill("3");
  await picture(page, "budget-new");
  await axe(page, "budget-new");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /with a budget/ }).waitFor();
  // A reload keeps what is chosen.
  await page.reload();
  await page.getByRole("button", { name: /with a budget/ }).waitFor();
  await say(page, "short of money");
  // A budget that is spent is said in the chat, and read there again.
  const spent = page.locator(".message.error").filter({ hasText: "75 of 75 tokens left" });
  await spent.waitFor();
  await picture(page, "budget-spent");
  await axe(page, "budget-spent");
  const of_ = (method) => sent.filter((each) => each.method === method).map((each) => each.params.budget);
  assert.deepEqual(of_("session/new"), [{ tokens: 75 }]);
  assert.deepEqual(of_("session/prompt"), [{ tool_calls: 3 }]);
  // The session has it, and its turns go on with theirs until it is taken away.
  await open.click();
  await panel.getByText("Budget of this session").click();
  assert.equal(await of("Budget of this session").getByLabel("Tokens").inputValue(), "75");
  await panel.getByText("Budget of each turn").click();
  assert.equal(await of("Budget of each turn").getByLabel("Calls of tools").inputValue(), "3");
  await page.keyboard.press("Escape");
  await page.reload();
  await spent.waitFor();
  await open.click();
  await panel.getByText("Budget of this session").click();
  await of("Budget of this session").getByLabel("Tokens").fill("");
  await panel.getByRole("button", { name: "Set the budget" }).click();
  await page.getByText("The session has no limit of its own.").waitFor();
  await panel.getByText("Budget of each turn").click();
  assert.equal(await of("Budget of each turn").getByLabel("Calls of tools").inputValue(), "3");
  await page.keyboard.press("Escape");
  // What joins a turn has no budget of its own, which the daemon would refuse.
  await say(page, "slow now");
  await page.locator("main").getByText("I begin, and never end.").waitFor();
  await composer(page).fill("join it");
  await page.getByLabel("While a turn runs").selectOption("steer");
  await composer(page).press("Enter");
  await page.locator(".message.user").filter({ hasText: "join it" }).waitFor();
  assert.deepEqual(of_("session/prompt").slice(-2), [{ tool_calls: 3 }, undefined]);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await close();
});

test("a session is swiped away by a finger and had back; what scrolls or is drawn a little stays", async () => {
  const { page, close } = await opened({ viewport: { width: 390, height: 844 }, hasTouch: true });
  await say(page, "swipe me");
  await page.locator(".message.assistant").last().waitFor();
  await page.getByRole("button", { name: "Sessions", exact: true }).or(page.locator("button.menu")).first().click();
  const row = page.locator("#drawer .sessions li").filter({ hasText: "swipe me" });
  await row.waitFor();
  const devtools = await page.context().newCDPSession(page);
  const touch = (type, ...points) => devtools.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y]) => ({ x, y })) });
  const draw = async (dx, dy, look = async () => undefined) => {
    const { x, y, width, height } = await row.boundingBox();
    const [fromX, fromY] = [x + width - 80, y + height / 2];
    await touch("touchStart", [fromX, fromY]);
    for (let step = 1; step <= 8; step++) await touch("touchMove", [fromX + (dx * step) / 8, fromY + (dy * step) / 8]);
    await look();
    await touch("touchEnd");
  };
  await draw(-50, 0, () => page.locator("#drawer li.is-swiped").waitFor());
  await page.locator("#drawer li.is-swiped").waitFor({ state: "detached" });
  await draw(-110, 200);
  assert.equal(await page.locator("#drawer li.is-swiped").count(), 0);
  await row.waitFor();
  await draw(-140, 4, () => picture(page, "swiped"));
  await page.locator(".toast").getByText("The session was deleted.").waitFor();
  await row.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Undo" }).click();
  await row.waitFor();
  await close();
});

test("an answer is remembered for more paths by a pattern, which is marked as wider and takes a second press", async () => {
  const { page, close } = await opened();
  const ask = page.locator("section.ask");
  await say(page, "write please");
  await ask.getByLabel("Remember for").selectOption("session");
  await ask.getByRole("button", { name: "For other paths, too …" }).click();
  await ask.getByLabel("Which paths").fill("elsewhere/*");
  await ask.getByText("all paths of this pattern").waitFor();
  const remember = ask.locator(".remember button");
  await page.waitForFunction(() => document.querySelector(".remember button")?.ariaDisabled === "false");
  await remember.click();
  await page.waitForFunction(() => document.querySelector(".remember button")?.ariaDisabled === "false");
  await remember.click();
  await page.getByText("does not match").waitFor(); // the server says so, and the question stays
  await ask.getByLabel("Which paths").fill("*.md");
  await ask.getByText("*.md", { exact: false }).first().waitFor();
  await picture(page, "wider");
  await axe(page, "wider");
  await remember.click();
  await ask.getByRole("button", { name: "Press again to allow" }).waitFor();
  await page.waitForFunction(() => document.querySelector(".remember button")?.ariaDisabled === "false");
  await remember.click();
  await ask.waitFor({ state: "detached" });
  await page.goto(`${new URL(page.url()).origin}/#/approvals`);
  const grants = page.getByRole("list", { name: "Answers that are remembered" });
  await grants.getByText("*.md").waitFor();
  await grants.getByText("all paths of this pattern").waitFor();
  await picture(page, "wider-grant");
  await grants.getByRole("button", { name: "Take back" }).click();
  await grants.waitFor({ state: "detached" });
  await close();
});
