// The libraries and the texts first, and those beside each other: so all packs 1 kB smaller.
import "preact/hooks";
import "@preact/signals";
import "marked";
import "dompurify";
import "./words/en";
import "./words/zh";
import "./words/screens/chat";
import { render } from "preact";
import "./look/tokens.css";
import "./look/base.css";
import "./look/frame.css";
import "./look/drawer.css";
import "./look/chat.css";
import "./look/markdown.css";
import "./look/calls.css";
import "./look/questions.css";
import "./look/composer.css";
import "./look/dialogs.css";
import "./look/narrow.css";
import "./look/menus.css";
import "./look/forms.css";
import "./look/page.css";
import "./look/reach.css";
import { Frame } from "./screens/frame";
import { isLoggedOut } from "./store/app";
import { followApprovals } from "./store/notify";
import { begin as beginKeys } from "./store/keys";
import { linkProblem, logIn, ticketOfAddress } from "./store/login";
import { follow, words } from "./store/settings";
import { begin, loggedIn } from "./store/visit";

/** Log in by the ticket of the address, if it has one; return whether that worked. */
async function byLink(): Promise<boolean> {
  const ticket = ticketOfAddress();
  if (ticket === null) return false;
  const { problem, text } = await logIn({ ticket, remember: true });
  linkProblem.value = problem === null ? "" : text || words.value.login.unreachable;
  return problem === null;
}

async function main(): Promise<void> {
  follow();
  followApprovals();
  if (await byLink()) isLoggedOut.value = false;
  begin();
  beginKeys();
  // A link that is opened where the page is open already changes the fragment alone.
  window.addEventListener("hashchange", () => void byLink().then((worked) => worked && loggedIn()));
  const place = document.getElementById("app");
  if (place !== null) render(<Frame />, place);
}

void main();
