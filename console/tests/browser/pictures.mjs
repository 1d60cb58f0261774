// The pictures of docs/console.md and of the README: `scripts/console-build --pictures` takes them.
import { test } from "node:test";
import { composer, opened, picture, say, settled } from "./people.mjs";

const answered = (page) => page.locator("main").getByText(/Done\. It says/).last();

for (const theme of ["light", "dark"]) {
  test(`pictures, ${theme}`, async () => {
    const { page, close } = await opened({ colorScheme: theme });
    await say(page, "both at once: what is in this folder, and what time is it in Tokyo?");
    await answered(page).waitFor();
    await page.getByRole("link", { name: "New session" }).click();
    await page.getByText("What can I do for you?").waitFor();
    await say(page, "markdown overview of this workspace, please");
    await page.locator("main").getByText("It is simpler than it looks").waitFor();
    await page.locator(".code .of-keyword").first().waitFor();
    await page.getByRole("button", { name: "Another answer" }).waitFor();
    await page.mouse.move(640, 8);
    await page.waitForTimeout(300);
    await picture(page, `console-chat-${theme}`);
    await say(page, "write the notes for Monday down");
    await page.locator("section.ask").getByText("+Buy milk.").waitFor();
    await settled(page);
    await picture(page, `console-question-${theme}`);
    await page.locator("section.ask button.primary").click();
    await answered(page).waitFor();
    await close();
  });
}

test("picture, on a phone and in Chinese", async () => {
  const { page, close } = await opened({ locale: "zh-CN", colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true });
  await composer(page).waitFor();
  await say(page, "中文");
  await page.locator("main").getByText("128 项").waitFor();
  await say(page, "both");
  await answered(page).waitFor();
  await page.waitForTimeout(300);
  await picture(page, "console-narrow-zh-dark");
  await close();
});
