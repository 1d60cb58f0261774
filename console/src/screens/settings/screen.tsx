// How the console looks in this browser, who may come in, and what the daemon was told.
import { useState } from "preact/hooks";
import { Choose } from "../../parts/form";
import { Page, Section } from "../../parts/page";
import { may } from "../../store/app";
import { isNotifying, setNotifying } from "../../store/notify";
import { density, language, theme, type Density, type Language, type Theme } from "../../store/settings";
import { Attention } from "./attention";
import { its } from "../../words/screens/settings";
import { Daemon } from "./daemon";
import { ServerSettings } from "./server";
import { Tokens } from "./tokens";
import "../../look/screens/settings.css";

export default function Settings() {
  return (
    <Page>
      <Look />
      <Attention />
      {may("token/list") && <Tokens />}
      {may("settings/get") && <ServerSettings />}
      {may("runtime/status") && <Daemon />}
    </Page>
  );
}

function Look() {
  const text = its.value;
  const [isRefused, setRefused] = useState(false);
  return (
    <Section title={text.look} lead={text.lookLead}>
      <div class="fields">
        <Choose<Language>
          label={text.language}
          value={language.value}
          options={[
            ["en", "English"],
            ["zh", "中文"],
          ]}
          choose={(value) => (language.value = value)}
        />
        <Choose<Theme> label={text.theme} value={theme.value} options={Object.entries(text.themes) as [Theme, string][]} choose={(value) => (theme.value = value)} />
        <Choose<Density> label={text.density} value={density.value} options={Object.entries(text.densities) as [Density, string][]} choose={(value) => (density.value = value)} />
        <div class="field">
          <Choose
            label={text.notify}
            value={isNotifying.value ? "on" : "off"}
            options={Object.entries(text.notifies) as ["off" | "on", string][]}
            choose={(value) => void setNotifying(value === "on").then((worked) => setRefused(!worked))}
          />
          <p class={isRefused ? "problem" : "under"} role={isRefused ? "alert" : undefined}>
            {isRefused ? text.notifyRefused : text.notifyHint}
          </p>
        </div>
      </div>
    </Section>
  );
}
