// How the console looks in this browser, and what the daemon was told.
import { Choose } from "../../parts/form";
import { Page, Section } from "../../parts/page";
import { density, language, theme, type Density, type Language, type Theme } from "../../store/settings";
import { its } from "../../words/screens/settings";

export default function Settings() {
  return (
    <Page>
      <Look />
    </Page>
  );
}

function Look() {
  const text = its.value;
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
        <Choose<Theme>
          label={text.theme}
          value={theme.value}
          options={Object.entries(text.themes) as [Theme, string][]}
          choose={(value) => (theme.value = value)}
        />
        <Choose<Density>
          label={text.density}
          value={density.value}
          options={Object.entries(text.densities) as [Density, string][]}
          choose={(value) => (density.value = value)}
        />
      </div>
    </Section>
  );
}
