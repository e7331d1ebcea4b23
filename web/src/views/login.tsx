/** What is shown to those whom the server does not know. */

import { useState } from "preact/hooks";
import { enterWith, session } from "../store/session";

export function Login({ entered }: { entered: () => void }): preact.JSX.Element {
  const [token, setToken] = useState("");
  const [refused, setRefused] = useState("");
  const why = refused || session.value.why;
  const open = async (): Promise<void> => {
    const said = await enterWith(token.trim());
    setRefused(said);
    if (!said) entered();
  };
  return (
    <main class="login">
      <section class="card">
        <h1>Haulout</h1>
        {why && (
          <p class="warning" role="alert">
            {why}
          </p>
        )}
        <p>
          On your own computer, <code>haulout console</code> prints an address with a secret: open that address. It is good as long as the command
          runs.
        </p>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void open();
          }}
        >
          <label class="field">
            <span>Or paste a bearer token</span>
            <input type="password" name="token" autoComplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
            <small class="faint">It is kept in the memory of this tab alone, for example from kubectl create token.</small>
          </label>
          <div class="buttons">
            <button type="submit" class="btn main" disabled={!token.trim()}>
              Open
            </button>
          </div>
        </form>
      </section>
    </main>
  );
}
