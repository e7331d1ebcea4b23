/** Reads server-sent events from text that arrives in pieces. */

export interface ServerEvent {
  name: string;
  data: unknown;
}

/** Collects pieces of a stream. `events` returns what the piece completes. Comments are events named `comment`. */
export class EventReader {
  private rest = "";
  private name = "message";
  private data: string[] = [];

  events(piece: string): ServerEvent[] {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  private line(line: string): ServerEvent[] {
    if (line === "") return this.completed();
    if (line.startsWith(":")) return [{ name: "comment", data: null }];
    const [field, value] = cut(line);
    if (field === "event") this.name = value;
    if (field === "data") this.data.push(value);
    return [];
  }

  private completed(): ServerEvent[] {
    const { name, data } = this;
    this.name = "message";
    this.data = [];
    if (!data.length && name === "message") return [];
    return [{ name, data: data.length ? (JSON.parse(data.join("\n")) as unknown) : null }];
  }
}

function cut(line: string): [string, string] {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  const value = line.slice(colon + 1);
  return [line.slice(0, colon), value.startsWith(" ") ? value.slice(1) : value];
}
