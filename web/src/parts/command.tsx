/** What helps: a command with a button that copies it, or a sentence. */

import { useState } from "preact/hooks";
import { announce } from "./announce";

export function Copy({ text }: { text: string }): preact.JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      announce("The browser does not allow to copy.");
      return;
    }
    setCopied(true);
    announce("Copied");
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button type="button" class="btn" onClick={copy} aria-label={`Copy ${text}`}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}

export function isCommand(text: string): boolean {
  return /^(kubectl|haulout|skyhook|helm) /.test(text);
}

export function Help({ act }: { act: string }): preact.JSX.Element {
  if (!isCommand(act)) return <span class="helps">{act}</span>;
  return (
    <>
      <code class="command">{act}</code>
      <Copy text={act} />
    </>
  );
}
