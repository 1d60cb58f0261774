// What a person does with a session beyond talking: again, in a copy, taken back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, composer, opened, picture, say } from "./people.mjs";

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
  await page.locator("section.ask button.primary").waitFor();
  await page.waitForTimeout(500);
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
