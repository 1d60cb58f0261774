// A screen that is loaded when somebody comes to it; and what is said of one that there is not, or not for this login.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Failed, Page, Reading, type ScreenProps } from "../parts/page";
import { textOf } from "../store/problem";
import * as app from "../store/app";
import { words } from "../store/settings";
import { screenOf } from "./routes";

const loaded = new Map<string, ComponentType<ScreenProps>>();

export function PageScreen({ name, parts }: { name: string; parts: readonly string[] }) {
  const its = words.value.page;
  const entry = screenOf(name);
  const [problem, setProblem] = useState("");
  const [, draw] = useState(0);
  const View = loaded.get(name);
  const load = () => {
    setProblem("");
    if (entry === null || loaded.has(name)) return;
    entry.load().then(
      (part) => {
        loaded.set(name, part.default);
        draw((count) => count + 1);
      },
      (error: unknown) => setProblem(textOf(error)),
    );
  };
  useEffect(load, [name]);
  const toChat = (
    <a class="button" href="#/chat/new">
      {its.toChat}
    </a>
  );
  if (entry === null) {
    return (
      <Page>
        <Empty icon="find" title={its.unknown} text={its.unknownText(location.hash)}>
          {toChat}
        </Empty>
      </Page>
    );
  }
  if (entry.needs !== null && app.link.welcome.value !== null && !app.may(entry.needs)) {
    return (
      <Page>
        <Empty icon="key" title={its.refused} text={its.refusedText}>
          {toChat}
        </Empty>
      </Page>
    );
  }
  if (problem !== "") {
    // The daemon may be another one by now, whose parts have other names. Without one, a reload would end the page.
    return (
      <Page>
        {app.link.state.value.kind === "open" ? (
          <Failed text={`${its.notLoaded} ${problem}`} again={() => location.reload()} />
        ) : (
          <Empty icon="warn" title={its.away} />
        )}
      </Page>
    );
  }
  if (View === undefined || app.link.welcome.value === null) {
    return (
      <Page>
        <Reading />
      </Page>
    );
  }
  return (
    <Guard key={name}>
      <View parts={parts} />
    </Guard>
  );
}

/** What goes wrong on one screen, as with an answer that it does not expect, leaves the others usable. */
class Guard extends Component<{ children: ComponentChildren }, { problem: string }> {
  override state = { problem: "" };

  override componentDidCatch(error: unknown): void {
    this.setState({ problem: textOf(error) });
  }

  override render() {
    if (this.state.problem === "") return this.props.children;
    return (
      <Page>
        <Failed text={`${words.value.page.broken} ${this.state.problem}`} again={() => this.setState({ problem: "" })} />
      </Page>
    );
  }
}
