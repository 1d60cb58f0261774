// From the login to the logout: what begins with the connection, and what ends with the login.
import { batch, effect } from "@preact/signals";
import { askFirst } from "../parts/dialog";
import * as app from "./app";
import * as attached from "./attached";
import * as compose from "./compose";
import * as folders from "./folders";
import * as inputs from "./inputs";
import * as login from "./login";
import * as reading from "./reading";
import { route, routeOf } from "./route";
import { words } from "./settings";

export function begin(): void {
  app.followLists();
  reading.begin();
  let wasOpen = false;
  effect(() => {
    const state = app.link.state.value;
    if (state.kind === "open") {
      if (app.firstVersion.peek() === "") app.firstVersion.value = app.link.welcome.peek()?.server.version ?? "";
      wasOpen = true;
      login.proved(true);
      if (!login.isTabOnly.peek()) login.token.value = null; // the browser has its cookie: nothing needs the token any more
      queueMicrotask(() => void connected());
    } else if (state.kind === "refused" && state.error === null) {
      // With a token at hand, it is the cookie that the browser did not keep.
      if (!wasOpen && login.token.peek() !== null && !login.isTabOnly.peek()) {
        login.isTabOnly.value = true;
        queueMicrotask(() => app.link.start());
      } else {
        const isLost = login.proved(false);
        queueMicrotask(() => {
          ended();
          if (isLost) batch(() => ((app.wasEnded.value = false), (login.linkProblem.value = words.peek().login.cookieLost)));
        });
      }
    }
  });
  window.addEventListener("hashchange", () => {
    route.value = routeOf(location.hash);
  });
  window.addEventListener("beforeunload", (event) => {
    if (inputs.waiting.value.length > 0) event.preventDefault();
  });
  if (login.key.value !== null) app.link.start();
}

function ended(): void {
  app.link.stop();
  login.forget();
  app.drafts.clear();
  compose.forget();
  folders.forget();
  attached.forget();
  reading.forget();
  batch(() => {
    app.wasEnded.value = true;
    // With another login, which may be of somebody else, it goes out by a press alone.
    inputs.waiting.value = inputs.waiting.value.map((each) => ({ ...each, problem: words.peek().login.ended }));
    app.isLoggedOut.value = true;
    app.open.value = null;
    app.sift.value = app.NO_SIFT;
    app.sessions.value = [];
    app.approvals.value = [];
    app.questions.value = [];
    app.sessionsProblem.value = app.waitingProblem.value = null;
  });
}

export function loggedIn(): void {
  batch(() => {
    app.isLoggedOut.value = false;
    app.wasEnded.value = false;
    login.linkProblem.value = "";
  });
  app.link.start();
}

/** Log out. What was written and not sent ends with the login: who has such is asked first. */
export async function leave(): Promise<void> {
  const its = words.peek();
  const isWritten = inputs.waiting.peek().length > 0 || compose.hasFiles() || app.drafts.hasText();
  if (isWritten && (await askFirst({ title: its.login.leaveTitle, text: its.login.leaveText, action: its.logOut, isBad: true })) === null) return;
  app.link.stop();
  await login.logOut();
  ended();
  batch(() => {
    inputs.waiting.value = [];
    app.wasEnded.value = false;
  });
}

async function connected(): Promise<void> {
  await Promise.all([app.readSessions(), app.readApprovals(), reading.show(true)]);
  await inputs.sendWaiting();
}
