// A notification of the browser's when something waits for a person and the page is not in sight: never what it is.
import { effect, signal } from "@preact/signals";
import { isQuestion, waiting } from "./app";
import { store, stored, words } from "./settings";

export const isNotifying = signal(stored("notify") === "on");

/** Switch it on or off; return whether it is as wanted: the browser asks, too. */
export async function setNotifying(wanted: boolean): Promise<boolean> {
  const isAllowed = wanted && "Notification" in globalThis && (await Notification.requestPermission()) === "granted";
  isNotifying.value = isAllowed;
  store("notify", isAllowed ? "on" : null);
  return isAllowed === wanted;
}

export function followApprovals(): void {
  let known = new Set<string>();
  effect(() => {
    const now = new Set(waiting.value.map((each) => isQuestion(each) ? each.question_id : each.approval_id));
    const isNew = [...now].some((id) => !known.has(id));
    known = now;
    if (!isNew || !isNotifying.peek() || !document.hidden || Notification.permission !== "granted") return;
    const its = new Notification("callboard", { body: words.peek().waitingFor(now.size), tag: "callboard", icon: "/console/icon.svg" });
    its.onclick = () => {
      focus();
      location.hash = "#/approvals";
      its.close();
    };
  });
}
