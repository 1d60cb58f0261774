// People's flows on the screens that show what there is: memory, skills, schedules, servers of MCP.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./watched.mjs";
import { answerTo, axe, composer, further, opened, peer, picture, say } from "./people.mjs";
import { go, looks } from "./looks.mjs";

test("something is remembered, found and forgotten", async () => {
  const { page, close } = await opened();
  await go(page, "#/memory");
  await page.getByText("Nothing is remembered yet").waitFor();
  await picture(page, "memory-none");
  await axe(page, "memory, nothing");
  await page.getByRole("button", { name: "Remember something" }).click();
  await page.getByLabel("What to remember").fill("The garden gate sticks when it rains.");
  await page.getByLabel("Tags").fill("garden, gate");
  await page.getByRole("button", { name: "Remember", exact: true }).click();
  await page.getByText("The garden gate sticks").waitFor();
  await looks(page, "memory");
  await page.getByLabel("Find in the memory").fill("windows");
  await page.getByText("Nothing remembered has one of these words.").waitFor();
  await page.getByLabel("Find in the memory").fill("gate");
  await page.getByRole("button", { name: "Forget" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Forget" }).click();
  await page.getByText("Nothing remembered has one of these words.").waitFor();
  await close();
});

test("a skill is read, and exactly what was read is approved", async () => {
  const { page, close } = await opened();
  await go(page, "#/skills");
  await page.getByText("Choose a workspace").waitFor();
  await axe(page, "skills, no workspace");
  await page.getByLabel("Path of the folder").fill(further[1]);
  const skill = page.locator(".skill", { hasText: "Makes a release" });
  await skill.getByText("new", { exact: true }).waitFor();
  await skill.getByRole("button", { name: "Read it" }).click();
  await skill.getByText("Write the changelog.").waitFor();
  await looks(page, "skills");
  peer.stdin.write("edit\n"); // what was read is another by now
  await page.waitForTimeout(200);
  await skill.getByRole("button", { name: "Approve exactly this" }).click();
  await skill.getByText("Tell everybody.").waitFor();
  await skill.getByRole("button", { name: "Approve exactly this" }).click();
  await skill.getByText("approved", { exact: true }).waitFor();
  await skill.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await skill.getByText("new", { exact: true }).waitFor();
  await close();
});
