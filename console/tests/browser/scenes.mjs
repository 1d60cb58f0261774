// The screens as somebody meets them, and how each is come to, in whatever language. Sixteen have golden pictures, and the login has one, in the order of the design;
// the others are what they become: a dialog, a menu, a form that was refused, nothing there yet, something that failed.
const CHAT = "session_00000000000000000001";
const TURN = "session_00000000000000000002";
/** Where the daemon works, as gallery.test.mjs shows it. */
export const HOME = "/home/ada/work/garden";
const FAILED = "session_00000000000000000005";

async function go(page, hash, ready) {
  if (await page.locator("#drawer.is-open").count()) {
    await page.keyboard.press("Escape");
    await page.locator("#drawer:not(.is-open)").waitFor({ state: "attached" });
  }
  await page.evaluate((at) => (location.hash = at), hash);
  await page.locator(ready).first().waitFor();
}
const to = (hash, ready) => (page) => go(page, hash, ready);
const escape = (page) => page.keyboard.press("Escape");
const golden = (name, open, leave) => ({ name, open, leave, isGolden: true });
const state = (name, open, leave) => ({ name, open, leave, isGolden: false });
/** Come to a screen, and press what is there. */
const pressed = (hash, ready, button, then) => async (page) => {
  await go(page, hash, ready);
  await page.locator(button).first().click();
  await page.locator(then).first().waitFor();
};
const dialog = "dialog[open]";
/** A question whose buttons take a press already. */
const READY = "section.ask button.primary[aria-disabled=false]";

async function question(page) {
  await go(page, "#/approvals", READY);
  await go(page, await page.locator("main a[href^='#/chat/']").first().getAttribute("href"), `article ${READY}`);
}

