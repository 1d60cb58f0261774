// What is read aloud, and what a tab keeps.
import { Choose } from "../../parts/form";
import { Section } from "../../parts/page";
import { announces, keepsContent } from "../../store/settings";
import { its } from "../../words/screens/chat";

export function Attention() {
  const text = its.value.aloud;
  return (
    <Section title={text.section}>
      <div class="fields">
        <Choose label={text.announces} value={announces.value ? "on" : "off"} options={Object.entries(text.onOff) as ["on" | "off", string][]} choose={(value) => (announces.value = value === "on")} />
        <Choose label={text.keeps} value={keepsContent.value ? "on" : "off"} options={Object.entries(text.onOff) as ["on" | "off", string][]} choose={(value) => (keepsContent.value = value === "on")} />
      </div>
    </Section>
  );
}
