// All tools by where they come from, and the history of their calls.
import { useState } from "preact/hooks";
import { duration } from "../../parts/amounts";
import { Choose } from "../../parts/form";
import { Facts, Loaded, Mark, Page, PageHead, Section, type ScreenProps } from "../../parts/page";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/tools";
import { History } from "./history";
import { sourcesOf, type Tool } from "./sources";
import "../../look/screens/lists.css";

type Part = "list" | "history";

export default function Tools({ parts }: ScreenProps) {
  const text = its.value;
  const part: Part = parts[0] === "history" ? "history" : "list";
  return (
    <Page isWide>
      <PageHead lead={text.lead} />
      {app.may("tool/history") && (
        <div class="filters">
          <Choose<Part> label={text.show} value={part} options={Object.entries(text.parts) as [Part, string][]} choose={(value) => (location.hash = value === "list" ? hrefOf("tools") : hrefOf("tools", "history"))} />
        </div>
      )}
      {part === "history" ? <History tool={parts[1] ?? ""} /> : <All />}
    </Page>
  );
}

function All() {
  const text = its.value;
  const [wanted, setWanted] = useState("");
  const resource = useResource(async () => {
    const [listed, servers] = await Promise.all([
      app.link.request("tool/list", {}),
      app.may("mcp/list") ? app.link.request("mcp/list", {}) : Promise.resolve({ servers: [] }),
    ]);
    return { ...listed, servers: new Set(servers.servers.map((each) => each.name)) };
  }, ["tools"]);
  return (
    <>
      <div class="filters">
        <input type="search" aria-label={text.find} placeholder={text.find} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </div>
      <Loaded resource={resource}>
        {({ tools, servers, not_offered: why = {} }) => {
          const sources = sourcesOf(tools, servers, wanted);
          if (sources.length === 0) return <p class="empty">{text.noMatch}</p>;
          return sources.map((source) => (
            <Section
              key={`${source.kind}/${source.name}`}
              title={source.kind === "mcp" ? text.mcp(source.name) : source.name || text.builtin}
              actions={<span class="under">{text.count(source.tools.length)}</span>}
              isBare
            >
              <ul class="rows tool-rows">
                {source.tools.map((tool) => (
                  <One key={tool.name} tool={tool} why={why[tool.name] ?? ""} />
                ))}
              </ul>
            </Section>
          ));
        }}
      </Loaded>
    </>
  );
}

function One({ tool, why }: { tool: Tool; why: string }) {
  const text = its.value;
  const tier = tool.tier ?? "system";
  const kind = tier === "elevated" ? "bad" : tier === "system" ? "warn" : "plain";
  const needs = tool.needs ?? [];
  return (
    <li>
      <details>
        <summary>
          <span class="title">
            <code class="name">{shown(tool.name)}</code>
            <Mark kind={kind}>{words.value.tiers[tier] ?? tier}</Mark>
            {why !== "" && <Mark kind="warn">{text.notOffered}</Mark>}
          </span>
          <span class="text">{shown(tool.description)}</span>
        </summary>
        <Facts
          rows={[
            ...(why === "" ? [] : [[text.why, shown(why)] as const]),
            [text.asks, text.asking[tool.approval ?? "never"] ?? tool.approval],
            [text.effect, text.effects[tool.effect ?? "once"] ?? tool.effect],
            [text.timeout, duration((tool.timeout_seconds ?? 30) * 1000)],
            ...(needs.length === 0 ? [] : [[text.needs, needs.join(", ")] as const]),
          ]}
        />
        <h3>{text.schema}</h3>
        <pre class="long" tabIndex={0}>
          {shown(JSON.stringify(tool.parameters, null, 2))}
        </pre>
        {app.may("tool/history") && (
          <a class="button small" href={hrefOf("tools", "history", tool.name)}>
            {text.history}
          </a>
        )}
      </details>
    </li>
  );
}
