// Who is not logged in: how to get a link, or a token to paste.
import { useState } from "preact/hooks";
import { wasEnded } from "../store/app";
import { linkProblem, logIn } from "../store/login";
import { words } from "../store/settings";
import { loggedIn } from "../store/visit";

export function Login() {
  const its = words.value.login;
  const [token, setToken] = useState("");
  const [remember, setRemember] = useState(true);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const enter = async (event: Event) => {
    event.preventDefault();
    if (token.trim() === "" || isBusy) return;
    setBusy(true);
    const done = await logIn({ token: token.trim(), remember });
    setBusy(false);
    if (done.problem === null) {
      setToken("");
      loggedIn();
    } else setProblem(done.problem === "unreachable" ? its.unreachable : done.text);
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void enter(event)}>
        <img src="/console/icon.svg" alt="" width={48} height={48} />
        <h1>callboard</h1>
        {linkProblem.value !== "" && (
          <p class="problem" role="alert">
            {linkProblem.value}
          </p>
        )}
        {wasEnded.value && <p role="status">{its.ended}</p>}
        <p>{its.hint}</p>
        <pre tabIndex={0}>callboard console</pre>
        <p class="or">
          <span>{its.or}</span>
        </p>
        <label>
          {its.token}
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <label class="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          {its.remember}
        </label>
        {problem !== "" && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="primary" disabled={isBusy || token.trim() === ""}>
          {its.enter}
        </button>
      </form>
    </main>
  );
}
