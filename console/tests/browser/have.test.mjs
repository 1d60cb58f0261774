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
  await looks(page, "memory", true);
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
  // A root stands first, and what is none can be written.
  const folder = page.getByLabel("Workspace");
  await page.waitForFunction((field) => field.value !== "", await folder.elementHandle()); // once the roots are read
  await folder.selectOption("");
  await page.getByText("Choose a workspace").waitFor();
  await axe(page, "skills, no workspace");
  await page.getByLabel("Path of the folder").fill(further[1]);
  const skill = page.locator(".skill", { hasText: "Makes a release" });
  await skill.getByText("new", { exact: true }).waitFor();
  await skill.getByRole("button", { name: "Read it" }).click();
  await skill.getByText("Write the changelog.").waitFor();
  await looks(page, "skills", true);
  await answerTo("edit"); // what was read is another by now
  await skill.getByRole("button", { name: "Approve exactly this" }).click();
  await skill.getByText("Tell everybody.").waitFor();
  await skill.getByRole("button", { name: "Approve exactly this" }).click();
  await skill.getByText("approved", { exact: true }).waitFor();
  await skill.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await skill.getByText("new", { exact: true }).waitFor();
  await close();
});

test("a schedule is made, fired, paused, changed and deleted", async () => {
  const { page, close } = await opened();
  await go(page, "#/schedules");
  await page.getByText("Nothing is planned").waitFor();
  await axe(page, "schedules, none");
  await page.getByRole("link", { name: "New schedule" }).click();
  await page.getByLabel("Name").fill("morning");
  await page.getByLabel("What is asked").fill("What is new?");
  await page.getByLabel("By the calendar").last().fill("0 9 * *");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".field .problem").waitFor();
  await looks(page, "schedule-form", true);
  await page.getByLabel("By the calendar").last().fill("0 9 * * 1-5");
  await page.getByText("Monday to Friday at 09:00").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("It has not fired yet.").waitFor();
  assert.equal(await page.locator("section", { hasText: "Next" }).locator("ol > li").count(), 3);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText("by hand").waitFor();
  await page.locator(".rows").getByText("answered").waitFor();
  await looks(page, "schedule", true);
  await page.getByRole("link", { name: "Schedules" }).first().click();
  await page.getByRole("button", { name: "More: morning" }).click();
  await page.getByRole("menuitem", { name: "Pause" }).click();
  await page.getByText("paused").first().waitFor();
  await looks(page, "schedules");
  await page.getByRole("button", { name: "More: morning" }).click();
  await page.getByRole("menuitem", { name: "Edit" }).click();
  await page.getByLabel("At intervals").check();
  await page.getByLabel("At intervals").last().fill("2h");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("every 2h").waitFor();
  await page.getByRole("button", { name: "More: morning" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Nothing is planned").waitFor();
  await close();
});

test("a server of MCP is added from pasted JSON, and what has changed of it is read before it is accepted", async () => {
  const { page, close } = await opened();
  await go(page, "#/mcp");
  await page.getByText("There is no server yet").waitFor();
  await page.getByRole("link", { name: "Add a server" }).click();
  await page.getByLabel("From mcpServers").check();
  await page.getByRole("textbox", { name: "mcpServers" }).fill("nothing");
  await page.getByText("This is no JSON with mcpServers.").waitFor();
  await page.getByRole("textbox", { name: "mcpServers" }).fill(JSON.stringify({ mcpServers: { web: { url: further[0] } } }));
  await looks(page, "mcp-add", true);
  await page.getByRole("button", { name: "Look at what it offers" }).click();
  await page.getByLabel("say").check();
  await page.getByLabel("say").press("Enter"); // accepts nothing by itself
  await picture(page, "mcp-offer");
  await axe(page, "mcp offer");
  assert.equal(await page.getByText("Accepted tools").count(), 0);
  await page.getByRole("button", { name: "Accept 1 tool" }).press("Enter");
  await page.getByText("Accepted tools").waitFor();
  await looks(page, "mcp-one", true);
  peer.stdin.write("changed\n");
  await page.getByRole("button", { name: "Review its tools" }).click();
  await page.locator("ins", { hasText: "friend" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Accept 0 tools" }).count(), 1); // what has changed is ticked by a person alone
  await looks(page, "mcp-changed", true);
  await page.getByLabel("say").check();
  await page.getByRole("button", { name: "Accept 1 tool" }).click();
  await page.getByText("and sends it to a friend").waitFor();
  await page.getByRole("button", { name: "More: web" }).click();
  await page.getByRole("menuitem", { name: "Switch off" }).click();
  await page.getByText("off", { exact: true }).waitFor();
  await page.getByRole("link", { name: "MCP servers" }).first().click();
  await page.locator(".rows").getByText("web").waitFor();
  await looks(page, "mcp");
  await page.locator(".rows").getByRole("link", { name: "web" }).click();
  await page.getByRole("button", { name: "More: web" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByText("There is no server yet").waitFor();
  await close();
});

test("a server that wants a login is added, and logged in at, before its tools are read", async () => {
  peer.stdin.write("lock\n");
  const { page, close } = await opened();
  await go(page, "#/mcp/new");
  await page.getByRole("textbox", { name: "Name" }).fill("mail");
  await page.getByLabel("at an address").check();
  await page.getByRole("textbox", { name: "Address" }).fill(further[0]);
  await page.getByRole("button", { name: "Look at what it offers" }).click();
  await page.getByRole("alert").filter({ hasText: "login" }).waitFor();
  await picture(page, "mcp-wants-login");
  await page.getByRole("button", { name: "Add it without tools" }).click();
  await page.getByText("Nothing is accepted of it.").waitFor();
  await page.getByRole("button", { name: "More: mail" }).click();
  await page.getByRole("menuitem", { name: "Log in" }).click();
  await page.getByRole("dialog").getByText("code_challenge").waitFor();
  await page.getByRole("button", { name: "Open the page" }).click(); // its person agrees at once
  await page.getByText("The login is done.").waitFor();
  await page.getByRole("button", { name: "Review its tools" }).click();
  await page.getByLabel("say").waitFor();
  await close();
});
