// The daemon itself: its configuration read again, its store backed up, its end.
import { useState } from "preact/hooks";
import { askFirst } from "../../parts/dialog";
import { Facts, Loaded, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { dated, numbered } from "../../store/settings";
import { its } from "../../words/screens/settings";

/** A store of some gigabytes is copied. */
const BACKUP_MS = 600_000;

export function Daemon() {
  const text = its.value;
  const status = useResource(
    async () => {
      const found = await app.link.request("runtime/status", {});
      return { ...found, began: Date.now() - found.uptime_seconds * 1000 };
    },
    app.may("settings/get") ? ["settings"] : [],
  );
  const [busy, setBusy] = useState("");
  const act = async (name: string, run: () => Promise<string>) => {
    setBusy(name);
    try {
      app.toast.value = await run();
      await status.again();
    } catch (error) {
      app.say(error);
    } finally {
      setBusy("");
    }
  };
  const reload = async () => text.reloaded((await app.link.request("config/reload", {})).changed.map(shown).join(", "));
  const backUp = async () => {
    const made = await app.link.request("store/backup", {}, BACKUP_MS);
    return text.backedUp(made.path, numbered(Math.round(made.size_bytes / 1e5) / 10));
  };
  const stop = async () => {
    if ((await askFirst({ title: text.stopTitle, text: text.stopText, action: text.stop, isBad: true })) === null) return;
    await app.link.request("runtime/shutdown", {}).catch((error: unknown) => app.isGone(error) || app.say(error));
  };
  return (
    <Section title={text.daemon}>
      <Loaded resource={status}>
        {(value) => (
          <div class="stack">
            <Facts
              rows={[
                [text.version, shown(value.version ?? "")],
                [text.since, dated(value.began)],
                ...(value.config == null ? [] : ([[text.config, text.configSince(value.config.revision, dated(value.config.since_ms))]] as const)),
              ]}
            />
            {(value.config?.waiting ?? []).length > 0 && <p class="said-box is-warn">{text.waiting((value.config?.waiting ?? []).map(shown).join(", "))}</p>}
            {(value.config?.problem ?? "") !== "" && <p class="said-box is-bad">{shown(value.config?.problem ?? "")}</p>}
            <div class="buttons">
              {app.may("config/reload") && (
                <button type="button" disabled={busy !== ""} onClick={() => void act("reload", reload)}>
                  {text.reload}
                </button>
              )}
              {app.may("store/backup") && (
                <button type="button" disabled={busy !== ""} onClick={() => void act("backup", backUp)}>
                  {text.backup}
                </button>
              )}
              {app.may("runtime/shutdown") && (
                <button type="button" class="bad-quiet" onClick={() => void stop()}>
                  {text.stop}
                </button>
              )}
            </div>
          </div>
        )}
      </Loaded>
    </Section>
  );
}