export const scenes = [
  golden("setup", to("#/setup", ".cards")),
  state("setup-refused", async (page) => {
    await page.locator(".cards label").last().click();
    await page.locator("form input[type=text]").first().fill("a b");
    await page.locator("form input[inputmode=url]").fill("nowhere");
    await page.locator("form button[type=submit]").click();
    await page.locator(".field .problem").first().waitFor();
  }),
  state("setup-2", pressed("#/setup", ".steps", ".steps li:nth-child(2) button", ".steps li:nth-child(2)[aria-current]")),
  state("setup-3", pressed("#/setup", ".steps", ".steps li:nth-child(3) button", ".examples"), (page) => page.locator(".steps button").first().click()),
  golden("chat", async (page) => {
    await go(page, `#/chat/${CHAT}`, ".message.assistant");
    await page.waitForFunction(() => [...document.querySelectorAll(".code")].every((each) => each.querySelector("[class^=of-]") !== null));
  }),
  state("chat-menu", async (page) => {
    await page.locator(".message.assistant").last().locator("button").last().click();
    await page.getByRole("menu").waitFor();
  }),
  state("chat-delete", async (page) => {
    await page.getByRole("menuitem").last().click();
    await page.locator(dialog).waitFor();
  }, escape),
  state("chat-options", async (page) => {
    await page.locator(".composer button.chosen").first().click();
    await page.locator(".options:popover-open").waitFor();
  }, escape),
  state("chat-find", async (page) => {
    await page.locator("#main").focus();
    await page.keyboard.press("Control+f");
    await page.keyboard.type("main");
    await page.waitForFunction(() => CSS.highlights.has("found"));
  }, escape),
  state("keys", async (page) => {
    await page.locator("#main").focus();
    await page.keyboard.press("?");
    await page.locator(dialog).waitFor();
  }, escape),
  state("chat-link", pressed(`#/chat/${CHAT}`, ".message.assistant", ".markdown a", dialog), escape),
  state("chat-failed", to(`#/chat/${FAILED}`, ".message, [role=alert]")),
  state("chat-new", to("#/chat/new", ".welcome, .chat .empty, form.composer")),
  golden("sessions", async (page, { width }) => {
    await go(page, "#/sessions", "#drawer input[type=search]");
    if (width === "narrow") await page.locator("#drawer.is-open").waitFor();
  }),
  state("sessions-found", async (page) => {
    await page.locator("#drawer input[type=search]").fill("gone.md");
    await page.locator(".hit").first().waitFor();
  }),
  state("sessions-none", async (page) => {
    await page.locator("#drawer input[type=search]").fill("zebras");
    await page.locator("#drawer .sessions .empty").waitFor();
  }, (page) => page.locator("#drawer input[type=search]").fill("")),
  state("sessions-deleted", async (page) => {
    await page.locator(".drawer-foot button").first().click();
    await page.locator("#drawer .sessions .empty").waitFor();
  }, async (page) => {
    await page.locator(".drawer-foot button").first().click();
    await page.locator("#drawer .sessions li").first().waitFor();
  }),
  state("session-rename", async (page) => {
    await page.locator("#drawer .sessions li button").first().click();
    await page.getByRole("menuitem").first().click();
    await page.locator(dialog).waitFor();
  }, escape),
  state("ways", async (page, { width }) => {
    if (width === "wide") await page.locator(".settings > button").click();
    else {
      if ((await page.locator("#drawer.is-open").count()) === 0) await page.locator("button.menu").click();
      await page.locator("#drawer summary.way").click();
    }
    await page.locator(".ways:visible").first().waitFor();
  }, async (page) => {
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
  }),
  golden("approvals", to("#/approvals", READY)),
  golden("question", question),
  state("question-changed", async (page) => {
    await page.locator("section.ask [data-key=change]").click();
    await page.locator("section.ask .judged .preview").waitFor();
  }, (page) => page.locator("section.ask [data-key=change]").click()),
  golden("turn", to(`#/turn/${TURN}`, ".tiles")),
  state("turn-unknown", to(`#/turn/${TURN}/nothing`, ".said-box, [role=alert], .nothing")),
  golden("agents", to("#/agents", ".rows")),
  state("agent", to("#/agents/researcher", ".agent, .facts")),
  state("agent-new", to("#/agents/+", ".segments")),
  state("agent-unknown", to("#/agents/nobody", ".nothing, .said-box")),
  golden("providers", to("#/providers", ".rows")),
  state("provider", to("#/providers/openai", "form")),
  state("provider-new", to("#/providers/+", "form")),
  golden("tools", to("#/tools", ".tool-rows")),
  state("tool", async (page) => {
    await page.locator(".tool-rows summary").first().click();
    await page.locator(".tool-rows details[open] pre").first().waitFor();
  }),
  state("tools-history", to("#/tools/history", ".tool-rows summary")),
  state("mcp-list", to("#/mcp", ".rows")),
  state("mcp-new", to("#/mcp/new", "form")),
  state("mcp-one", to("#/mcp/garden", ".page-head button.primary")),
  golden("mcp", async (page) => {
    await go(page, "#/mcp/garden", ".page-head button.primary");
    await page.locator(".page-head button.primary").click();
    // The server runs, and its three tools are as they were accepted.
    await page.waitForFunction(() => document.querySelectorAll("main .mark.is-good").length === 4);
  }),
  golden("memory", to("#/memory", ".rows")),
  state("memory-forget", pressed("#/memory", ".rows", ".rows li button", dialog), escape),
  state("memory-none", async (page) => {
    await page.locator("main input[type=search]").fill("zebras");
    await page.locator(".nothing, .empty").first().waitFor();
  }, (page) => page.locator("main input[type=search]").fill("")),
  golden("skills", async (page) => {
    await go(page, "#/skills", "main select");
    await page.locator("main select").selectOption("");
    await page.locator("main input").fill(HOME);
    await page.locator(".skill").first().waitFor();
  }),
  golden("schedules", to("#/schedules", ".rows")),
  state("schedule", to("#/schedules/morning", "ol > li")),
  state("schedule-refused", async (page) => {
    await go(page, "#/schedules/new", "form");
    await page.locator("form input[type=text]").first().fill("evening");
    await page.locator("form textarea").fill("What is left?");
    await page.locator("form input[type=text]:not([list])").nth(1).fill("never");
    await page.locator("form button[type=submit]").click();
    await page.locator(".problem").first().waitFor();
  }),
  golden("usage", to("#/usage", ".tiles")),
  golden("logs", to("#/logs", "main:has(.tiles) .log")),
  state("logs-none", async (page) => {
    await page.locator("main .segments input").last().check({ force: true });
    await page.locator(".log-none").waitFor();
  }),
  golden("settings", to("#/settings", ".settings-of, .sheet")),
  state("settings-stop", pressed("#/settings", ".sheet", "button.bad-quiet", dialog), escape),
  state("one-page", to(`#/print/${CHAT}`, ".printed .markdown")),
  state("unknown", to("#/nowhere", ".nothing, main h2")),
];
